"""same: test whether two policies behave the same; plan: how many episodes that takes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Range, checked
from pivec.characterizations import Characterization, Descriptions, Space, Visitation
from pivec.characterizations.sampling import jackknife_influences
from pivec.errors import PivecWarning, UsageError, did_you_mean
from pivec.explanations import columns_of
from pivec.options import (
    CollectOptions,
    DescribeKeywords,
    DescribeOptions,
    PlanOptions,
    split_options,
    takes_options,
)
from pivec.parallel import on_engine
from pivec.policies import (
    NamedPolicy,
    PolicyInfo,
    find_policy,
    first_names,
    name_policies,
    split_environment,
)
from pivec.rollouts import BACKENDS, environments_of
from pivec.states import (
    RecordedStates,
    VisitedStates,
    find_recorded,
    is_recorded,
    joined,
    paired,
    split_recorded,
    thinned_alike,
)
from pivec.statistics import (
    LEVEL,
    MARGIN,
    MARGIN_FACTORS,
    OF_A_KIND,
    PAIRED,
    EquivalenceTest,
    Intervals,
    Plan,
    View,
    ViewResult,
    decide,
    episode_view,
    episodes_for_precision,
    episodes_for_same,
    episodes_for_view,
    episodes_for_views,
    feature_views,
    is_rate,
    joint_test,
    kernel_embedding,
    kinds_view,
    pair_views,
    pooled_influences,
    share_view,
    spread_of,
    view_intervals,
    with_upper_bounds,
)
from pivec.workflows.collector import Collector, find_store
from pivec.workflows.comparison import (
    check_pairing,
    check_same_environment,
    prepare,
    warn_of_same_seeds,
)

Level = Annotated[float, Range(0.5, above=True, most=0.9999)]

_INHERITED = ("deterministic", "max_steps", "max_states_per_policy", "actions", "backend")
_COMPARED = ("environment", "arguments", "wrappers", "features", "deterministic", "max_steps")
_ROUNDING = 1e-9  # of a distance
_FEWEST_PAIRS = 20  # for bounds of outcomes that are 0 or 1
LEAST = 20  # episodes of each policy with which early decisions begin
_VIEWS = ("moves", "kinds", "order", "features", "pairs", "length", "return", "rates", "outcomes")


@on_engine
@takes_options(CollectOptions, DescribeOptions)
@checked
def same(
    a: Any,
    b: Any = None,
    env: str | Callable[[], Any] | None = None,
    *,
    against: str | Path | None = None,
    margin: float | Mapping[str, float] | None = None,
    views: str | Sequence[str] = (),
    pair: str | None = None,
    level: Level = LEVEL,
    decide: bool = False,
    at_most: Count = 2000,
    permutations: Annotated[int, Range(19)] = 999,
    episodes: int = 100,
    seed: int = 0,
    progress: bool = False,
    **options: Unpack[DescribeKeywords],
) -> EquivalenceTest:
    """Test whether two policies behave the same: "same", "different" or "unclear".

    They are compared in several views: moves (states and steps), kinds of episodes, order within
    episodes, every feature of states and steps, pairs of features, the length of episodes, the
    return, and other outcomes that are known of all episodes, such as success. *Same* if the
    distance is below its margin in every view, *different* if it is above it in some view, both at
    confidence ``level``. Otherwise there are too few episodes, and ``episodes_needed`` estimates
    how many are needed; ``is_significant`` says whether there is a difference, of unknown size.
    Without ``against`` and ``space``, the characterization is fitted on both policies.

    Parameters
    ----------
    a, b : str, path, policy, callable or VisitedStates
        A file, a store of `pivec.collect` (``STORE:label`` if it has several policies; by default
        the last step of a run), a policy as for `pivec.collect`, maybe with an environment of its
        own (``POLICY@ENV``), or states.
    env : str or callable, optional
        The environment, if neither files nor stores name it.
    against : path, optional
        A folder of `pivec.compare` or a space (``FOLDER:label``) with the policy to compare with:
        ``a`` is placed in that space, without refitting.
    margin : float or dict of float, optional
        The largest distance that does not matter, in all views or by view (``""`` for the others);
        0.02 for ``visitation`` (0.04 for length, return and other outcomes that are not 0 or 1
        only, 0.05 for kinds of episodes).
    views : str or sequence of str
        Compare in these views only: ``moves``, ``kinds``, ``order``, ``features``, ``pairs``,
        ``length``, ``return``, ``rates`` (outcomes that are 0 or 1), ``outcomes`` (other numbers),
        or single features and outcomes.
    pair : str, optional
        Compare episodes of the same ``"seed"``, or the same value of an outcome that is known
        before the episode, such as ``"task"``, with each other: bounds follow from differences
        within pairs, and permutations exchange episodes within pairs. Other episodes are left out.
        Policies are run with common seeds.
    level : float
        Confidence level of the bounds and of the test.
    decide : bool
        Play until the verdict is clear, instead of ``episodes`` (`pivec.Decision`).
    at_most : int
        The most episodes of each policy with ``decide``.
    permutations : int
        Number of permutations of the test.
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
    if against is not None:
        if describing != DescribeOptions():
            raise UsageError(
                "against names a fitted space: method, components, backgrounds, parameters and "
                "space cannot be set"
            )
        where, label = _split_label(str(against))
        describing = DescribeOptions(space=where)
    if decide:
        if pair:
            raise UsageError("decide cannot be combined with pair: use a number of episodes")
        collecting = replace(collecting, episodes=min(LEAST, at_most))
    if pair == "seed":
        collecting = replace(collecting, same_seeds=True)
    method, space, collecting = prepare(describing, collecting, progress)
    if pair:
        check_pairing(method)
    inputs = [_find_input(a, collecting)]
    if against is None:
        inputs.append(_find_input(b, collecting))
    else:
        inputs.insert(0, _find_accepted(cast(Space, space), where, label))
    for value in margin.values() if isinstance(margin, Mapping) else [margin]:
        if value is not None and not 0.0 < value < np.inf:
            raise UsageError(f"margin must be a positive number, but is {value}")
    if margin is None and not isinstance(method, Visitation):
        raise UsageError(
            f"--margin is needed with {method.name}: the default of {MARGIN} is for visitation, "
            "whose distances range from 0 to about 0.9"
        )
    stored = next((item.settings for item in inputs if item.settings), {})
    if space is not None:
        stored = stored or space.collected
    views = (views,) if isinstance(views, str) else views
    left, right = _collect_inputs(inputs, env, collecting, stored, progress and not decide)
    for item in (left, right):
        if space is not None and item.settings:
            check_same_environment(space, item.settings)
    _warn_of_mismatch(left, right, copies=not pair)
    if left.label == right.label and right.info is not None:
        info, other = replace(right.info, label=f"{right.label} (second)"), right.states
        records = [replace(record, info=info) for record in other.records]
        data = VisitedStates(records, other.feature_names, other.environment)
        right = replace(right, data=data, info=info)
    if decide:
        from pivec.workflows.decision import Decision, decide_early

        warn_of_same_seeds([left.settings, right.settings])
        known: dict[str, Any] = {"seed": seed, "settings": left.settings or right.settings}
        decision = Decision(margin, views=views, level=level, **known, **vars(describing))
        return decide_early(decision, (left, right), at_most, progress)
    strata = None
    if pair:
        both, strata = paired(joined([left.states, right.states]), pair)
        left, right = replace(left, data=both[0]), replace(right, data=both[1])
        if (n := len(strata)) < _FEWEST_PAIRS:
            _warn(
                f"there are only {n} pairs of episodes: with fewer than {_FEWEST_PAIRS}, bounds of "
                "success and other outcomes of 0 and 1 are too narrow"
            )
    else:
        warn_of_same_seeds([left.settings, right.settings])
    if space is None:
        method.fit(joined([left.states, right.states]))
    margin = MARGIN if margin is None else margin
    answer = judge(method, left, right, margin, level, permutations, seed, views, strata)
    return replace(answer, pair=pair or "")


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
    """Estimate from a small sample how many episodes each policy needs.

    Parameters
    ----------
    env, policies
        As for `pivec.collect`; or recorded states as ``policies``, all of whose episodes are used.
    precision : float
        Required half-width of the confidence intervals of distances.
    margin : float, optional
        Margin of `same`; by default 0.02 for ``visitation``, and none for other methods.
    level : float
        Confidence level of the intervals, and of `same`.
    episodes : int
        Episodes per policy in the sample.
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
    method, space, collecting = prepare(describing, collecting, progress)
    if isinstance(policies, VisitedStates):
        data = policies
    else:
        acting, recorded = (policies, []) if env is not None else split_recorded(policies)
        collector: Collector | RecordedStates
        if recorded and not acting:
            most = collecting.max_states_per_policy
            collector = RecordedStates(recorded, max_states_per_policy=most)
        else:
            collector = Collector(env, policies, collecting, progress=progress)
        data = collector.run()
        warn_of_same_seeds([collector.settings])
        if space is not None:
            check_same_environment(space, collector.settings)
    if space is None:
        method.fit(data)
    described = _described(method, data)
    sure = method.intervals(described, level=level)
    noise, second = sure.noise.copy(), sure.second.copy()
    if not method.traits.squared:
        noise **= 2
    own_noise, own_second = _noise_of_resampling(described)
    np.fill_diagonal(noise, own_noise)
    np.fill_diagonal(second, own_second)
    pilot = np.maximum.outer(*[np.diff(data.policy_starts)] * 2)
    width = precision if method.traits.squared else 2 * sure.distance * precision + precision**2
    needed = episodes_for_precision(sure.first, second, pilot, width, level)
    decided = None
    margin = MARGIN if margin is None and isinstance(method, Visitation) else margin
    if margin is not None:
        room = margin if method.traits.squared else margin**2
        decided = episodes_for_same(noise, second, pilot, room, level)
        if isinstance(method, Visitation):
            each = [
                _episodes_for_views(method, data.select([p]), margin, level)
                for p in range(len(data))
            ]
            decided = np.maximum(decided, np.maximum.outer(each, each))
    return Plan(
        data.labels, int(pilot.max()), precision, level, sure.distance, needed, margin, decided
    )


def _noise_of_resampling(described: VisitedStates | Descriptions) -> tuple[Any, Any]:
    """Mean and variance of the distance of each policy to another sample: 2 tr C and 2‖C + C‖²."""
    if isinstance(described, VisitedStates):
        if len(described) == 1:
            raise UsageError(
                "a plan for a single policy needs a characterization with influences, such as "
                "visitation: give two policies, or another --method"
            )
        return 0.0, 0.0  # others need more
    spread = spread_of(described.influences, *described.values("effective_episodes"))
    return 2.0 * spread.trace, 8.0 * spread.unbiased_norm**2


def _episodes_for_views(
    method: Visitation, data: VisitedStates, margin: float, level: float
) -> float:
    """Episodes after which two samples of a policy are within the margin in all other views."""
    if data.n_episodes < 2:
        return np.inf
    views = other_views(method, data, data, {}, of_a_kind=1)  # more episodes have as many kinds
    return max(
        episodes_for_view(view, margin_of(margin, view.name, view.group or view.name), level)
        for view in views
    )


@dataclass(frozen=True)
class PolicyInput:
    """One policy: what is still to be run or read, or what is known of it already."""

    name: str  # as the user calls it
    source: Any = None  # a policy to run, or the name of recorded states
    data: VisitedStates | None = None
    described: Descriptions | None = None  # in a space without states
    info: PolicyInfo | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # how its states were collected
    collector: Collector | None = None  # which can play more episodes

    @property
    def label(self) -> str:
        """The label of the policy."""
        return self.name if self.info is None else self.info.label

    @property
    def states(self) -> VisitedStates:
        """The states that it visited, which must be known."""
        if self.data is None:
            raise UsageError(f"the states of {self.label} are not stored")
        return self.data

    def with_episodes(self, n: int) -> VisitedStates:
        """Return states of so many episodes, or of those that there are."""
        if self.collector is None or self.states.n_episodes >= n:
            return self.states
        return self.collector.run(dict.fromkeys(self.collector.acting, n))

    def with_states(self, data: VisitedStates, settings: Mapping[str, Any]) -> PolicyInput:
        """Add the states of the policy that is meant among those of ``data``."""
        row = _choose(data.policies, "", self.name)
        return replace(self, data=data.select([row]), info=data.policies[row], settings=settings)


def judge(
    method: Characterization,
    a: PolicyInput,
    b: PolicyInput,
    margin: float | Mapping[str, float] = MARGIN,
    level: float = LEVEL,
    permutations: int = 999,
    seed: int = 0,
    views: Sequence[str] = (),
    strata: NDArray[np.int64] | None = None,
) -> EquivalenceTest:
    """Return the verdict on two policies in the space of a fitted characterization.

    ``strata`` are those of the episodes of both, if these are paired.
    """
    left, right = (
        _described(method, item.states, strata) if item.described is None else item.described
        for item in (a, b)
    )
    visitation = method if isinstance(method, Visitation) else None
    have_states = a.data is not None and b.data is not None
    others: dict[str, View] = {}
    if visitation and have_states:
        alike = thinned_alike(a.states, b.states)
        settings = a.settings or b.settings
        found = other_views(visitation, alike[0], alike[1], settings)
        others = {view.name: view for view in found}
        if (n := len(visitation.described_features)) > PAIRED:
            _warn(f"only the first {PAIRED} of {n} features are compared in pairs")
    elif visitation and set(views) != {"moves"}:
        missing = ", ".join(item.label for item in (a, b) if item.data is None)
        _warn(
            f"only moves are compared, since the states of {missing} are not stored: keep the "
            "folder states/ of the comparison next to space/ to compare in all views"
        )
    groups = {name: view.group or name for name, view in others.items()}
    groups = {"moves" if visitation else method.name: ""} | groups
    known = list(dict.fromkeys([*groups, *groups.values()]))
    for name in (*views, *(margin if isinstance(margin, Mapping) else ())):
        if name not in known:
            hint = did_you_mean(name, known)
            shown = [name for name in known if name and groups.get(name) != "pairs"]
            raise UsageError(f"there is no view {name!r}{hint}; there are {', '.join(shown)}")
    chosen = [name for name in groups if not views or {name, groups[name]} & set(views)]
    results, p_values, constant = [], [], True
    for name in chosen:
        sure, joint = (
            view_intervals(others[name], at, strata)
            if name in others
            else method.intervals(left, right, level=at)
            for at in (2 * level - 1, 1 - 2 * (1 - level) / len(chosen))
        )
        if name not in others and method.traits.squared:
            sure = with_upper_bounds(sure)
        view = others.get(name)
        result = _view_result(name, sure, joint, margin_of(margin, name, groups[name]), view)
        results.append(result)
        p_values.append(np.ravel(sure.p_value).item())
        constant = constant and np.ravel(sure.noise).item() <= _ROUNDING * result.distance
    test, p_value = "analytic", min(p_values) if constant else p_values[0]
    # Where nothing varies there is nothing to permute, and any difference counts.
    if visitation and others and not constant:
        test = "permutation"
        used = [others[name] for name in chosen if name in others]
        which = "moves" in chosen, "kinds" in chosen
        p_value = _joint_p_value(visitation, alike, used, which, permutations, seed, strata)
    elif have_states and not constant:
        test = "permutation"
        p_value = method.test(a.states, b.states, permutations, seed, strata).p_value
    verdict = decide(results, p_value <= round(1 - level, 12))
    episodes = int(np.sum(left.n_episodes)), int(np.sum(right.n_episodes))
    needed = overlap = None
    if verdict == "unclear":
        needed = episodes_for_views(_as_squares(method, results), max(episodes))
    if visitation:
        both = cast(Descriptions, left), cast(Descriptions, right)
        overlap = float(visitation.overlap(*both)[0, 0])
    return EquivalenceTest(
        verdict=verdict,
        labels=(a.label, b.label),
        views=tuple(results),
        p_value=p_value,
        test=test,
        level=level,
        episodes=episodes,
        episodes_needed=needed,
        method=method.name,
        overlap=overlap,
    )


def other_views(
    method: Visitation,
    a: VisitedStates,
    b: VisitedStates,
    settings: Mapping[str, Any],
    of_a_kind: int = OF_A_KIND,
) -> list[View]:
    """Views of two policies besides their moves; ``settings``: how states were collected."""
    left, right = view_inputs(method, a), view_inputs(method, b)
    columns = columns_of(method, settings)
    names, units = _distinct([column.name for column in columns]), [c.unit for c in columns]
    moves = left["features"], right["features"]
    views = [
        kinds_view(left["kinds"], right["kinds"], of_a_kind),
        share_view("order", left["order"], right["order"]),
        *feature_views(*moves, names, units),
        *pair_views(*moves, names[: min(PAIRED, len(method.described_features))]),
        episode_view("length", left["length"], right["length"]),
    ]
    if not any(np.isnan(side.returns).any() for side in (a, b)):
        views.append(episode_view("return", a.returns, b.returns))
    found = {name: (x, b.outcomes[name]) for name, x in a.outcomes.items() if name in b.outcomes}
    found = {name: sides for name, sides in found.items() if all(x.dtype != object for x in sides)}
    for name, own in zip(_distinct([*names, *found])[len(names) :], found, strict=True):
        if unknown := int(np.isnan(np.concatenate(found[own])).sum()):
            _warn(f"{own} is not compared, since it is not known of {unknown} episodes")
        else:
            group = "rates" if is_rate(np.concatenate(found[own])) else "outcomes"
            view = episode_view(name, *found[own])
            views.append(replace(view, group=group, source=f"outcome.{own}"))
    return views


def view_inputs(method: Visitation, data: VisitedStates) -> dict[str, Any]:
    """What views of a policy's episodes are made of, by ``source``, group or name of a view."""
    shares, moves = method.shares_over_time(data), method.view(data)
    return {
        "kinds": np.sqrt(shares),
        "order": shares,
        "features": moves,
        "pairs": moves,
        "length": data.episode_steps + 1.0,
        "return": data.returns,
        **{f"outcome.{name}": values for name, values in data.outcomes.items()},
    }


