"""Statistics of VecNormalize: read without running, and applied to the right checkpoint."""

from __future__ import annotations

import os
import pickle

import gymnasium
import numpy as np
import pytest
from readers import read_sb3

from pivec.errors import BadPolicyFile, PivecWarning
from pivec.policies import NetworkPolicy, as_policy, load_policies
from pivec.policies.formats.rl_zoo import read_normaliser

pytest.importorskip("torch")

from sb3_models import Still, changed, model, saved, spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

RNG = np.random.default_rng(0)


def wrapped(env="Pendulum-v1", steps=50, **arguments):
    made = env if callable(env) else lambda: gymnasium.make(env)
    venv = VecNormalize(DummyVecEnv([made]), **arguments)
    venv.seed(0)
    venv.action_space.seed(0)
    venv.reset()
    for _ in range(steps):
        venv.step(np.array([venv.action_space.sample()]))
    return venv


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_it_normalises_as_sb3_does(env, protocol):
    venv = wrapped(env, clip_obs=1.5)
    normaliser = read_normaliser(pickle.dumps(venv, protocol))
    rows = np.random.default_rng(0).normal(size=(50, len(normaliser.mean))).astype(np.float32) * 3
    np.testing.assert_array_equal(normaliser.apply(rows), venv.normalize_obs(rows))
    assert np.abs(normaliser.apply(rows)).max() == 1.5


def test_dictionaries_are_normalised_in_the_order_of_the_space():
    space = spaces.Dict(
        b=spaces.Box(-9, 9, (2, 2)), a=spaces.Discrete(3), c=spaces.Box(-9, 9, (1,))
    )
    venv = wrapped(
        lambda: Still(space, spaces.Discrete(2)), steps=20, norm_obs_keys=["b"], clip_obs=1.0
    )
    normaliser = read_normaliser(pickle.dumps(venv))
    sample = {"a": 1, "b": np.full((2, 2), 5.0, "f4"), "c": np.full(1, 7.0, "f4")}
    theirs = {**sample, "b": venv.normalize_obs({"b": sample["b"][None]})["b"][0]}
    flat = spaces.flatten(space, sample)
    expected = spaces.flatten(space, theirs)
    np.testing.assert_allclose(normaliser.apply(flat), expected, rtol=1e-6)
    assert (expected != flat).sum() == 4


def test_without_normalised_observations_there_is_none():
    assert read_normaliser(pickle.dumps(wrapped(norm_obs=False))) is None


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_code_in_the_pickle_is_refused_and_does_not_run(tmp_path, protocol):
    venv = wrapped()
    venv.old_obs = Payload(tmp_path / "touched")
    data = pickle.dumps(venv, protocol)
    with pytest.raises(BadPolicyFile, match=r"system|instruction"):
        read_normaliser(data, "vecnormalize.pkl")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "damaged"),
        (pickle.dumps({"mean": 1}), "VecNormalize"),
        (pickle.dumps(spaces.Box(-1, 1, (2,))), "VecNormalize"),
        (pickle.dumps(wrapped())[:-300], "damaged"),
    ],
)
def test_other_files_are_refused(data, words):
    with pytest.raises(BadPolicyFile, match=words):
        read_normaliser(data)


def test_statistics_that_make_no_sense_are_refused():
    for name, value, words in (
        ("epsilon", -5.0, "finite"),
        ("clip_obs", -1.0, "above 0"),
        ("obs_rms", None, "running mean"),
        ("epsilon", "small", "could not convert"),
    ):
        venv = wrapped()
        setattr(venv, name, value)
        with pytest.raises(BadPolicyFile, match=words), np.errstate(invalid="ignore"):
            read_normaliser(pickle.dumps(venv))
    venv = wrapped()
    venv.obs_rms.mean = np.full(3, np.nan)
    with pytest.raises(BadPolicyFile, match="finite"):
        read_normaliser(pickle.dumps(venv))
    venv = wrapped()
    del venv.obs_rms
    with pytest.raises(BadPolicyFile, match="'obs_rms'"):
        read_normaliser(pickle.dumps(venv))


