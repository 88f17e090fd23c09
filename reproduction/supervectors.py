"""Supervectors of the policies of many runs, in one space, without keeping all their states.

States that the background model is fitted on are kept; all others, which may be a hundred
gigabytes, are forgotten as soon as they are described.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import (
    BackgroundModel,
    Descriptions,
    Supervector,
    Visitation,
    unbiased_points,
)
from pivec.policies import NamedPolicy
from pivec.states import VisitedStates, joined
from pivec.statistics import spread_of
from pivec.terminal import Progress
from reproduction.pipeline import Arrays, Collection, Pipeline, digest_of
from reproduction.planning import n_policies, n_states, pass_seconds
from reproduction.recipes import Calculation, Need
from reproduction.tables import Array

# One k-means start on all states, then EM on all of them until the mean log-likelihood changes by
# less than 1e-3, 100 times at most; of more than 10 million states so many are drawn, all alike.
PAPERS_FIT: dict[str, Any] = {
    "init": "kmeans",
    "warm_start": False,
    "n_init": 1,
    "tol": 1e-3,
    "max_iter": 100,
    "max_states": 10_000_000,
    "sampling": "uniform",
}

# By the names of the characterizations.
AUTHORS: dict[str, dict[str, Any]] = {
    "supervector": PAPERS_FIT,
    "discriminator": {
        "standardise": False,
        "max_background": None,
        "max_states": None,
        "zero_diagonal": False,
    },
}


def papers_supervector(
    n_components: int, random_state: int = 0, max_states: int = 10_000_000
) -> Supervector:
    """Return supervectors with the paper's fit, on at most ``max_states`` (Appendix C.1)."""
    fit = PAPERS_FIT | {"max_states": max_states}
    return Supervector(n_components, random_state=random_state, **fit)


AT_ONCE = 64  # policies whose states are in memory at the same time


@dataclass(frozen=True)
class Space:
    """Policies to describe, and the background model that describes them."""

    policies: Collection
    background: tuple[Collection, ...]  # what the model is fitted on, kept on disk
    components: int
    states: int  # at most so many are fitted on, drawn of all alike

    @property
    def key(self) -> str:
        """A digest of all that decides the model."""
        parts = [part.key for part in self.background]
        return digest_of([parts, self.components, self.states, PAPERS_FIT])

    def stage(self, kind: type[BackgroundModel]) -> str:
        """Name the stage of describing all policies."""
        return f"described-{digest_of([self.key, self.policies.key, kind.name])}"

    def needs(self, pipeline: Pipeline) -> list[Need]:
        """List what `described` trains, collects and computes."""
        where = self.policies.environment
        known = min(self.states, sum(map(n_states, self.background)))
        done = pipeline.is_finished(self.stage(Supervector))
        fitted = fit_need(where, known, self.components)
        others = []  # who plays beside those whose states are known
        for part in [] if done else self.background:
            [training] = part.trainings
            count = self.policies.policies or n_policies(training)
            left = count - (part.policies or count)
            if left > 0:
                others.append(replace(self.policies, trainings=(training,), policies=left))
        described = Calculation(
            f"describe policies in {where}, millions of states",
            n_states(self.policies) / 1e6,
            pass_seconds(where, self.components),
            done=done,
        )
        return [
            *self.policies.trainings,
            *self.background,
            *others,
            replace(fitted, done=pipeline.is_computed("background", {"background": self.key})),
            described,
        ]

    @staticmethod
    def all_needs(space: Callable[..., Space], pipeline: Pipeline, counts: Any) -> list[Need]:
        """List what is trained, collected and fitted in the spaces of all environments."""
        spaces = [space(pipeline, counts, name) for name in counts.environments]
        return [need for compared in spaces for need in compared.needs(pipeline)]


@dataclass(frozen=True, eq=False)
class Described:
    """Policies in one space; rows in the order of their trainings and runs.

    Squared Euclidean distances of points are the distance: the paper's, of scaled supervectors.
    Single precision is exact to a ten-millionth of a coordinate, far below what sampling does.
    """

    points: NDArray[np.float32]  # (n, n_values)
    returns: Array  # mean of each policy
    chance: Array  # the distance to expect of another sample of the same policy
    groups: NDArray[np.str_]  # `<training>-<run>`
    steps: NDArray[np.int64]  # of training, or generations
    # Their distances, minus the noise of both policies, are 0 on average for equal behaviour.
    unbiased: NDArray[np.float32]  # (n, n_values)
    noise: Array

    def rows(self, group: str) -> NDArray[np.intp]:
        """Numbers of the policies of a run, in the order of training."""
        mine = np.flatnonzero(self.groups == group)
        return mine[np.argsort(self.steps[mine], kind="stable")]


