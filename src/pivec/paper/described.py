"""Supervectors of the policies of many runs, in one space, without keeping all their states.

At the paper's scale the states of one environment are up to a hundred gigabytes. Those that the
background model is fitted on are kept; all others are forgotten as soon as they are described.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.supervector import Supervector
from pivec.collection import collect
from pivec.paper.recipes import Calculation, Need
from pivec.paper.workshop import Arrays, Collection, Workshop, digest_of
from pivec.policies.policy import NamedPolicy
from pivec.progress import Progress
from pivec.states import VisitedStates
from pivec.states.derived import joined, regrouped

Array = NDArray[np.float64]

AT_ONCE = 64  # policies whose states are in memory at the same time


@dataclass(frozen=True)
class Background:
    """What a background model is fitted on.

    Attributes
    ----------
    collections : tuple of Collection
        Kept on disk.
    components : int
    states : int
        At most so many, drawn evenly over the policies.
    """

    collections: tuple[Collection, ...]
    components: int
    states: int

    @property
    def key(self) -> str:
        """A digest of all that decides the model."""
        return digest_of([[one.key for one in self.collections], self.components, self.states])


@dataclass(frozen=True, eq=False)
class Described:
    """Policies in one space; rows in the order of their trainings and runs.

    Attributes
    ----------
    points : (n, n_values) float32 array
        Scaled supervectors: squared Euclidean distances are the paper's distance. Single precision
        is exact to a ten-millionth of a coordinate, far below what sampling does.
    returns : (n,) array
        Mean returns.
    chance : (n,) array
        The distance to expect of another sample of the same policy, of as many episodes: half of
        that between the even and the odd episodes, since the distance falls with their number.
    groups : (n,) array of str
        ``<training>-<run>``.
    steps : (n,) array of int
        Environment steps of training, or generations.
    """

    points: NDArray[np.float32]
    returns: Array
    chance: Array
    groups: NDArray[np.str_]
    steps: NDArray[np.int64]

    def rows(self, group: str) -> NDArray[np.intp]:
        """Numbers of the policies of a run, in the order of training."""
        mine = np.flatnonzero(self.groups == group)
        return mine[np.argsort(self.steps[mine], kind="stable")]


def background_of(
    collection: Collection, policies: int, components: int, states: int
) -> Background:
    """Choose what the background model of a collection is fitted on.

    Parameters
    ----------
    collection : Collection
    policies : int
        At most so many of each training, spread evenly over its runs.
    components, states : int
        As `Background` has them.
    """
    parts = []
    for training in collection.trainings:
        each = max(1, policies // training.runs)
        if collection.policies is not None:
            each = min(each, collection.policies)
        parts.append(replace(collection, trainings=(training,), policies=each, kept=True))
    return Background(tuple(parts), components, states)


def description_needs(collection: Collection, background: Background) -> list[Need]:
    """List what `described` trains, collects and computes."""
    policies = sum(
        training.runs * (part.policies or 0)
        for part in background.collections
        for training in part.trainings
    )
    episodes = policies * collection.episodes
    return [
        *collection.trainings,
        *background.collections,
        collection,
        fit_need(collection.environment, episodes, background.components, background.states),
    ]


def fit_need(environment: str, episodes: int, components: int, most: int) -> Calculation:
    """Tell what fitting a background model on so many episodes takes, ``most`` states at most.

    That is some thirty passes over the states.
    """
    from pivec.paper.measuring import longest_episode

    states = min(most, episodes * longest_episode(environment))
    return Calculation(
        f"fit the background model of {environment}, passes over a million states",
        30 * states / 1e6,
        lambda: _seconds_a_pass(components),
    )


def _seconds_a_pass(components: int) -> float:
    """Time one pass over a million states of eight values."""
    states = np.random.default_rng(0).normal(size=(100_000, 8)).astype(np.float32)
    data = VisitedStates.from_arrays([[states]])
    method = Supervector(components, max_iter=2).fit(data)
    began = time.perf_counter()
    method.describe(data)
    return (time.perf_counter() - began) * 1e6 / len(states)


def described(shop: Workshop, collection: Collection, background: Background) -> Described:
    """Describe the policies of a collection by one background model."""
    shop.train(collection.trainings)  # all at once, so that every job has a run
    known = joined([shop.collect(one) for one in background.collections])
    method = _fitted(shop, known, background)
    parts: list[Arrays] = []
    for training in collection.trainings:
        policies = shop.policies(training, collection.policies, collection.runs)
        title = f"{collection.environment} {training.name}"
        with Progress(title, len(policies), unit="policies", show=shop.progress) as bar:
            for begin in range(0, len(policies), AT_ONCE):
                some = policies[begin : begin + AT_ONCE]
                inputs = {
                    "background": background.key,
                    "training": training.key,
                    "labels": [one.info.label for one in some],
                    "episodes": collection.episodes,
                    "seed": collection.seed,
                }
                make = partial(_describe, shop, collection, some, known, method)
                parts.append(shop.computed("described", inputs, make))
                bar.advance(len(some))
    names = ("points", "returns", "chance", "groups", "steps")
    return Described(*(np.concatenate([part[name] for part in parts]) for name in names))


def _fitted(shop: Workshop, data: VisitedStates, background: Background) -> Supervector:
    method = Supervector(background.components, max_states=background.states, random_state=0)
    inputs = {"background": background.key}
    learned = shop.computed("background", inputs, lambda: method.fit(data).fitted_arrays())
    return method.restore(data.feature_names, learned)


def _describe(
    shop: Workshop,
    collection: Collection,
    policies: Sequence[NamedPolicy],
    known: VisitedStates,
    method: Supervector,
) -> Arrays:
    """Describe policies by their states: those that are known, or played for this."""
    kept = set(known.labels)
    missing = [one for one in policies if one.info.label not in kept]
    parts = [known]
    if missing:
        played = collect(
            collection.environment,
            missing,
            collection.episodes,
            collection.seed,
            backend=shop.backend,
            jobs=shop.jobs,
        )
        parts.append(played)
    data = joined(parts).select([one.info.label for one in policies])
    found = method.describe(data)
    return {
        "points": np.asarray(found.points, dtype=np.float32),
        "returns": found.mean_returns,
        "chance": chance_distances(method, data),
        "groups": np.array(found.groups),
        "steps": np.array([-1 if step is None else step for step in found.steps]),
    }


def chance_distances(method: Supervector, data: VisitedStates) -> Array:
    """Estimate for each policy how far apart two samples of it are, as large as its own.

    Sampling moves a supervector by a variance that falls with the number of episodes, so two
    samples of n episodes are half as far apart as two of n / 2. NaN for policies of one episode.
    """
    starts = data.policy_starts
    counts = np.diff(starts)
    chance = np.full(len(data), np.nan)
    several = np.flatnonzero(counts > 1)
    if len(several):
        halves = [np.arange(starts[i] + side, starts[i + 1], 2) for i in several for side in (0, 1)]
        points = method.describe(regrouped([data], halves)).points
        if points is None:
            raise TypeError("supervectors have points")
        chance[several] = ((points[::2] - points[1::2]) ** 2).sum(axis=1) / 2
    return chance