@pytest.fixture(scope="module")
def trained():
    """A checkpoint, statistics, and what the model does with them."""
    venv = wrapped()
    made = model("PPO", "Pendulum-v1", policy_kwargs={"net_arch": [8]})
    rows = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    expected, _ = made.predict(venv.normalize_obs(rows), deterministic=True)
    plain, _ = made.predict(rows, deterministic=True)
    assert np.abs(expected - plain).max() > 0.05
    return saved(made), pickle.dumps(venv), rows, expected, plain


@pytest.mark.parametrize(
    ("checkpoint", "statistics"),
    [
        ("best.zip", "vecnormalize.pkl"),
        ("best.zip", "vec_normalize.pkl"),
        ("best.zip", "best_vecnormalize.pkl"),
        ("rl_model_40_steps.zip", "rl_model_vecnormalize_40_steps.pkl"),
        ("PPO_3_40_steps.zip", "PPO_3_vecnormalize_40_steps.pkl"),
    ],
)
def test_statistics_beside_a_checkpoint_are_applied_and_named(
    tmp_path, trained, checkpoint, statistics
):
    data, pickled, rows, expected, _ = trained
    (tmp_path / checkpoint).write_bytes(data)
    (tmp_path / statistics).write_bytes(pickled)
    (named,) = load_policies(tmp_path / checkpoint)
    assert named.info.metadata["normaliser"] == statistics
    actions = named.policy.act(rows, RNG, deterministic=True)
    np.testing.assert_allclose(actions, expected, atol=1e-5)
    assert labels(load_policies(tmp_path)) == labels([named]), "statistics are no policy"
    (tmp_path / statistics).unlink()
    (bare,) = load_policies(tmp_path / checkpoint)
    assert "normaliser" not in bare.info.metadata
    assert bare.info.fingerprint != named.info.fingerprint
    assert bare.policy.architecture != named.policy.architecture


def test_statistics_of_rewards_only_are_told_but_change_nothing(tmp_path, trained):
    data, _, rows, _, plain = trained
    (tmp_path / "best.zip").write_bytes(data)
    (tmp_path / "vecnormalize.pkl").write_bytes(pickle.dumps(wrapped(norm_obs=False)))
    (named,) = load_policies(tmp_path / "best.zip")
    assert named.info.metadata["normaliser"] == "none (vecnormalize.pkl is for rewards only)"
    np.testing.assert_allclose(named.policy.act(rows, RNG, True), plain, atol=1e-5)


def labels(policies):
    return [each.info.label for each in policies]


def test_statistics_of_the_checkpoint_itself_come_first(tmp_path, trained):
    data, pickled, rows, expected, _ = trained
    (tmp_path / "m_5_steps.zip").write_bytes(data)
    (tmp_path / "m_vecnormalize_5_steps.pkl").write_bytes(pickled)
    (tmp_path / "vecnormalize.pkl").write_bytes(b"of the end of the training")
    (named,) = load_policies(tmp_path / "m_5_steps.zip")
    assert named.info.metadata["normaliser"] == "m_vecnormalize_5_steps.pkl"
    np.testing.assert_allclose(named.policy.act(rows, RNG, True), expected, atol=1e-5)


def test_statistics_that_cannot_be_read_are_an_error(tmp_path, trained):
    (tmp_path / "best.zip").write_bytes(trained[0])
    (tmp_path / "vecnormalize.pkl").write_bytes(b"nonsense")
    with pytest.raises(BadPolicyFile, match=r"best\.zip.*vecnormalize\.pkl"):
        load_policies(tmp_path / "best.zip")


def test_statistics_of_another_environment_are_an_error(tmp_path, trained):
    (tmp_path / "best.zip").write_bytes(trained[0])
    (tmp_path / "vecnormalize.pkl").write_bytes(pickle.dumps(wrapped("CartPole-v1")))
    with pytest.raises(BadPolicyFile, match=r"4 values.*3"):
        load_policies(tmp_path / "best.zip")


