"""Makes the rows of Flax: `pip install "jax[cpu]" flax optax`, then run this file.

One is a TrainState of an actor and a critic, as small scripts have them; the other what CleanRL's
dqn_jax.py saves, with its network.
"""

from __future__ import annotations

import json

import flax
import flax.linen as nn
import flax.serialization
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from rows import ROWS, write_row

ENVIRONMENT = "CartPole-v1"


class ActorCritic(nn.Module):
    """Two MLPs."""

    @nn.compact
    def __call__(self, x):
        actor = nn.tanh(nn.Dense(16)(x))
        actor = nn.tanh(nn.Dense(16)(actor))
        logits = nn.Dense(2)(actor)
        critic = nn.tanh(nn.Dense(16)(x))
        critic = nn.tanh(nn.Dense(16)(critic))
        return logits, nn.Dense(1)(critic)[..., 0]


class QNetwork(nn.Module):
    """That of CleanRL's dqn_jax.py."""

    action_dim: int

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(120)(x))
        x = nn.relu(nn.Dense(84)(x))
        return nn.Dense(self.action_dim)(x)


def episodes(act, n, seed=0):
    """Observations, actions and returns to go of episodes."""
    env = gymnasium.make(ENVIRONMENT)
    seen, taken, later = [], [], []
    for episode in range(n):
        observation, _ = env.reset(seed=seed + episode)
        length, done = 0, False
        while not done:
            action = int(act(observation))
            seen.append(observation)
            taken.append(action)
            observation, _, terminated, truncated, _ = env.step(action)
            length, done = length + 1, terminated or truncated
        later += [length - i for i in range(length)]
    return jnp.array(seen), jnp.array(taken), jnp.array(later, dtype=jnp.float32)


def actor_critic(rng):
    net = ActorCritic()
    params = net.init(jax.random.key(0), jnp.zeros((1, 4)))
    state = TrainState.create(apply_fn=net.apply, params=params, tx=optax.adam(1e-2))
    apply = jax.jit(net.apply)

    def chances(params, observations):
        return np.array(jax.nn.softmax(apply(params, observations)[0]))

    def loss(params, seen, taken, later):
        logits, values = net.apply(params, seen)
        chosen = jax.nn.log_softmax(logits)[jnp.arange(len(taken)), taken]
        better = (later - jnp.mean(later)) / (jnp.std(later) + 1e-8)
        return -jnp.mean(chosen * better) + 1e-3 * jnp.mean((values - later) ** 2)

    def act(observation):
        return rng.random() < chances(state.params, observation[None])[0, 1]

    for update in range(5):
        batch = episodes(act, 5, 1000 * update)
        state = state.apply_gradients(grads=jax.grad(loss)(state.params, *batch))
    folder = ROWS / "flax-actor-critic"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.msgpack").write_bytes(flax.serialization.to_bytes(state))
    described = {"activation": "tanh", "head": "categorical"}
    (folder / "state.json").write_text(json.dumps(described) + "\n")

    def answer(observations):
        given = chances(state.params, observations)
        return {"actions": given.argmax(axis=1), "probabilities": given}

    write_row(
        "flax-actor-critic",
        ENVIRONMENT,
        lambda rows: np.array([act(rows[0])]).astype(int),
        answer,
        library="Flax",
        version=flax.__version__,
        script="scripts/checkpoints/flax_rows.py",
        what="TrainState (msgpack) of an actor and a critic, MLP, Discrete actions",
        policy="state.msgpack",
    )


def dqn(rng):
    net = QNetwork(2)
    params = net.init(jax.random.key(1), jnp.zeros((1, 4)))
    seen, taken, later = episodes(lambda _: rng.integers(2), 30)
    optimiser = optax.adam(1e-3)
    state = optimiser.init(params)

    def loss(params):
        values = net.apply(params, seen)[jnp.arange(len(taken)), taken]
        return jnp.mean((values - later) ** 2)

    for _ in range(200):
        updates, state = optimiser.update(jax.grad(loss)(params), state)
        params = optax.apply_updates(params, updates)
    folder = ROWS / "cleanrl-dqn-jax"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dqn_jax.cleanrl_model").write_bytes(flax.serialization.to_bytes(params))
    apply = jax.jit(net.apply)

    def best(observations):
        return np.array(apply(params, observations)).argmax(axis=1)

    write_row(
        "cleanrl-dqn-jax",
        ENVIRONMENT,
        best,
        lambda observations: {"actions": best(observations)},
        library="CleanRL",
        version="fe8d8a03",
        script="scripts/checkpoints/flax_rows.py",
        what="DQN of JAX, MLP, Discrete actions",
        policy="dqn_jax.cleanrl_model",
    )


if __name__ == "__main__":
    actor_critic(np.random.default_rng(0))
    dqn(np.random.default_rng(1))
