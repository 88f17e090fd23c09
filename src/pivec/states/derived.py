"""Data made of data: of several sources, of episodes put together anew, of fewer states."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.errors import BadData, PivecWarning, UsageError
from pivec.parallel import Engine, current, make_engine
from pivec.states.visited import VisitedStates

_MOST_TO_DRAW_FROM = 10**9  # of NumPy's hypergeometric distribution


def joined(parts: Sequence[VisitedStates]) -> VisitedStates:
    """Put the policies of all parts one after another, without copying states.

    Their labels must differ.

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
            "data that are put together must have the same features, and all or none of them "
            f"actions, but have {' and '.join(str(len(features)) for features in names)} features"
        )
    records = [record for part in parts for record in part.records]
    return VisitedStates(records, parts[0].feature_names, parts[0].environment)


def regrouped(parts: Sequence[VisitedStates], groups: Sequence[NDArray[Any]]) -> VisitedStates:
    """Make a policy of each group of episodes, numbered through all parts.

    States, actions and returns are kept; who acted is not.
    """
    episodes = [
        episode for part in parts for record in part.records for episode in record.as_episodes()
    ]
    policies = [[episodes[i] for i in group] for group in groups]
    actions = None
    if all(part.has_actions for part in parts):
        actions = [[np.asarray(episode.actions) for episode in policy] for policy in policies]
    return VisitedStates.from_arrays(
        [[episode.states for episode in policy] for policy in policies],
        returns=[[episode.total_reward for episode in policy] for policy in policies],
        actions=actions,
        feature_names=parts[0].feature_names,
        environment=parts[0].environment,
    )


def held(data: VisitedStates) -> VisitedStates:
    """Read all states into memory, once, for what goes through them many times.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0]], [[1.0]]]])
    >>> held(data[:1]).states.tolist()
    [[0.0], [1.0]]
    """
    records = [
        replace(record, read_arrays=partial(_same, record.read_arrays())) for record in data.records
    ]
    return VisitedStates(records, data.feature_names, data.environment)


def _same(arrays: Any) -> Any:
    return arrays


class ThinnedStates:
    """Some states of each policy, gathered from the data when they are needed.

    Has what a fit needs of `VisitedStates`: ``n_states``, ``n_features``, ``rows``.
    """

    def __init__(self, data: VisitedStates, rows: NDArray[np.int64]) -> None:
        self._data, self._rows = data, rows  # sorted numbers of the states
        self.n_states = len(rows)
        self.n_features = data.n_features

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """States ``first`` to ``last - 1``, or to the end."""
        return self._data.take(self._rows[first:last])

    def without_policies(self) -> ThinnedStates:
        """Give the same states without the policies themselves."""
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
) -> VisitedStates | ThinnedStates:
    """Draw at most so many policies, episodes of each, and states in all.

    With ``sampling="even"`` every policy gives the same number of states, or all it has if that is
    fewer; with "uniform" every state is as likely as any other, whoever visited it. Nothing is
    copied until rows are asked for.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[np.zeros((100, 1))], [np.ones((10, 1))]])
    >>> thinned = thin(data, np.random.default_rng(0), max_states=30)
    >>> thinned.rows(0, 30).sum(), thinned.n_states
    (np.float32(10.0), 30)
    """
    if max_policies is not None and max_policies < len(data):
        data = data.select(np.sort(rng.choice(len(data), size=max_policies, replace=False)))
    if max_episodes is not None and max_episodes < np.diff(data.policy_starts).max():
        data = data.sample_episodes(max_episodes, rng, at_most=True)
    if max_states is None or max_states >= data.n_states:
        return data
    sizes = np.diff(data.state_starts)
    quotas = _quotas(sizes, max_states, rng, sampling)
    rows = [
        begin + np.sort(rng.choice(size, size=quota, replace=False))
        for begin, size, quota in zip(data.state_starts[:-1], sizes, quotas, strict=True)
    ]
    return ThinnedStates(data, np.concatenate(rows))


def _quotas(
    sizes: NDArray[np.int64], total: int, rng: np.random.Generator, sampling: str
) -> NDArray[np.int64]:
    """Tell how many of ``total`` states come from each of the policies of these sizes."""
    if sampling == "even":
        return _even_quotas(sizes, total)
    if sizes.sum() >= _MOST_TO_DRAW_FROM:
        raise UsageError(
            f"states are drawn uniformly of fewer than {_MOST_TO_DRAW_FROM:,}, but there are "
            f"{sizes.sum():,}: cap policies or episodes too, or draw evenly over the policies"
        )
    # What a draw of all states without replacement takes of each policy; no list of all is needed.
    return rng.multivariate_hypergeometric(sizes, total, method="marginals")


