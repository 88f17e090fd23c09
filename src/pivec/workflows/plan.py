"""plan: how many episodes policies need, estimated from a small sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive, checked
from pivec.characterizations import Descriptions, Visitation
from pivec.errors import UsageError
from pivec.options import (
    DescribeKeywords,
    DescribeOptions,
    PlanOptions,
    split_options,
    takes_options,
)
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
from pivec.workflows.compare import check_same_environment, start, with_needs
from pivec.workflows.inputs import Level, PolicyInput, describe_input, squares


@on_engine
@takes_options(PlanOptions, DescribeOptions)
@checked
def plan(
    env: str | Callable[[], Any] | None,
    policies: Any,
    precision: Positive = 0.02,
    *,
    margin: Positive | None = None,
    level: Level = LEVEL,
    episodes: int = 20,
    seed: int = 0,
    progress: bool = False,
    **options: Unpack[DescribeKeywords],
) -> Plan:
    """Estimate how many episodes policies need, from a small sample.

    Parameters
    ----------
    env, policies
        As for `pivec.collect`; or `VisitedStates` as ``policies``.
    precision : float
        Half the width that confidence intervals of distances may have.
    margin : float, optional
        That of `same`; 0.02 for ``visitation``, otherwise none.
    level : float
        Confidence level of the intervals, and of `same`.
    episodes : int
        Episodes per policy of the sample.
    seed, progress
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
    collecting, describing = split_options(given, PlanOptions, DescribeOptions)
    method, space = start(describing, collecting.seed, progress)
    if isinstance(policies, VisitedStates):
        data = policies
    else:
        collector = Collector(env, policies, with_needs(collecting, method), progress=progress)
        data = collector.run()
        if space is not None:
            check_same_environment(space, collector.settings)
    if space is None:
        method.fit(data)
    described = describe_input(method, PolicyInput("the sample", data=data))
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
                "a plan for a single policy needs a characterization with influences, such as "
                "visitation: give two policies, or another --method"
            )
        return 0.0  # others need more
    influences, starts, effective = described.values(
        "influences", "influences.starts", "effective_episodes"
    )
    return 8.0 * spread_of(influences, starts, effective).unbiased_norm ** 2
