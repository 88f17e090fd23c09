"""Rules that separate two policies: the leaves of a shallow tree.

The tree is grown on half of the episodes, and shares of time are those of the other half: rules
that were chosen because they separate these very episodes would seem better than they are ("honest"
trees, Athey and Imbens 2016).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Characterization
from pivec.explanations.differences import Span, welch
from pivec.explanations.names import Feature
from pivec.states import VisitedStates
from pivec.statistics import RATE
from pivec.text import percent

Array = NDArray[np.float64]
States = NDArray[np.float32]
Spans = tuple[Span, ...]
_LEAVES, _DEPTH = (2, 3, 4), 3
_LEAST = 0.02  # of the time, in a leaf
_ENOUGH = 0.9  # of what the best tree separates: a simpler one that separates as much is used
_SAMPLE = 20_000  # states that trees are grown on
_EPISODES = 4  # of each policy: two for either half
_GRAIN = 0.02  # deviations of a feature that rounding may move a threshold by
_WORTH = 0.1  # of what all rules separate: one that separates less is not shown


@dataclass(frozen=True)
class Rule:
    """Spans of features, and the time that both policies spend there."""

    where: str
    spans: Spans
    shares: tuple[float, float]  # of time
    low: float  # interval of the second share less the first
    high: float
    p_value: float  # of equal shares, corrected for the number of rules

    @property
    def difference(self) -> str:
        """The second share less the first in percent, as in "+67 ±10"."""
        size = self.shares[1] - self.shares[0]
        half = max(size - self.low, self.high - size)
        return f"{100 * size:+.0f} ±{max(100 * half, 1.0):.0f}".replace("-", "−")

    def sentence(self) -> str:
        """Write the rule with the shares of both.

        Examples
        --------
        >>> Rule("height above 1.2 m", (), (0.13, 0.8), 0.57, 0.77, 0.001).sentence()
        'height above 1.2 m: A 13 %, B 80 % (+67 ±10)'
        """
        a, b = map(percent, self.shares)
        return f"{self.where}: A {a}, B {b} ({self.difference})"


@dataclass(frozen=True)
class Rules:
    """Rules that divide all states, largest difference first; see `separating_rules`."""

    rules: tuple[Rule, ...]
    total_variation: float  # share of their time that the rules separate, with its interval
    low: float
    high: float
    episodes: tuple[int, int]  # of both policies, that shares are estimated from

    @property
    def certain(self) -> list[Rule]:
        """The rules whose shares certainly differ, and not by little compared with others.

        One of all is left out: it follows from the others.
        """
        least = _WORTH * self.total_variation
        certain = [rule for rule in self.rules if rule.p_value <= RATE]
        kept = [rule for rule in certain if abs(rule.shares[1] - rule.shares[0]) >= least]
        return kept[: len(self.rules) - 1]

    def words(self) -> list[str]:
        """Say how much of their time the rules separate, and then each certain rule."""
        if not self.certain:
            return ["no simple rule separates them with certainty"]
        summary = (
            f"in short, these rules separate {percent(self.total_variation)} of their time "
            f"({100 * self.low:.0f} to {percent(self.high)}), found in half of the episodes and "
            "measured in the others"
        )
        return [summary, *(rule.sentence() for rule in self.certain)]


def separating_rules(
    method: Characterization,
    a: VisitedStates,
    b: VisitedStates,
    features: Sequence[Feature],
    level: float = 0.95,
) -> Rules | None:
    """Find rules that separate two policies; None with fewer than four episodes of either.

    Trees of two to four leaves are grown on states, and on moves (the last of the ``features``) if
    the characterization describes these. Of all, the first is used that separates nearly as much as
    the best. Every episode counts the same.

    Examples
    --------
    >>> from pivec.characterizations import Visitation
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal([x, 0], 1, (50, 2)) for _ in range(20)] for x in (0, 5)]
    >>> data = VisitedStates.from_arrays(walks)
    >>> method = Visitation(n_components=4, of="states").fit(data)
    >>> found = separating_rules(method, data[0], data[1], [Feature("height", "m"), Feature("y")])
    >>> [rule.sentence() for rule in found.certain]
    ['height below 2.43 m: A 100 %, B 0.4 % (−99 ±14)']
    """
    if min(a.n_episodes, b.n_episodes) < _EPISODES:
        return None
    seed = getattr(method, "random_state", 0)
    (grown_a, rest_a), (grown_b, rest_b) = (_halves(method.view(data), seed) for data in (a, b))
    # In the order of their labels: trees are the same, whichever policy comes first.
    sides = [grown_a, grown_b] if a.labels[0] <= b.labels[0] else [grown_b, grown_a]
    trees = []
    for leaves in _grow(sides, len(method.described_features), seed):
        more = _shares(grown_b, leaves).mean(axis=0) - _shares(grown_a, leaves).mean(axis=0)
        trees.append((np.abs(more).sum(), leaves, more > 0.0))
    best = max(size for size, _, _ in trees)
    leaves, more = next(tree[1:] for tree in trees if tree[0] >= _ENOUGH * best)
    # With all leaves together in which the second policy was more often in the first half.
    shares = [_shares(rest, leaves) for rest in (rest_a, rest_b)]
    shares = [np.column_stack([own, own[:, more].sum(axis=1)]) for own in shares]
    low, high, p_values = (x.tolist() for x in welch(shares[0], shares[1], level, one_more=True))
    means = [own.mean(axis=0).tolist() for own in shares]
    rules = [
        Rule(
            ", ".join(span.describe(features) for span in spans),
            spans,
            (means[0][k], means[1][k]),
            low[k],
            high[k],
            min(len(leaves) * p_values[k], 1.0),
        )
        for k, spans in enumerate(leaves)
    ]
    # Rounded: of two rules, both differ by as much.
    rules.sort(key=lambda rule: -round(abs(rule.shares[1] - rule.shares[0]), 9))
    ends = max(low[-1], 0.0), max(high[-1], 0.0)
    episodes = len(rest_a), len(rest_b)
    return Rules(tuple(rules), max(means[1][-1] - means[0][-1], 0.0), *ends, episodes)


def _halves(rows: VisitedStates, seed: int) -> list[list[States]]:
    """Divide the episodes of a policy at random."""
    episodes = list(rows.episodes())
    order, middle = np.random.default_rng(seed).permutation(len(episodes)), len(episodes) // 2
    return [[episodes[e] for e in half] for half in (order[:middle], order[middle:])]


def _grow(sides: Sequence[Sequence[States]], n_features: int, seed: int) -> Iterator[list[Spans]]:
    """Grow trees, simple ones first, of which each yields the spans of its leaves."""
    from sklearn.tree import DecisionTreeClassifier

    every = 1 + sum(len(episode) for side in sides for episode in side) // _SAMPLE
    parts = [[episode[::every] for episode in side] for side in sides]
    rows = np.concatenate([episode for side in parts for episode in side])
    lengths = [np.array([len(episode) for episode in side]) for side in parts]
    which = np.repeat([0, 1], [n.sum() for n in lengths])
    weights = np.concatenate([np.repeat(1.0 / (len(n) * n), n) for n in lengths])
    grain = _GRAIN * rows.std(axis=0, dtype=np.float64)
    size = {"max_depth": _DEPTH, "max_leaf_nodes": _LEAVES[-1], "min_weight_fraction_leaf": _LEAST}
    for n_columns in dict.fromkeys([n_features, rows.shape[1]]):
        tree = DecisionTreeClassifier(**size, random_state=seed)
        tree.fit(rows[:, :n_columns], which, weights)
        for n_leaves in _LEAVES:
            yield _leaves(tree.tree_, grain, n_leaves)


def _leaves(
    tree: Any, grain: Array, n_leaves: int, node: int = 0, spans: Spans = ()
) -> list[Spans]:
    """Spans of the leaves below a node, whose thresholds are rounded as they are shown.

    Nodes are numbered in the order in which the best of all is divided, two at a time, so the first
    of them are the tree that is grown with fewer leaves.
    """
    feature = int(tree.feature[node])
    if feature < 0 or tree.children_left[node] > 2 * (n_leaves - 1):
        return [spans]
    exact = float(tree.threshold[node])
    rounded = [float(f"{exact:.{digits}g}") for digits in (3, 4, 5, 6)]
    cut = next((x for x in rounded if abs(x - exact) <= grain[feature]), rounded[-1])
    known = {span.feature: span for span in spans}
    own = known.get(feature, Span(feature, -math.inf, math.inf))
    sides = (
        (tree.children_left[node], replace(own, high=min(own.high, cut))),
        (tree.children_right[node], replace(own, low=max(own.low, cut))),
    )
    below = [
        _leaves(tree, grain, n_leaves, child, tuple((known | {feature: span}).values()))
        for child, span in sides
    ]
    return below[0] + below[1]


def _shares(episodes: Sequence[States], leaves: Sequence[Spans]) -> Array:
    """Shares of time of episodes in leaves, (m, n_leaves)."""
    shares = np.ones((len(episodes), len(leaves)))
    for (e, states), (k, spans) in product(enumerate(episodes), enumerate(leaves)):
        columns = [span.feature for span in spans]
        # As float32, as states are: what is shown as equal is equal.
        low, high = np.array([(span.low, span.high) for span in spans], np.float32).reshape(-1, 2).T
        inside = (states[:, columns] > low) & (states[:, columns] <= high)
        shares[e, k] = inside.all(axis=1).mean()
    return shares
