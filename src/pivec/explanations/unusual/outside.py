"""States outside of what a space knows: where none of the policies it was fitted on has been."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.characterizations.background import BackgroundModel
from pivec.characterizations.base import Characterization
from pivec.characterizations.space import Space
from pivec.errors import PivecWarning, UsageError
from pivec.explanations.folder import Findings
from pivec.explanations.regions.names import features_of
from pivec.explanations.unusual.reach import WITHIN, nearest_regions, reach_of
from pivec.mixtures.mixture import Mixture
from pivec.results import Result, Row, plain
from pivec.states.visited import VisitedStates
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTABLE = 0.03  # three times what a policy has that the space was fitted on
_FEWEST = 5  # states, of which alone a share says something
_ROUNDING = 1e-3  # deviations: states that are met again are not farther than they were
_BLOCK = 1 << 17


@dataclass(frozen=True)
class OutsideStates:
    """How many states of a policy lie outside, and which feature it is by."""

    policy: str
    states: int
    outside: int
    episodes: int  # in which some of them are
    feature: str  # that is farthest off, of all states outside; empty if there are none
    deviations: float  # by how many of the nearest region's: root of the mean square
    above: float  # share of states outside in which it is above the region and not below

    @property
    def share(self) -> float:
        """Share of the policy's states that are outside."""
        return self.outside / self.states

    @property
    def is_notable(self) -> bool:
        """Whether there are more of them than chance explains."""
        return self.share > NOTABLE and self.outside >= _FEWEST

    @property
    def words(self) -> str:
        """Say which feature is off, to which side, and by how much."""
        if not self.outside:
            return ""
        side = "above" if self.above > 0.9 else "below" if self.above < 0.1 else "off"
        return f"{self.feature} {self.deviations:.2g} deviations {side}"


@dataclass(frozen=True, repr=False, eq=False)
class Outside(Result):
    """The states of policies that lie outside of what a space knows.

    A state is outside if it is farther from the nearest region than 99 % of the states of each
    policy that the space was fitted on (``reach``, in deviations of regions).
    """

    reach: float
    policies: tuple[OutsideStates, ...]  # most outside first, but those with few states last
    placed: bool  # whether these policies came after the space was fitted

    def headline(self) -> str:
        """Say who goes farthest out."""
        first = self.policies[0]
        if not first.outside:
            return "No policy has states outside of the space"
        if not first.is_notable:
            most = percent(first.share)
            return f"No policy has more than {most} of its states outside of the space"
        return (
            f"{percent(first.share)} of the states of {first.policy} are where no policy has been"
        )

    def rows(self) -> list[Row]:
        """One row a policy, most states outside first."""
        return [
            {
                "policy": row.policy,
                "share": row.share,
                "outside": row.outside,
                "states": row.states,
                "episodes": row.episodes,
                "feature": row.feature,
                "deviations": row.deviations,
            }
            for row in self.policies
        ]

    def to_json(self) -> dict[str, Any]:
        """Give everything as JSON can hold it; what is not known is None."""
        return {"reach": plain(self.reach), "placed": self.placed, "policies": plain(self.rows())}

    def figure(self) -> Figure:
        """Draw the shares as bars."""
        from pivec.explanations.unusual.figure import outside_figure

        return outside_figure(self)


def states_outside(where: Any, policies: Sequence[str] | None = None) -> Outside:
    """Count the states of policies that are outside of what their space knows.

    Parameters
    ----------
    where : path, Comparison or Findings
        A folder of `pivec.compare` with its states.
    policies : sequence of str, optional
        Names of policies; all whose states are there if not given.

    Examples
    --------
    >>> from pathlib import Path
    >>> from pivec import Space, VisitedStates, characterization
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(0, 1, (500, 2))] for _ in "ab"])
    >>> method = characterization("visitation", n_components=4).fit(data)
    >>> walk = rng.normal(0, 1, (100, 2)) + np.where(np.arange(100) < 20, 9, 0)[:, None]
    >>> new = VisitedStates.from_arrays([[walk]], labels=["new"])
    >>> reach = reach_of(data, method._mixtures[0])
    >>> findings = Findings(Path("."), Space(method, method.describe(new), reach=reach), new)
    >>> states_outside(findings).headline()
    '20 % of the states of new are where no policy has been'
    """
    findings = Findings.open(where)
    data = findings.states
    mixture = findings.background._mixtures[0]
    reach, placed = known_reach(findings)
    if policies:
        data = states_of(findings, [findings.find(name).label for name in policies])
    rows = outside_of(data, mixture, reach, _names(findings.space))
    rows.sort(key=lambda row: (not row.is_notable, -row.share))
    return Outside(reach, tuple(rows), placed)


