"""States for the mixture benchmarks: synthetic clusters, and rollouts of simple controllers.

Rollouts are collected once with Gymnasium and kept in benchmarks/data/. Each environment is
played by controllers between random and competent: with probability epsilon, drawn anew for each
episode, an action is random.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"
COMPONENTS = 64
ENVIRONMENTS = {
    "CartPole-v1": 400_000,
    "LunarLander-v3": 400_000,
    "BipedalWalker-v3": 360_000,
}


def clusters(
    n_states: int, n_features: int, n_clusters: int = 200, seed: int = 0
) -> np.ndarray[Any, Any]:
    """Gaussian clusters of different weight, place and width, float32."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(n_clusters, 2.0))
    centers = rng.normal(scale=3.0, size=(n_clusters, n_features))
    widths = rng.uniform(0.3, 1.2, size=(n_clusters, n_features))
    states = np.empty((n_states, n_features), dtype=np.float32)
    for first in range(0, n_states, 100_000):
        labels = rng.choice(n_clusters, size=min(100_000, n_states - first), p=weights)
        noise = rng.normal(size=(len(labels), n_features))
        states[first : first + len(labels)] = centers[labels] + widths[labels] * noise
    return states


def spiky(n_states: int, n_features: int = 24, seed: int = 0) -> np.ndarray[Any, Any]:
    """Clusters with contacts that are 0 or 1 and rays that are exactly 1.0 in 94 % of states."""
    rng = np.random.default_rng(seed)
    states = clusters(n_states, n_features, 30, seed)
    for column in range(n_features // 3):
        if column % 2:
            states[:, column] = states[:, column] > 0
        else:
            free = rng.random(n_states) < 0.94
            states[:, column] = np.where(free, 1.0, 1 / (1 + np.exp(-states[:, column])))
    return states


def rollouts(name: str) -> np.ndarray[Any, Any]:
    """States of one environment, collected on first use, in the order in which they came."""
    path = DATA / f"{name}.npy"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        states = _collect(name, ENVIRONMENTS[name])
        partial = path.with_suffix(".partial.npy")
        np.save(partial, states)
        partial.replace(path)
    return np.load(path)


def _collect(name: str, n_states: int) -> np.ndarray[Any, Any]:
    import gymnasium

    env = gymnasium.make(name)
    rng = np.random.default_rng(0)
    env.action_space.seed(0)
    collected: list[Any] = []
    episode = 0
    while len(collected) < n_states:
        controller, epsilon = _controller(name, env, rng), rng.beta(0.6, 0.9)
        observation, _ = env.reset(seed=episode)
        done = False
        while not done:
            collected.append(observation)
            random = rng.random() < epsilon
            action = env.action_space.sample() if random else controller(observation)
            observation, _, terminated, truncated, _ = env.step(action)
            done = terminated or truncated
        collected.append(observation)
        episode += 1
    env.close()
    return np.asarray(collected[:n_states], dtype=np.float32)


def _controller(name: str, env: Any, rng: np.random.Generator) -> Callable[[Any], Any]:
    """A competent controller, somewhat different for each episode."""
    if name == "CartPole-v1":
        gains = np.array([0.3, 0.6, 3.0, 1.0]) * rng.uniform(0.3, 1.7, 4)
        return lambda s: int(s @ gains > 0)
    if name == "LunarLander-v3":
        from gymnasium.envs.box2d.lunar_lander import heuristic

        return lambda s: heuristic(env.unwrapped, s)
    from gymnasium.envs.box2d.bipedal_walker import BipedalWalkerHeuristics

    walker = BipedalWalkerHeuristics()
    return lambda s: np.asarray(walker.step_heuristic(s), dtype=np.float32)
