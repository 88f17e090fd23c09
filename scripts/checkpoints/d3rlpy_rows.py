"""Makes the rows of d3rlpy: `pip install d3rlpy`, then run this file."""

from __future__ import annotations

import sys
from importlib.metadata import version

import d3rlpy
import gymnasium
import numpy as np
import torch
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.preprocessing import (
    MinMaxActionScaler,
    MinMaxObservationScaler,
    StandardObservationScaler,
)
from rows import ROWS, write_row

STEPS = 300


def recorded(environment):
    """Steps of random actions, as a dataset."""
    env = gymnasium.make(environment)
    env.action_space.seed(0)
    columns = {name: [] for name in ("observations", "actions", "rewards", "terminals", "timeouts")}
    observation, _ = env.reset(seed=0)
    for _ in range(1000):
        action = env.action_space.sample()
        following, reward, terminated, truncated, _ = env.step(action)
        for column, value in zip(
            columns.values(), (observation, action, reward, terminated, truncated), strict=True
        ):
            column.append(value)
        observation = env.reset()[0] if terminated or truncated else following
    return d3rlpy.dataset.MDPDataset(**{k: np.array(v) for k, v in columns.items()})


def make(name, environment, what, config, stochastic=True):
    d3rlpy.seed(0)
    dataset, algorithm = recorded(environment), config.create()
    algorithm.fit(
        dataset,
        n_steps=STEPS,
        n_steps_per_epoch=STEPS,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
    )
    (ROWS / name).mkdir(parents=True, exist_ok=True)
    algorithm.save(ROWS / name / f"model_{STEPS}.d3")
    policy = algorithm.impl.policy if stochastic else None

    def moments(observations):
        """Probabilities, or means and deviations before actions are rescaled."""
        given = torch.as_tensor(observations)
        if algorithm.observation_scaler:
            given = algorithm.observation_scaler.transform(given)
        with torch.no_grad():
            output = policy(given)
        if hasattr(output, "probs"):
            return {"probabilities": output.probs.numpy()}
        mean = output.squashed_mu if name == "d3rlpy-iql" else output.mu
        return {"mean": mean.numpy(), "std": output.logstd.exp().expand_as(mean).numpy()}

    def act(observations):
        return algorithm.sample_action(observations)

    def answer(observations):
        more = moments(observations) if stochastic else {}
        return {"actions": algorithm.predict(observations), **more}

    write_row(
        name,
        environment,
        act,
        answer,
        library="d3rlpy",
        version=version("d3rlpy"),
        what=what,
        policy=f"model_{STEPS}.d3",
        script="scripts/checkpoints/d3rlpy_rows.py",
    )


def actor_critic(kind, **more):
    encoder = VectorEncoderFactory([8, 8], activation="tanh", dropout_rate=0.1)
    small = VectorEncoderFactory([8])
    scaler = MinMaxActionScaler()
    return kind(
        actor_encoder_factory=encoder,
        critic_encoder_factory=small,
        action_scaler=scaler,
        batch_size=32,
        **more,
    )


MADE = {
    "d3rlpy-dqn": lambda: (
        "CartPole-v1",
        "Double DQN, MLP, quantiles",
        d3rlpy.algos.DoubleDQNConfig(
            encoder_factory=VectorEncoderFactory([8, 8]),
            q_func_factory=d3rlpy.models.QRQFunctionFactory(n_quantiles=5),
            batch_size=32,
        ),
        False,
    ),
    "d3rlpy-cql": lambda: (
        "Pendulum-v1",
        "CQL, MLP, real actions, MinMaxObservationScaler",
        actor_critic(d3rlpy.algos.CQLConfig, observation_scaler=MinMaxObservationScaler()),
    ),
    "d3rlpy-iql": lambda: (
        "Pendulum-v1",
        "IQL, MLP, real actions, StandardObservationScaler",
        actor_critic(
            d3rlpy.algos.IQLConfig,
            value_encoder_factory=VectorEncoderFactory([8]),
            observation_scaler=StandardObservationScaler(),
        ),
    ),
}


if __name__ == "__main__":
    for row in sys.argv[1:] or MADE:
        make(row, *MADE[row]())
