"""A population's fitness is what each individual earns when it plays alone."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from training_worlds import Follow

from pivec.errors import BadData
from pivec.rollouts import Environment, episode_seeds
from reproduction.training.evolution import Arena


def alone(env, act, seeds, max_steps=10_000):
    """The obvious loop, an episode after another."""
    returns, steps = [], 0
    for seed in seeds:
        observation, _ = env.reset(seed=int(seed))
        total = 0.0
        for _ in range(max_steps):
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total += reward
            steps += 1
            if terminated or truncated:
                break
        returns.append(total)
    return np.mean(returns), steps


@pytest.mark.parametrize("max_steps", [10_000, 15])
def test_fitness_of_discrete_actions(max_steps):
    thresholds = np.array([-0.1, 0.0, 0.3])
    arena = Arena(Environment("CartPole-v1"), 3, 4, seed=5, max_steps=max_steps)
    answer = lambda seen, _: (seen[..., 2] > thresholds[:, None]).astype(int)  # noqa: E731
    seeds = episode_seeds(5, "generation 2", 4)
    env = gymnasium.make("CartPole-v1")
    expected, counted = [], 0
    for threshold in thresholds:
        mean, steps = alone(env, lambda o, t=threshold: int(o[2] > t), seeds, max_steps)
        expected.append(mean)
        counted += steps
    for _ in range(2):  # what was played before does not matter
        fitness, steps = arena.play(answer, generation=2)
        np.testing.assert_array_equal(fitness, expected)
        assert steps == counted
    arena.close()


def test_fitness_of_real_actions_and_fewer_individuals():
    factors = np.array([0.0, 0.5, 1.0])[:, None, None]
    arena = Arena(Environment.of(Follow), 3, 2)
    fitness, steps = arena.play(lambda seen, _: (seen * factors).astype(np.float32), 0, n=2)
    seeds = episode_seeds(0, "generation 0", 2)
    expected = [alone(Follow(), lambda o, f=f: o * f, seeds)[0] for f in (0.0, 0.5)]
    np.testing.assert_allclose(fitness, expected, rtol=1e-6)
    assert steps == 40


def test_generations_play_different_episodes():
    arena = Arena(Environment.of(Follow), 1, 1)
    still = lambda seen, _: np.zeros_like(seen)  # noqa: E731
    assert arena.play(still, 0)[0] != arena.play(still, 1)[0]


class Unpriced(Follow):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


def test_returns_that_are_no_numbers_are_told():
    with pytest.raises(BadData, match="not finite"):
        Arena(Environment.of(Unpriced), 1, 1).play(lambda seen, _: np.zeros_like(seen), 0)
