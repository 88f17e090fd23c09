"""Policies with an LSTM act as SB3-contrib's RecurrentPPO does, along episodes."""

from __future__ import annotations

import numpy as np
import pytest
from readers import read_sb3

from pivec import Actions
from pivec.errors import BadPolicyFile, PivecWarning, UsageError
from pivec.explanations import Replayer
from pivec.policies import (
    CheckpointFiles,
    NetworkPolicy,
    RecurrentNetwork,
    RecurrentPolicy,
    as_policy,
    load_policies,
)
from pivec.states import Store
from pivec.workflows import collect

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from sb3_models import Still, model, saved, spaces  # noqa: E402
from stable_baselines3.common.torch_layers import FlattenExtractor  # noqa: E402

RNG = np.random.default_rng(0)
PLANE = spaces.Box(-1, 1, (3,))
BOX = spaces.Box(np.array([-2.0, 0.5], "f4"), np.array([1.0, 3.0], "f4"))
SMALL = {"lstm_hidden_size": 6, "net_arch": [5]}
SHARED = {"shared_lstm": True, "enable_critic_lstm": False}
N, LENGTH = 3, 12
CLOSE = 1e-5


def recurrent(actions=BOX, env=None, use_sde=False, **more):
    env, settings = env or Still(PLANE, actions), {**SMALL, **more}
    return model("RecurrentPPO", env, "MlpLstmPolicy", policy_kwargs=settings, use_sde=use_sde)


def distribution(made, rows, state, starts):
    with torch.no_grad():
        hidden, cell = map(torch.tensor, state)
        given = torch.tensor(rows), (hidden, cell), torch.tensor(starts, dtype=torch.float32)
        theirs = made.policy.get_distribution(*given)[0].distribution
    if isinstance(theirs, list):
        return (np.concatenate([part.probs.numpy() for part in theirs], axis=1),)
    if hasattr(theirs, "probs"):
        return (theirs.probs.numpy(),)
    return theirs.mean.numpy(), theirs.stddev.numpy()


def own_network(seed=0, cells=2, size=7, inputs=4):
    rng = np.random.default_rng(seed)
    layers = [
        (rng.normal(size=(n_in + size, 4 * size)), rng.normal(size=4 * size))
        for n_in in (inputs, *[size] * (cells - 1))
    ]
    rest = NetworkPolicy(((rng.normal(size=(size, 2)), np.zeros(2)),), "tanh", "categorical")
    return RecurrentNetwork(tuple(layers), rest)


@pytest.mark.parametrize(
    ("actions", "more"),
    [
        (spaces.Discrete(3), {}),
        (BOX, {**SHARED, "n_lstm_layers": 2}),
        (spaces.MultiDiscrete([2, 3]), {"enable_critic_lstm": False, "net_arch": []}),
        (BOX, {"use_sde": True}),
    ],
    ids=["separate", "shared, two layers", "no LSTM of the critic", "gSDE"],
)
def test_they_agree_along_episodes(actions, more):
    made = recurrent(actions, **more)
    policy, info = read_sb3(saved(made))
    assert info["algorithm"] == "RecurrentPPO"
    assert isinstance(policy, RecurrentPolicy)
    bound = policy.bind(PLANE, actions)
    memory, state = bound.initial_memory(N), None
    seen = []
    for time in range(LENGTH):
        starts = np.array([time == 0, time % 5 == 0, False])
        memory[starts] = bound.initial_memory(1)
        rows = RNG.uniform(-3, 3, (N, 3)).astype(np.float32)
        if state is not None:
            theirs = distribution(made, rows, state, starts)
            ours = bound.distribution(rows, memory)
            for mine, other in zip(ours if len(theirs) == 2 else [ours], theirs, strict=True):
                np.testing.assert_allclose(mine, other, atol=CLOSE)
            seen.append(theirs[0])
        expected, state = made.predict(rows, state, starts, deterministic=True)
        ours, memory = bound.respond(rows, None, memory)
        np.testing.assert_allclose(ours, expected, atol=CLOSE)
        parts = [part[layer] for layer in range(len(state[0])) for part in state]
        np.testing.assert_allclose(memory, np.concatenate(parts, axis=1), atol=CLOSE)
    assert np.std(seen, axis=0).max() > 0.03, "what hardly varies would hide errors"


def test_cells_agree_with_float64():
    policy = own_network()
    rows = RNG.normal(size=(5, 4))
    memory = RNG.normal(size=(5, 28)).astype(np.float32)
    outputs, after = policy.outputs(rows, memory)
    x, expected = rows.astype(np.float32).astype(np.float64), []
    for (weight, bias), hidden, cell in zip(
        policy.cells,
        memory.reshape(5, 4, 7)[:, ::2].swapaxes(0, 1),
        memory.reshape(5, 4, 7)[:, 1::2].swapaxes(0, 1),
        strict=True,
    ):
        gates = np.hstack([x, hidden]) @ weight.astype(np.float64) + bias
        i, f, g, o = np.split(gates, 4, axis=1)
        state = cell / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        x = np.tanh(state) / (1 + np.exp(-o))
        expected += [x, state]
    np.testing.assert_allclose(after, np.hstack(expected), atol=2e-6)
    weight, bias = policy.rest.layers[0]
    np.testing.assert_allclose(outputs, x @ weight + bias, atol=1e-5)


