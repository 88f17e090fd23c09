"""Parameter vectors and arrays by name, with a description of their layout."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy

from pivec.errors import BadPolicyFile
from pivec.policies import load_policies, split_vector
from pivec.policies.formats.described import parse_npy

RNG = np.random.default_rng(0)
ROWS = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
SIZES = {"sizes": [4, 5, 2], "activation": "sigmoid", "head": "categorical"}


def layers(seed=0):
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(4, 5)), rng.normal(size=5)),
        (rng.normal(size=(5, 2)), rng.normal(size=2)),
    ]


def slow_probabilities(rows):
    (w1, b1), (w2, b2) = layers()
    logits = 1 / (1 + np.exp(-(rows @ w1 + b1))) @ w2 + b2
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


LAYOUTS = [
    ({}, lambda w, b: [w, b]),
    ({"weights": "out-in"}, lambda w, b: [w.T, b]),
    ({"sequence": "biases-weights"}, lambda w, b: [b, w]),
]


@pytest.mark.parametrize(("layout", "parts"), LAYOUTS)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_vectors_are_cut_as_the_description_says(tmp_path, layout, parts, kind):
    vector = np.concatenate([part.ravel() for w, b in layers() for part in parts(w, b)])
    if kind == "npy":
        np.save(tmp_path / "gen_12.npy", vector)
    else:
        np.savez(tmp_path / "gen_12.npz", best=vector, sigma=np.array(0.3))
        layout = {**layout, "vector": "best"}
    (tmp_path / "gen_12.json").write_text(json.dumps({**SIZES, **layout, "info": {"seed": 3}}))
    (named,) = load_policies(tmp_path)
    assert named.info.step == 12
    assert named.info.metadata == {"seed": 3}
    np.testing.assert_allclose(named.policy.distribution(ROWS), slow_probabilities(ROWS), atol=1e-6)


def test_biases_may_be_left_out():
    ((weight, bias),) = split_vector(np.arange(6.0), [3, 2], biases=False)
    np.testing.assert_array_equal(weight, [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(bias, [0, 0])


def test_what_cmaes_finds_can_be_read(tmp_path):
    cma = pytest.importorskip("cma")
    strategy = cma.CMAEvolutionStrategy(11 * [0.1], 0.5, {"seed": 1, "verbose": -9, "maxiter": 3})
    strategy.optimize(lambda x: float(np.sum(np.square(x))))
    np.save(tmp_path / "best.npy", strategy.result.xbest)
    description = {"sizes": [2, 2, 1], "activation": "sigmoid", "head": "deterministic"}
    description["sizes"] = [4, 1, 3]
    (tmp_path / "best.json").write_text(json.dumps(description))
    (named,) = load_policies(tmp_path / "best.npy")
    assert named.policy.sizes == (4, 1, 3)
    flat = np.concatenate([part.ravel() for layer in named.policy.layers for part in layer])
    np.testing.assert_allclose(flat, strategy.result.xbest, rtol=1e-6)


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_arrays_by_name_are_layers(tmp_path, kind):
    named_arrays = {}
    for i, (weight, bias) in enumerate(layers()):
        named_arrays |= {f"layer{i}.weight": weight.T.copy(), f"layer{i}.bias": bias}
    if kind == "npz":
        np.savez_compressed(tmp_path / "a.npz", **named_arrays)
    else:
        (tmp_path / "a.safetensors").write_bytes(safetensors.numpy.save(named_arrays))
    description = {
        "layers": ["layer0", ["layer1.weight", "layer1.bias"]],
        "activation": "sigmoid",
        "head": "categorical",
    }
    (tmp_path / "a.json").write_text(json.dumps(description))
    (named,) = load_policies(tmp_path)
    np.testing.assert_allclose(named.policy.distribution(ROWS), slow_probabilities(ROWS), atol=1e-6)


def test_deviations_may_be_a_tensor(tmp_path):
    arrays = {"w": np.eye(2), "s": np.array([0.1, 0.2])}
    (tmp_path / "a.safetensors").write_bytes(safetensors.numpy.save(arrays))
    description = {"layers": [["w", None]], "head": "gaussian", "log_std": "s", "low": [-1, -1]}
    (tmp_path / "a.json").write_text(json.dumps({**description, "high": [1, 2]}))
    (named,) = load_policies(tmp_path)
    np.testing.assert_allclose(named.policy.log_std, [0.1, 0.2], rtol=1e-6)
    np.testing.assert_allclose(named.policy.high, [1, 2])


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays_alone_are_no_policy(tmp_path, suffix):
    path = tmp_path / f"states{suffix}"
    (np.save if suffix == ".npy" else np.savez)(path, np.zeros((3, 4)))
    with pytest.raises(BadPolicyFile, match=r"VisitedStates\.from_arrays"):
        load_policies(path)
    with pytest.raises(Exception, match="policy file"):
        load_policies(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sizes": [4]}, "sizes must be"),
        ({"sizes": [4, -5, 2]}, "sizes must be"),
        ({"sizes": [4, 6, 2]}, "has 44 parameters, but the vector holds 37"),
        ({"activation": None}, "activation is missing"),
        ({"head": None}, "head must be a name"),
        ({"weights": "sideways"}, "weights must be"),
        ({"biases": 3}, "biases must be"),
        ({"vector": "other"}, "name of an array"),
        ({"size": 3}, "'size'"),
        ({"low": [1]}, "has no low"),
        ({"log_std": "x"}, "which is missing"),
        ({"log_std": [10**400]}, "list of numbers"),
        ({"head": "gaussian", "log_std": [[0, 1]]}, "list of numbers"),
        ({"head": "multi_categorical", "choices": [1, 2]}, "add up to 2"),
        ({"head": "multi_categorical", "choices": [1.5]}, "'choices' cannot be"),
        ({"head": "gaussian", "log_std": [0, 0], "squash": True, "low": [0, 0]}, "both"),
    ],
)
def test_descriptions_that_make_no_sense_are_named(tmp_path, change, words):
    vector = np.concatenate([part.ravel() for layer in layers() for part in layer])
    np.save(tmp_path / "a.npy", vector)
    (tmp_path / "a.json").write_text(json.dumps({**SIZES, **change}))
    with pytest.raises(BadPolicyFile, match=words) as caught:
        load_policies(tmp_path)
    assert "a.npy" in str(caught.value)


def test_populations_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((5, 37)))
    (tmp_path / "a.json").write_text(json.dumps(SIZES))
    with pytest.raises(BadPolicyFile, match="population"):
        load_policies(tmp_path)


def npy(array, **changes):
    import io

    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), **changes)
    return buffer.getvalue()


def test_arrays_are_read_as_numpy_reads_them():
    for array in (
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(3, dtype=">f4"),
        np.float16(3),
        np.zeros((0, 2)),
    ):
        np.testing.assert_array_equal(parse_npy(npy(array)), array)
    np.testing.assert_array_equal(parse_npy(npy([1.5], version=(2, 0))), [1.5])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"hello", "array"),
        (npy([1.0])[:-1], "truncated"),
        (npy([1.0]).replace(b"(1,)", b"(9,)"), "truncated"),
        (npy([1.0]).replace(b"(1,)", b"(-1,)"), "truncated|damaged"),
        (npy([1.0]).replace(b"(1,), ", b"(True,),"), "truncated|damaged"),
        (npy([1.0]).replace(b"<f8", b"<O8"), "damaged|type"),
        (npy(["a"]), "type"),
        (npy(np.array([{}], object)), "object"),
    ],
)
def test_damaged_arrays_are_refused(data, words):
    with pytest.raises(BadPolicyFile, match=words):
        parse_npy(data)
