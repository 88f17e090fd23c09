"""Saved policies come back as they were, and damaged files are refused in words."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies import NetworkPolicy, UniformPolicy, read_policy, save_policy


def make(head="gaussian"):
    rng = np.random.default_rng(0)
    layers = ((rng.normal(size=(3, 8)), rng.normal(size=8)), (rng.normal(size=(8, 2)), np.zeros(2)))
    if head == "categorical":
        return NetworkPolicy(layers, "relu", head)
    return NetworkPolicy(layers, "tanh", head, np.zeros(2), [-1.0, -np.inf], [1.0, np.inf])


@pytest.mark.parametrize("head", ["categorical", "gaussian"])
def test_round_trip(tmp_path, head):
    policy, path = make(head), tmp_path / "deep" / "step_7.safetensors"
    info = {"step": 7, "versions": {"numpy": "2"}}
    save_policy(policy, path, info)
    again, told = read_policy(path.read_bytes(), str(path))
    assert again.fingerprint == policy.fingerprint
    assert again.architecture == policy.architecture
    assert told == info
    assert [each.name for each in path.parent.iterdir()] == ["step_7.safetensors"]


def test_saving_again_replaces_the_file(tmp_path):
    path = tmp_path / "a.safetensors"
    save_policy(make("categorical"), path)
    save_policy(make("gaussian"), path)
    assert read_policy(path.read_bytes())[0].head == "gaussian"


def test_only_networks_can_be_saved(tmp_path):
    with pytest.raises(UsageError, match="UniformPolicy"):
        save_policy(UniformPolicy(), tmp_path / "a.safetensors")


def test_info_must_be_what_json_can_hold(tmp_path):
    with pytest.raises(UsageError, match="JSON"):
        save_policy(make(), tmp_path / "a.safetensors", {"step": object()})
    assert not list(tmp_path.iterdir())


def content(**changes):
    tensors = {"0.weight": np.zeros((2, 2), np.float32), "0.bias": np.zeros(2, np.float32)}
    tensors |= changes.pop("tensors", {})
    metadata = {
        "format": "pivec-policy",
        "version": "1",
        "network": json.dumps({"layers": 1, "activation": "tanh", "head": "categorical"}),
        "info": "{}",
    }
    return safetensors.numpy.save(tensors, {**metadata, **changes})


def network(**changes):
    return json.dumps({"layers": 1, "activation": "tanh", "head": "categorical", **changes})


def test_the_content_used_below_is_itself_fine():
    assert read_policy(content())[0].n_outputs == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "safetensors"),
        (b"\x00" * 100, "safetensors"),
        (content()[:-1], "safetensors"),
        (safetensors.numpy.save({"a": np.zeros(1)}), "without a description"),
        (content(version="3"), "newer pivec"),
        (content(network="[" * 100_000), "damaged"),
        (content(network="[]"), "damaged"),
        (content(network=network(layers=2)), "'1.weight'"),
        (content(network=network(layers=10**9)), "damaged"),
        (content(network=network(activation="cube")), "activation"),
        (content(network=network(head="gaussian")), "log_std"),
        (content(info="[]"), "damaged"),
        (content(tensors={"0.bias": np.zeros(3, np.float32)}), "layer 0"),
        (content(tensors={"0.bias": np.full(2, np.nan, np.float32)}), "NaN"),
    ],
)
def test_damage_is_named(data, words):
    with pytest.raises(BadPolicyFile, match=words) as caught:
        read_policy(data, "some/path.safetensors")
    assert "some/path.safetensors" in str(caught.value)


def test_flipped_bits_and_cut_files_give_no_other_error():
    data = content()
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(data[:8], "little")
    refused = 0
    for i in range(400):
        broken = bytearray(data)
        broken[rng.integers(header if i % 2 else len(data))] ^= 1 << int(rng.integers(8))
        if i % 5 == 0:
            broken = broken[: rng.integers(len(data))]
        try:
            read_policy(bytes(broken))
        except BadPolicyFile:
            refused += 1
    assert refused > 200
