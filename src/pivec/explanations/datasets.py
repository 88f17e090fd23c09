"""What recorded episodes are like as a dataset: near-duplicates, drift, and what others reach."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pivec.explanations.differences import welch
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature
from pivec.explanations.unusual import episode_means
from pivec.results import Row
from pivec.states import VisitedStates, thinned_alike
from pivec.statistics import (
    RATE,
    benjamini_hochberg,
    near_duplicates,
    order_test,
    reached_share,
)
from pivec.text import n_policies, percent, thousands

Array = NDArray[np.float64]
_MOST = 10_000  # episodes among which duplicates are sought
_TIMES = 16  # of an episode at which it is compared with others
_NAMED = 3  # policies without drift
_OTHERS, _REACHING = 20, 1000  # policies whose coverage is measured, and episodes of each
_STATES = 5000  # of a policy, for the same
_FEWEST, _ORDERED = 20, 500  # episodes in a test of their order
_LEAST_VARIANCE = 1e-6  # within an episode, of that of all states
_CHANGED = 0.05  # share of time in a region by which it has changed
_FEATURES, _REGIONS = 3, 2  # that are listed of those that have changed
_TENTHS = 10


@dataclass(frozen=True)
class Duplicate:
    """An episode that is nearly the same as others, or exactly; the fields are columns."""

    group: int  # from 1; episodes of one group are nearly the same
    policy: str
    episode: int
    exact: bool  # whether all states are those of another episode of the group
    distance: float  # from the nearest of the group: root mean square, in deviations of states
    others: float  # from the nearest episode outside the group; NaN if there are too few


@dataclass(frozen=True)
class Reach:
    """How much of a dataset another policy reaches, and how much it does elsewhere.

    The fields are the columns of coverage.csv. NaN where there are too few episodes.
    """

    policy: str
    dataset: str
    reached: float  # share of the dataset's time
    reached_low: float
    reached_high: float
    outside: float  # share of the policy's time
    outside_low: float
    outside_high: float
    # Places visited by a smaller share of the dataset's episodes count as reached,
    reached_resolution: float
    outside_resolution: float  # and by a smaller share of the policy's as inside.

    @property
    def words(self) -> str:
        """Both shares with their intervals, in one sentence."""
        reached, outside = (
            f"{percent(share)} ({percent(low)} to {percent(high)})"
            for share, low, high in (
                (self.reached, self.reached_low, self.reached_high),
                (self.outside, self.outside_low, self.outside_high),
            )
        )
        return (
            f"{self.policy} reaches {reached} of where {self.dataset} spends its time; {outside} "
            "of its own time lies outside"
        )


@dataclass(frozen=True)
class Change:
    """What is different in the last third of the episodes; the fields are columns of drift.csv."""

    policy: str
    p: float  # that the order of episodes does not matter
    q: float  # the same among all policies
    quantity: str  # a feature, region or outcome; empty if none is known to have changed
    first: float  # mean over the first third of the episodes
    last: float
    deviations: float  # of states (features) or episodes (lengths, outcomes); NaN for regions
    words: str
    tenths: tuple[float, ...]  # means over tenths of the episodes


@dataclass(frozen=True)
class Drift:
    """Whether the episodes of a policy depend on the order in which they were recorded."""

    policy: str
    p_value: float  # by permutation, of features and of regions, whichever is clearer
    q_value: float  # the same among all policies
    changes: tuple[Change, ...]  # the clearest ones, if the episodes depend on their order

    @property
    def words(self) -> str:
        """What has changed most if there is drift."""
        p = f"(p = {self.p_value:.2g})"
        what = "; ".join(change.words for change in self.changes[:2] if change.words)
        found = f"the episodes of {self.policy} depend on their recording order {p}"
        return (
            f"{found}: {what}"
            if what
            else f"{found}, but no mean of a feature and no region alone does"
        )


@dataclass(frozen=True)
class Datasets:
    """What is known of recorded episodes besides their kinds."""

    duplicates: tuple[Duplicate, ...]
    reach: tuple[Reach, ...]
    drift: tuple[Drift, ...]
    sought: int  # episodes among which duplicates were sought
    total: int

    @cached_property
    def groups(self) -> list[list[Duplicate]]:
        """Groups of near-duplicates."""
        found: dict[int, list[Duplicate]] = {}
        for row in self.duplicates:
            found.setdefault(row.group, []).append(row)
        return list(found.values())

    @property
    def coverage(self) -> list[str]:
        """What each policy reaches of the dataset, and of how many that is not known."""
        known = [row.words for row in self.reach if np.isfinite(row.reached + row.outside)]
        if rest := len(self.reach) - len(known):
            known.append(
                f"{n_policies(rest)} cannot be compared with {self.reach[0].dataset}: about 18 "
                "episodes of each are needed, more if the other has many"
            )
        return known

    @property
    def drifting(self) -> list[Drift]:
        """The policies whose episodes depend on their order."""
        return [row for row in self.drift if row.q_value <= RATE]

    @property
    def steady(self) -> str:
        """The policies without drift, in words; empty if there are none."""
        rest = [row for row in self.drift if row.q_value > RATE]
        if not rest:
            return ""
        names = ", ".join(row.policy for row in rest)
        if len(rest) > _NAMED:
            names = f"{thousands(len(rest))} policies"
        p = f"p = {min(row.p_value for row in rest):.2g}{' or more' * (len(rest) > 1)}"
        return f"no drift over the recording order of {names} was found ({p})"

    @property
    def words(self) -> str:
        """How many near-duplicates there are."""
        among = f"{'the first ' * (self.sought < self.total)}{thousands(self.sought)} episodes"
        if not self.duplicates:
            return f"no near-duplicates among {among}"
        exact = sum(row.exact for row in self.duplicates)
        n = len(self.groups)
        return (
            f"{thousands(len(self.duplicates))} of {among} are near-duplicates, in {thousands(n)} "
            f"group{'s' * (n != 1)}; {thousands(exact) if exact else 'none'} are exact copies"
        )

    def tables(self) -> dict[str, list[Row]]:
        """Return the rows of CSV files by the names of these."""
        changes = [
            {name: value for name, value in vars(row).items() if name not in ("words", "tenths")}
            for drift in self.drift
            for row in drift.changes
        ]
        parts = {"duplicates.csv": self.duplicates, "coverage.csv": self.reach}
        return {name: [vars(row) for row in rows] for name, rows in parts.items()} | {
            "drift.csv": changes
        }


def explore_datasets(comparison: ComparisonFolder) -> Datasets | None:
    """Find near-duplicates and drift of recorded episodes, and what other policies reach of them.

    Episodes without a seed were recorded, and all if nothing was simulated. The first recorded
    policy that is no checkpoint is the dataset of which others reach a part. None if nothing was
    recorded.

    Examples
    --------
    >>> import pivec, tempfile
    >>> rng = np.random.default_rng(0)
    >>> demos = [rng.normal(3.0 * (e % 2), 1, (30, 2)) for e in range(40)]
    >>> demos[7] = demos[3].copy()
    >>> data = {"demos": demos, "rollouts": [rng.normal(0, 1, (30, 2)) for e in range(40)]}
    >>> done = pivec.compare(data, out=tempfile.mkdtemp(), components=4)
    >>> found = explore_datasets(ComparisonFolder.open(done))
    >>> found.words
    '2 of 80 episodes are near-duplicates, in 1 group; 2 are exact copies'
    >>> [row.episode for row in found.duplicates], found.drift[0].p_value > 0.05
    ([3, 7], True)
    """
    if comparison.data is None:
        return None
    everything = comparison.space.collected.get("backend") == "recorded"
    recorded = [
        record.info.label
        for record in comparison.data.records
        if everything or bool((record.episodes["seed"] < 0).all())
    ]
    if not recorded:
        return None
    [data] = thinned_alike(comparison.data)
    own = data.select(recorded)
    datasets = [info.label for info in own.policies if info.step is None]
    each = own if own.n_episodes <= _MOST else _first(own, max(1, _MOST // len(own)))
    return Datasets(
        tuple(_duplicates(comparison, each)),
        tuple(_reach(comparison, data, datasets[0])) if datasets else (),
        tuple(_drift(comparison, recorded)),
        each.n_episodes,
        own.n_episodes,
    )


def _first(data: VisitedStates, episodes: int) -> VisitedStates:
    records = [record.first(episodes) for record in data.records]
    return VisitedStates(records, data.feature_names, data.environment)


def _states_at(
    comparison: ComparisonFolder, data: VisitedStates, times: int, shift: Array | float = 0.5
) -> Array:
    """States of each episode at so many relative times, (n_episodes, times, n_features).

    ``shift`` is where in its interval each time is, from 0 to 1, also one number per episode.
    """
    at = (np.arange(times) + np.reshape(shift, (-1, 1))) / times
    rows = (at * data.lengths[:, None]).astype(np.int64) + data.episode_starts[:-1, None]
    states = data.take(rows.ravel()).reshape(*rows.shape, -1).astype(np.float64)
    return np.asarray(states[:, :, list(comparison.space.method.described_features)])


def _deviations(states: Sequence[Array]) -> Array:
    """Deviations of features over several sets of episodes that count the same; 1 for constants."""
    means = np.mean([own.mean(axis=(0, 1)) for own in states], axis=0)
    squares = np.mean([((own - means) ** 2).mean(axis=(0, 1)) for own in states], axis=0)
    return np.asarray(np.sqrt(np.where(squares > 0.0, squares, 1.0)))


def _duplicates(comparison: ComparisonFolder, data: VisitedStates) -> Iterator[Duplicate]:
    """Find exact copies by all their states, and near ones by states at the same relative times."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    states = _states_at(comparison, data, _TIMES)
    points = (states / _deviations([states])).reshape(len(states), -1)
    candidates: dict[tuple[int, bytes], list[int]] = {}
    for e, length in enumerate(data.lengths.tolist()):
        candidates.setdefault((length, points[e].tobytes()), []).append(e)
    original = np.arange(len(points))
    for alike in candidates.values():
        contents: dict[bytes, int] = {}
        for e in alike if len(alike) > 1 else ():
            content = data.rows(*data.episode_starts[e : e + 2].tolist()).tobytes()
            original[e] = contents.setdefault(hashlib.blake2b(content).digest(), e)
    kept = np.flatnonzero(original == np.arange(len(points)))
    rows, others, nearest, outside = near_duplicates(points[kept])
    width = np.sqrt(points.shape[1])
    place = np.searchsorted(kept, original)  # of each episode among those that differ
    links = csr_array((np.ones(len(rows)), (rows, others)), shape=(len(kept), len(kept)))
    group = connected_components(links, directed=False)[1][place]
    copies = np.bincount(place)[place] > 1
    order = np.argsort(group, kind="stable")
    members = [own for own in np.split(order, np.cumsum(np.bincount(group))[:-1]) if len(own) > 1]
    for number, own in enumerate(sorted(members, key=lambda own: int(own[0])), 1):
        for e in own.tolist():
            policy = int(np.searchsorted(data.policy_starts, e, side="right")) - 1
            distance = 0.0 if copies[e] else float(nearest[place[e]] / width)
            yield Duplicate(
                number,
                data.labels[policy],
                int(e - data.policy_starts[policy]),
                bool(copies[e]),
                distance,
                float(outside[place[e]] / width),
            )


