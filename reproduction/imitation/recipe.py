"""Behavioural cloning: distance to the expert and return over the epochs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from pivec.characterizations import Visitation
from pivec.parallel import single_threaded_torch
from pivec.policies import NamedPolicy, PolicyInfo, load_policies
from pivec.states import VisitedStates
from reproduction.background import PAPERS_FIT, papers_supervector
from reproduction.described import chance_distances, fit_need
from reproduction.imitation.figure import imitation_figure
from reproduction.imitation.page import all_notes, findings, table
from reproduction.pipeline import Arrays, Training, Workshop, digest_of
from reproduction.planning import EpisodeWork, expected_length, longest_episode, pace_of
from reproduction.published import Array, pearson, spearman
from reproduction.recipes import Need, Recipe, Result, Told
from reproduction.training.cloning import clone

HARD = "BipedalWalkerHardcore-v3"
_DESCRIBED = {"fit": PAPERS_FIT, "beside": "visitation"}  # how, which decides nothing about clones


@dataclass(frozen=True)
class Counts:
    """Which environments, and how much of everything."""

    environments: tuple[str, ...]
    runs: int  # experts, each with a clone
    trajectories: int  # of the expert to learn from
    epochs: int
    episodes: int  # of the expert and of the clone after each epoch
    components: int
    background_states: int = 10_000_000
    # Steps of the experts, by environment, where they are not those of the scale.
    expert_steps: Mapping[str, int] = field(default_factory=dict)


def needs(shop: Workshop, counts: Counts) -> list[Need]:
    """List what is trained, played and fitted."""
    result: list[Need] = []
    episodes = counts.runs * (counts.epochs + 1) * counts.episodes
    for environment in counts.environments:
        training = experts(shop, counts, environment)
        longest, length = longest_episode(environment), expected_length(training)
        states = episodes * (longest + 1), episodes * (length + 1)
        works = [
            EpisodeWork(
                f"epochs of cloning in {environment}, a thousand states each",
                counts.runs * counts.epochs * counts.trajectories * longest / 1e3,
                _seconds_of_cloning,
                share=length / longest,
            ),
            EpisodeWork(
                f"episodes of experts and clones in {environment}",
                episodes,
                partial(_seconds_an_episode, environment, shop.backend),
                share=length / longest,
            ),
            fit_need(environment, states, counts.components, counts.background_states),
        ]
        if shop.is_computed("imitation", _inputs(shop, counts, training) | _DESCRIBED):
            works = [replace(work, left=0.0) for work in works]
        result += [training, *works]
    return result


def _seconds_an_episode(environment: str, backend: str) -> float:
    return pace_of(environment, backend).seconds(1, longest_episode(environment))


@cache
def _seconds_of_cloning() -> float:
    """Time one pass of a small network over a thousand states, in batches as `clone` has them."""
    import torch

    rng = torch.Generator().manual_seed(0)
    states = torch.randn(10_000, 24, generator=rng)
    layers = (24, 64), (64, 64), (64, 4)
    parts = [part for sizes in layers for part in (torch.nn.Linear(*sizes), torch.nn.Tanh())]
    net = torch.nn.Sequential(*parts)
    optimizer = torch.optim.Adam(net.parameters())

    def learn(states: Any) -> float:
        began = time.perf_counter()
        for rows in torch.split(states, 32):
            loss = -torch.distributions.Normal(net(rows), 1.0).log_prob(rows[:, :4]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return time.perf_counter() - began

    with single_threaded_torch():
        learn(states[:32])  # loads what the first step needs
        return learn(states) / 10


def experts(shop: Workshop, counts: Counts, environment: str) -> Training:
    """Describe the runs whose last policies are the experts."""
    steps = counts.expert_steps.get(environment)
    changes = {} if steps is None else {"steps": steps}
    return shop.training(environment, "ppo", counts.runs, name="expert", checkpoints=1, **changes)


def make(shop: Workshop, counts: Counts) -> Result:
    """Train experts, clone them, and follow the clones."""
    rows: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    for environment in counts.environments:
        clones = followed(shop, counts, environment)
        for number in range(counts.runs):
            names = "distance", "visitation", "steps", "returns"
            distance, visitation, steps, returns = (clones[name][number] for name in names)
            expert = float(clones["expert_return"][number])
            normalised = normalised_return(returns, expert)
            run = {"environment": environment, "run": number}
            fifth = max(1, len(steps) // 5)
            runs.append(
                {
                    **run,
                    "expert_return": expert,
                    "expert_steps": int(experts(shop, counts, environment).settings["steps"]),
                    "correlation": pearson(np.diff(distance), np.diff(normalised)),
                    "correlation_of_levels": pearson(distance, normalised),
                    "correlation_by_visitation": pearson(np.diff(visitation), np.diff(normalised)),
                    "first_steps": float(steps[:fifth].mean()),
                    "last_steps": float(steps[-fifth:].mean()),
                    "correlation_of_steps": spearman(steps, normalised[1:]),
                    "by_chance": float(clones["chance"][number]),
                    "first_distance": float(distance[0]),
                    "last_distance": float(distance[-1]),
                    "first_return": float(returns[0]),
                    "last_return": float(returns[-1]),
                }
            )
            rows += [
                {
                    **run,
                    "epoch": epoch + 1,
                    "distance": float(distance[epoch]),
                    "visitation": float(visitation[epoch]),
                    "step": float(steps[epoch - 1]) if epoch else None,
                    "return": float(returns[epoch]),
                    "normalised_return": float(normalised[epoch]),
                }
                for epoch in range(len(distance))
            ]
    return Result({"runs": runs, "epochs": rows}, {"imitation": imitation_figure(rows, runs)})


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    runs = numbers["runs"]
    return Told(numbers["epochs"], table(runs), findings(runs), all_notes(runs))


def normalised_return(returns: Array, expert: float) -> Array:
    """Divide returns by the expert's, so that 1 is as good as the expert.

    Where the expert's is negative that would turn better into worse; the difference to the
    expert's is divided by its size instead, which is the same for positive ones.
    """
    return 1.0 + (returns - expert) / abs(expert)


def followed(shop: Workshop, counts: Counts, environment: str) -> Arrays:
    """Clone the experts, and measure the clones after each epoch; or take what was found before.

    That is ``distance`` and ``returns`` (runs, epochs), ``visitation``, the distance by that,
    ``steps`` (runs, epochs - 1) from the clone of an epoch to that of the next, ``expert_return``
    and ``chance`` (runs,), the distance of two samples of the expert.
    """
    training = experts(shop, counts, environment)
    inputs = _inputs(shop, counts, training)

    def follow() -> dict[str, Any]:
        data = played(shop, counts, training, digest_of(inputs))
        states = counts.background_states
        method = papers_supervector(counts.components, shop.seed, states)
        descriptions = method.fit(data).describe(data, influences=True)
        ours = Visitation(counts.components, max_states=states, random_state=shop.seed)
        shape = counts.runs, counts.epochs + 1
        points, places = (
            np.asarray(made.points).reshape(*shape, -1)
            for made in (descriptions, ours.fit(data).describe(data))
        )
        returns = descriptions.mean_returns.reshape(shape)
        return {
            "distance": ((points[:, 1:] - points[:, :1]) ** 2).sum(axis=2),
            "visitation": ((places[:, 1:] - places[:, :1]) ** 2).sum(axis=2),
            "steps": (np.diff(points[:, 1:], axis=1) ** 2).sum(axis=2),
            "returns": returns[:, 1:],
            "expert_return": returns[:, 0],
            "chance": chance_distances(descriptions).reshape(shape)[:, 0],
        }

    return shop.computed("imitation", inputs | _DESCRIBED, follow)


def _inputs(shop: Workshop, counts: Counts, training: Training) -> dict[str, Any]:
    """All that decides the clones and their episodes."""
    elsewhere = "environments", "expert_steps"  # in the key of the training
    amounts = {name: count for name, count in vars(counts).items() if name not in elsewhere}
    return {"expert": training.key, "seed": shop.seed, **amounts}


def played(shop: Workshop, counts: Counts, training: Training, key: str) -> VisitedStates:
    """Let every expert play, and after it its clone of every epoch."""
    everyone = []
    for number, expert in enumerate(shop.policies(training, 1)):
        folder = shop.cache / "policies" / f"{training.environment}-clone-{key}" / f"run-{number}"
        clone(
            expert.policy,
            training.environment,
            folder,
            trajectories=counts.trajectories,
            epochs=counts.epochs,
            seed=shop.seed * 10_000 + number,
            progress=shop.progress,
        )
        group = f"run-{number}"
        everyone.append(NamedPolicy(expert.policy, PolicyInfo(f"{group}/expert", group)))
        everyone += [
            NamedPolicy(
                load_policies(folder / f"epoch_{epoch}.safetensors")[0].policy,
                PolicyInfo(f"{group}/epoch_{epoch}", group, epoch),
            )
            for epoch in range(1, counts.epochs + 1)
        ]
    store = shop.cache / "states" / f"{training.environment}-clones-{key}"
    return shop.play(training.environment, everyone, counts.episodes, shop.seed, store=store)


RECIPE = Recipe(
    name="imitation",
    shows=(
        "Learning curves of behavioural cloning in the appendix: distance to the expert, and "
        "return, over the epochs"
    ),
    counts={
        "smoke": Counts(("CartPole-v1",), 1, 2, 4, 4, 4),
        "small": Counts((HARD, "LunarLander-v3"), 3, 10, 50, 20, 64),
        # The paper's 100 million take five times as long; these about 3 hours of two cores.
        "paper": Counts(
            (HARD, "LunarLander-v3"), 5, 10, 50, 100, 64, expert_steps={HARD: 20_000_000}
        ),
    },
    needs=needs,
    make=make,
    tell=tell,
)
