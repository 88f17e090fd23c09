"""Every algorithm of Stable-Baselines3 and SB3-contrib acts here as it acts there."""

from __future__ import annotations

import numpy as np
import pytest
from readers import read_sb3

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies import NetworkPolicy, Stack, as_policy

torch = pytest.importorskip("torch")

from sb3_models import Still, changed, model, observations_of, saved, spaces  # noqa: E402

nn = torch.nn
PLANE = spaces.Box(-1, 1, (3,))
BOX = spaces.Box(np.array([-2.0, 0.5], "f4"), np.array([1.0, 3.0], "f4"))
GRID = spaces.Box(-2, np.arange(1, 7, dtype="f4").reshape(2, 3), (2, 3))
RNG = np.random.default_rng(0)
CLOSE = 1e-4
"""Of actions up to 6 in float32; up to 2e-5 was seen over instruction sets and BLAS."""


def tensors_of(made, observations):
    return made.policy.obs_to_tensor(observations)[0]


@pytest.mark.parametrize("algorithm", ["SAC", "TQC"])
@pytest.mark.parametrize("actions", [BOX, GRID], ids=["vector", "grid"])
@pytest.mark.parametrize(
    "policy_kwargs",
    [{}, {"net_arch": [12, 7], "activation_fn": nn.Tanh}, {"net_arch": {"pi": [5], "qf": [9]}}],
    ids=["default", "tanh", "separate"],
)
def test_squashed_gaussians_agree(algorithm, actions, policy_kwargs):
    made = model(algorithm, Still(PLANE, actions), policy_kwargs=policy_kwargs)
    policy, info = read_sb3(saved(made))
    assert info["algorithm"] == algorithm
    observations, rows = observations_of(made)
    with torch.no_grad():
        mean, log_std, _ = made.policy.actor.get_action_dist_params(tensors_of(made, observations))
    ours, std = policy.distribution(rows)
    np.testing.assert_allclose(ours, mean.numpy(), atol=CLOSE)
    np.testing.assert_allclose(std, log_std.exp().numpy(), rtol=1e-5, atol=CLOSE)
    assert np.log(std).std() > 0.1, "deviations that hardly vary would hide errors"
    expected, _ = made.predict(observations, deterministic=True)
    np.testing.assert_allclose(policy.act(rows, RNG, deterministic=True), expected, atol=CLOSE)
    noise = policy.noise(RNG, len(rows))
    squashed = np.tanh(mean.numpy() + log_std.exp().numpy() * noise)
    expected = made.policy.unscale_action(squashed.reshape(-1, *actions.shape))
    np.testing.assert_allclose(policy.respond(rows, noise), expected, atol=CLOSE)


def test_log_deviations_are_capped_as_in_sac():
    made = model("SAC", Still(PLANE, BOX), policy_kwargs={"net_arch": []})
    with torch.no_grad():
        made.policy.actor.log_std.bias.copy_(torch.tensor([50.0, -50.0]))
    _, std = read_sb3(saved(made))[0].distribution(np.zeros((1, 3)))
    np.testing.assert_allclose(np.log(std), [[2, -20]], rtol=1e-5)


@pytest.mark.parametrize("algorithm", ["TD3", "DDPG"])
@pytest.mark.parametrize("actions", [BOX, GRID], ids=["vector", "grid"])
def test_deterministic_actors_agree(algorithm, actions):
    made = model(algorithm, Still(PLANE, actions), policy_kwargs={"net_arch": [30, 20]})
    policy, info = read_sb3(saved(made))
    assert info["algorithm"] == algorithm
    observations, rows = observations_of(made)
    expected, _ = made.predict(observations)
    assert np.ptp(expected, axis=0).max() > 0.3
    for deterministic in (True, False):
        actual = policy.act(rows, RNG, deterministic=deterministic)
        np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["DQN", "QRDQN"])