@pytest.mark.bits
def test_a_row_does_not_depend_on_its_company():
    policy = own_network(size=20)
    rows, memory = RNG.normal(size=(9, 4)), RNG.normal(size=(9, 80))
    noise = policy.noise(RNG, 9)
    together, after = policy.respond(rows, noise, memory)
    for row in range(9):
        mine = slice(row, row + 1)
        alone, own = policy.respond(rows[mine], noise[mine], memory[mine])
        assert (alone == together[mine]).all()
        assert own.tobytes() == after[mine].tobytes()


@pytest.mark.bits
def test_episodes_are_the_same_however_they_are_played():
    policies = {"a": own_network(1), "b": own_network(2)}
    first = collect("CartPole-v1", policies, episodes=7, n_envs=1)
    for settings in ({"n_envs": 5}, {"n_envs": 64}, {"jobs": 2}):
        again = collect("CartPole-v1", policies, episodes=7, **settings)
        np.testing.assert_array_equal(again.states, first.states)
    alone = collect("CartPole-v1", {"b": policies["b"]}, episodes=7)
    np.testing.assert_array_equal(alone.states, first["b"].states)


def test_files_are_normalised_kept_and_replayed(tmp_path):
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = VecNormalize(DummyVecEnv([lambda: Still(PLANE, BOX)]))
    env.obs_rms.mean, env.obs_rms.var = np.array([0.5, 0.0, -1.0]), np.array([2.0, 1.0, 0.3])
    made = recurrent(env=env)
    made.save(tmp_path / "lstm.zip")
    env.save(str(tmp_path / "vecnormalize.pkl"))
    (named,) = load_policies(str(tmp_path / "lstm.zip"))
    assert named.info.metadata["normaliser"] == "vecnormalize.pkl"
    rows = RNG.uniform(-1, 1, (N, 3))
    ours, memory = named.policy.respond(rows, None, named.policy.initial_memory(N))
    expected, _ = made.predict(env.normalize_obs(rows), deterministic=True)
    np.testing.assert_allclose(ours, expected, atol=CLOSE)
    live = as_policy(made)
    assert live.fingerprint == named.policy.fingerprint
    assert live.initial_memory(2).shape == (2, memory.shape[1])

    file = tmp_path / "cart" / "cart.zip"
    file.parent.mkdir()
    recurrent(env="CartPole-v1").save(file)
    data = collect("CartPole-v1", str(file), episodes=3, store=tmp_path / "store")
    take = Replayer(Store(tmp_path / "store")).stored(data.labels[0], 2)
    np.testing.assert_array_equal(take.states, list(data.episodes())[2])
    with pytest.raises(UsageError, match="'cart/cart'"):
        Actions().fit(collect("CartPole-v1", str(file), episodes=2))


def test_what_cannot_be_is_refused():
    policy = own_network()
    with pytest.raises(UsageError, match="memory"):
        policy.act(np.zeros((1, 4)), RNG)
    with pytest.raises(UsageError, match=r"memory of shape \(1, 28\), but got \(1, 4\) and \(1, 3"):
        policy.respond(np.zeros((1, 4)), None, np.zeros((1, 3)))
    with pytest.raises(UsageError, match="4 values"):
        policy.bind(PLANE, spaces.Discrete(2))
    with pytest.raises(UsageError, match=r"not \(10, 24\)"):
        RecurrentNetwork(((np.zeros((10, 24)), np.zeros(24)),), policy.rest)
    with pytest.raises(UsageError, match="NaN"):
        RecurrentNetwork(((np.full((11, 28), np.nan), np.zeros(28)),), policy.rest)
    with pytest.raises(UsageError, match="at least one layer"):
        RecurrentNetwork((), policy.rest)
    made = recurrent(lstm_kwargs={"bias": False})
    with pytest.raises(BadPolicyFile, match="lstm_actor"):
        read_sb3(saved(made))


class Doubled(FlattenExtractor):
    def forward(self, observations):
        return 2 * super().forward(observations)


def test_a_model_that_cannot_be_copied_is_asked_with_its_state():
    made = recurrent(env="CartPole-v1", features_extractor_class=Doubled)
    for trust in (False, True):
        with pytest.raises(BadPolicyFile, match="module:object"):
            read_sb3(saved(made), "the file", CheckpointFiles(trust=trust))
    with pytest.warns(PivecWarning, match="predict"):
        policy = as_policy(made)
    rows, rng = RNG.normal(size=(4, 1, 4)).astype(np.float32), np.random.default_rng(0)
    memory, state = None, None
    for row in rows:
        ours, memory = policy.ask(row, rng, memory, deterministic=True)
        expected, state = made.predict(row, state, deterministic=True)
        assert ours == expected
        np.testing.assert_array_equal(np.array(memory), np.array(state))
    assert np.abs(memory).max() > 0