def _distinct(names: Sequence[str]) -> list[str]:
    """Rename features with the name of another feature, of another view or of a group of views."""
    result: list[str] = []
    for name in names:
        plain = f"{name} (feature)" if name in _VIEWS else name
        others = (f"{plain} ({n})" for n in range(2, len(names) + 2))
        result.append(next(other for other in (plain, *others) if other not in result))
    return result


def _view_result(
    name: str, sure: Intervals, joint: Intervals, margin: float, view: View | None
) -> ViewResult:
    """Take the bounds of one view, and the lower one that holds for all views together."""
    parts = ("distance", "low", "high", "first", "second")
    distance, low, high, first, second = (np.ravel(getattr(sure, part)).item() for part in parts)
    beyond = np.ravel(joint.low).item()
    words, group = ("", "") if view is None else (view.words, view.group)
    return ViewResult(name, distance, low, high, beyond, margin, first, second, words, group)


def _joint_p_value(
    method: Visitation,
    sides: Sequence[VisitedStates],
    views: Sequence[View],
    whole: tuple[bool, bool],  # whether moves, and episodes as a whole, count as well
    permutations: int,
    seed: int,
    strata: NDArray[np.int64] | None,
) -> float:
    """Test several views together."""
    used = [pooled_influences(view) for view in views]
    both = np.concatenate([method._statistics(side) for side in sides])
    if whole[0]:
        used.append(jackknife_influences(method, both, np.array([0, len(both)]))[0])
    if whole[1]:
        used.append(kernel_embedding(method._coordinates(both)))
    return joint_test(used, sides[0].n_episodes, permutations, seed, strata)