@pytest.mark.parametrize("policy_kwargs", [{}, {"net_arch": [9], "activation_fn": nn.ELU}])
def test_values_agree_and_exploration_is_as_saved(algorithm, policy_kwargs):
    made = model(algorithm, Still(PLANE, spaces.Discrete(5)), policy_kwargs=dict(policy_kwargs))
    made.exploration_rate = 0.3
    policy, info = read_sb3(saved(made))
    assert info["algorithm"] == {"DQN": "DQN", "QRDQN": "QR-DQN"}[algorithm]
    assert info["epsilon"] == 0.3
    observations, rows = observations_of(made, n=60)
    best, _ = made.predict(observations, deterministic=True)
    np.testing.assert_array_equal(policy.act(rows, RNG, deterministic=True), best)
    chances = np.full((60, 5), 0.3 / 5)
    chances[np.arange(60), best] += 0.7
    np.testing.assert_allclose(policy.distribution(rows), chances, atol=1e-6)
    n = 40_000
    actions = policy.act(np.repeat(rows[:1], n, axis=0), np.random.default_rng(1))
    counts = np.bincount(actions, minlength=5)
    assert (np.abs(counts - n * chances[0]) < 5 * np.sqrt(n * chances[0])).all()


@pytest.mark.parametrize("algorithm", ["DQN", "QRDQN"])
def test_values_themselves_agree(algorithm):
    extra = {"n_quantiles": 11} if algorithm == "QRDQN" else {}
    made = model(algorithm, Still(PLANE, spaces.Discrete(4)), policy_kwargs=extra)
    policy, _ = read_sb3(saved(made))
    observations, rows = observations_of(made)
    with torch.no_grad():
        tensors = tensors_of(made, observations)
        if algorithm == "QRDQN":
            values = made.policy.quantile_net(tensors).mean(dim=1).numpy()
        else:
            values = made.policy.q_net(tensors).numpy()
    plain = NetworkPolicy(policy.layers, policy.activation, "deterministic")
    np.testing.assert_allclose(plain.distribution(rows)[0], values, atol=1e-5)


@pytest.mark.parametrize("rate", [-0.1, 1.5, "many"])
def test_an_odd_exploration_rate_is_refused(rate):
    data = saved(model("DQN"))
    with pytest.raises(BadPolicyFile, match=str(rate)):
        read_sb3(changed(data, exploration_rate=rate))


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "TRPO"])
def test_several_choices_at_once_agree(algorithm):
    made = model(algorithm, Still(PLANE, spaces.MultiDiscrete([2, 5, 3])))
    policy, info = read_sb3(saved(made))
    assert info["algorithm"] == algorithm
    observations, rows = observations_of(made)
    with torch.no_grad():
        theirs = made.policy.get_distribution(tensors_of(made, observations)).distribution
    expected = np.concatenate([each.probs.numpy() for each in theirs], axis=1)
    np.testing.assert_allclose(policy.distribution(rows), expected, atol=1e-5)
    mode, _ = made.predict(observations, deterministic=True)
    np.testing.assert_array_equal(policy.act(rows, RNG, deterministic=True), mode)
    n = 40_000
    actions = policy.act(np.repeat(rows[:1], n, axis=0), np.random.default_rng(1))
    assert actions.shape == (n, 3)
    assert made.action_space.contains(actions[0])
    counts = np.concatenate(
        [np.bincount(a, minlength=k) for a, k in zip(actions.T, (2, 5, 3), strict=True)]
    )
    assert (np.abs(counts - n * expected[0]) < 5 * np.sqrt(n * expected[0])).all()
    bound = policy.bind(made.observation_space, made.action_space)
    assert bound is policy


@pytest.mark.parametrize("algorithm", ["PPO", "A2C"])
def test_switches_agree(algorithm):
    made = model(algorithm, Still(PLANE, spaces.MultiBinary(4)))
    policy, _ = read_sb3(saved(made))
    observations, rows = observations_of(made)
    with torch.no_grad():
        theirs = made.policy.get_distribution(tensors_of(made, observations)).distribution
    expected = theirs.probs.numpy()
    np.testing.assert_allclose(policy.distribution(rows), expected, atol=1e-5)
    mode, _ = made.predict(observations, deterministic=True)
    np.testing.assert_array_equal(policy.act(rows, RNG, deterministic=True), mode)
    n = 40_000
    actions = policy.act(np.repeat(rows[:1], n, axis=0), np.random.default_rng(1))
    assert made.action_space.contains(actions[0])
    spread = 5 * np.sqrt(n * expected[0] * (1 - expected[0]))
    assert (np.abs(actions.sum(axis=0) - n * expected[0]) < spread).all()
    assert policy.bind(made.observation_space, made.action_space) is policy


