"""same: test whether two policies behave the same. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Unpack, cast

import numpy as np

from pivec.arguments import Positive, Range, checked
from pivec.characterizations import Characterization, Descriptions, Space, Visitation
from pivec.errors import UsageError
from pivec.options import (
    CollectOptions,
    DescribeKeywords,
    DescribeOptions,
    split_options,
    takes_options,
)
from pivec.parallel import on_engine
from pivec.states import joined
from pivec.statistics import LEVEL, MARGIN, EquivalenceTest, decide, episodes_for_verdict
from pivec.workflows.compare import check_same_environment, start, with_needs
from pivec.workflows.inputs import (
    Level,
    PolicyInput,
    choose,
    collect_inputs,
    describe_input,
    find_input,
    find_store,
    split_label,
    squares,
    warn_of_mismatch,
    with_unique_label,
)

_ROUNDING = 1e-9  # of a distance


@on_engine
@takes_options(CollectOptions, DescribeOptions)
@checked
def same(
    a: Any,
    b: Any = None,
    env: str | Callable[[], Any] | None = None,
    *,
    against: str | Path | None = None,
    margin: Positive | None = None,
    level: Level = LEVEL,
    permutations: Annotated[int, Range(19)] = 999,
    episodes: int = 100,
    seed: int = 0,
    progress: bool = False,
    **options: Unpack[DescribeKeywords],
) -> EquivalenceTest:
    """Test whether two policies behave the same: "same", "different" or "unclear".

    *Same* if the distance is below ``margin`` at confidence ``level``; otherwise *different* if a
    permutation test over episodes finds a difference; otherwise there are too few episodes, and
    ``episodes_needed`` estimates how many it takes. Without ``against`` and ``space`` the
    characterization is fitted on both.

    Parameters
    ----------
    a, b : str, path, policy, callable or VisitedStates
        A file, a store of `pivec.collect` (``STORE:label`` if it has several policies; by default
        the last step of a run), what `pivec.collect` takes as a policy, or states.
    env : str or callable, optional
        The environment, if neither files nor stores name it.
    against : path, optional
        A folder of `pivec.compare` or a space (``FOLDER:label``) with the policy to compare with:
        ``a`` is placed in that space, without refitting.
    margin : float, optional
        The largest distance that does not matter; 0.02 for ``visitation``.
    level : float
        Confidence level of the bounds, and of the test.
    permutations : int
        Permutations of the test.
    episodes, seed, progress
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
    collecting, describing = split_options(given, CollectOptions, DescribeOptions)
    if (b is None) == (against is None):
        raise UsageError("expected two policies, or one policy and against= a space")
    if against is None:
        method, space = start(describing, seed, progress)
        inputs = [find_input(a, collecting), find_input(b, collecting)]
    else:
        if describing != DescribeOptions():
            raise UsageError(
                "against names a fitted space: method, components, backgrounds, parameters and "
                "space cannot be set"
            )
        space, accepted = find_accepted(against)
        method, inputs = space.method, [accepted, find_input(a, collecting)]
    margin = _margin(method, margin)
    stored = next((item.settings for item in inputs if item.settings), {})
    if space is not None:
        stored = stored or space.collected
    left, right = collect_inputs(inputs, env, with_needs(collecting, method), stored, progress)
    if space is not None:
        for item in (left, right):
            if item.settings:
                check_same_environment(space, item.settings)
    warn_of_mismatch(left, right)
    right = with_unique_label(left, right)
    if space is None:
        method.fit(joined([left.states, right.states]))
    return judge(method, left, right, margin, level, permutations, seed)


def find_accepted(against: str | Path) -> tuple[Space, PolicyInput]:
    """Open a space and find the accepted policy in it, with its states if they are stored."""
    where, label = split_label(str(against))
    space = Space.load(where)
    described = space.descriptions
    row = choose(described.policies, label, where)
    info = described.policies[row]
    for place in (Path(where), Path(where).parent):
        store = find_store(place)
        if store is not None and store.n_episodes(info):
            data = store[info.label]
            return space, PolicyInput(info.label, data=data, info=info, settings=store.settings)
    if not space.method.traits.influences or "influences" not in described.arrays:
        raise UsageError(
            f"{where} has neither the states of {info.label} nor the influences of its episodes: "
            "keep the folder states/ of the comparison next to it"
        )
    chosen = described.select([row])
    return space, PolicyInput(info.label, described=chosen, info=info, settings=space.collected)


def judge(
    method: Characterization,
    a: PolicyInput,
    b: PolicyInput,
    margin: float,
    level: float = LEVEL,
    permutations: int = 999,
    seed: int = 0,
) -> EquivalenceTest:
    """Return the verdict on two policies in the space of a fitted characterization."""
    left, right = (describe_input(method, item) for item in (a, b))
    sure = method.intervals(left, right, level=2 * level - 1)
    distance, low, high, p_value, noise, first, second = (
        float(getattr(sure, name)[0, 0])
        for name in ("distance", "low", "high", "p_value", "noise", "first", "second")
    )
    # A debiased distance below 0 is luck, which must not make a wide interval pass.
    high -= min(distance, 0.0)
    test = "analytic"
    # Where nothing varies there is nothing to permute, and any difference counts.
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
            f"--margin is needed with {method.name}: the default of {MARGIN} is for visitation, "
            "whose distances range from 0 to about 0.8"
        )
    return MARGIN