def margin_of(margin: float | Mapping[str, float], name: str, group: str) -> float:
    """Margin of a view: its own, that of its group, or that of all."""
    if not isinstance(margin, Mapping):
        return margin * MARGIN_FACTORS.get(group, 1.0)
    own = (margin[key] for key in (name, group) if key and key in margin)
    return next(own, margin_of(margin.get("", MARGIN), name, group))


def _as_squares(method: Characterization, views: Sequence[ViewResult]) -> list[ViewResult]:
    """Return the distance of the characterization as a square, the unit of variances."""
    if method.traits.squared:
        return list(views)
    squares = {
        name: getattr(views[0], name) * abs(getattr(views[0], name))
        for name in ("distance", "low", "high", "beyond", "margin")
    }
    return [replace(views[0], **squares), *views[1:]]


def _described(
    method: Characterization, data: VisitedStates, strata: NDArray[np.int64] | None = None
) -> VisitedStates | Descriptions:
    """Return what intervals are made of: descriptions with influences, or the states."""
    if not method.traits.influences:
        return data
    described = method.describe(data, influences=True)
    return described if strata is None else described.stratified(strata)


def _find_accepted(space: Space, where: str, label: str) -> PolicyInput:
    """Find the accepted policy of a space, with its states if they are stored."""
    described = space.descriptions
    row = _choose(described.policies, label, where)
    info = described.policies[row]
    for place in (Path(where), Path(where).parent):
        store = find_store(place)
        if store is not None and store.n_episodes(info):
            data = store[info.label]
            return PolicyInput(info.label, data=data, info=info, settings=store.settings)
    if not space.method.traits.influences or "influences" not in described.arrays:
        raise UsageError(
            f"{where} has neither the states of {info.label} nor the influences of its episodes: "
            "keep the folder states/ of the comparison next to it"
        )
    chosen = described.select([row])
    return PolicyInput(info.label, described=chosen, info=info, settings=space.collected)


