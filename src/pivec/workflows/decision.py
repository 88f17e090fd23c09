"""Decision: whether two policies behave the same, as soon as the episodes suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import checked
from pivec.characterizations import Visitation
from pivec.errors import UsageError
from pivec.options import CollectOptions, DescribeKeywords, DescribeOptions, split_options
from pivec.states import VisitedStates, joined
from pivec.statistics import (
    LEVEL,
    MARGIN,
    EquivalenceTest,
    Verdict,
    View,
    ViewResult,
    distance_bounds,
    episodes_beyond,
    episodes_for_view,
    episodes_to_see,
    log_evidence,
    measured_view,
    share_view,
    view_weights,
)
from pivec.terminal import Progress
from pivec.workflows.comparison import prepare
from pivec.workflows.equivalence import (
    LEAST,
    Level,
    PolicyInput,
    margin_of,
    other_views,
    view_inputs,
)

Array = NDArray[np.float64]


class Decision:
    """Decide whether two policies behave the same, looking after every batch of episodes.

    The error rates hold however often one looks, and whenever one stops: for policies whose
    distance is the margin or more in some view, "same" is ever the verdict with a probability of at
    most 1 − ``level``, and so is "different" for policies within the margin in all views. Once
    there is a verdict, it stays. Regions and bins are those of the first 20 episodes of each.

    Parameters
    ----------
    margin : float or dict of float, optional
        As for `pivec.same`.
    views : str or sequence of str
        As for `pivec.same`.
    level : float
        1 minus the error rate.
    seed : int
        Random seed.
    settings : mapping, optional
        How states were collected, as a store knows it; names features.
    **options
        Options of the description, as for `pivec.same`.

    Attributes
    ----------
    verdict : str
        "same", "different", or "unclear" as long as there are too few episodes.
    n_episodes : tuple of int
        Episodes of each policy so far.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = lambda step: [np.cumsum(rng.normal(step, 1.0, (30, 2)), axis=0) for _ in range(20)]
    >>> decision = Decision(components=4)
    >>> while decision.verdict == "unclear":
    ...     verdict = decision.update(walks(0.0), walks(0.5))
    >>> verdict, decision.n_episodes
    ('different', (20, 20))
    """

    @checked
    def __init__(
        self,
        margin: float | Mapping[str, float] | None = None,
        *,
        views: str | Sequence[str] = (),
        level: Level = LEVEL,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        **options: Unpack[DescribeKeywords],
    ) -> None:
        describing = split_options(dict(options), DescribeOptions)[0]
        method, self._space, _ = prepare(describing, CollectOptions(seed=seed))
        if not isinstance(method, Visitation):
            raise UsageError(f"a decision needs the method visitation, but got {method.name}")
        self.verdict: Verdict = "unclear"
        self.level, self._method = level, method
        self._margin = MARGIN if margin is None else margin
        self._settings = dict(settings or {})
        self._chosen = (views,) if isinstance(views, str) else views
        self._waiting: list[list[VisitedStates]] = [[], []]
        self._views: list[View] = []
        self._same: NDArray[np.bool_] = np.empty(0, dtype=bool)  # views in which they are
        self.n_episodes = (0, 0)

    def update(self, episodes_a: Any = (), episodes_b: Any = ()) -> Verdict:
        """Add episodes of both policies and return the verdict.

        Parameters
        ----------
        episodes_a, episodes_b : VisitedStates or sequences of (n_steps, n_features) arrays
            New episodes of each policy; there may be none of one of them.
        """
        sides = [_one_policy(episodes_a, "a"), _one_policy(episodes_b, "b")]
        a, b = (0 if side is None else side.n_episodes for side in sides)
        self.n_episodes = self.n_episodes[0] + a, self.n_episodes[1] + b
        if not self._views:
            for waiting, side in zip(self._waiting, sides, strict=True):
                waiting.extend([] if side is None else [side])
            if min(self.n_episodes) < LEAST:
                return self.verdict
            self._fit(*map(_together, self._waiting))
            self._waiting = [[], []]
        else:
            added = [None if side is None else self._inputs(side) for side in sides]
            self._views = [_extended(view, added) for view in self._views]
        if self.verdict == "unclear":
            self._look()
        return self.verdict

    def result(self) -> EquivalenceTest:
        """Return distances and bounds in all views, which hold at any time; see `pivec.same`."""
        if not self._views:
            raise UsageError(
                f"there are {self.n_episodes[0]} and {self.n_episodes[1]} episodes, but views need "
                f"{LEAST} of each policy"
            )
        distances, slopes, seconds, firsts = self._measure()
        alpha, weights = 1.0 - self.level, self._weights
        results = []
        for number, view in enumerate(self._views):
            measured = distances[number], slopes[number], seconds[number]
            low, high = distance_bounds(*measured, alpha)
            beyond = distance_bounds(*measured, alpha * weights[number])[0]
            margin = self._margins[number]
            if self._same[number]:
                high = min(high, margin * (1.0 - 1e-9))
            results.append(
                ViewResult(
                    view.name,
                    distances[number],
                    low,
                    high,
                    beyond,
                    margin,
                    firsts[number],
                    seconds[number],
                    group=view.group,
                )
            )
        evidence = log_evidence(distances, slopes, seconds, self._margins)[1] + np.log(weights)
        return EquivalenceTest(
            verdict=self.verdict,
            labels=self._labels,
            views=tuple(results),
            p_value=float(np.exp(-np.clip(evidence.max(), 0.0, 36.0))),
            test="sequential",
            level=self.level,
            episodes=self.n_episodes,
            episodes_needed=None,
            method=self._method.name,
            planned=self._planned(results),
        )

    def _inputs(self, data: VisitedStates) -> dict[str, Any]:
        self._method._check_fits(data)
        return {"moves": self._method._statistics(data), **view_inputs(self._method, data)}

    def _fit(self, a: VisitedStates, b: VisitedStates) -> None:
        """Fit regions and bins to the first episodes."""
        method = self._method
        self._labels = a.labels[0], b.labels[0]
        if self._space is None:
            renamed = [
                VisitedStates(
                    [replace(side.records[0], info=replace(side.policies[0], label=label))],
                    side.feature_names,
                    side.environment,
                )
                for side, label in ((a, "a"), (b, "b"))
            ]
            method.fit(joined(renamed))
        self._pilot, self._views = (a, b), self._views_of(a, b)
        self._weights = view_weights([view.group or view.name for view in self._views])
        self._margins = np.array([self._margin_of(view) for view in self._views])
        self._same = np.zeros(len(self._views), dtype=bool)

    def _views_of(self, a: VisitedStates, b: VisitedStates, **kinds: int) -> list[View]:
        method, chosen = self._method, set(self._chosen)
        moves = View("moves", (method._statistics(a), method._statistics(b)), method._coordinates)
        views = [moves, *other_views(method, a, b, self._settings, **kinds)]
        known = dict.fromkeys(name for view in views for name in (view.name, view.group) if name)
        if unknown := chosen - known.keys():
            raise UsageError(f"there is no view {min(unknown)!r}; there are {', '.join(known)}")
        return [view for view in views if not chosen or {view.name, view.group} & chosen]

    def _margin_of(self, view: View) -> float:
        return margin_of(self._margin, view.name, view.group or view.name)

    def _measure(self) -> tuple[Array, Array, Array, Array]:
        """Distances, and the slopes, constants and first parts of their variances."""
        found = []
        for view in self._views:
            sure, slope = measured_view(view, self.level)
            found.append((sure.distance[0], slope[0], sure.second[0], sure.first[0]))
        distances, slopes, seconds, firsts = np.array(found).T
        return distances, slopes, seconds, firsts

    def _look(self) -> None:
        distances, slopes, seconds, _ = self._measure()
        below, above = log_evidence(distances, slopes, seconds, self._margins)
        wanted, n = -np.log(1.0 - self.level), min(self.n_episodes)
        seen = np.array([n >= episodes_to_see(m, 1.0 - self.level) for m in self._margins])
        self._same |= (below >= wanted) & seen
        if (above + np.log(self._weights) >= wanted).any():
            self.verdict = "different"
        elif self._same.all():
            self.verdict = "same"

    def _planned(self, results: Sequence[ViewResult]) -> float:
        """Episodes of each policy that a plan of fixed size needs, by what is known now."""
        beyond = [
            episodes_beyond(result, max(self.n_episodes))
            for result in results
            if result.distance > result.margin
        ]
        if self.verdict == "different" or (beyond and self.verdict == "unclear"):
            return max(min(beyond, default=np.inf), LEAST)
        views = [view for side in self._pilot for view in self._views_of(side, side, of_a_kind=1)]
        return max(episodes_for_view(view, self._margin_of(view), self.level) for view in views)


def decide_early(
    decision: Decision, sides: Sequence[PolicyInput], at_most: int, progress: bool
) -> EquivalenceTest:
    """Run policies, or read episodes, until the verdict is clear."""
    n, used = min(LEAST, at_most), [0, 0]
    with Progress("deciding", at_most, unit="episodes", show=progress) as bar:
        while True:
            batches: list[Any] = []
            for number, side in enumerate(sides):
                data, first = side.with_episodes(n), used[number]
                rows = np.arange(first, max(first, min(n, data.n_episodes)))
                used[number] += len(rows)
                record = data.records[0].only(rows)
                names = data.feature_names, data.environment
                batches.append(VisitedStates([record], *names) if len(rows) else ())
            decision.update(*batches)
            bar.advance(max(used) - bar.done)
            if decision.verdict != "unclear" or n >= at_most or not any(map(len, batches)):
                return decision.result()
            n = min(n + max(LEAST // 2, n // 10), at_most)


def _one_policy(episodes: Any, name: str) -> VisitedStates | None:
    if not isinstance(episodes, VisitedStates):
        episodes = list(episodes)
        return VisitedStates.from_arrays({name: episodes}) if episodes else None
    if len(episodes) != 1:
        raise UsageError(f"expected episodes of one policy, but got {len(episodes)} policies")
    if (every := episodes.records[0].every) > 1:
        raise UsageError(
            f"early decisions need all states of an episode, but one in {every} of "
            f"{episodes.labels[0]} is kept: collect without max_states_per_policy"
        )
    return episodes


def _together(parts: Sequence[VisitedStates]) -> VisitedStates:
    """Return the episodes of one policy, which arrived in several parts, as one."""
    record = parts[0].records[0]
    for part in parts[1:]:
        record = record.extended(part.records[0])
    return VisitedStates([record], parts[0].feature_names, parts[0].environment)


def _extended(view: View, added: Sequence[Mapping[str, Any] | None]) -> View:
    """Add episodes to a view, in the same bins."""
    rows = []
    for known, inputs in zip(view.episodes, added, strict=True):
        if inputs is None:
            rows.append(known)
            continue
        own = inputs[view.source or view.group or view.name]
        rows.append(np.concatenate([known, view.code(own)]))
    if view.name == "moves":
        return replace(view, episodes=(rows[0], rows[1]))
    fresh = share_view(view.name, rows[0], rows[1], by_episode=view.by_episode)
    return replace(view, episodes=fresh.episodes, points=fresh.points)