def _reach(comparison: ComparisonFolder, data: VisitedStates, dataset: str) -> Iterator[Reach]:
    """Measure how much of a dataset's time each other policy reaches, and the reverse."""
    others = [label for label in data.labels if label != dataset]
    if len(others) > _OTHERS:
        return
    samples = {}
    for label in (dataset, *others):
        rng = np.random.default_rng(0)
        some = data[label].sample_episodes(_REACHING, rng, at_most=True)
        samples[label] = some, rng.random(some.n_episodes)
    # As many states of each episode of both sides, so that none are nearer because they are more.
    for label in others:
        both = [samples[dataset], samples[label]]
        times = max(1, _STATES // max(some.n_episodes for some, _ in both))
        states = [_states_at(comparison, some, times, shift) for some, shift in both]
        deviations = _deviations(states)
        a, b = (own / deviations for own in states)
        there, within = reached_share(b, a), reached_share(a, b)
        reached = outside = (np.nan,) * 3
        if there is not None:
            reached = there.share, there.low, there.high
        if within is not None:
            outside = 1.0 - within.share, 1.0 - within.high, 1.0 - within.low
        scales = (np.nan if x is None else x.resolution for x in (there, within))
        yield Reach(label, dataset, *reached, *outside, *scales)


def _drift(comparison: ComparisonFolder, labels: Sequence[str]) -> Iterator[Drift]:
    """Test whether the episodes of each policy depend on their order, and find what changed."""
    tests = []
    for label in labels:
        [data] = thinned_alike(comparison.states[label])
        if data.n_episodes < _FEWEST:
            continue
        rows = np.linspace(0, data.n_episodes - 1, min(data.n_episodes, _ORDERED)).astype(np.intp)
        some = VisitedStates([data.records[0].only(rows)], data.feature_names, data.environment)
        p = order_test(_moments(comparison.space.method.view(some)), single=True).p_value
        if comparison.has_regions:
            shares = np.sqrt(comparison.background.episode_shares(some))
            p = min(2.0 * min(p, order_test(shares).p_value), 1.0)
        tests.append((label, data, p))
    q_values = benjamini_hochberg([p for *_, p in tests]).tolist()
    for (label, data, p), q in zip(tests, q_values, strict=True):
        changes = list(_changes(comparison, data, p, q)) if q <= RATE else []
        nothing = Change(label, p, q, "", np.nan, np.nan, np.nan, "", ())
        yield Drift(label, p, q, tuple(changes or [nothing]))


def _moments(data: VisitedStates) -> Array:
    """Means and logarithms of deviations of the features of each episode."""
    states = data.states.astype(np.float64)
    deviations = states.std(axis=0)
    states = (states - states.mean(axis=0)) / np.where(deviations > 0.0, deviations, 1.0)
    starts, lengths = data.episode_starts, data.lengths[:, None]
    means = np.add.reduceat(states, starts[:-1], axis=0) / lengths
    states = (states - np.repeat(means, data.lengths, axis=0)) ** 2
    variances = np.add.reduceat(states, starts[:-1], axis=0) / lengths
    return np.hstack([means, np.log(variances + _LEAST_VARIANCE)])


def _changes(
    comparison: ComparisonFolder, data: VisitedStates, p: float, q: float
) -> Iterator[Change]:
    """Compare the first with the last third of episodes: features, outcomes, regions."""
    means, deviations, shares = episode_means(comparison, data)
    outcomes = {"length": data.episode_steps + 1.0, "return": data.returns, **data.outcomes}
    numbers = {
        name: values.astype(np.float64)
        for name, values in outcomes.items()
        if values.dtype != object and np.isfinite(values).all()
    }
    columns = np.column_stack([means, *numbers.values(), shares])
    names = [*comparison.features, *map(Feature, numbers), *[None] * shares.shape[1]]
    scales = np.concatenate(
        [
            deviations,
            [values.std() or np.inf for values in numbers.values()],
            np.full(shares.shape[1], np.nan),
        ]
    )
    third = len(columns) // 3
    first, last = columns[:third].mean(axis=0), columns[-third:].mean(axis=0)
    p_values = welch(columns[:third], columns[-third:])[2]
    # Where neither third varies, a difference is certain.
    certain = np.isnan(p_values) & (first != last)
    sure = benjamini_hochberg(np.where(certain, 0.0, p_values)) <= RATE
    moved = (last - first) / scales
    region = np.isnan(scales)
    sure &= ~region | (np.abs(last - first) >= _CHANGED)
    size = np.where(region, np.abs(last - first), np.abs(moved))
    parts = [np.mean(own, axis=0) for own in np.array_split(columns, _TENTHS)]
    order = np.argsort(-size, kind="stable")
    order = order[sure[order]]
    for c in [*order[~region[order]][:_FEATURES], *order[region[order]][:_REGIONS]]:
        feature = names[c]
        if feature is None:
            k = c - len(columns[0]) + shares.shape[1]
            name = f"region {k}: {comparison.region_names[k]}"
            words = f"{percent(first[c])} → {percent(last[c])} of the time in {name}"
        else:
            name = feature.name
            shown = " → ".join(f"{x:.3g}" for x in (first[c], last[c])).replace("-", "−")
            words = f"{name} {feature.with_unit(shown)} ({abs(moved[c]):.2g} deviations)"
        tenths = tuple(float(part[c]) for part in parts)
        values = float(first[c]), float(last[c]), float(moved[c])
        yield Change(data.labels[0], p, q, name, *values, words, tenths)
