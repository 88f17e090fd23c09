"""Runs of RL Baselines3 Zoo: what their files tell is found, believed, and never run."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from pivec.errors import BadPolicyFile, PivecWarning, UsageError
from pivec.policies import load_policies
from pivec.workflows import collect

pytest.importorskip("torch")

from sb3_models import model, saved
from test_vecnormalize import wrapped

ORDERED = "!!python/object/apply:collections.OrderedDict\n"


def ordered(**lines):
    """A file as yaml.dump writes an OrderedDict: a list with a list of pairs in it."""
    pairs = [f"  - - {key}\n    - {value}\n" for key, value in lines.items()]
    return ORDERED + "- " + "".join(pairs)[2:]


FILES = ("Pendulum-v1.zip", "best_model.zip", "rl_model_40_steps.zip")


@pytest.fixture(scope="module")
def checkpoints():
    arguments = {"policy_kwargs": {"net_arch": [8]}}
    return [saved(model("PPO", "Pendulum-v1", seed=seed, **arguments)) for seed in range(9)]


@pytest.fixture(scope="module")
def statistics():
    return wrapped()


@pytest.fixture
def run(tmp_path, checkpoints, statistics):
    """A folder as rl_zoo3.train leaves it."""
    left = iter(checkpoints)

    def make(name="Pendulum-v1_1", normalize="true", stats=True, args=None, algo="ppo", **config):
        folder = tmp_path / "logs" / algo / name
        inner = folder / "Pendulum-v1"
        inner.mkdir(parents=True)
        for file in FILES:
            (folder / file).write_bytes(next(left))
        (inner / "config.yml").write_text(ordered(gamma=0.9, normalize=normalize, **config))
        command = {"algo": algo, "env": "Pendulum-v1", "env_kwargs": "null", "gym_packages": "[]"}
        (inner / "args.yml").write_text(ordered(**{**command, **(args or {})}))
        (inner / "command.txt").write_text("python -m rl_zoo3.train")
        if stats:
            (inner / "vecnormalize.pkl").write_bytes(pickle.dumps(statistics))
        return folder

    return make


def load(folder, **arguments):
    with pytest.warns(PivecWarning, match=r"2 files .*vecnormalize\.pkl"):
        return load_policies(folder, **arguments)


def test_statistics_and_environment_are_found_in_the_folder_of_the_run(run, statistics):
    policies = load(run())
    assert [named.info.label for named in policies] == [
        "ppo/Pendulum-v1_1/Pendulum-v1",
        "ppo/Pendulum-v1_1/best_model",
        "ppo/Pendulum-v1_1/rl_model_40_steps",
    ]
    assert {named.info.group for named in policies} == {"ppo/Pendulum-v1_1"}
    assert [named.info.step for named in policies] == [0, 0, 40], "as the file or its name tells"
    rows = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    for named in policies:
        assert named.info.metadata["normaliser"] == "Pendulum-v1/vecnormalize.pkl"
        assert named.info.metadata["environment"] == "Pendulum-v1"
        np.testing.assert_array_equal(
            named.policy.normaliser.apply(rows), statistics.normalize_obs(rows)
        )


@pytest.mark.parametrize(
    ("normalize", "is_normalised"),
    [
        ("true", True),
        ("'{''norm_obs'': True, ''norm_reward'': False}'", True),
        ("dict(norm_obs=True, norm_reward=False)", True),
        ("{norm_reward: false}", True),
        ("false", False),
        ("dict(norm_obs=False, norm_reward=True)", False),
    ],
)
def test_the_configuration_decides_whether_observations_are_normalised(
    run, normalize, is_normalised
):
    folder = run(normalize=normalize)
    policies = load(folder) if is_normalised else load_policies(folder)
    assert {named.policy.normaliser is not None for named in policies} == {is_normalised}


def test_missing_statistics_are_an_error_unless_allowed(run):
    folder = run(stats=False)
    with pytest.raises(BadPolicyFile, match=r"Pendulum-v1/vecnormalize\.pkl.*--without-normaliser"):
        load_policies(folder)
    with pytest.warns(PivecWarning, match=r"3 files .*missing"):
        load_policies(folder, without_normaliser=True)


def test_statistics_of_a_checkpoint_come_before_those_of_the_run(run):
    folder = run()
    other = pickle.dumps(wrapped(steps=7))
    (folder / "rl_model_vecnormalize_40_steps.pkl").write_bytes(other)
    with pytest.warns(PivecWarning, match=r"best_model\.zip.*vecnormalize"):
        policies = load_policies(folder)
    assert [named.info.metadata["normaliser"] for named in policies] == [
        "Pendulum-v1/vecnormalize.pkl",
        "Pendulum-v1/vecnormalize.pkl",
        "rl_model_vecnormalize_40_steps.pkl",
    ]


def test_a_renamed_run_is_known_by_its_last_model(run):
    folder = run()
    moved = folder.rename(folder.parent / "my favourite")
    policies = load(moved)
    assert policies[0].info.metadata["environment"] == "Pendulum-v1"


def test_arguments_of_the_command_replace_those_of_the_configuration(run):
    only = run(env_kwargs="{g: 5.0, render_mode: human}")
    both = run("Pendulum-v1_2", env_kwargs="{g: 5.0}", args={"env_kwargs": "{g: 7.0}"})
    assert load(only)[0].info.metadata["arguments"] == {"g": 5.0}
    assert load(both)[0].info.metadata["arguments"] == {"g": 7.0}


def test_wrappers_are_named_with_their_arguments(run):
    listed = run(
        env_wrapper="\n      - gymnasium.wrappers.ClipReward:\n          max_reward: 1\n"
        "      - rl_zoo3.wrappers.MaskVelocityWrapper"
    )
    single = run("Pendulum-v1_2", env_wrapper="gymnasium.wrappers.FlattenObservation")
    assert load(listed)[0].info.metadata["wrappers"] == [
        'gymnasium.wrappers:ClipReward{"max_reward": 1}',
        "rl_zoo3.wrappers:MaskVelocityWrapper",
    ]
    assert load(single)[0].info.metadata["wrappers"] == ["gymnasium.wrappers:FlattenObservation"]


def test_stacked_frames_are_those_of_stable_baselines3(run):
    import gymnasium
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    from pivec.rollouts import environment_of

    folder = run(normalize="false", frame_stack=3)
    path = folder / "Pendulum-v1.zip"
    (named,) = load_policies(path)
    ours = environment_of(None, [named.info]).make()
    theirs = VecFrameStack(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]), 3)
    theirs.seed(4)
    action = np.array([0.5], np.float32)
    seen = [(ours.reset(seed=4)[0], theirs.reset()[0])]
    seen += [(ours.step(action)[0], theirs.step([action])[0][0]) for _ in range(5)]
    for mine, other in seen:
        np.testing.assert_array_equal(np.ravel(mine), other)


def test_observations_that_are_normalised_and_stacked_are_refused(run):
    with pytest.raises(BadPolicyFile, match="stacked"):
        load_policies(run(frame_stack=3))


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


BOMB = "&a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"  - - b{i}\n    - &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    "content",
    [
        "[",
        "- 1",
        "\x00",
        "!custom 3",
        "normalize: os.system('true')",
        "normalize: '{**{}}'",
        "frame_stack: -2",
        "frame_stack: many",
        "env_wrapper: 3",
        "env_wrapper: {a.b: 1, c.d: 2}",
        "env_wrapper: 'os; import sys'",
        "env_kwargs: [1]",
        "env_kwargs: {1: 2}",
        "env_kwargs: {a: 2001-01-01}",
        "[" * 3000,
        "normalize: " + "9" * 5000,
        "normalize: '" + "(" * 5000 + "'",
        "#" * 300_000,
        ordered(c=BOMB, env_kwargs="{x: *k}"),
    ],
)
def test_files_that_make_no_sense_are_one_sentence(run, content):
    folder = run()
    (folder / "Pendulum-v1" / "config.yml").write_text(content)
    with pytest.raises(BadPolicyFile, match=r"Pendulum-v1/config\.yml or args\.yml"):
        load_policies(folder)


def test_nothing_in_the_files_runs(run, tmp_path):
    import yaml

    folder = run()
    evil = yaml.dump({"normalize": True, "policy_kwargs": Payload(tmp_path / "touched")})
    assert "posix.system" in evil
    (folder / "Pendulum-v1" / "config.yml").write_text(evil)
    load(folder)
    assert not (tmp_path / "touched").exists()


def collected(policies, env=None, **arguments):
    with pytest.warns(PivecWarning, match=r"vecnormalize\.pkl"):
        return collect(env, policies, episodes=2, **arguments)


def test_the_environment_is_taken_from_the_files(run, tmp_path):
    folder = run(env_kwargs="{g: 5.0}")
    told = collected(folder)
    assert told.environment == "Pendulum-v1"
    given = collected(folder, "Pendulum-v1")
    np.testing.assert_array_equal(told.states, given.states)
    other = collected(folder, "Pendulum-v1", env_kwargs={"g": 2.0})
    assert not np.array_equal(told.returns, other.returns), "what the user says comes first"
    with pytest.raises(UsageError, match="pivec compare"):
        collect(None, "random", episodes=2)


def test_runs_that_disagree_are_one_sentence(run):
    a, b = run(env_kwargs="{g: 5.0}"), run("Pendulum-v1_2")
    with pytest.raises(UsageError, match=r"arguments.*\{'g': 5\.0\}.*none.*--env-kwargs"):
        collected([a, b])
    c = run("Pendulum-v1_3", args={"env": "Acrobot-v1"})
    with pytest.raises(UsageError, match=r"several environments: .* in Pendulum-v1, .* in Acrobot"):
        collected([b, c])
    with (
        pytest.raises(UsageError, match="observations of 3 values"),
        pytest.warns(PivecWarning, match=r"3 policies .*Pendulum-v1"),
    ):
        collected(b, "Acrobot-v1")


@pytest.mark.parametrize(
    ("config", "args", "words"),
    [
        ({"env_wrapper": "os.system"}, {}, r"wrapper os:system.*--trust"),
        ({"env_wrapper": "gymnasium.wrappers.RecordVideo"}, {}, "RecordVideo.*--trust"),
        ({"vec_env_wrapper": "mine.VecThing"}, {}, "mine:VecThing.*--trust"),
        ({"env_wrapper": "rl_zoo3.wrappers.FrameSkip"}, {}, "pip install rl-zoo3"),
        ({}, {"env": "this:Evil-v0"}, "which imports a module"),
        ({}, {"env": "Evil-v0", "gym_packages": "[this]"}, "--imports this"),
    ],
)
def test_files_may_not_have_any_module_imported(run, monkeypatch, config, args, words):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if "zoo" in name else name)
    with pytest.raises(UsageError, match=words):
        collected(run(args=args, **config))


def test_wrappers_of_the_user_stand_instead_of_those_in_the_files(run):
    folder = run(env_wrapper="mine.Strange")
    data = collected(folder, wrappers=['gymnasium.wrappers:TimeLimit{"max_episode_steps": 5}'])
    assert set(data.lengths) == {6}, "the first observation and five steps"
