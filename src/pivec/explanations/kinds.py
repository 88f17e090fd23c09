"""Kinds of episodes: clusters of the episodes of all policies, and each policy's shares of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import BackgroundModel
from pivec.explanations.differences import CLEARLY, percent_range, welch
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.unusual import compared_words
from pivec.policies import canonical_order
from pivec.results import Row, html_table
from pivec.states import VisitedStates, over_policies, policy_ranges, thinned_alike
from pivec.statistics import (
    RATE,
    EpisodeClusters,
    cluster_episodes,
    mmd_test,
    mmd_tests,
    wilson_intervals,
)
from pivec.text import percent

Array = NDArray[np.float64]
_SAMPLE = 1000  # episodes that are clustered; all are assigned
_COUNTED, _AT_ONCE = 100_000, 2000  # episodes of which shares are counted: of all, and at a time
_TESTED = 100  # episodes of each policy in a test
_CLEAR = 0.5  # deviations of all states: difference of a feature's mean that is named
_MIXTURE = 0.5  # times as far from all others together as from the nearest: it mixes them
_MIXED = "a mixture of the others"
_LINES = 3  # kinds that are listed for two policies


@dataclass(frozen=True)
class EpisodeKind:
    """A kind of episodes."""

    number: int  # from 1, the most frequent first
    name: str  # what distinguishes its episodes from the others
    share: float  # of the episodes that were clustered, as many of each policy
    mean_length: float  # in states
    mean_return: float  # NaN if it is not known
    policy: str  # of its most typical episode
    episode: int
    seed: int | None  # of that episode; None if it is not known


@dataclass(frozen=True, eq=False)
class EpisodeKinds:
    """The kinds of episodes of a comparison, and how many of each policy's episodes are of each."""

    kinds: tuple[EpisodeKind, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    counts: NDArray[np.int64]  # (n_policies, n_kinds)
    separation: float  # mean silhouette, from −1 to 1; NaN if there is one kind
    first: int | None = None  # episodes of each policy that were counted; None for all

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def shares(self) -> Array:
        """Share of each kind in the episodes of each policy, (n_policies, n_kinds)."""
        return np.asarray(self.counts / self.counts.sum(axis=1, keepdims=True))

    def intervals(self, level: float = 0.95) -> tuple[Array, Array]:
        """Ends of the (Wilson) intervals of the shares."""
        return wilson_intervals(self.counts, self.counts.sum(axis=1, keepdims=True), level)

    def share_table(self, most: int) -> list[tuple[str, list[tuple[float, str]]]]:
        """Return the shares of each policy with their intervals as text, or of runs if too many."""
        if len(self.labels) <= most or not any(self.groups):
            ends = np.stack(self.intervals(), axis=2)
            return [
                (label, [(x, percent_range(pair)) for x, pair in zip(row, own, strict=True)])
                for label, row, own in zip(self.labels, self.shares.tolist(), ends, strict=True)
            ]
        names, runs = np.unique(self.groups, return_inverse=True)
        means = np.eye(len(names))[:, runs] @ self.shares / np.bincount(runs)[:, None]
        rows = zip(names.tolist(), means.tolist(), strict=True)
        return [(name, [(share, "") for share in row]) for name, row in rows]

    def headline(self) -> str:
        """Say how many kinds there are."""
        if len(self) == 1:
            return "no distinct kinds of episodes"
        return f"{len(self)} kinds of episodes"

    def rows(self) -> list[Row]:
        """Return one row per policy and kind: how many episodes are of this kind, and its share."""
        shares, (low, high) = self.shares, self.intervals()
        return [
            {
                "policy": label,
                "kind": kind.number,
                "name": kind.name,
                "episodes": int(self.counts[i, k]),
                "share": float(shares[i, k]),
                "low": float(low[i, k]),
                "high": float(high[i, k]),
            }
            for i, label in enumerate(self.labels)
            for k, kind in enumerate(self.kinds)
        ]

    def _repr_html_(self) -> str:
        """Show the kinds in a notebook."""
        rows = [vars(kind) for kind in self.kinds]
        return html_table(self.headline(), rows, len(rows))


@dataclass(frozen=True)
class EpisodeDifference:
    """Whether the episodes of two policies differ as a whole, and in which kinds."""

    p_value: float  # of the same distribution of episodes, by permutation
    discrepancy: float  # squared maximum mean discrepancy, without bias
    kinds: EpisodeKinds
    steadier: int | None  # the policy (0 or 1) whose episodes are clearly more alike

    @property
    def mixes(self) -> int | None:
        """The policy (0 or 1) that does within its episodes what the other does in several kinds.

        Most of its episodes, and few of the other's, are of a kind that mixes the others.
        """
        mixtures = [kind.name == _MIXED for kind in self.kinds.kinds]
        a, b = self.kinds.shares[:, mixtures].sum(axis=1).tolist()
        return None if abs(a - b) < 0.5 else int(b > a)

    def words(self, names: Sequence[str], on_average: str) -> list[str]:
        """Say it in sentences, with the names of both policies: the test, then the kinds.

        ``on_average`` says that both are alike on average; empty if they are not.
        """
        p = f"(p = {self.p_value:.2g})"
        if self.p_value > RATE:
            return [f"no difference between their episodes as a whole was found {p}"]
        test = f"their episodes differ as a whole {p}"
        if on_average:
            test = f"{on_average}, but {test}"
            if (which := self.mixes) is not None:
                a, b = names[which], names[1 - which]
                test += f": {a} mixes habits within episodes, {b} has one per episode"
            elif (which := self.steadier) is not None:
                test += f": those of {names[which]} are more alike than those of {names[1 - which]}"
        lines, shares = [test], self.kinds.shares
        if len(self.kinds) > 1:
            order = np.argsort(-np.abs(shares[0] - shares[1]), kind="stable")
            for k in order[shares[:, order].any(axis=0)][:_LINES].tolist():
                a, b = (f"{percent(shares[i, k])} of {names[i]}" for i in (0, 1))
                lines.append(f"kind {k + 1} ({self.kinds.kinds[k].name}): {a}, {b}")
        return lines


@dataclass(frozen=True, eq=False)
class ClusteredEpisodes:
    """Episodes with their kinds, and where they are in the directions in which they differ most."""

    kinds: EpisodeKinds
    data: VisitedStates  # whose states are equally thinned
    numbers: NDArray[np.intp]  # kind of each episode, from 1
    coordinates: Array  # (n_episodes, n_directions)
    sample: Array  # of the episodes that were clustered, in an order that policies do not decide


def find_kinds(
    comparison: ComparisonFolder, labels: Sequence[str] | None = None
) -> EpisodeKinds | None:
    """Find the kinds of episodes of a comparison, and their shares in the episodes of policies.

    Episodes are clustered by the share of time that they spend in each region, a sample of all
    policies' (see `pivec.statistics.cluster_episodes`). None without regions or without states.

    Examples
    --------
    >>> import pivec, tempfile
    >>> rng = np.random.default_rng(0)
    >>> walks = [rng.normal(5 * (e % 2), 1, (30, 2)) for e in range(20)]
    >>> done = pivec.compare({"a": walks, "b": walks[::2]}, out=tempfile.mkdtemp(), components=4)
    >>> find_kinds(ComparisonFolder.open(done)).shares
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    found = cluster_comparison(comparison, labels)
    return None if found is None else found.kinds


def cluster_comparison(
    comparison: ComparisonFolder, labels: Sequence[str] | None = None
) -> ClusteredEpisodes | None:
    """Assign episodes to kinds, as `find_kinds`: all, or of many the first ones of each policy."""
    if comparison.data is None or not comparison.has_regions:
        return None
    [whole] = thinned_alike(comparison.data)
    data, first = whole, None
    if whole.n_episodes > _COUNTED:
        first = max(1, _COUNTED // len(whole))
        records = [record.first(first) for record in whole.records]
        data = VisitedStates(records, whole.feature_names, whole.environment)
    clusters, kinds, sample = _fit(comparison, data)
    if labels is not None:
        data, first = whole.select(list(labels)), None
    ranges = policy_ranges(data.policy_starts, _AT_ONCE)
    parts = over_policies(_assign, data, comparison.background, clusters, ranges=ranges)
    numbers, coordinates = map(np.concatenate, zip(*parts, strict=True))
    members = np.eye(len(kinds), dtype=np.int64)[numbers]
    counts = np.add.reduceat(members, data.policy_starts[:-1], axis=0)
    groups = tuple(info.group for info in data.policies)
    found = EpisodeKinds(kinds, data.labels, groups, counts, clusters.separation, first)
    return ClusteredEpisodes(found, data, numbers + 1, coordinates, sample)


def compare_episodes(comparison: ComparisonFolder, a: str, b: str) -> EpisodeDifference | None:
    """Compare the episodes of two policies as a whole; None if it is not possible."""
    if not (comparison.has_regions and comparison.has_states([a, b])):
        return None
    described = _describe(comparison, [a, b])
    kinds = find_kinds(comparison, [a, b])
    if kinds is None or min(map(len, described)) < 2:
        return None
    first, second = described if a < b else described[::-1]
    test = mmd_test(first, second)
    return EpisodeDifference(test.p_value, test.distance, kinds, _steadier(described))


def episode_tests(
    comparison: ComparisonFolder, pairs: Sequence[tuple[str, str]]
) -> list[tuple[str, str, float, float]]:
    """Test whether the episodes of pairs of policies differ: labels, p-value and q-value."""
    if not pairs:
        return []
    labels = sorted({label for pair in pairs for label in pair})
    numbers = [(labels.index(min(pair)), labels.index(max(pair))) for pair in pairs]
    _, p, q = mmd_tests(_describe(comparison, labels), numbers)
    return [(a, b, float(p[k]), float(q[k])) for k, (a, b) in enumerate(pairs)]


def _describe(comparison: ComparisonFolder, labels: Sequence[str]) -> list[Array]:
    """Points of single episodes of policies, of equally thinned states."""
    parts = [
        comparison.states[label].sample_episodes(_TESTED, np.random.default_rng(0), at_most=True)
        for label in labels
    ]
    return list(map(comparison.background.describe_episodes, thinned_alike(*parts)))


def _steadier(described: Sequence[Array]) -> int | None:
    """Find the policy whose episodes are clearly more alike than those of the other."""
    # Distances from the mean, as in Levene's test.
    spreads = [((rows - rows.mean(axis=0)) ** 2).sum(axis=1, keepdims=True) for rows in described]
    means = [float(spread.mean()) for spread in spreads]
    *_, p_values = welch(spreads[0], spreads[1])
    # A difference without any variance has p = NaN, and is certain.
    return None if max(means) <= CLEARLY * min(means) or p_values > RATE else int(np.argmin(means))


def _fit(
    comparison: ComparisonFolder, states: VisitedStates
) -> tuple[EpisodeClusters, tuple[EpisodeKind, ...], Array]:
    """Cluster a sample of the episodes of all policies, name the clusters; also where they are."""
    data, numbers = _sample(states)
    shares = comparison.background.episode_shares(data)
    points = np.sqrt(shares)
    clusters = cluster_episodes(points)
    kinds, squares = clusters.assign(points)
    lengths = data.episode_steps + 1.0
    policies = np.repeat(data.labels, np.diff(data.policy_starts))
    members = np.eye(len(clusters.centres))[kinds]
    means = members.T @ shares / members.sum(axis=0)[:, None]
    found = []
    for k in range(len(clusters.centres)):
        own = kinds == k
        typical = int(np.where(own, squares, np.inf).argmin())
        seed = int(data.seeds[typical])
        found.append(
            EpisodeKind(
                k + 1,
                _name(comparison, means, members.sum(axis=0), k),
                float(own.mean()),
                float(lengths[own].mean()),
                float(data.returns[own].mean()),
                str(policies[typical]),
                int(numbers[typical]),
                seed if seed >= 0 else None,
            )
        )
    return clusters, tuple(found), clusters.coordinates(points)


def _sample(data: VisitedStates) -> tuple[VisitedStates, NDArray[np.intp]]:
    """Choose as many episodes of each policy, if possible; also return their numbers."""
    chosen, numbers = choose_episodes(data, _SAMPLE)
    records = [data.records[i].only(own) for i, own in zip(chosen, numbers, strict=True)]
    sample = VisitedStates(records, data.feature_names, data.environment)
    return sample, np.concatenate(numbers)


def choose_episodes(
    data: VisitedStates, most: int
) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    """Choose at most so many episodes, as many of each policy: policies, and their episodes.

    The order of policies does not matter.
    """
    rng = np.random.default_rng(0)
    order = canonical_order(data.policies)
    chosen = order[np.sort(rng.permutation(len(order))[:most])]
    each, counts = max(1, most // len(chosen)), np.diff(data.policy_starts)
    return chosen, [np.sort(rng.permutation(counts[i])[:each]) for i in chosen]


def _assign(
    data: VisitedStates, method: BackgroundModel, clusters: EpisodeClusters
) -> tuple[NDArray[np.intp], Array]:
    """Assign episodes to kinds; also return where they are."""
    points = np.sqrt(method.episode_shares(data))
    return clusters.assign(points)[0], clusters.coordinates(points)


def _name(comparison: ComparisonFolder, kinds: Array, sizes: Array, number: int) -> str:
    """Say what distinguishes a kind from the others, from the shares of time in the regions."""
    rest = np.arange(len(kinds)) != number
    if not rest.any():
        return "all episodes"
    own, others, method = kinds[number], sizes[rest] @ kinds[rest], comparison.background
    others = others / others.sum()
    apart, nearest = np.abs(own - others).sum(), np.abs(own - kinds[rest]).sum(axis=1).min()
    if apart < _MIXTURE * nearest:
        return _MIXED
    features = comparison.features
    place, usual = ((shares @ method.means_)[: len(features)] for shares in (own, others))
    f = int(np.abs(place - usual).argmax())
    if abs(place[f] - usual[f]) >= _CLEAR:
        values = (float(method.center_[f] + method.scale_[f] * x[f]) for x in (place, usual))
        return compared_words(features[f], *values)
    region = int((np.sqrt(own) - np.sqrt(others)).argmax())
    share, rare = percent(float(own[region])), percent(float(others[region]))
    return f"{share} of the time (others {rare}) where {comparison.region_names[region]}"
