"""Folders of RLlib are policies; what cannot be read of them is named for what it is."""

from __future__ import annotations

import pickle
import shutil
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from pivec.errors import BadPolicyFile, PivecError
from pivec.policies import is_policy_file, load_policies
from pivec.policies.tensors import read_objects

ROWS = Path(__file__).parents[1] / "data" / "libraries"
MODULE = "learner_group/learner/rl_module/default_policy"
AFTER = "env_runner/module_to_env_connector/class_and_ctor_args.pkl"


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "PPO_run" / "checkpoint_000003"
    shutil.copytree(ROWS / "rllib-ppo" / "checkpoint_000000", folder)
    return folder


def test_a_folder_above_finds_checkpoints_as_steps(checkpoint, tmp_path):
    # What Ray Tune leaves beside them is no policy.
    for name in ("params.json", "params.pkl", "result.json"):
        (checkpoint.parent / name).write_text("{}")
    shutil.copytree(
        ROWS / "rllib-dqn" / "checkpoint_000000", checkpoint.parent / "checkpoint_000012"
    )
    with pytest.warns(match="best action"):
        named = load_policies(tmp_path)
    assert [policy.info.label for policy in named] == [
        "PPO_run/checkpoint_000003",
        "PPO_run/checkpoint_000012",
    ]
    assert [policy.info.step for policy in named] == [3, 12]
    assert [policy.info.metadata["algorithm"] for policy in named] == ["PPO", "DQN"]


def test_the_checkpoint_the_module_and_its_weights_are_the_same(checkpoint):
    names = (checkpoint, checkpoint / MODULE, checkpoint / MODULE / "module_state.pkl")
    fingerprints = {load_policies(name)[0].info.fingerprint for name in names}
    assert len(fingerprints) == 1


def test_agents_are_told_by_their_names(checkpoint):
    (checkpoint / MODULE).rename((checkpoint / MODULE).with_name("left"))
    shutil.copytree(
        (checkpoint / MODULE).with_name("left"), (checkpoint / MODULE).with_name("right")
    )
    labels = [policy.info.label for policy in load_policies(checkpoint)]
    assert labels == [f"PPO_run/checkpoint_000003/{agent}" for agent in ("left", "right")]


def test_weights_of_modules_made_of_others_are_none(checkpoint):
    path = (checkpoint / MODULE).parent / "module_state.pkl"
    assert not is_policy_file(path)
    with pytest.raises(BadPolicyFile, match="weights"):
        load_policies(path)


def test_a_module_alone_says_what_is_assumed(checkpoint, tmp_path):
    alone = tmp_path / "alone"
    shutil.copytree(checkpoint / MODULE, alone)
    with pytest.warns(match=r"\[-1, 1\]"):
        (named,) = load_policies(alone)
    assert named.info.label.endswith("alone")
    (alone / "class_and_ctor_args.pkl").unlink()
    with pytest.raises(BadPolicyFile, match="class_and_ctor_args"):
        load_policies(alone)


class Own:
    """A connector, or a module, of the user's."""


@pytest.mark.parametrize(
    ("file", "value", "match"),
    [
        (
            AFTER,
            {"class": Own, "ctor_args_and_kwargs": ((), {"connectors": [(Own, (), {})]})},
            "Own in its connectors is not RLlib's own class",
        ),
        (
            f"{MODULE}/class_and_ctor_args.pkl",
            {"class": Own, "ctor_args_and_kwargs": ((), {})},
            "Own in it is not RLlib's own class",
        ),
        (f"{MODULE}/class_and_ctor_args.pkl", [Own()], "it asks to run .*Own"),
        (f"{MODULE}/class_and_ctor_args.pkl", {}, "class_and_ctor_args"),
        (f"{MODULE}/module_state.pkl", {"encoder.gru.weight": np.zeros(2)}, "gru"),
        (
            f"{MODULE}/module_state.pkl",
            {
                f"{name}.{part}": np.zeros(shape)
                for name in ("encoder.tokenizer.net.mlp.0", "pi.net.mlp.0")
                for part, shape in (("weight", (2, 2)), ("bias", 2))
            },
            "LSTM",
        ),
        (
            f"{MODULE}/module_state.pkl",
            {"mine.weight": np.zeros(2)},
            "RLlib",
        ),
    ],
)
def test_what_is_not_read_is_named(checkpoint, file, value, match):
    (checkpoint / file).write_bytes(pickle.dumps(value))
    with pytest.raises(BadPolicyFile, match=match):
        load_policies(checkpoint)


