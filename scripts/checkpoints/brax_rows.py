"""Makes the rows of Brax: `pip install "jax[cpu]" brax`, then run this file.

PPO of Brax trains for moments in Gymnasium's Pendulum-v1, written for JAX, whose actions are those
of Brax: from -1 to 1. The same parameters are saved as a pickle and as a checkpoint of Orbax.
"""

from __future__ import annotations

import functools
import shutil

import brax
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from brax.envs.base import Env, State
from brax.io import model
from brax.training.agents.ppo import checkpoint, networks, train
from rows import ROWS, write_row

ENVIRONMENT = "Pendulum-v1"
HIGH = float(gymnasium.make(ENVIRONMENT).action_space.high[0])


class Pendulum(Env):
    """Gymnasium's Pendulum-v1."""

    observation_size, action_size, backend = 3, 1, "none"

    def _state(self, angle, speed, reward):
        seen = jnp.array([jnp.cos(angle), jnp.sin(angle), speed])
        return State(jnp.array([angle, speed]), seen, reward, jnp.zeros(()), {}, {})

    def reset(self, rng):
        low, high = jnp.array([-jnp.pi, -1.0]), jnp.array([jnp.pi, 1.0])
        angle, speed = jax.random.uniform(rng, (2,), minval=low, maxval=high)
        return self._state(angle, speed, jnp.zeros(()))

    def step(self, state, action):
        angle, speed = state.pipeline_state
        force = HIGH * action[0]
        turned = ((angle + jnp.pi) % (2 * jnp.pi)) - jnp.pi
        cost = turned**2 + 0.1 * speed**2 + 0.001 * force**2
        speed = jnp.clip(speed + (15 * jnp.sin(angle) + 3 * force) * 0.05, -8, 8)
        after = self._state(angle + speed * 0.05, speed, -cost)
        return state.replace(
            pipeline_state=after.pipeline_state, obs=after.obs, reward=after.reward
        )


if not hasattr(jax, "device_put_replicated"):  # newer JAX than this Brax was written for
    jax.device_put_replicated = lambda tree, devices: jax.tree.map(
        lambda leaf: jnp.stack([leaf] * len(devices)), tree
    )


def rows():
    factory = functools.partial(
        networks.make_ppo_networks,
        policy_hidden_layer_sizes=(16, 16),
        value_hidden_layer_sizes=(8,),
    )
    make_inference, params, _ = train.train(
        environment=Pendulum(), num_timesteps=40_000, episode_length=200, num_envs=32,
        num_eval_envs=4, batch_size=32, num_minibatches=4, unroll_length=10, seed=0,
        normalize_observations=True, network_factory=factory, num_evals=1,
    )  # fmt: skip
    mean, std = ask(factory, params)
    best = jax.jit(make_inference(params, deterministic=True))
    draw = jax.jit(make_inference(params))
    keys = iter(jax.random.split(jax.random.key(1), 100_000))
    act = lambda seen: HIGH * np.array(draw(jnp.array(seen), next(keys))[0])  # noqa: E731

    def answer(observations):
        actions = HIGH * np.array(best(observations, jax.random.key(0))[0])
        return {"actions": actions, "mean": mean(observations), "std": std(observations)}

    facts = {
        "library": "Brax",
        "version": brax.__version__,
        "script": "scripts/checkpoints/brax_rows.py",
    }
    folder = fresh("brax-ppo")
    model.save_params(folder / "params", params)
    what = "PPO, params of brax.io.model, MLP, real actions"
    write_row("brax-ppo", ENVIRONMENT, act, answer, what=what, policy="params", **facts)
    folder = fresh("brax-ppo-folder")
    config = checkpoint.network_config(3, 1, True, factory)
    checkpoint.save(folder / "checkpoints", 40_000, params, config)
    for told in folder.rglob("commit_success.txt"):  # it names the folder of who made the row
        told.write_text("Checkpoint commit was successful", encoding="utf-8")
    what = "PPO, checkpoint (Orbax), MLP, real actions"
    facts |= {"policy": "checkpoints", "needs": "tensorstore"}
    write_row("brax-ppo-folder", ENVIRONMENT, act, answer, what=what, **facts)


def ask(factory, params):
    """Means and deviations before tanh."""
    from brax.training.acme import running_statistics

    made = factory(3, 1, preprocess_observations_fn=running_statistics.normalize)

    given = made.parametric_action_distribution.create_dist
    outputs = jax.jit(lambda seen: made.policy_network.apply(params[0], params[1], seen))
    return (
        lambda seen: np.array(given(outputs(seen)).loc),
        lambda seen: np.array(given(outputs(seen)).scale),
    )


def fresh(name):
    shutil.rmtree(ROWS / name, ignore_errors=True)
    (ROWS / name).mkdir(parents=True)
    return ROWS / name


if __name__ == "__main__":
    rows()