def test_a_checkpoint_that_misses_its_statistics_is_refused_or_warned_about(tmp_path, trained):
    data, pickled, rows, _, plain = trained
    (tmp_path / "best.zip").write_bytes(data)
    (tmp_path / "other_vecnormalize.pkl").write_bytes(pickled)
    with pytest.warns(UserWarning, match=r"other checkpoints.*best_vecnormalize\.pkl"):
        load_policies(tmp_path / "best.zip")
    told = changed(data, num_timesteps=5, _last_original_obs="array([1., 2., 3.])")
    (tmp_path / "best.zip").write_bytes(told)
    with pytest.raises(BadPolicyFile, match=r"best_vecnormalize\.pkl.*--without-normaliser"):
        load_policies(tmp_path / "best.zip")
    with pytest.warns(PivecWarning, match="missing"):
        (named,) = load_policies(tmp_path / "best.zip", without_normaliser=True)
    np.testing.assert_allclose(named.policy.act(rows, RNG, True), plain, atol=1e-5)
    untold = changed(data, num_timesteps=5)
    (tmp_path / "best.zip").write_bytes(untold)
    assert len(load_policies(tmp_path / "best.zip")) == 1, "its own word counts: no warning"


def test_statistics_beside_a_checkpoint_trained_without_are_not_applied(tmp_path, trained):
    data, pickled, rows, _, plain = trained
    (tmp_path / "best.zip").write_bytes(changed(data, num_timesteps=5))
    (tmp_path / "vecnormalize.pkl").write_bytes(pickled)
    with pytest.warns(UserWarning, match="without VecNormalize"):
        (named,) = load_policies(tmp_path / "best.zip")
    np.testing.assert_allclose(named.policy.act(rows, RNG, True), plain, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
def test_what_on_policy_algorithms_save_tells_how_they_were_trained(tmp_path, algorithm):
    for venv, told in (
        (VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")])), True),
        (DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]), False),
    ):
        extra = {"n_steps": 8, "batch_size": 8} if algorithm == "PPO" else {"learning_starts": 99}
        made = model(algorithm, venv, policy_kwargs={"net_arch": [4]}, **extra)
        made.learn(8)
        path = tmp_path / "model.zip"
        made.save(path)
        if told and algorithm == "PPO":
            with pytest.raises(BadPolicyFile, match="VecNormalize"):
                load_policies(path)
        else:
            load_policies(path)


def test_models_in_memory_keep_the_statistics_of_their_environment():
    venv = wrapped()
    made = model("PPO", venv, policy_kwargs={"net_arch": [8]})
    policy = as_policy(made)
    assert isinstance(policy, NetworkPolicy)
    rows = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    expected, _ = made.predict(venv.normalize_obs(rows), deterministic=True)
    np.testing.assert_allclose(policy.act(rows, RNG, deterministic=True), expected, atol=1e-5)


def test_models_of_own_classes_are_asked_by_predict_with_the_statistics():
    from stable_baselines3 import PPO

    class Own(PPO):
        pass

    venv = wrapped()
    policy = as_policy(Own("MlpPolicy", venv, n_steps=8, batch_size=8, device="cpu"))
    assert not isinstance(policy, NetworkPolicy)
    rows = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    model_of = policy.call.__closure__[0].cell_contents
    expected, _ = model_of.predict(venv.normalize_obs(rows), deterministic=True)
    np.testing.assert_array_equal(policy.act(rows, RNG, deterministic=True), expected)


def test_normalised_policies_stack_and_survive_saving(tmp_path, trained):
    from pivec.policies import Stack, read_policy, save_policy

    data, pickled, rows, expected, _ = trained
    (tmp_path / "a.zip").write_bytes(data)
    (tmp_path / "vecnormalize.pkl").write_bytes(pickled)
    policy = load_policies(tmp_path / "a.zip")[0].policy
    stack = Stack(2, len(rows), policy)
    actions = stack.respond(np.stack([rows, rows]), None)
    np.testing.assert_allclose(actions[1], expected, atol=1e-5)
    save_policy(policy, tmp_path / "b.safetensors")
    again, _ = read_policy((tmp_path / "b.safetensors").read_bytes())
    assert again.fingerprint == policy.fingerprint
    np.testing.assert_array_equal(again.act(rows, RNG, True), policy.act(rows, RNG, True))
    assert read_sb3(data)[0].fingerprint != policy.fingerprint
