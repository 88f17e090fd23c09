"""Computations on VisitedStates: joining, regrouping, moves, thinning, passes, moments."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.errors import BadData, PivecWarning, UsageError
from pivec.parallel import Engine, current, make_engine
from pivec.policies import canonical_order
from pivec.states.visited import Arrays, PolicyRecord, VisitedStates, starts_of
from pivec.terminal import shortened
from pivec.text import thousands

_MAX_POPULATION = 10**9  # of NumPy's hypergeometric distribution
_CACHED = 1 << 12  # rows of a few hundred kilobytes
_APART = {"steps_apart": "steps", "time_apart": "units of time"}  # see `read_recorded`


def joined(parts: Sequence[VisitedStates]) -> VisitedStates:
    """Concatenate the policies of all parts, without copying states; their labels must differ.

    Examples
    --------
    >>> a = VisitedStates.from_arrays([[[[0.0], [1.0]]]], labels=["a"])
    >>> b = VisitedStates.from_arrays([[[[2.0]]], [[[3.0]]]], labels=["b", "c"])
    >>> both = joined([a, b])
    >>> both.labels, both.states.ravel().tolist()
    (('a', 'b', 'c'), [0.0, 1.0, 2.0, 3.0])
    """
    names = {part.feature_names for part in parts}
    if len(names) != 1 or len({part.has_actions for part in parts}) != 1:
        raise BadData(
            "data to be joined must have the same features, and all or none of them actions, but "
            f"have {' and '.join(str(len(features)) for features in names)} features"
        )
    records = [record for part in parts for record in part.records]
    return VisitedStates(records, parts[0].feature_names, parts[0].environment)


def regrouped(parts: Sequence[VisitedStates], groups: Sequence[NDArray[Any]]) -> VisitedStates:
    """Make one policy of each group of episodes, which are numbered through all parts.

    States, actions, returns, outcomes and numbers of steps are kept.
    """
    records = [record for part in parts for record in part.records]
    episodes = [episode for record in records for episode in record.as_episodes()]
    policies = [[episodes[i] for i in group] for group in groups]
    actions: Any = [[episode.actions for episode in policy] for policy in policies]
    names = dict.fromkeys(name for episode in episodes for name in episode.outcomes)
    made = VisitedStates.from_arrays(
        [[episode.states for episode in policy] for policy in policies],
        returns=[[episode.total_reward for episode in policy] for policy in policies],
        actions=actions if all(part.has_actions for part in parts) else None,
        feature_names=parts[0].feature_names,
        environment=parts[0].environment,
        outcomes={name: [[e.outcomes.get(name) for e in p] for p in policies] for name in names},
    )
    for record, policy in zip(made.records, policies, strict=True):
        record.episodes["steps"] = [episode.n_steps for episode in policy]
    made.episode_steps = np.concatenate([record.episodes["steps"] for record in made.records])
    return made


@checked
def paired(data: VisitedStates, by: str) -> tuple[VisitedStates, NDArray[np.int64]]:
    """Keep episodes that all policies have in common: of each seed, or value of an outcome.

    Of each, all policies keep the same number of episodes, the first ones, with a warning if others
    are left out. Episode e of every policy then belongs to the stratum ``strata[e]``, and where
    each stratum has a single episode per policy, the e-th episodes of two policies are a pair.

    Parameters
    ----------
    data : VisitedStates
    by : str
        ``"seed"``, or the name of an outcome that was known before the episode, such as a task.

    Returns
    -------
    data : VisitedStates
    strata : (n_episodes of each policy,) int array

    Examples
    --------
    >>> data = VisitedStates.from_arrays(
    ...     [[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]], outcomes={"task": [["a", "b"], ["b", "a"]]}
    ... )
    >>> same, strata = paired(data, "task")
    >>> same.states.ravel().tolist(), strata.tolist()
    ([1.0, 2.0, 4.0, 3.0], [0, 1])
    """
    if by != "seed" and by not in data.outcomes:
        names = ", ".join(["seed", *data.outcomes])
        raise UsageError(f"episodes can be paired by {names}, but not by {by!r}")
    values = (data.seeds if by == "seed" else data.outcomes[by]).tolist()
    found: list[dict[Any, list[int]]] = []
    for first, last in pairwise(data.policy_starts.tolist()):
        rows: dict[Any, list[int]] = {}
        for row, value in enumerate(values[first:last]):
            unknown = not value if isinstance(value, str) else math.isnan(value)
            if not (unknown or (by == "seed" and value < 0)):
                rows.setdefault(value, []).append(row)
        found.append(rows)
    # In the order of a policy that does not depend on the order of policies.
    leading = found[canonical_order(data.policies)[0]]
    counts = {value: min(len(rows.get(value, ())) for rows in found) for value in leading}
    kept = [
        np.array([row for value, count in counts.items() for row in rows.get(value, ())[:count]])
        for rows in found
    ]
    if not len(kept[0]):
        raise UsageError(
            f"no {by} is common to all {len(found)} policies, so their episodes cannot be paired"
            + ": collect them with --same-seeds" * (by == "seed")
        )
    strata = np.repeat(np.arange(len(counts)), list(counts.values()))
    used, whole = sum(map(len, kept)), data.n_episodes
    if used < whole:
        warnings.warn(
            f"{thousands(whole - used)} of {thousands(whole)} episodes have no counterpart with "
            f"the same {by} in every policy and are left out",
            PivecWarning,
            stacklevel=3,
        )
    records = [
        record if np.array_equal(rows, np.arange(len(record.episodes))) else record.only(rows)
        for record, rows in zip(data.records, kept, strict=True)
    ]
    return VisitedStates(records, data.feature_names, data.environment), strata


def thinned_alike(*parts: VisitedStates) -> list[VisitedStates]:
    """Thin all policies by the largest factor among them.

    Single episodes of which more states are kept are described with less noise, so that they would
    differ from the others.
    """
    every = max(record.every for part in parts for record in part.records)
    return [
        VisitedStates(
            [r.thinned(every) for r in part.records], part.feature_names, part.environment
        )
        for part in parts
    ]


def moves_of(data: VisitedStates) -> VisitedStates:
    """Return the moves (s, Δs) of every episode as states of twice as many features.

    There is one for each state but the last of its episode, or for each pair of a thinned episode,
    so that Δs is always one step; an episode of a single state has Δs = 0. Moves are computed on
    demand, policy by policy. Actions are not kept, and ``kept_every`` no longer applies. Recorded
    policies whose states are not equally far apart in time are rejected.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0], [1.0], [4.0]], [[7.0]]]])
    >>> moves = moves_of(data)
    >>> moves.feature_names, moves.states.tolist()
    (('x[0]', 'Δx[0]'), [[0.0, 1.0], [1.0, 3.0], [7.0, 0.0]])
    """
    _check_rates(data)
    records = list(map(_moves_record, data.records))
    return VisitedStates(records, move_names(data.feature_names), data.environment)


def only_features(data: VisitedStates, features: Sequence[int]) -> VisitedStates:
    """Keep only these features, by number; states are copied on demand.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0, 1.0, 2.0]]]], feature_names=["x", "y", "z"])
    >>> kept = only_features(data, [0, 2])
    >>> kept.feature_names, kept.states.tolist()
    (('x', 'z'), [[0.0, 2.0]])
    """
    records = [
        replace(record, read_arrays=partial(_read_features, record.without_policy(), features))
        for record in data.records
    ]
    names = tuple(data.feature_names[j] for j in features)
    return VisitedStates(records, names, data.environment)


def _read_features(record: PolicyRecord, features: Sequence[int]) -> Arrays:
    states, actions = record.read_arrays()
    return states.take(features, axis=1), actions


def move_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of the features of states, then of their steps."""
    return (*names, *(f"Δ{name}" for name in names))