def _find_input(thing: Any, options: CollectOptions) -> PolicyInput:
    """Find one policy by a file, a store, ``random``, an object or `VisitedStates`.

    Of a folder, store or recording of several policies it is the one that ``FOLDER:label`` names,
    or the last step of a run.
    """
    if isinstance(thing, VisitedStates):
        return PolicyInput("the data").with_states(thing, {})
    label, name = "", str(thing)
    if isinstance(thing, str | os.PathLike):
        where, label = _split_label(os.fspath(thing))
        if (store := find_store(where)) is not None:
            info = store.policies[_choose(store.policies, label, where)]
            return PolicyInput(name, data=store[info.label], info=info, settings=store.settings)
        if is_recorded(where):
            found = find_recorded(where)
            return PolicyInput(name, found[_choose([p.info for p in found], label, where)])
    thing, own = split_environment(thing)
    if isinstance(thing, str | os.PathLike):
        thing, label = _split_label(os.fspath(thing))
    named = name_policies(
        [thing], options.trust, options.without_normaliser, options.skip_unreadable
    )
    chosen = named[_choose([policy.info for policy in named], label, name)]
    chosen = chosen if own is None else replace(chosen, environment=own)
    return PolicyInput(name, source=chosen, info=chosen.info)


def _split_label(text: str) -> tuple[str, str]:
    """Separate a folder from the label after it: ``runs:ppo/1000``."""
    parts = os.path.expanduser(text).removeprefix("store:").split(":")
    for count in range(len(parts), 0, -1):
        if os.path.exists(where := ":".join(parts[:count])):
            return where, ":".join(parts[count:])
    return text, ""


