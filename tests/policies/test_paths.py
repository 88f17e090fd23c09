"""What is read off paths: steps, groups, and labels that are short and unique."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.policies import natural_key, read_paths


@pytest.mark.parametrize(
    ("stem", "step"),
    [
        ("rl_model_40000_steps", 40000),
        ("rl_model_0_steps", 0),
        ("ppo_cartpole_40000_steps", 40000),
        ("40000steps", 40000),
        ("step_40000", 40000),
        ("step-40000", 40000),
        ("step=40000", 40000),
        ("steps_40000", 40000),
        ("timestep_7", 7),
        ("policy_step_12", 12),
        ("model-40000", 40000),
        ("model_3", 3),
        ("model3", 3),
        ("ckpt_12", 12),
        ("ckpt12", 12),
        ("checkpoint_000012", 12),
        ("checkpoint-12", 12),
        ("iter12", 12),
        ("iteration_12", 12),
        ("epoch=3", 3),
        ("epoch_3", 3),
        ("gen_120", 120),
        ("generation120", 120),
        ("step_40k", 40000),
        ("step_1.5M", 1_500_000),
        ("40000", 40000),
        ("007", 7),
        ("ppo_100000", 100000),
        ("agent-5000", 5000),
        ("12345678901234567890", 12345678901234567890),
        ("best_model", None),
        ("final", None),
        ("model", None),
        ("run_3", None),
        ("ppo_seed_3", None),
        ("seed10000", None),
        ("ppo-2", None),
        ("agent_3", None),
        ("CartPole-v1", None),
        ("a2c", None),
        ("ppo2", None),
        ("best2", None),
        ("", None),
        ("_", None),
    ],
)
def test_steps(stem, step):
    (info,) = read_paths([f"runs/mine/{stem}.zip"])
    assert info.step == step


def told(*paths):
    return [(info.label, info.group, info.step) for info in read_paths(paths)]


def test_group_is_the_parent_and_label_is_group_and_stem():
    assert told("/x/run_3/rl_model_40000_steps.zip", "/x/run_4/best_model.zip") == [
        ("run_3/rl_model_40000_steps", "run_3", 40000),
        ("run_4/best_model", "run_4", None),
    ]


def test_relative_and_absolute_paths_are_told_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = tmp_path.name
    assert told("a.zip", "./b.zip") == [(f"{name}/a", name, None), (f"{name}/b", name, None)]
    assert told("sub/../a.zip") == told(tmp_path / "a.zip")


def test_uninformative_folders_are_skipped():
    assert told("/x/run_3/checkpoints/step_5.zip", "/x/run_4/logs/Models/step_5.zip") == [
        ("run_3/step_5", "run_3", 5),
        ("run_4/step_5", "run_4", 5),
    ]
    assert told("/models/logs/a.zip") == [("logs/a", "logs", None)]
    assert told("/a.zip") == [("a", "", None)]


def test_skipped_folders_return_where_labels_would_clash():
    assert told("/x/run/checkpoints/best.zip", "/x/run/logs/best.zip", "/x/run/other.zip") == [
        ("run/checkpoints/best", "run", None),
        ("run/logs/best", "run", None),
        ("run/other", "run", None),
    ]


def test_extensions_return_where_labels_would_clash():
    assert [label for label, _, _ in told("/x/run/a.zip", "/x/run/a.safetensors")] == [
        "run/a.zip",
        "run/a.safetensors",
    ]


def test_groups_of_one_name_are_extended_to_the_left():
    assert told("/x/ppo/run_1/5.zip", "/x/a2c/run_1/5.zip", "/x/ppo/run_2/5.zip") == [
        ("ppo/run_1/5", "ppo/run_1", 5),
        ("a2c/run_1/5", "a2c/run_1", 5),
        ("run_2/5", "run_2", 5),
    ]
    assert [group for _, group, _ in told("/ppo/logs/run_1/5.zip", "/a2c/logs/run_1/5.zip")] == [
        "ppo/run_1",
        "a2c/run_1",
    ]
    assert [group for _, group, _ in told("/x/run/5.zip", "/a/x/run/5.zip")] == [
        "x/run",
        "a/x/run",
    ]
    assert [group for _, group, _ in told("/x/logs/run/5.zip", "/x/models/run/5.zip")] == [
        "x/logs/run",
        "x/models/run",
    ]


def test_a_folder_may_tell_the_step():
    assert told("/x/run_3/checkpoint_000040/policy.onnx", "/x/run_3/step_50/policy.onnx") == [
        ("run_3/checkpoint_000040/policy", "run_3", 40),
        ("run_3/step_50/policy", "run_3", 50),
    ]


def test_labels_of_different_paths_are_always_unique():
    rng = np.random.default_rng(0)
    words = np.array(["a", "run_1", "logs", "models", "step_5", "b", "7"])
    for _ in range(300):
        paths = {
            "/" + "/".join(rng.choice(words, rng.integers(1, 5))) + rng.choice([".zip", ".onnx"])
            for _ in range(rng.integers(1, 12))
        }
        infos = read_paths(sorted(paths))
        assert len({info.label for info in infos}) == len(paths)
        assert all(info.label.startswith(info.group) or "." in info.label for info in infos)


def test_a_path_given_twice_is_told_twice_alike():
    assert told("/x/run/5.zip", "/x/run/5.zip") == [("run/5", "run", 5)] * 2


def test_natural_order_counts_and_does_not_spell():
    names = ["step_10000", "step_9000", "step_010", "best", "1e", "a10b2", "a10b10", "²3", ""]
    assert sorted(names, key=natural_key)[:2] == ["", "1e"]
    assert sorted(["step_10000", "step_9000"], key=natural_key) == ["step_9000", "step_10000"]
    assert sorted(["a10b10", "a10b2", "a9c"], key=natural_key) == ["a9c", "a10b2", "a10b10"]
