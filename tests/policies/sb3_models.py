"""Models of Stable-Baselines3 with random weights, and their files, for several tests."""

from __future__ import annotations

import io
import json
import warnings
import zipfile

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")


spaces = gymnasium.spaces
torch.set_num_threads(1)  # these models are tiny, and threads that wait for each other are slow

OFF_POLICY = ("DQN", "SAC", "TD3", "DDPG", "QRDQN", "TQC")


class Still(gymnasium.Env):
    """An environment of given spaces in which nothing happens."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, True, False, {}


def model(algorithm="PPO", env="CartPole-v1", policy="MlpPolicy", seed=0, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if algorithm in OFF_POLICY:
            arguments.setdefault("buffer_size", 10)
        kind = getattr(sb3, algorithm, None)
        kind = kind or getattr(pytest.importorskip("sb3_contrib"), algorithm)
        made = kind(policy, env, device="cpu", seed=seed, **arguments)
    torch.manual_seed(seed)
    with torch.no_grad():  # the start has nearly equal probabilities, which would hide errors
        for parameter in made.policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


def saved(made) -> bytes:
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def changed(data: bytes, **settings) -> bytes:
    """The same checkpoint with other entries in its JSON part; None takes an entry out."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "data":
                merged = {**json.loads(content), **settings}
                for key in [key for key, value in settings.items() if value is None]:
                    merged.pop(key, None)
                content = json.dumps(merged).encode()
            new.writestr(name, content)
    return buffer.getvalue()


def observations_of(made, n=40, seed=0):
    """Sampled observations within reason, and the same flattened."""
    space = made.observation_space
    space.seed(seed)
    rows = np.clip(np.array([space.sample() for _ in range(n)]), -5, 5).astype(space.dtype)
    return rows, np.array([spaces.flatten(space, each) for each in rows])