def _choose(policies: Sequence[PolicyInfo], label: str, where: str) -> int:
    """Find the policy of a folder that is meant: by label, the only one, or the last step."""
    if not policies:
        raise UsageError(f"{where} holds no policies yet")
    if label:
        return find_policy(policies, label, where)
    if len(policies) == 1:
        return 0
    labels = [info.label for info in policies]
    steps = [info.step for info in policies if info.step is not None]
    last = max(steps, default=0)
    if len(steps) < len(policies) or steps.count(last) > 1 or len({p.group for p in policies}) > 1:
        raise UsageError(
            f"{where} has {len(policies)} policies, but one is expected: name it after a colon, "
            f"as in {where}:{labels[0]} (there are {first_names(labels)})"
        )
    row = steps.index(last)
    _warn(
        f"{where} has {len(policies)} policies: using the last step, {labels[row]}; name another "
        f"after a colon, as in {where}:{labels[0]}"
    )
    return row


def _collect_inputs(
    inputs: list[PolicyInput],
    env: Any,
    options: CollectOptions,
    stored: Mapping[str, Any],
    progress: bool,
) -> list[PolicyInput]:
    """Collect the states that are not known; ``stored`` is how others were collected.

    Options that the user did not set are taken from there. No two inputs play the same episodes: a
    policy that is given twice gets another seed the second time.
    """
    waiting = [item for item in inputs if item.source is not None]
    reads = env is None and not stored.get("environment")
    reads = reads and all(is_recorded(item.source) for item in waiting)
    if waiting and not reads:
        # What a store or space names is trusted as little as what a policy file names.
        place = next((item.name for item in inputs if item.settings), "the space")
        files = [
            item.info
            for item in inputs
            if item.info is not None and getattr(item.source, "environment", None) is None
        ]
        infos = [PolicyInfo("", source=place, metadata=dict(stored))] if stored else files
        default = CollectOptions()
        inherited = {
            name: stored[name]
            for name in _INHERITED
            if name in stored and getattr(options, name) == getattr(default, name)
        }
        if stored.get("same_seeds"):
            inherited["same_seeds"] = True
            inherited |= {"seed": stored["seed"]} if options.seed == default.seed else {}
        if inherited.get("backend") not in BACKENDS:
            inherited.pop("backend", None)
        options = replace(options, **inherited)
        named = [item.source for item in waiting if isinstance(item.source, NamedPolicy)]
        environment, named, backend = environments_of(env, named, options, infos)
        placed = iter(named)
        inputs = [
            replace(item, source=(each := next(placed)), info=each.info)
            if isinstance(item.source, NamedPolicy)
            else item
            for item in inputs
        ]
        done: dict[str, Any] = {"env_kwargs": None, "wrappers": (), "imports": ()}
        options = replace(options, backend=backend, atari=False, frame_skip=None, **done)
    result = list(inputs)
    for number, item in enumerate(inputs):
        if item.source is None:
            continue
        collector: Collector | RecordedStates
        if reads:
            most = options.max_states_per_policy
            collector = RecordedStates(find_recorded(item.source), max_states_per_policy=most)
        else:
            chosen = replace(options, seed=_free_seed(item, result, options.seed))
            collector = Collector(environment, [item.source], chosen, progress=progress)
        found = item.with_states(collector.run(), collector.settings)
        if isinstance(collector, Collector) and collector.acting:
            found = replace(found, collector=collector)
        result[number] = found
    return result


