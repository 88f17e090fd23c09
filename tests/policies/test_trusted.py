"""What Stable-Baselines3 alone can read: refused by name, or read by it and sampled by pivec."""

from __future__ import annotations

import pickle
import random
import sys

import gymnasium
import numpy as np
import pytest
from readers import read_sb3
from sb3_models import Still, model, saved, sb3, torch

import pivec
from pivec.errors import BadPolicyFile, MissingExtra, UsageError
from pivec.policies import CheckpointFiles, load_policies

spaces = gymnasium.spaces
TRUST = CheckpointFiles(trust=True)


class Halving(sb3.common.torch_layers.BaseFeaturesExtractor):
    """A features extractor of a user's own."""

    def __init__(self, observation_space, features_dim=5):
        super().__init__(observation_space, features_dim)
        self.layer = torch.nn.Linear(int(np.prod(observation_space.shape)), features_dim)

    def forward(self, observations):
        return torch.tanh(0.5 * self.layer(observations))


OWN = {"features_extractor_class": Halving, "net_arch": [8]}
REAL, SWITCHES = spaces.Box(-2, 2, (3,)), spaces.MultiBinary(4)
SEEN = spaces.Box(-1, 1, (6,))
MODELS = {
    "ppo": ("PPO", "CartPole-v1", {"policy_kwargs": {**OWN}}),
    "ppo-real": ("PPO", Still(SEEN, REAL), {"policy_kwargs": {**OWN}}),
    "ppo-sde": ("PPO", Still(SEEN, REAL), {"policy_kwargs": {**OWN}, "use_sde": True}),
    "a2c-several": ("A2C", Still(SEEN, spaces.MultiDiscrete([3, 2])), {"policy_kwargs": {**OWN}}),
    "a2c-switches": ("A2C", Still(SEEN, SWITCHES), {"policy_kwargs": {**OWN}}),
    "dqn": ("DQN", "CartPole-v1", {"policy_kwargs": {**OWN}}),
    "qrdqn": ("QRDQN", "CartPole-v1", {"policy_kwargs": {**OWN}}),
    "sac": ("SAC", Still(SEEN, REAL), {"policy_kwargs": {**OWN}}),
    "tqc-sde": ("TQC", Still(SEEN, REAL), {"policy_kwargs": {**OWN}, "use_sde": True}),
    "td3": ("TD3", Still(SEEN, REAL), {"policy_kwargs": {**OWN}}),
    "crossq": ("CrossQ", Still(SEEN, REAL), {"policy_kwargs": {"net_arch": [8]}}),
    "ars": ("ARS", Still(SEEN, REAL), {}),
}


def bound(data, env):
    policy, _ = read_sb3(data, "it", TRUST)
    return policy.bind(env.observation_space, env.action_space)


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_the_librarys_and_draws_are_ours(name):
    algorithm, env, arguments = MODELS[name]
    policy = "LinearPolicy" if algorithm == "ARS" else "MlpPolicy"
    made = model(algorithm, env, policy, **arguments)
    made.exploration_rate = 0.5  # of DQN
    data = saved(made)
    if isinstance(env, str):
        env = gymnasium.make(env)
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    with pytest.raises(BadPolicyFile, match="--trust"):
        read_sb3(data, "it")
    asked = bound(data, env)
    rows = np.stack([env.observation_space.sample() for _ in range(8)])
    best = asked.act(rows, np.random.default_rng(0), deterministic=True)
    drawn = [asked.act(rows, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    again = pickle.loads(pickle.dumps(asked))
    np.testing.assert_array_equal(again.act(rows, np.random.default_rng(1)), drawn[0])
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    np.testing.assert_allclose(
        best, made.predict(rows, deterministic=True)[0], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(drawn[0], drawn[1])
    if algorithm not in ("TD3", "ARS"):
        assert (drawn[0] != drawn[2]).any()
    assert asked.fingerprint == bound(saved(made), env).fingerprint


def test_the_distribution_is_the_librarys():
    made = model("PPO", Still(SEEN, REAL), policy_kwargs={**OWN})
    rows = np.stack([SEEN.sample() for _ in range(10)])
    mean, std = bound(saved(made), made.env.envs[0]).distribution(rows)
    with torch.no_grad():
        given = made.policy.get_distribution(torch.as_tensor(rows)).distribution
    np.testing.assert_allclose(mean, given.mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(std, given.stddev, rtol=1e-5, atol=1e-5)


def test_whole_numbers_that_are_normalised_stay_real(tmp_path):
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    space = spaces.Box(0, 255, (6,), np.uint8)
    env = VecNormalize(DummyVecEnv([lambda: Still(space, REAL)]))
    env.obs_rms.mean, env.obs_rms.var = np.full(6, 120.0), np.full(6, 5000.0)
    made = model("PPO", env, policy_kwargs={**OWN})
    (tmp_path / "a.zip").write_bytes(saved(made))
    env.save(str(tmp_path / "vecnormalize.pkl"))
    (named,) = load_policies(tmp_path / "a.zip", trust=True)
    rows = np.stack([space.sample() for _ in range(10)])
    best = named.policy.bind(space, REAL).act(rows, np.random.default_rng(0), deterministic=True)
    expected, _ = made.predict(env.normalize_obs(rows), deterministic=True)
    np.testing.assert_allclose(best, expected, rtol=1e-5, atol=1e-5)


def test_dict_observations_and_whole_numbers_reach_the_library():
    seen = spaces.Dict({"a": spaces.Box(-1, 1, (2, 3)), "b": spaces.Discrete(3)})
    for space, policy in ((seen, "MultiInputPolicy"), (spaces.Discrete(5), "MlpPolicy")):
        env = Still(space, spaces.Discrete(4))
        made = model("PPO", env, policy, policy_kwargs={"activation_fn": torch.nn.Mish})
        asked = bound(saved(made), env)
        samples = [space.sample() for _ in range(10)]
        rows = np.array([spaces.flatten(space, x) if policy[1] == "u" else x for x in samples])
        best = asked.act(rows, np.random.default_rng(0), deterministic=True)
        assert best.tolist() == [made.predict(x, deterministic=True)[0] for x in samples]


def test_it_plays_the_same_in_other_processes_too(tmp_path):
    model("PPO", "CartPole-v1", policy_kwargs={**OWN}).save(tmp_path / "own.zip")
    (named,) = load_policies(tmp_path, trust=True)
    played = [
        pivec.collect("CartPole-v1", [named, "random"], episodes=4, jobs=jobs, n_envs=n)
        for jobs, n in ((None, 2), (2, 8))
    ]
    np.testing.assert_array_equal(played[0].states, played[1].states)


def test_what_does_not_fit_or_is_not_there_is_named(monkeypatch):
    data = saved(model("PPO", "CartPole-v1", policy_kwargs={**OWN}))
    policy, _ = read_sb3(data, "it", TRUST)
    with pytest.raises(UsageError, match="4 values, but the environment gives 6"):
        policy.bind(SEEN, spaces.Discrete(2))
    monkeypatch.delattr(sys.modules[__name__], "Halving")
    with pytest.raises(BadPolicyFile, match=r"PPO\.load failed: .*policy_kwargs"):
        read_sb3(data, "it", TRUST)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingExtra, match=r"pivec\[sb3\]"):
        read_sb3(data, "it", TRUST)