def _check_rates(data: VisitedStates) -> None:
    """Compare the times between states, where they are known; others are successive steps."""
    for key, words in _APART.items():
        known = []
        for info in data.policies:
            otherwise = 1.0 if key == "steps_apart" and not info.metadata.keys() & _APART else None
            if (apart := info.metadata.get(key, otherwise)) is not None:
                known.append((float(apart), info.label))
        (low, one), (high, other) = (min(known), max(known)) if known else ((0.0, ""), (0.0, ""))
        if high > 1.01 * low:
            raise BadData(
                f"moves need states that are equally far apart in time, but those of {one!r} are "
                f"{low:g} {words} apart and those of {other!r} {high:g}: resample one of them, or "
                'describe states alone (of="states")'
            )


def move_rows(record: PolicyRecord) -> NDArray[np.int64]:
    """Return the rows of the states that moves start from; a single state starts its own.

    An episode that lacks some states consists of pairs. Its last pair is a move only if it is at a
    regular time: otherwise, ends of episodes would count more than they last.
    """
    lengths, steps = record.episodes["length"], record.episodes["steps"]
    starts = starts_of(lengths)
    begins = np.ones(starts[-1], dtype=bool)
    begins[starts[1:] - 1] = lengths == 1
    thinned = lengths <= steps
    places = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    begins &= (places % 2 == 0) | ~np.repeat(thinned, lengths)
    # Pairs begin at multiples of a power of two, the last one at the last step but one.
    several = np.flatnonzero(thinned & (lengths > 2))
    last, pairs = steps[several] - 1, lengths[several] // 2
    period = 2 ** np.ceil(np.log2(last / (pairs - 1))).astype(np.int64)
    begins[starts[several + 1] - 2] = last % period == 0
    return np.flatnonzero(begins)


