"""`same`: do two policies behave alike? From what the user names to the verdict.

It plays what is missing, describes both in a space (fitted on them, or an earlier one) and looks at
their distance and how sure it is. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np

from pivec.arguments import Positive, Range, checked
from pivec.characterizations import Characterization, Descriptions, Space, Visitation
from pivec.errors import UsageError
from pivec.options import CollectOptions, DescribeOptions, split_options
from pivec.parallel import on_engine
from pivec.states import joined
from pivec.statistics import LEVEL, MARGIN, EquivalenceTest, decide, episodes_for_verdict
from pivec.workflows.compare import check_same_world, start, with_needs
from pivec.workflows.inputs import (
    Level,
    Side,
    check_sides,
    choose,
    describe_side,
    find_side,
    find_store,
    named_apart,
    split_label,
    squares,
    visit,
)

_ROUNDING = 1e-9  # of a distance


def same(
    a: Any,
    b: Any = None,
    env: str | Callable[[], Any] | None = None,
    *,
    against: str | Path | None = None,
    margin: float | None = None,
    level: float = LEVEL,
    permutations: int = 999,
    episodes: int = 100,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> EquivalenceTest:
    """Tell whether two policies behave alike: "same", "different" or "unclear".

    *Same* if the distance is below ``margin`` with the certainty ``level``; else *different* if a
    permutation test over episodes finds a difference; else there are too few episodes, and
    ``episodes_needed`` says about how many it takes. Without ``against`` and ``space`` the
    characterization is fitted on both; it is then taken as given.

    Parameters
    ----------
    a, b : str, path, policy, callable or VisitedStates
        A file, a store of `pivec.collect` (``STORE:label`` where it has several policies; or the
        last step of a run is taken), what `pivec.collect` takes as a policy, or states.
    env : str or callable, optional
        Where policies act, if neither files nor stores tell.
    against : path, optional
        A folder of `pivec.compare` or a space (``FOLDER:label``), whose policy is the other side:
        ``a`` is placed in that space, without fitting again.
    margin : float, optional
        The distance that does not matter; 0.02 for ``visitation``.
    level : float
        Certainty of the bounds, and of the test.
    permutations : int
        Of the test.
    episodes, seed, progress, **options
        As for `pivec.compare`.

    Returns
    -------
    EquivalenceTest

    Examples
    --------
    >>> lean = lambda observations: (observations[:, 2] > 0).astype(int)
    >>> same(lean, "random", "CartPole-v1", episodes=30).verdict
    'different'
    """
    given = {"episodes": episodes, "seed": seed} | options
    collecting, describing = split_options(given, DescribeOptions)
    return same_with(
        a, b, env, against, collecting, describing, margin, level, permutations, progress
    )


@on_engine
@checked
def same_with(
    a: Any,
    b: Any,
    env: Any,
    against: Any,
    collecting: CollectOptions,
    describing: DescribeOptions,
    margin: Positive | None = None,
    level: Level = LEVEL,
    permutations: Annotated[int, Range(19)] = 999,
    progress: bool = False,
) -> EquivalenceTest:
    """Answer as `same` does."""
    if (b is None) == (against is None):
        raise UsageError("expected two policies, or one and a space that it is held against")
    if against is None:
        method, space = start(describing, collecting.seed, progress)
        sides = [find_side(a, collecting), find_side(b, collecting)]
    else:
        if replace(describing, parameters=describing.parameters or None) != DescribeOptions():
            raise UsageError(
                "the space says how policies are described: leave out other options of describing"
            )
        space, accepted = find_accepted(against)
        method, sides = space.method, [accepted, find_side(a, collecting)]
    margin = _margin(method, margin)
    collecting = with_needs(collecting, method)
    elsewhere = next((side.settings for side in sides if side.settings), {})
    if space is not None:
        elsewhere = elsewhere or space.collected
    left, right = visit(sides, env, collecting, elsewhere, progress)
    if space is not None:
        for side in (left, right):
            if side.settings:
                check_same_world(space, side.settings)
    check_sides(left, right)
    right = named_apart(left, right)
    if space is None:
        method.fit(joined([side.states for side in (left, right)]))
    return judge(method, left, right, margin, level, permutations, collecting.seed)


def find_accepted(against: str | Path) -> tuple[Space, Side]:
    """Open the space of a gate and find its policy, with its states where they are kept."""
    where, label = split_label(str(against))
    space = Space.load(where)
    described = space.descriptions
    row = choose(described.policies, label, where)
    info = described.policies[row]
    for place in (Path(where), Path(where).parent):
        store = find_store(place)
        if store is not None and store.n_episodes(info):
            data = store[info.label]
            return space, Side(info.label, data=data, info=info, settings=store.settings)
    if not space.method.traits.influences or "influences" not in described.arrays:
        raise UsageError(
            f"{where} keeps neither the states of {info.label} nor how its episodes differ: keep "
            "the folder states/ of the comparison beside it"
        )
    chosen = described.select([row])
    return space, Side(info.label, described=chosen, info=info, settings=space.collected)


def judge(
    method: Characterization,
    a: Side,
    b: Side,
    margin: float,
    level: float = LEVEL,
    permutations: int = 999,
    seed: int = 0,
) -> EquivalenceTest:
    """Give the verdict on two sides in the space of a fitted characterization."""
    left, right = (describe_side(method, side) for side in (a, b))
    sure = method.intervals(left, right, level=2 * level - 1)
    distance, low, high, p_value, noise, first, second = (
        float(getattr(sure, name)[0, 0])
        for name in ("distance", "low", "high", "p_value", "noise", "first", "second")
    )
    # Noise taken off may leave less than 0: good luck, which must not make a wide interval do.
    high -= min(distance, 0.0)
    test = "analytic"
    # Where nothing varies there is nothing to exchange, and any difference is one.
    constant = noise <= _ROUNDING * distance
    if a.data is not None and b.data is not None and not constant:
        test = "permutation"
        p_value = method.test(a.data, b.data, permutations=permutations, seed=seed).p_value
    verdict = decide(high, p_value, margin, level)
    episodes = int(np.sum(left.n_episodes)), int(np.sum(right.n_episodes))
    needed = None
    if verdict == "unclear":
        away, room = squares(method, distance, margin)
        needed = episodes_for_verdict(away, first, second, p_value, max(episodes), room, level)
    overlap = None
    if isinstance(method, Visitation):
        overlap = float(method.overlap(cast(Descriptions, left), cast(Descriptions, right))[0, 0])
    return EquivalenceTest(
        verdict=verdict,
        labels=(a.label, b.label),
        distance=distance,
        low=low,
        high=high,
        p_value=p_value,
        test=test,
        margin=margin,
        level=level,
        episodes=episodes,
        episodes_needed=needed,
        method=method.name,
        overlap=overlap,
    )


def _margin(method: Characterization, margin: float | None) -> float:
    if margin is not None:
        return margin
    if not isinstance(method, Visitation):
        raise UsageError(
            f"--margin is needed with {method.name}: {MARGIN} is meant for visitation, whose "
            "distances go from 0 to about 0.8"
        )
    return MARGIN
