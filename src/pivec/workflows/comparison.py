"""The result of `compare`: distances, explanations, tables and figures for code and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Measured, Space
from pivec.errors import MissingExtra, UsageError, did_you_mean
from pivec.explanations import (
    ComparisonFolder,
    GroupExplanation,
    PairExplanation,
    Regions,
    Replayer,
    RunExplanation,
    Unusual,
    comparison_folder,
    explain_groups,
    explain_pair,
    explain_run,
    find_unusual,
    pair_folder,
    summarize_regions,
    with_media,
)
from pivec.options import ReplayKeywords, ReplayOptions, takes_options
from pivec.parallel import on_engine
from pivec.policies import Patterns
from pivec.report import (
    Findings,
    compare_groups,
    heatmap_figure,
    map_figure,
    measure_space,
    travel_figure,
    write_results,
)
from pivec.report.groups import GroupComparison
from pivec.results import Result, Row
from pivec.run_log import RunLog
from pivec.statistics import Intervals
from pivec.text import rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def load_comparison(folder: str | Path) -> Comparison:
    """Open a folder of `compare`; distances are measured again.

    Examples
    --------
    >>> import tempfile, pivec
    >>> rng = np.random.default_rng(0)
    >>> walks = {who: [rng.normal(p, 1, (20, 2)) for _ in range(9)] for p, who in enumerate("abc")}
    >>> result = pivec.compare(walks, out=tempfile.mkdtemp(), components=4)
    >>> again = pivec.load_comparison(result.folder)
    >>> bool((again.distances == result.distances).all()), again.labels
    (True, ('a', 'b', 'c'))
    """
    space = Space.load(folder)
    return Comparison(comparison_folder(Path(folder)), space)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """What `compare` found; all of it is on disk too.

    A notebook shows the map and one row per policy; ``table()`` returns all rows.

    Attributes
    ----------
    folder : Path
        The folder with all results.
    space : Space
        The characterization, the descriptions of all policies, and their positions on the map.

    Examples
    --------
    >>> import tempfile, pivec
    >>> still = lambda observations: 0 * observations[:, 0].astype(int)
    >>> policies = {"still": still, "random": "random"}
    >>> result = pivec.compare("CartPole-v1", policies, tempfile.mkdtemp(), episodes=5,
    ...                        components=4)
    >>> result.distances.shape, result.explain("still", "random").different
    ((2, 2), True)
    >>> len(result.regions()), len(result.unusual(top=3).episodes)
    (4, 3)
    """

    folder: Path
    space: Space
    known: Findings | None = None

    @cached_property
    def findings(self) -> Findings:
        """Everything that is shown of the comparison, computed once."""
        if self.known is not None:
            return self.known
        measured = measure_space(self.space, self.folder)
        return Findings.of(self.space, measured, RunLog(self.folder))

    @property
    def measured(self) -> Measured:
        """Distances, nearest neighbours, pairs, and the distance along each run."""
        return self.findings.measured

    @property
    def distances(self) -> NDArray[np.float64] | None:
        """All distances, (n_policies, n_policies); None for more than 4000 policies."""
        return self.measured.matrix

    @property
    def intervals(self) -> Intervals | None:
        """Debiased distances with confidence intervals; None if the method has none."""
        return self.measured.intervals

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the policies, in the order of the rows of ``distances``."""
        return self.space.descriptions.labels

    @property
    def report(self) -> Path:
        """The HTML page."""
        return self.folder / "report.html"

    @cached_property
    def stored(self) -> ComparisonFolder:
        """The space and the states of its policies, as explanations take them."""
        return ComparisonFolder.open(self.folder)

    @on_engine
    @takes_options(ReplayOptions)
    def explain(
        self,
        a: str,
        b: str,
        *,
        frames: bool = False,
        clips: int = 0,
        top: int = 6,
        level: float = 0.95,
        out: str | Path | None = None,
        progress: bool = False,
        **options: Unpack[ReplayKeywords],
    ) -> PairExplanation:
        """Decompose the distance between two policies into regions of states and features.

        Parameters
        ----------
        a, b : str
            Labels of the policies, or the ends of them.
        frames : bool
            Draw states of both in the regions that differ most; episodes are replayed for that.
        clips : int
            Number of clips: the first where the difference is largest, the others of both policies
            from the same seeds.
        top : int
            Maximum number of regions.
        level : float
            Confidence level of the intervals.
        out : path, optional
            The folder for pictures; by default one in ``explain/``.
        progress : bool
            Show progress bars.

        Returns
        -------
        PairExplanation
        """
        difference = explain_pair(self.stored, a, b, top=top, level=level)
        if not frames and not clips:
            return difference
        folder = pair_folder(self.stored, difference) if out is None else Path(out)
        replayer = self.replayer(ReplayOptions(**options))
        return with_media(difference, self.stored, replayer, folder, frames, clips, progress)

    def explain_run(self, run: str, *, level: float = 0.95, top: int = 3) -> RunExplanation:
        """Explain what changed along a training run, from checkpoint to checkpoint."""
        return explain_run(self.stored, run, level=level, top=top)

    def explain_groups(
        self,
        groups: Patterns | Sequence[str] | None = None,
        *,
        last: int | None = None,
        level: float = 0.95,
    ) -> GroupExplanation:
        """Explain what the runs of one group have in common and those of another do not."""
        return explain_groups(self.stored, groups, last=last, level=level)

    def groups(
        self,
        groups: Patterns | None = None,
        *,
        last: int | None = None,
        seed: int = 0,
        level: float = 0.95,
    ) -> GroupComparison:
        """Test whether groups of runs differ, as ``{"ppo": "ppo-*", "a2c": "a2c-*"}``.

        Without ``groups``, runs whose names differ in the number at their end are a group.
        ``last`` uses only the last checkpoints of each run.
        """
        known = None if "influences" in self.space.descriptions.arrays else self.intervals
        return compare_groups(
            self.space, groups, last=last, seed=seed, level=level, intervals=known
        )

    @takes_options(ReplayOptions)
    def regions(
        self,
        *,
        visits: int = 3,
        frames: str | Path | None = None,
        progress: bool = False,
        **options: Unpack[ReplayKeywords],
    ) -> Regions:
        """Describe the regions of the space: in words, by shares of time, and by visited states.

        ``visits`` is the number of states per region, and ``frames`` a folder for a picture of
        each region.
        """
        return summarize_regions(
            self.stored,
            visits=visits,
            frames=frames,
            replay=ReplayOptions(**options),
            progress=progress,
        )

    @on_engine
    @takes_options(ReplayOptions)
    def unusual(
        self,
        labels: Sequence[str] | None = None,
        *,
        top: int = 10,
        clips: str | Path | None = None,
        progress: bool = False,
        **options: Unpack[ReplayKeywords],
    ) -> Unusual:
        """Rank episodes by their distance from the other episodes of their policy.

        ``labels`` are those of the policies, by default all; ``clips`` is a folder for clips of
        typical and unusual episodes.
        """
        replay = ReplayOptions(**options)
        return find_unusual(
            self.stored, labels, top=top, clips=clips, replay=replay, progress=progress
        )

    def replayer(self, options: ReplayOptions) -> Replayer:
        """Return what replays episodes of the comparison."""
        return Replayer(self.stored, options)

    def write_report(self) -> Path:
        """Write the HTML page and the tables again, with pictures that were made since."""
        write_results(self.folder, self.findings)
        return self.report

    def to_pandas(self) -> Any:
        """Return all distances as a pandas DataFrame, with labels for rows and columns."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("a DataFrame", "tables") from error
        if self.distances is None:
            raise UsageError(
                f"not all distances of {len(self.labels)} policies are kept: see measured.pairs"
            )
        return pandas.DataFrame(self.distances, index=self.labels, columns=self.labels)

    def plot_map(self, colour: str | None = None) -> Figure:
        """Draw the map of policies; `colour` is "return", "group", "step" or "behaviour"."""
        if self.space.positions is None:
            raise UsageError("the policies have no positions on a map: run `pivec compare` again")
        findings = self.findings
        return map_figure(findings.policies, findings.subtitle, colour, findings.links)

    def plot_distances(self) -> Figure:
        """Draw the matrix of distances, similar policies next to each other."""
        return heatmap_figure(self.findings)

    def plot_run(self, group: str | None = None) -> Figure:
        """Draw the distance that runs, or one of them, have covered by training step."""
        runs = [run for run in self.measured.travels if group in (None, run.group)]
        if not runs:
            known = [run.group for run in self.measured.travels]
            raise UsageError(
                f"no run is called {group!r}{did_you_mean(group, known)}: there are "
                f"{', '.join(known[:8])}"
                if group is not None and known
                else "there are no runs: no group has two policies with a training step"
            )
        colours = self.findings.policies.group_colours
        return travel_figure(runs, colours, self.findings.subtitle)

    def headline(self) -> str:
        """Say how many policies were compared, and which are nearest and farthest."""
        parts = [f"{self.findings.subtitle}, by {self.space.method.name}"]
        for words, pairs in (
            ("nearest", self.measured.nearest),
            ("farthest", self.measured.farthest),
        ):
            if len(pairs.i):
                a, b = self.labels[pairs.i[0]], self.labels[pairs.j[0]]
                parts.append(f"{words} {a} and {b} ({rounded(float(pairs.distance[0]), 3)})")
        return "; ".join(parts)

    def rows(self) -> list[Row]:
        """Return one row per policy: its mean return, its nearest neighbour and their distance."""
        near, apart = self.measured.neighbours, self.measured.neighbour_distances
        return [
            {
                "policy": row.label,
                "group": row.group,
                "step": row.step,
                "episodes": row.episodes,
                "mean return": row.mean_return,
                "nearest": self.labels[near[i, 0]] if near.shape[1] else None,
                "distance": float(apart[i, 0]) if near.shape[1] else None,
            }
            for i, row in enumerate(self.findings.policies)
        ]

    def figure(self) -> Figure:
        """Draw the map, or the matrix of distances if there is none."""
        return self.plot_distances() if self.space.positions is None else self.plot_map()
