"""`plan`: how many episodes do policies need? A small pilot tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive, checked
from pivec.characterizations import Descriptions, Visitation
from pivec.errors import UsageError
from pivec.options import CollectOptions, DescribeOptions, split_options
from pivec.parallel import on_engine
from pivec.states import VisitedStates
from pivec.statistics import (
    LEVEL,
    MARGIN,
    Plan,
    episodes_for_precision,
    episodes_to_decide,
    spread_of,
)
from pivec.workflows.collect import Collector
from pivec.workflows.compare import check_same_world, start, with_needs
from pivec.workflows.inputs import Level, Side, describe_side, squares

PILOT = 20  # episodes


def plan(
    env: str | Callable[[], Any] | None,
    policies: Any,
    precision: float = 0.02,
    *,
    margin: float | None = None,
    level: float = LEVEL,
    episodes: int = PILOT,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> Plan:
    """Tell how many episodes policies need, from a small pilot.

    Parameters
    ----------
    env, policies
        As for `pivec.collect`; or states that are there already as ``policies``.
    precision : float
        How far intervals of distances may reach to either side.
    margin : float, optional
        That of `same`; 0.02 for ``visitation``, and for others only where it is given.
    level : float
        Of the intervals, and of `same`.
    episodes : int
        Of the pilot.
    seed, progress, **options
        As for `pivec.compare`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> lean = lambda observations: (observations[:, 2] > 0).astype(int)
    >>> two = {"lean": lean, "random": "random"}
    >>> needs = plan("CartPole-v1", two, 0.05, components=8)
    >>> needs.for_precision.shape
    (2, 2)
    """
    given = {"episodes": episodes, "seed": seed} | options
    collecting, describing = split_options(given, DescribeOptions)
    return plan_with(env, policies, precision, margin, level, collecting, describing, progress)


@on_engine
@checked
def plan_with(
    env: Any,
    policies: Any,
    precision: Positive,
    margin: Positive | None,
    level: Level,
    collecting: CollectOptions,
    describing: DescribeOptions,
    progress: bool = False,
) -> Plan:
    """Answer as `plan` does."""
    method, space = start(describing, collecting.seed, progress)
    if isinstance(policies, VisitedStates):
        data = policies
    else:
        collector = Collector(env, policies, with_needs(collecting, method), progress=progress)
        data = collector.run()
        if space is not None:
            check_same_world(space, collector.settings)
    if space is None:
        method.fit(data)
    described = describe_side(method, Side("pilot", data=data))
    sure = method.intervals(described, level=level)
    second = sure.second.copy()
    np.fill_diagonal(second, _against_itself(described))
    pilot = np.maximum.outer(*[np.diff(data.policy_starts)] * 2)
    width = precision if method.traits.squared else 2 * sure.distance * precision + precision**2
    needed = episodes_for_precision(sure.first, second, pilot, width, level)
    decided = None
    margin = MARGIN if margin is None and isinstance(method, Visitation) else margin
    if margin is not None:
        away, room = squares(method, sure.distance, margin)
        decided = episodes_to_decide(away, sure.first, second, pilot, room, level)
    return Plan(
        data.labels, int(pilot.max()), precision, level, sure.distance, needed, margin, decided
    )


def _against_itself(described: VisitedStates | Descriptions) -> NDArray[np.float64] | float:
    """The variance of the distance of each policy to another sample of it: 2‖C + C‖²."""
    if isinstance(described, VisitedStates):
        if len(described) == 1:
            raise UsageError(
                "a plan for one policy needs a characterization that says how each episode moves "
                "a description, such as visitation: give two policies, or another --method"
            )
        return 0.0  # others need more
    influences, starts, effective = described.values(
        "influences", "influences.starts", "effective_episodes"
    )
    return 8.0 * spread_of(influences, starts, effective).unbiased_norm ** 2
