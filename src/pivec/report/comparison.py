"""What `compare` found: distances, descriptions and places of policies, for code and notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Measured, Space
from pivec.errors import MissingExtra, UsageError, did_you_mean
from pivec.report.distance_figures import heatmap_figure, travel_figure
from pivec.report.findings import Findings, measure_space
from pivec.report.policy_map import map_figure
from pivec.results import Result, Row
from pivec.run_log import RunLog
from pivec.text import rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """What `compare` found; all of it is on disk too.

    A notebook shows the map and a row a policy; ``table()`` gives all rows.

    Examples
    --------
    >>> import tempfile, pivec
    >>> rng = np.random.default_rng(0)
    >>> walks = {who: [rng.normal(p, 1, (20, 2)) for _ in range(9)] for p, who in enumerate("abc")}
    >>> result = pivec.compare(walks, out=tempfile.mkdtemp(), components=4)
    >>> again = Comparison.load(result.folder)
    >>> bool((again.distances == result.distances).all()), again.labels
    (True, ('a', 'b', 'c'))
    """

    folder: Path  # where everything was written
    findings: Findings

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Open the folder that a comparison left; distances are measured again."""
        home = Path(folder)
        space = Space.load(home)
        return cls(home, Findings.of(space, measure_space(space, home), RunLog(home)))

    @property
    def report(self) -> Path:
        """The page."""
        return self.folder / "report.html"

    @property
    def space(self) -> Space:
        """The characterization, the descriptions of all policies, and their positions."""
        return cast(Space, self.findings.space)

    @property
    def measured(self) -> Measured:
        """Distances, nearest others, notable pairs, and the distance along each run."""
        return self.findings.measured

    @property
    def distances(self) -> NDArray[np.float64] | None:
        """All distances, (n_policies, n_policies); None where there are too many policies."""
        return self.measured.matrix

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the policies, in the order of the rows of ``distances``."""
        return self.space.descriptions.labels

    def to_pandas(self) -> Any:
        """Give all distances as a pandas DataFrame, with labels for rows and columns."""
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
            raise UsageError("the policies have no positions on a map yet: run `pivec map` first")
        findings = self.findings
        return map_figure(findings.policies, findings.subtitle, colour, findings.links)

    def plot_distances(self) -> Figure:
        """Draw the matrix of distances, alike beside alike."""
        return heatmap_figure(self.findings)

    def plot_run(self, group: str | None = None) -> Figure:
        """Draw how far runs, or that of one group, have come by training step."""
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
        """One row a policy: its mean return, its nearest other, and how far that is."""
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
        """Draw the map, or the matrix of distances where there is none."""
        return self.plot_distances() if self.space.positions is None else self.plot_map()