def states_of(findings: Findings, labels: Sequence[str]) -> VisitedStates:
    """Give the states of policies, which must be there."""
    data = findings.states
    for label in labels:
        if label not in data.labels:
            raise UsageError(
                f"{findings.folder} holds no states of {label!r}, which comes from an earlier "
                "space: expected the folder that it was compared in"
            )
    return data.select(list(dict.fromkeys(labels)))


def space_reach(method: Characterization, data: VisitedStates) -> float:
    """Find the reach of a space that was fitted on these states; NaN where it has no regions."""
    return reach_of(data, method._mixtures[0]) if isinstance(method, BackgroundModel) else math.nan


def known_reach(findings: Findings) -> tuple[float, bool]:
    """Give the reach of a space, and whether its policies were placed in it.

    Spaces of earlier versions do not hold it: it is then found from the states, if those that the
    space was fitted on are beside it.
    """
    placed = findings.space.n_reference > 0 or findings.space.n_placed > 0
    reach = findings.space.reach
    if math.isfinite(reach):
        return reach, placed
    if placed or findings.data is None or len(findings.data) != len(findings.policies):
        raise UsageError(
            f"the space of {findings.folder} does not tell how far its policies get, as those "
            "of earlier versions of pivec: make it again"
        )
    return reach_of(findings.data, findings.background._mixtures[0]), False


def outside_of(
    data: VisitedStates, mixture: Mixture, reach: float, names: Sequence[str]
) -> list[OutsideStates]:
    """Count the states of each policy that are farther from all regions than ``reach``."""
    result = []
    for number, record in enumerate(data.records):
        states = data.policy_states(number)
        is_outside = np.empty(len(states), dtype=bool)
        squares, above = np.zeros((2, data.n_features))
        for first in range(0, len(states), _BLOCK):
            nearest = nearest_regions(states[first : first + _BLOCK], mixture)
            far = is_outside[first : first + _BLOCK] = nearest.distance > reach + _ROUNDING
            squares += (nearest.offset[far] ** 2).sum(axis=0)
            above += (nearest.offset[far] > 0.0).sum(axis=0)
        starts = np.cumsum([0, *record.episodes["length"][:-1]])
        count, feature = int(is_outside.sum()), int(squares.argmax())
        result.append(
            OutsideStates(
                record.info.label,
                len(states),
                count,
                int(np.logical_or.reduceat(is_outside, starts).sum()),
                names[feature] if count else "",
                math.sqrt(squares[feature] / count) if count else math.nan,
                float(above[feature] / count) if count else math.nan,
            )
        )
    return result


def warn_of_outside(space: Space, data: VisitedStates) -> None:
    """Say which policies that are placed in an earlier space go where it has seen nobody."""
    method = space.method
    if not isinstance(method, BackgroundModel):
        return
    if not math.isfinite(space.reach):
        _warn(
            "the space was fitted by an earlier version of pivec: it does not tell whether the new "
            "policies go where no policy has been"
        )
        return
    rows = outside_of(data, method._mixtures[0], space.reach, _names(space))
    notable = sorted((row for row in rows if row.is_notable), key=lambda row: -row.share)
    if not notable:
        return
    first, more = notable[0], len(notable) - 1
    others = ""
    if more:
        many = f"{more} other policies" if more > 1 else "another policy"
        others = f", and more than {100 * NOTABLE:g} % of those of {many}"
    _warn(
        f"{percent(first.share)} of the states of {first.policy!r} are where no policy of the "
        f"space has been (farther from all regions than {percent(WITHIN)} of the states of each; "
        f"{first.words}){others}: the space tells little of such states, so fit one with these "
        "policies in it to compare them"
    )


def _names(space: Space) -> list[str]:
    return [feature.name for feature in features_of(space.collected, space.method.feature_names_)]


def _warn(message: str) -> None:
    warnings.warn(message, PivecWarning, stacklevel=3)