def test_boxes_of_two_axes_agree():
    made = model("PPO", Still(PLANE, GRID))
    policy, _ = read_sb3(saved(made))
    observations, rows = observations_of(made)
    expected, _ = made.predict(observations, deterministic=True)
    actual = policy.act(rows, RNG, deterministic=True)
    assert actual.shape == (40, 2, 3)
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    bound = policy.bind(PLANE, GRID)
    np.testing.assert_array_equal(bound.high, GRID.high.ravel())


SDE = [
    ("PPO", {}),
    ("A2C", {"use_expln": True, "log_std_init": 0.3}),
    ("PPO", {"full_std": False, "squash_output": True, "net_arch": [6]}),
    ("PPO", {"net_arch": []}),
    ("SAC", {"net_arch": [8]}),
    ("TQC", {"net_arch": [8], "clip_mean": 0.0, "use_expln": True}),
    ("SAC", {"net_arch": [8], "clip_mean": 0.3}),
]


@pytest.mark.parametrize(("algorithm", "policy_kwargs"), SDE)
def test_state_dependent_exploration_agrees(algorithm, policy_kwargs):
    made = model(algorithm, Still(PLANE, GRID), use_sde=True, policy_kwargs=dict(policy_kwargs))
    policy, _ = read_sb3(saved(made))
    observations, rows = observations_of(made)
    with torch.no_grad():
        tensors = tensors_of(made, observations)
        if algorithm in ("SAC", "TQC"):
            actor = made.policy.actor
            mean, log_std, extra = actor.get_action_dist_params(tensors)
            theirs = actor.action_dist.proba_distribution(mean, log_std, **extra).distribution
        else:
            theirs = made.policy.get_distribution(tensors).distribution
    mean, std = policy.distribution(rows)
    np.testing.assert_allclose(mean, theirs.mean.numpy(), atol=1e-5)
    # SB3 adds 1e-6 to the variance for the density, but not where it samples.
    expected = np.sqrt(np.maximum(theirs.stddev.numpy() ** 2 - 1e-6, 0))
    np.testing.assert_allclose(std, expected, atol=2e-5)
    mode, _ = made.predict(observations, deterministic=True)
    np.testing.assert_allclose(policy.act(rows, RNG, deterministic=True), mode, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
def test_sampled_noise_is_that_of_a_matrix_drawn_at_each_step(algorithm):
    made = model(algorithm, Still(PLANE, BOX), use_sde=True, policy_kwargs={"net_arch": [6]})
    observation = np.array([[0.3, -0.2, 0.9]], np.float32)
    torch.manual_seed(0)
    dist = made.policy.actor if algorithm == "SAC" else made.policy
    theirs = []
    for _ in range(3000):
        dist.reset_noise(1)
        theirs.append(made.predict(observation)[0][0])
    policy, _ = read_sb3(saved(made))
    ours = policy.act(np.repeat(observation, 3000, axis=0), np.random.default_rng(0))
    for quantile in (0.1, 0.3, 0.5, 0.7, 0.9):
        at = np.quantile(theirs, quantile, axis=0)
        share = (ours <= at + 1e-6).mean(axis=0)
        below = (np.array(theirs) <= at + 1e-6).mean(axis=0)
        assert np.abs(share - below).max() < 0.06


EVERY = [
    ("PPO", spaces.Discrete(3), {}),
    ("PPO", spaces.MultiDiscrete([2, 3]), {}),
    ("A2C", spaces.MultiBinary(3), {}),
    ("PPO", GRID, {}),
    ("PPO", GRID, {"use_sde": True}),
    ("SAC", BOX, {}),
    ("SAC", BOX, {"use_sde": True}),
    ("TD3", GRID, {}),
    ("DQN", spaces.Discrete(3), {}),
    ("QRDQN", spaces.Discrete(3), {}),
    ("TQC", BOX, {}),
]


@pytest.mark.bits
@pytest.mark.parametrize(("algorithm", "actions", "arguments"), EVERY)
def test_they_stack_and_a_row_does_not_depend_on_its_company(algorithm, actions, arguments):
    env = Still(PLANE, actions)
    policies = []
    for seed in range(3):
        made = model(algorithm, env, seed=seed, **arguments)
        if algorithm in ("DQN", "QRDQN"):
            made.exploration_rate = seed / 3
        policies.append(read_sb3(saved(made))[0].bind(PLANE, actions))
    assert len({policy.architecture for policy in policies}) == 1
    assert len({policy.fingerprint for policy in policies}) == 3
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(3, 37, 3)).astype(np.float32)
    noise = np.stack([policy.noise(rng, 37) for policy in policies])
    for numbers in (noise, None):
        stack = Stack(3, 37, policies[0])
        for slot, policy in enumerate(policies):
            stack.put(slot, policy)
        whole = stack.respond(observations, numbers)
        assert whole.shape == (3, 37, *(actions.shape or ()))
        for slot, policy in enumerate(policies):
            for lanes in (slice(0, 37), slice(5, 6), slice(3, 21)):
                some = None if numbers is None else numbers[slot, lanes]
                part = policy.respond(observations[slot, lanes], some)
                np.testing.assert_array_equal(part, whole[slot, lanes])
        for action in whole[0]:
            assert actions.contains(action)