def test_a_memory_of_its_own_is_that_of_the_actor(tmp_path):
    folder = tmp_path / "checkpoint_000000"
    shutil.copytree(ROWS / "rllib-ppo-lstm" / "checkpoint_000000", folder)
    (shared,) = load_policies(folder)
    path = folder / MODULE / "module_state.pkl"
    weights = pickle.loads(path.read_bytes())
    parts = [key for key in weights if key.startswith("encoder.encoder.")]
    for key in parts:
        name = key.removeprefix("encoder.encoder.")
        weights[f"encoder.actor_encoder.{name}"] = weights.pop(key)
        weights[f"encoder.critic_encoder.{name}"] = weights[f"encoder.actor_encoder.{name}"] + 1
    path.write_bytes(pickle.dumps(weights))
    (apart,) = load_policies(folder)
    assert apart.info.fingerprint == shared.info.fingerprint


def test_images_with_a_memory_are_named(tmp_path):
    folder = tmp_path / "checkpoint_000000"
    shutil.copytree(ROWS / "rllib-ppo-images" / "checkpoint_000000", folder)
    path = folder / MODULE / "module_state.pkl"
    weights = pickle.loads(path.read_bytes())
    renamed = {key.replace(".net.0.cnn", ".tokenizer.net.0.cnn"): weights[key] for key in weights}
    outer = next(key.partition(".tokenizer")[0] for key in renamed if ".tokenizer" in key)
    for part, shape in (
        ("weight_ih", (8, 6)),
        ("weight_hh", (8, 2)),
        ("bias_ih", 8),
        ("bias_hh", 8),
    ):
        renamed[f"{outer}.lstm.{part}_l0"] = np.zeros(shape, np.float32)
    path.write_bytes(pickle.dumps(renamed))
    with pytest.raises(BadPolicyFile, match="images"):
        load_policies(folder)


def test_the_old_stack_is_named(tmp_path):
    folder = tmp_path / "policies" / "default_policy"
    folder.mkdir(parents=True)
    (folder / "policy_state.pkl").write_bytes(pickle.dumps({"weights": {}}))
    with pytest.raises(BadPolicyFile, match="old API stack"):
        load_policies(tmp_path)


@pytest.mark.parametrize(
    ("filters", "match"),
    [
        (None, "conv_filters"),  # RLlib has none for images of this size
        ([[4, [3, 2], 2]], "conv_filters"),
        ([[4, 3, 2], [5, 2, 1]], "layers"),
        ([[4, 9, 2, "valid"]], "not that of"),
    ],
)
def test_convolutions_that_do_not_fit_are_named(tmp_path, filters, match):
    shutil.copytree(ROWS / "rllib-ppo-images" / "checkpoint_000000", tmp_path / "run")
    file = tmp_path / "run" / MODULE / "class_and_ctor_args.pkl"
    read = read_objects(file.read_bytes(), ("ray", "gymnasium", "numpy", "torch"))[
        "ctor_args_and_kwargs"
    ][1]
    about = {"model_config": {**read["model_config"], "conv_filters": filters}}
    spaces = {"observation_space": Box(-1, 1, (4, 5, 4)), "action_space": Discrete(2)}
    made = {"class": OrderedDict, "ctor_args_and_kwargs": ((), {**about, **spaces})}
    # The class is told by its name alone, which stands here for one of RLlib's.
    data = pickle.dumps(made, protocol=2).replace(b"ccollections\n", b"cray.rllib\n", 1)
    file.write_bytes(data)
    with pytest.raises(BadPolicyFile, match=match):
        load_policies(tmp_path / "run")


@pytest.mark.filterwarnings("ignore")
def test_spoilt_checkpoints_give_one_sentence(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(ROWS / "rllib-ppo-filter" / "checkpoint_000000", folder)
    rng = np.random.default_rng(0)
    refused = []
    for file in sorted(folder.rglob("*.pkl")):
        sound = file.read_bytes()
        for _ in range(30):
            data = bytearray(sound)
            for place in rng.integers(len(data), size=3):
                data[place] = rng.integers(256)
            file.write_bytes(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.3 else data)
            try:
                load_policies(folder)
            except PivecError as error:
                refused.append(str(error))
        file.write_bytes(sound)
    assert len(refused) > 30
    assert not any("\n" in text for text in refused)