def _moves_record(record: PolicyRecord) -> PolicyRecord:
    episodes, cuts = record.episodes.copy(), starts_of(record.episodes["length"])
    episodes["length"] = np.diff(np.searchsorted(move_rows(record), cuts))
    known = {key: value for key, value in record.info.metadata.items() if key != "kept_every"}
    info, read = replace(record.info, metadata=known), _Moves(record.without_policy())
    return PolicyRecord(info, episodes, False, read, record.read_policy)


@dataclass(frozen=True, eq=False)
class _Moves:
    """Reads the moves of a policy."""

    record: PolicyRecord

    def __call__(self) -> Arrays:
        return _read_moves(self)


@lru_cache(maxsize=1)  # a pass reads a policy block by block
def _read_moves(moves: _Moves) -> Arrays:
    states, lengths = moves.record.read_arrays()[0], moves.record.episodes["length"]
    first = move_rows(moves.record)
    then = np.minimum(first + 1, np.repeat(starts_of(lengths)[1:] - 1, lengths)[first])
    width = states.shape[1]
    rows = np.empty((len(first), 2 * width), dtype=np.float32)
    for begin in range(0, len(rows), _CACHED):
        part = slice(begin, begin + _CACHED)
        now = states.take(first[part], axis=0)
        rows[part, :width] = now
        # In float32 rounded once, as from float64.
        rows[part, width:] = states.take(then[part], axis=0) - now
    rows.flags.writeable = False
    return rows, None


class ThinnedStates:
    """Some states of each policy, copied on demand; a source of states for a fit."""

    def __init__(self, data: VisitedStates, rows: NDArray[np.int64]) -> None:
        self._data, self._rows = data, rows  # sorted numbers of the states
        self.n_states = len(rows)
        self.n_features = data.n_features

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """Return the states ``first`` to ``last - 1``, or to the end."""
        return self._data.take(self._rows[first:last])

    def without_policies(self) -> ThinnedStates:
        """Return the states without the policies themselves."""
        return ThinnedStates(self._data.without_policies(), self._rows)


@checked
def thin(
    data: VisitedStates,
    rng: np.random.Generator,
    *,
    max_policies: Count | None = None,
    max_episodes: Count | None = None,
    max_states: Count | None = None,
    sampling: Literal["even", "uniform"] = "even",
    weights: NDArray[Any] | None = None,
) -> VisitedStates | ThinnedStates:
    """Draw at most so many policies, episodes per policy, and states in total.

    With ``sampling="even"`` every policy contributes the same number of states, or all it has if
    that is fewer; with "uniform" every state is equally likely. With ``weights``, positive numbers
    up to 1, one per policy, a policy contributes at most that share of its states, and that
    fraction of what the others do. Nothing is copied until rows are requested.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[np.zeros((100, 1))], [np.ones((10, 1))]])
    >>> thinned = thin(data, np.random.default_rng(0), max_states=30)
    >>> thinned.rows(0, 30).sum(), thinned.n_states
    (np.float32(10.0), 30)
    """
    weights = np.ones(len(data)) if weights is None else weights
    if max_policies is not None and max_policies < len(data):
        chosen = np.sort(rng.choice(len(data), size=max_policies, replace=False))
        data, weights = data.select(chosen), weights[chosen]
    if max_episodes is not None and max_episodes < np.diff(data.policy_starts).max():
        data = data.sample_episodes(max_episodes, rng, at_most=True)
    sizes = np.diff(data.state_starts)
    shares = np.ceil(weights * sizes).astype(np.int64)
    total = int(shares.sum())
    if max_states is None or max_states >= total:
        if total == data.n_states:
            return data
        quotas = shares
    elif sampling == "even":
        quotas = _even_quotas(shares, max_states, weights)
    elif total >= _MAX_POPULATION:
        raise UsageError(
            f"uniform sampling needs fewer than {_MAX_POPULATION:,} states, but there are "
            f"{total:,}: limit policies or episodes too, or sample evenly over the policies"
        )
    else:  # a draw of all states without replacement, without a list of all
        quotas = rng.multivariate_hypergeometric(shares, max_states, method="marginals")
    rows = [
        begin + np.sort(rng.choice(size, size=quota, replace=False))
        for begin, size, quota in zip(data.state_starts[:-1], sizes, quotas, strict=True)
    ]
    return ThinnedStates(data, np.concatenate(rows))


