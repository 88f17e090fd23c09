"""What a report shows: a row for each policy and for pairs, and what was measured of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Space
from pivec.errors import UsageError
from pivec.figures import group_colours
from pivec.policies import also_called
from pivec.report.groups import GroupComparison
from pivec.report.order import group_order
from pivec.run_log import RunLog
from pivec.statistics import RATE, Behaviours, Measured, Pairs
from pivec.statistics.behaviours import behaviours


@dataclass(frozen=True)
class PolicyRow:
    """A policy on the map; the fields are the columns of map.csv, unless they say otherwise."""

    label: str
    group: str  # empty if it belongs to no run
    step: int | None  # of training
    x: float
    y: float
    mean_return: float  # NaN where returns are not known, as return_std
    episodes: int
    states: int
    source: str
    reference: bool = False  # a policy of an earlier space, shown as context
    placed: bool = False  # the space was fitted without it
    return_std: float = field(default=math.nan, metadata={"csv": False})
    behaviour: int | None = None  # its class of policies that cannot be told apart, 1 the largest


@dataclass(frozen=True)
class PairRow:
    """How far apart two policies are, and how sure that is; the fields are columns of pairs.csv."""

    policy: str
    other: str
    distance: float  # at least 0; without the noise of sampling where there is an interval
    low: float  # ends of the interval; NaN where they are not known, as the rest
    high: float
    overlap: float  # share of their time that the two spend in the same places
    p: float  # of "the same behaviour"
    q: float  # the same among all pairs: of pairs with q <= 0.05 at most 5 % are wrong

    @property
    def alike(self) -> bool:
        """Whether the two cannot be told apart: chance explains their distance."""
        return self.q > RATE


def pair_rows(labels: Sequence[str], pairs: Pairs) -> list[PairRow]:
    """Give pairs with the labels of their policies."""
    columns = (pairs.distance, pairs.low, pairs.high, pairs.overlap, pairs.p, pairs.q)
    lines = zip(pairs.i.tolist(), pairs.j.tolist(), *(c.tolist() for c in columns), strict=True)
    return [PairRow(labels[i], labels[j], *values) for i, j, *values in lines]


def policy_rows(space: Space, measured: Measured | None = None) -> list[PolicyRow]:
    """Give the rows of all policies of a space; at the origin if they have no places yet.

    What was measured of them tells which cannot be told apart.
    """
    described = space.descriptions
    classes = behaviours_in(measured, described.labels)
    positions = np.zeros((len(described), 2)) if space.positions is None else space.positions
    reference, placed = space.is_reference, space.is_placed
    rows = []
    for i, info in enumerate(described.policies):
        also = also_called(info)
        rows.append(
            PolicyRow(
                label=info.label,
                group=info.group,
                step=info.step,
                x=float(positions[i, 0]),
                y=float(positions[i, 1]),
                mean_return=float(described.mean_returns[i]),
                episodes=int(described.n_episodes[i]),
                states=int(described.n_states[i]),
                source=f"{info.source} ({also})" if also else info.source,
                reference=reference[i],
                placed=placed[i],
                return_std=float(described.return_stds[i]),
                behaviour=classes.numbers[i] if classes else None,
            )
        )
    return rows


def behaviours_in(measured: Measured | None, labels: Sequence[str]) -> Behaviours | None:
    """Put policies into classes that cannot be told apart; None where no test tells."""
    if measured is None or measured.intervals is None:
        return None
    classes = behaviours(measured.intervals.p_value, measured.intervals.distance, labels)
    return classes if len(classes) else None


def compared(rows: Sequence[PolicyRow]) -> list[PolicyRow]:
    """Leave out the policies that are there for context."""
    return [row for row in rows if not row.reference]


def in_order(rows: Sequence[PolicyRow]) -> NDArray[np.intp]:
    """Give the numbers of all rows by group and training step."""
    return group_order([row.group for row in rows], [row.step for row in rows])


def colours_of_groups(rows: Sequence[PolicyRow]) -> dict[str, str]:
    """Give each group of the policies compared a colour, in the order of their names."""
    names = dict.fromkeys(
        rows[i].group for i in in_order(rows) if rows[i].group and not rows[i].reference
    )
    return dict(zip(names, group_colours(len(names)), strict=True))


def training_runs(rows: Sequence[PolicyRow]) -> dict[str, list[int]]:
    """Find the rows of each run in order of training: groups of two or more that have a step."""
    runs: dict[str, list[int]] = {}
    for i in in_order(rows).tolist():
        row = rows[i]
        if row.group and row.step is not None and not row.reference:
            runs.setdefault(row.group, []).append(i)
    return {name: numbers for name, numbers in runs.items() if len(numbers) > 1}


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Everything that `write_report` shows."""

    environment: str
    rows: Sequence[PolicyRow]
    measured: Measured  # in the order of the rows
    log: RunLog
    method: str = ""  # how policies are described and compared; blank lines part paragraphs
    formula: str = ""  # of the distance, in one line
    groups: GroupComparison | None = None  # where there are groups of runs
    space: Space | None = None  # so that the page can measure by itself
    live: str = ""  # the version of what a server shows; empty of a file

    def __post_init__(self) -> None:
        n = len(self.rows)
        if n == 0:
            raise UsageError("a report must have at least one policy, but has none")
        if len(self.measured.neighbours) != n:
            raise UsageError(
                f"distances must be those of the {n} policies of the report, but are of "
                f"{len(self.measured.neighbours)}"
            )
        labels = self.space.descriptions.labels if self.space is not None else None
        if labels is not None and labels != tuple(row.label for row in self.rows):
            raise UsageError(
                f"the space must be that of the {n} policies of the report, in their order, but "
                f"describes {len(labels)} that are not the same"
            )

    @cached_property
    def behaviours(self) -> Behaviours | None:
        """Classes of policies that cannot be told apart."""
        return behaviours_in(self.measured, [row.label for row in self.rows])

    @property
    def map_method(self) -> str:
        """How the map was made: the method of a `PolicyMap`, or other words."""
        return str(self.log.settings.get("map", ""))