@pytest.mark.parametrize(
    ("algorithm", "settings", "words"),
    [
        ("DQN", {"action_space": {":type:": "<class 'x.Box'>"}}, "expected Discrete"),
        ("SAC", {"action_space": {":type:": "<class 'x.Discrete'>"}}, "expected Box"),
        (
            "QRDQN",
            {"action_space": {":type:": "<class 'x.Discrete'>", "n": "7"}},
            "action space",
        ),
        (
            "QRDQN",
            {"action_space": {":type:": "<class 'x.Discrete'>", "n": "..."}},
            "number of actions",
        ),
        (
            "PPO",
            {"action_space": {":type:": "<class 'x.MultiDiscrete'>", "nvec": "[1 ... 3]"}},
            "number of actions",
        ),
        (
            "PPO",
            {"action_space": {":type:": "<class 'x.MultiDiscrete'>", "nvec": "[2 9]"}},
            "add up",
        ),
    ],
)
def test_settings_that_contradict_the_weights_are_named(algorithm, settings, words):
    actions = BOX if algorithm == "SAC" else spaces.Discrete(3)
    data = saved(model(algorithm, Still(PLANE, actions)))
    with pytest.raises(BadPolicyFile, match=words):
        read_sb3(changed(data, **settings))


def test_algorithms_that_need_more_than_the_observation_are_named():
    with pytest.raises(BadPolicyFile, match="CrossQ"):
        read_sb3(saved(model("CrossQ", Still(PLANE, BOX), buffer_size=10)))


@pytest.mark.parametrize("algorithm", ["SAC", "DQN"])
def test_models_in_memory_are_copied_whatever_their_algorithm(algorithm):
    made = model(algorithm, Still(PLANE, BOX if algorithm == "SAC" else spaces.Discrete(3)))
    policy = as_policy(made)
    assert isinstance(policy, NetworkPolicy)
    observations, rows = observations_of(made)
    expected, _ = made.predict(observations, deterministic=True)
    np.testing.assert_allclose(policy.act(rows, RNG, deterministic=True), expected, atol=CLOSE)


def test_squashed_actions_need_a_box():
    data = saved(model("SAC", Still(PLANE, BOX)))
    space = {":type:": "<class 'x.Box'>", "low": "[-1. ...]", "high": "[1. ...]"}
    policy, _ = read_sb3(changed(data, action_space=space))
    with pytest.raises(UsageError, match="call bind"):
        policy.act(np.zeros((1, 3)), RNG)
    assert policy.bind(PLANE, BOX).act(np.zeros((1, 3)), RNG).shape == (1, 2)
    with pytest.raises(UsageError, match="bounds"):
        policy.bind(PLANE, spaces.Box(-np.inf, np.inf, (2,)))