def _free_seed(item: PolicyInput, others: Sequence[PolicyInput], seed: int) -> int:
    """Return a seed with which no other input has episodes of the same policy."""
    if item.info is None:
        return seed
    taken = {
        other.settings["seed"]
        for other in others
        if other.info is not None
        and other.info.identity == item.info.identity
        and "seed" in other.settings
    }
    free = seed
    while free in taken:
        free += 1
    if free != seed:
        _warn(
            f"{item.info.label} is compared with itself: the second sample has other episodes "
            f"(seed {free})"
        )
    return free


def _warn_of_mismatch(a: PolicyInput, b: PolicyInput, *, copies: bool) -> None:
    """Warn of inputs that were collected differently, or share some of their episodes."""
    for key in _COMPARED:
        if key in a.settings and key in b.settings and a.settings[key] != b.settings[key]:
            _warn(
                f"{a.name} was collected with {key} = {a.settings[key]!r}, {b.name} with "
                f"{b.settings[key]!r}: differences may come from that"
            )
    if a.data is None or b.data is None or not copies:
        return
    n = _copies(a.data, b.data)
    if n and not n == a.data.n_episodes == b.data.n_episodes:  # which intervals report
        _warn(
            f"{n} episodes are in both {a.name} and {b.name}, so they are not independent: "
            "collect one of them with another --seed"
        )


def _copies(a: VisitedStates, b: VisitedStates) -> int:
    """Count episodes that both have: those of one seed, or all if seeds are not known.

    With few states, episodes of different seeds may be equal by chance.
    """
    left, right = list(a.episodes()), list(b.episodes())
    if (a.seeds < 0).any() or (b.seeds < 0).any():
        pairs = list(zip(left, right, strict=False))
        return len(pairs) * all(np.array_equal(i, j) for i, j in pairs)
    shared = zip(*np.intersect1d(a.seeds, b.seeds, return_indices=True)[1:], strict=True)
    return sum(np.array_equal(left[i], right[j]) for i, j in shared)


def _warn(text: str) -> None:
    warnings.warn(text, PivecWarning, stacklevel=3)