def space_of(policies: Collection, most: int | None, counts: Any) -> Space:
    """Choose what is described, and what its background model is fitted on."""
    background = []
    for training in policies.trainings:
        count = policies.policies
        if most is not None:
            fewer = max(1, most // training.runs)
            count = fewer if count is None else min(count, fewer)
        background.append(replace(policies, trainings=(training,), policies=count, kept=True))
    return Space(policies, tuple(background), counts.components, counts.background_states)


def fit_need(environment: str, states: float, components: int) -> Calculation:
    """Plan the fit of a background model: as long as some fifty passes over the states."""
    what = f"fit the background model of {environment}, passes over a million states"
    return Calculation(what, 50 * states / 1e6, pass_seconds(environment, components))


def described(
    pipeline: Pipeline, space: Space, kind: type[BackgroundModel] = Supervector
) -> Described:
    """Describe the policies of a space by its background model, as supervectors or another kind."""
    collection = space.policies
    pipeline.train(collection.trainings)  # all at once, so that every job has a run
    known = joined([pipeline.collect(part) for part in space.background])

    def fit() -> Arrays:
        return papers_supervector(space.components, 0, space.states).fit(known).fitted_arrays()

    learned = pipeline.computed("background", {"background": space.key}, fit)
    places = {}
    if kind is Visitation:  # a background model of states describes places
        places = {"of": "states"}
        learned = {**learned, "features": np.arange(known.n_features)}
    method = kind(space.components, **places).restore(known.feature_names, learned)
    parts: list[Arrays] = []
    for training in collection.trainings:
        policies = pipeline.policies(training, collection.policies, collection.runs)
        title = f"{collection.environment} {training.name}"
        with Progress(title, len(policies), unit="policies", show=pipeline.progress) as bar:
            for begin in range(0, len(policies), AT_ONCE):
                batch = policies[begin : begin + AT_ONCE]
                inputs = {
                    "kind": [kind.name, places] if places else kind.name,
                    "background": space.key,
                    "training": training.key,
                    "labels": [policy.info.label for policy in batch],
                    "episodes": collection.episodes,
                    "seed": collection.seed,
                    "noise": "halves",  # what it is estimated from
                }
                make = partial(_describe, pipeline, collection, batch, known, method)
                parts.append(pipeline.computed("described", inputs, make))
                bar.advance(len(batch))
    pipeline.finish(space.stage(kind))
    names = [field.name for field in fields(Described)]
    return Described(*(np.concatenate([part[name] for part in parts]) for name in names))


def _describe(
    pipeline: Pipeline,
    collection: Collection,
    policies: Sequence[NamedPolicy],
    known: VisitedStates,
    method: BackgroundModel,
) -> Arrays:
    """Describe policies by their states: those that are known, or played for this."""
    labels = set(known.labels)
    missing = [policy for policy in policies if policy.info.label not in labels]
    parts = [known]
    if missing:
        where = collection.environment
        parts.append(pipeline.play(where, missing, collection.episodes, collection.seed))
    data = joined(parts).select([policy.info.label for policy in policies])
    descriptions = method.describe(data, influences=True)
    unbiased, noise = unbiased_points(descriptions)
    return {
        "points": np.asarray(descriptions.points, dtype=np.float32),
        "returns": descriptions.mean_returns,
        "chance": chance_distances(descriptions),
        "unbiased": unbiased.astype(np.float32),
        "noise": noise,
        "groups": np.array(descriptions.groups),
        "steps": np.array([-1 if step is None else step for step in descriptions.steps]),
    }


def chance_distances(descriptions: Descriptions) -> Array:
    """Tell for each policy how far apart two samples of it are on average, as large as its own.

    That is 2 tr(C), twice the noise that its sampling adds to a distance; of descriptions with
    influences. NaN for policies of one episode.
    """
    [effective] = descriptions.values("effective_episodes")
    return 2.0 * spread_of(descriptions.influences, effective).trace


def successive_distances(points: NDArray[Any]) -> Array:
    """Squared Euclidean distances from each row to the next, which are the paper's distances."""
    steps: Array = np.diff(points.astype(np.float64), axis=0)
    return np.asarray((steps * steps).sum(axis=1))
