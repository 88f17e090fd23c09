"""What `compare` found: distances, descriptions and places of policies, for code and notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Space
from pivec.errors import MissingExtra, UsageError, did_you_mean
from pivec.report.distances_figure import matrix_figure
from pivec.report.findings import colours_of_groups, policy_rows
from pivec.report.map_figure import alike_pairs, map_figure
from pivec.report.travel_section import travel_figure
from pivec.results import Result, Row
from pivec.states import Store, VisitedStates
from pivec.statistics import Measured
from pivec.statistics.measure import measure
from pivec.text import n_policies, rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATES, SPACE = "states", "space"  # folders of a comparison


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
    # The characterization, the descriptions of all policies, and their places on the map.
    space: Space
    measured: Measured  # distances, nearest others, notable pairs, and the distance along each run
    report: Path  # the page

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Open the folder that a comparison left; distances are measured again."""
        home = Path(folder)
        space = Space.load(home)
        return cls(home, space, distances_in(space, home), home / "report.html")

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
        rows = policy_rows(self.space, self.measured)
        if self.space.positions is None:
            raise UsageError("the policies have no places on a map yet: run `pivec map` first")
        joins = alike_pairs(self.measured)
        return map_figure(rows, subtitle_of(self.space), colour, joins)

    def plot_distances(self) -> Figure:
        """Draw the matrix of distances, alike beside alike."""
        return matrix_figure(self.space, self.measured, subtitle_of(self.space))

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
        colours = colours_of_groups(policy_rows(self.space))
        return travel_figure(runs, colours, subtitle_of(self.space))

    def headline(self) -> str:
        """Say how many policies were compared, and which are nearest and farthest."""
        parts = [f"{subtitle_of(self.space)}, by {self.space.method.name}"]
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
            for i, row in enumerate(policy_rows(self.space))
        ]

    def figure(self) -> Figure:
        """Draw the map, or the matrix of distances where there is none."""
        return self.plot_distances() if self.space.positions is None else self.plot_map()


def distances_in(space: Space, folder: Path, data: VisitedStates | None = None) -> Measured:
    """Measure all distances, with the states of the folder if intervals need them."""
    method = space.method
    needed = not (method.has_influences or method.exact or method.no_intervals)
    if data is None and needed and Store.exists(folder / STATES):
        data = Store(folder / STATES).load()
    labels = space.descriptions.labels
    if data is not None and data.labels != labels:
        number = {label: i for i, label in enumerate(data.labels)}
        # Policies of an earlier space have their states elsewhere.
        data = data.select([number[x] for x in labels]) if number.keys() >= set(labels) else None
    return measure(space.method, space.descriptions, data)


def subtitle_of(space: Space) -> str:
    """Say how many policies a space has, and of what environment."""
    environment = space.collected.get("environment", "")
    policies = n_policies(len(space.descriptions) - space.n_reference)
    return f"{policies} in {environment}" if environment else policies