def _even_quotas(sizes: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Share ``total`` out over policies of these sizes as evenly as they allow."""
    quotas = np.zeros_like(sizes)
    order = np.argsort(sizes, kind="stable")
    left = total
    for position, policy in enumerate(order):
        share = left // (len(order) - position)  # the smallest first: what they lack goes on
        quotas[policy] = min(sizes[policy], share)
        left -= int(quotas[policy])
    return quotas


# -----------------------------------------------------------------------------
# Going through states in parts, which are cut by the data alone, wherever the engine has workers.
#
# A part is a range of rows or of policies; what goes back and forth are its numbers and what comes
# of it. The states themselves are read where the part is worked on.


Span = tuple[int, int]
_VALUES = 1 << 23  # float32 numbers of a run of policies: 32 MB


@dataclass(frozen=True)
class Sent:
    """Something to read states from, which goes to other processes without the policies.

    Data of a store are the paths of its files then, and others are sent whole.
    """

    source: Any

    def __reduce__(self) -> tuple[Any, ...]:
        strip = getattr(self.source, "without_policies", lambda: self.source)
        return Sent, (strip(),)


def engine_for(parts: Sequence[Any]) -> Engine:
    """Give the engine for these parts: a single one is not worth the way to another process."""
    return current() if len(parts) > 1 else make_engine("serial")


def over_policies(
    function: Callable[..., Any],
    data: VisitedStates,
    *arguments: Any,
    runs: Sequence[Span] | None = None,
) -> Iterator[Any]:
    """Give ``function(run, *arguments)`` for one run of policies after another.

    ``runs`` are the first and the last policy, less one, of each; by default they have about 32 MB
    of states. The function is at the top level of a module.
    """
    most = max(1, _VALUES // data.n_features)
    parts = runs_of(data.state_starts, most) if runs is None else runs
    engine = engine_for(parts)
    shared = engine.share(Sent(data)), engine.share(arguments)
    return engine.in_order(_over_run, parts, function, *shared)


def _over_run(
    run: Span, function: Callable[..., Any], sent: Sent, arguments: tuple[Any, ...]
) -> Any:
    return function(sent.source.select(range(*run)), *arguments)


def runs_of(starts: NDArray[np.int64], most: int) -> list[Span]:
    """Cut policies, which begin at ``starts``, into runs of at most so much, or of one policy.

    Examples
    --------
    >>> runs_of(np.array([0, 3, 5, 20, 22]), 6)
    [(0, 2), (2, 3), (3, 4)]
    """
    runs: list[Span] = []
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
        runs.append((first, max(last, first + 1)))
        first = runs[-1][1]
    return runs


# -----------------------------------------------------------------------------
# Pooled moments of rows that come in blocks, and features that are constant.


Array = NDArray[np.float64]
_ROWS = 1 << 16
_NAMED = 3


class Moments:
    """Mean and squared deviations of all rows added so far, in float64.

    Examples
    --------
    >>> pooled = Moments()
    >>> pooled.add(*moments_of(np.array([[0.0, 7.0], [2.0, 7.0]])))
    >>> pooled.add(*moments_of(np.array([[4.0, 7.0]])))
    >>> pooled.mean, pooled.scale.round(2)
    (array([2., 7.]), array([1.63, 1.  ]))
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean: Array = np.zeros(1)
        self._squares: Array = np.zeros(1)

    def add(self, count: int, mean: Array, squares: Array) -> None:
        """Add so many rows of this mean and these sums of squared deviations from it.

        By the formula of Chan, Golub and LeVeque 1983, which does not cancel.
        """
        shift, total = mean - self.mean, self.count + count
        self.mean = self.mean + shift * (count / total)
        self._squares = self._squares + squares + shift**2 * (self.count * count / total)
        self.count = total

    @property
    def scale(self) -> Array:
        """The deviation of each column; 1 where it is constant.

        States are float32: a deviation of at most 1e-7 of the mean is only their rounding.
        """
        deviation = np.sqrt(self._squares / self.count)
        return np.where(deviation <= 1e-7 * np.abs(self.mean), 1.0, deviation)


def moments_of(rows: NDArray[Any]) -> tuple[int, Array, Array]:
    """Number of rows, their mean, and the sums of squared deviations from it."""
    mean = rows.mean(axis=0, dtype=np.float64)
    return len(rows), mean, ((rows - mean) ** 2).sum(axis=0)


def constant_features(data: VisitedStates) -> list[str]:
    """Name the features that have one value in all states.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0, 1.0], [0.0, 2.0]]], [[[0.0, 3.0]]]])
    >>> constant_features(data)
    ['x[0]']
    """
    beginning = data.rows(0, _ROWS)
    value = beginning[0].copy()
    varies = (beginning != value).any(axis=0)
    # Most often this is all: nothing is sent for it.
    firsts = () if varies.all() else range(_ROWS, data.n_states, _ROWS)
    parts = [(first, first + _ROWS) for first in firsts]
    engine = engine_for(parts)
    for varies_there in engine.in_order(_varies, parts, engine.share(Sent(data)), value):
        varies |= varies_there
        if varies.all():
            break
    return [data.feature_names[i] for i in np.flatnonzero(~varies)]


def _varies(span: Span, sent: Sent, value: NDArray[np.float32]) -> NDArray[np.bool_]:
    return np.asarray((sent.source.rows(*span) != value).any(axis=0))


def warn_of_constants(data: VisitedStates) -> None:
    """Warn if most features are the same in all states; a few are in many environments.

    A value of a Discrete that nobody visits (``x=3``) is no feature of its own: it does not count.
    """
    counted = [name for name in data.feature_names if "=" not in name]
    same = [name for name in constant_features(data) if "=" not in name]
    if 2 * len(same) <= len(counted) or data.n_states == 1:
        return
    names = ", ".join(same[:_NAMED]) + (", ..." if len(same) > _NAMED else "")
    warnings.warn(
        f"{len(same)} of {len(counted)} features are the same in every state of every policy "
        f"({names}), so distances follow from the rest alone: if that is not meant, choose other "
        "--features (from Python features=)",
        PivecWarning,
        stacklevel=3,
    )