def _even_quotas(
    sizes: NDArray[np.int64], total: int, weights: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Distribute ``total`` states over policies of these sizes in proportion to their weights."""
    quotas = np.zeros_like(sizes)
    order = np.argsort(sizes / weights, kind="stable")
    rest = weights[order][::-1].cumsum()[::-1]
    left = total
    for policy, others in zip(order, rest, strict=True):
        # Smallest first: larger ones get what they lack.
        share = int(left * weights[policy] / others)
        quotas[policy] = min(sizes[policy], share)
        left -= int(quotas[policy])
    return quotas


# Parallel passes: parts are ranges of rows or of policies, cut by the data alone so that results do
# not depend on the engine. States are read where a part is worked on.

Span = tuple[int, int]
_VALUES = 1 << 23  # float32 numbers per range of policies: 32 MB


@dataclass(frozen=True)
class Sent:
    """A source of states that is sent to other processes without the policies.

    Of data in a store only the paths are sent.
    """

    source: Any

    def __reduce__(self) -> tuple[Any, ...]:
        strip = getattr(self.source, "without_policies", lambda: self.source)
        return Sent, (strip(),)


def engine_for(parts: Sequence[Any]) -> Engine:
    """Return the engine for these parts; a single one is not worth sending to a process."""
    return current() if len(parts) > 1 else make_engine("serial")


def over_policies(
    function: Callable[..., Any],
    data: VisitedStates,
    *arguments: Any,
    ranges: Sequence[Span] | None = None,
) -> Iterator[Any]:
    """Yield ``function(data of some policies, *arguments)`` for consecutive ranges of policies.

    By default, ``ranges`` have about 32 MB of states. The function must be picklable.
    """
    most = max(1, _VALUES // data.n_features)
    parts = ranges or policy_ranges(data.state_starts, most)
    engine = engine_for(parts)
    shared = engine.share(Sent(data)), engine.share(arguments)
    return engine.in_order(_over_range, parts, function, *shared)


def _over_range(span: Span, function: Callable[..., Any], sent: Sent, arguments: Any) -> Any:
    return function(sent.source.select(range(*span)), *arguments)


def policy_ranges(starts: NDArray[np.int64], most: int) -> list[Span]:
    """Divide policies into ranges of at most ``most`` states, or of one policy."""
    ranges: list[Span] = []
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
        ranges.append((first, max(last, first + 1)))
        first = ranges[-1][1]
    return ranges


Array = NDArray[np.float64]
_ROWS = 1 << 16
_COPY = 0.99  # absolute correlation above which a feature is a copy of another
_FEWEST, _MOST = 100, 50_000  # states that correlations are computed from
_BLOCK = 256  # features


class Moments:
    """Pooled mean and standard deviation of all rows added so far, in float64."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Array = np.zeros(1)
        self._squares: Array = np.zeros(1)

    def add(self, count: int, mean: Array, squares: Array) -> None:
        """Add rows by their number, mean and sums of squared deviations, as of `moments_of`.

        The formula of Chan, Golub and LeVeque (1983) does not cancel.
        """
        shift, total = mean - self.mean, self.count + count
        self.mean = self.mean + shift * (count / total)
        self._squares = self._squares + squares + shift**2 * (self.count * count / total)
        self.count = total

    @property
    def scale(self) -> Array:
        """Standard deviation of each column; 1 where it is constant.

        States are float32: a deviation of at most 1e-7 of the mean is rounding.
        """
        deviation = np.sqrt(self._squares / self.count)
        return np.where(deviation <= 1e-7 * np.abs(self.mean), 1.0, deviation)


def moments_of(rows: NDArray[Any]) -> tuple[int, Array, Array]:
    """Return the number of rows, their mean, and the sums of squared deviations from it."""
    mean = rows.mean(axis=0, dtype=np.float64)
    return len(rows), mean, ((rows - mean) ** 2).sum(axis=0)


def distinct_features(data: VisitedStates) -> NDArray[np.intp]:
    """Return the numbers of all features except copies of an earlier one, and warn of those.

    Copies have a correlation above 0.99, or below −0.99, with the earlier one over all states, of
    which many are thinned. Constant features are copies of none, and neither are values of a
    Discrete (``x=3``).

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> data = VisitedStates.from_arrays([[x]], feature_names=["x", "y"])
    >>> distinct_features(data).tolist()
    [0, 1]
    """
    n, names = data.n_features, np.array(data.feature_names)
    sample = thin(data, np.random.default_rng(0), max_states=min(_MOST, max(2_000, 10**8 // n)))
    original = np.arange(n)
    if sample.n_states < _FEWEST:
        return original
    rows = sample.rows(0, sample.n_states).astype(np.float64)
    moments = Moments()
    with np.errstate(invalid="ignore", over="ignore"):  # the fit rejects NaN
        moments.add(*moments_of(rows))
        rows = (rows - moments.mean) / (moments.scale * np.sqrt(len(rows)))
        rows[:, ["=" in name for name in data.feature_names]] = 0.0
        for first in range(0, n, _BLOCK):
            block = np.abs(rows[:, first : first + _BLOCK].T @ rows) > _COPY
            for j, alike in enumerate(block, first):
                alike[: j + 1] = False
                if original[j] == j:
                    original[alike & (original == np.arange(n))] = j
    distinct, n_copies = np.unique(original, return_counts=True)
    groups = [", ".join(names[original == j]) for j in distinct[n_copies > 1]]
    if groups:
        each = " each" if len(groups) > 1 else ""
        known = shortened("; ".join(" and ".join(group.rsplit(", ", 1)) for group in groups), 300)
        warnings.warn(
            f"{known} are{each} copies of each other (|r| > {_COPY}) and are counted once",
            PivecWarning,
            stacklevel=3,
        )
    return distinct


def warn_of_constants(data: VisitedStates) -> None:
    """Warn if most features are constant; a few are in many environments.

    Values of a Discrete that are never visited (``x=3``) do not count. Also warn of features that
    only say which policy it is, such as a number of the run in a log.
    """
    within = np.zeros(data.n_features, dtype=bool)  # of a policy
    varies, value = within.copy(), data.rows(0, 1)[0].copy()
    for number in range(data.n_policies):
        states = data.policy_states(number)
        varies |= states[0] != value
        for begin in range(0, len(states), _ROWS):
            within |= (states[begin : begin + _ROWS] != states[0]).any(axis=0)
        if within.all():  # most often after the first policy
            break
    varies |= within
    own = [data.feature_names[column] for column in np.flatnonzero(varies & ~within)]
    own = [name for name in own if "=" not in name]
    if own and within.any():
        warnings.warn(
            f"features are constant within each policy but differ between them: {own[:3]}; so "
            "distances show which policy it is: leave them out unless they are behaviour "
            "(tables: --ignore-columns of `pivec import`)",
            PivecWarning,
            stacklevel=3,
        )
    known = zip(data.feature_names, varies.tolist(), strict=True)
    counted = [(name, differs) for name, differs in known if "=" not in name]
    same = [name for name, differs in counted if not differs]
    if 2 * len(same) <= len(counted) or data.n_states == 1:
        return
    names = ", ".join(same[:3]) + (", ..." if len(same) > 3 else "")
    message = (
        f"{len(same)} of {len(counted)} features are the same in every state of every policy "
        f"({names}), so distances depend only on the others: if that is not intended, choose other "
        "--features (from Python features=)"
    )
    if not varies.any():
        message = (
            f"all {data.n_states} states of all policies are identical, so states cannot "
            "distinguish policies: check the environment, or choose other --features (from Python "
            "features=)"
        )
    warnings.warn(message, PivecWarning, stacklevel=3)
