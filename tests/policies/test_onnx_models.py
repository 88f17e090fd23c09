"""ONNX models as policies: their outputs, what these mean, and what is refused."""

from __future__ import annotations

import json
import pickle
import sys

import gymnasium
import numpy as np
import pytest

from pivec.errors import BadPolicyFile, MissingExtra, PivecWarning, UsageError
from pivec.policies import BatchPolicy, load_policies

onnx = pytest.importorskip("onnx")

from onnx_graphs import graph, slow  # noqa: E402
from readers import read_onnx  # noqa: E402

spaces = gymnasium.spaces
SEEN, THREE = spaces.Box(-9, 9, (4,)), spaces.Discrete(3)
RNG = np.random.default_rng(0)
ROWS = np.random.default_rng(1).normal(size=(37, 4)).astype(np.float32)


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_outputs_are_logits_of_discrete_actions_where_nothing_is_said():
    policy, info = read_onnx(graph())
    assert info == {}
    assert isinstance(policy, BatchPolicy)
    bound = policy.bind(SEEN, THREE)
    np.testing.assert_allclose(bound.distribution(ROWS), softmax(slow(ROWS)), atol=1e-6)
    n = 30_000
    counts = np.bincount(bound.act(np.repeat(ROWS[:1], n, 0), RNG), minlength=3)
    expected = n * softmax(slow(ROWS[:1]))[0]
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_outputs_are_real_actions_where_nothing_is_said():
    box = spaces.Box(-0.5, 0.5, (3, 1))
    policy = read_onnx(graph())[0].bind(SEEN, box)
    expected = np.clip(slow(ROWS), -0.5, 0.5)[..., None]
    np.testing.assert_allclose(policy.act(ROWS, RNG), expected, atol=2e-6)


@pytest.mark.parametrize(
    ("space", "shape"), [(spaces.MultiDiscrete([2, 1]), (2,)), (spaces.MultiBinary(3), (3,))]
)
def test_outputs_of_several_choices(space, shape):
    policy = read_onnx(graph())[0].bind(SEEN, space)
    assert space.contains(policy.act(ROWS, RNG)[0])
    assert policy.act(ROWS, RNG).shape == (37, *shape)


def test_whole_numbers_are_the_actions():
    policy = read_onnx(graph(last="ArgMax"))[0].bind(SEEN, THREE)
    np.testing.assert_array_equal(policy.act(ROWS, RNG), slow(ROWS).argmax(axis=1))
    narrow = read_onnx(graph(last="ArgMax"))[0].bind(SEEN, spaces.Discrete(2))
    with pytest.raises(UsageError, match="chose action 2"):
        narrow.act(ROWS, RNG)
    with pytest.raises(UsageError, match="distribution"):
        policy.distribution(ROWS)


@pytest.mark.parametrize("where", ["beside", "inside"])
def test_a_description_says_what_outputs_are(tmp_path, where):
    description = {
        "head": "gaussian",
        "log_std": [-1.0, 0.0, 0.5],
        "squash": True,
        "low": [-1, -1, -1],
        "high": [1, 2, 3],
        "normaliser": {"mean": [0, 0, 0, 1], "var": [1, 4, 1, 1], "epsilon": 0, "clip": 2},
        "info": {"step": 8},
    }
    inside = description if where == "inside" else None
    (tmp_path / "policy.onnx").write_bytes(graph(description=inside))
    if where == "beside":
        (tmp_path / "policy.json").write_text(json.dumps(description))
    (named,) = load_policies(tmp_path)
    assert named.info.step == 8
    assert named.info.metadata["normaliser"] == "its description"
    policy = named.policy.bind(SEEN, spaces.Box(-1, np.array([1, 2, 3], "f4")))
    seen = np.clip((ROWS - [0, 0, 0, 1]) / [1, 2, 1, 1], -2, 2)
    mean, std = policy.distribution(ROWS)
    np.testing.assert_allclose(mean, slow(seen), atol=1e-5)
    np.testing.assert_allclose(std, np.exp([[-1, 0, 0.5]]).repeat(37, 0), rtol=1e-6)
    noise = policy.noise(RNG, 37)
    expected = -1 + (np.tanh(mean + std * noise) + 1) / 2 * [2, 3, 4]
    np.testing.assert_allclose(policy.respond(ROWS, noise), expected, atol=1e-5)


def test_one_of_several_outputs_is_chosen_by_name(tmp_path):
    path = tmp_path / "policy.onnx"
    path.write_bytes(graph(twice=True))
    with pytest.raises(BadPolicyFile, match="outputs h1, values"):
        load_policies(path)
    (tmp_path / "policy.json").write_text(json.dumps({"output": "values"}))
    with pytest.warns(PivecWarning, match="logits"):
        policy = load_policies(path)[0].policy.bind(SEEN, THREE)
    np.testing.assert_allclose(policy.distribution(ROWS), softmax(-slow(ROWS)), atol=1e-6)


@pytest.mark.bits
@pytest.mark.parametrize("batch", ["n", 1, 5])
def test_a_row_does_not_depend_on_its_company(batch):
    policy = read_onnx(graph((4, 64, 64, 3), batch=batch))[0].bind(SEEN, THREE)
    whole = policy._outputs(ROWS)
    np.testing.assert_allclose(whole, slow(ROWS, (4, 64, 64, 3)), atol=3e-5)
    for part in (slice(0, 1), slice(7, 9), slice(3, 31)):
        np.testing.assert_array_equal(policy._outputs(ROWS[part]), whole[part])


def test_models_of_one_architecture_differ_in_their_fingerprint():
    policies = [read_onnx(graph(seed=seed))[0].bind(SEEN, THREE) for seed in (0, 1)]
    assert policies[0].architecture == policies[1].architecture
    assert policies[0].fingerprint != policies[1].fingerprint
    actions = policies[1].respond(ROWS, None)
    np.testing.assert_array_equal(actions, slow(ROWS, seed=1).argmax(axis=1))


def test_discrete_observations_are_one_hot_unless_the_model_takes_numbers():
    one_hot = read_onnx(graph())[0].bind(spaces.Discrete(4), THREE)
    np.testing.assert_allclose(
        one_hot.distribution(np.array([2, 0])), softmax(slow(np.eye(4)[[2, 0]])), atol=1e-6
    )
    two = read_onnx(graph())[0].bind(spaces.MultiDiscrete([3, 1]), THREE)
    np.testing.assert_allclose(
        two.distribution(np.array([[1, 0]])), softmax(slow([[0, 1, 0, 1]])), atol=1e-6
    )
    sizes = (1, 8, 3)
    number = read_onnx(graph(sizes))[0].bind(spaces.Discrete(4), THREE)
    np.testing.assert_allclose(
        number.distribution(np.array([2, 0])), softmax(slow([[2], [0]], sizes)), atol=1e-6
    )


def test_it_survives_pickling():
    policy = read_onnx(graph())[0].bind(SEEN, THREE)
    again = pickle.loads(pickle.dumps(policy))
    assert again.fingerprint == policy.fingerprint
    np.testing.assert_array_equal(again.distribution(ROWS), policy.distribution(ROWS))


def test_before_bind_it_does_not_know_its_actions():
    policy, _ = read_onnx(graph())
    with pytest.raises(UsageError, match="call bind"):
        policy.act(ROWS, RNG)


@pytest.mark.parametrize(
    ("seen", "actions", "words"),
    [
        (spaces.Box(-1, 1, (5,)), THREE, "observations of 4 values"),
        (SEEN, spaces.Discrete(4), "3 real numbers"),
        (SEEN, spaces.Box(-1, 1, (2,)), "3 real numbers"),
        (SEEN, spaces.Discrete(3, start=1), "from 0"),
    ],
)
def test_spaces_that_do_not_fit_are_named(seen, actions, words):
    with pytest.raises(UsageError, match=words):
        read_onnx(graph())[0].bind(seen, actions)


def test_tensors_in_other_files_are_refused(tmp_path):
    model = onnx.load_from_string(graph())
    tensor = model.graph.initializer[0]
    onnx.external_data_helper.set_external_data(tensor, "../../../etc/passwd")
    with pytest.raises(BadPolicyFile, match="in other files"):
        read_onnx(model.SerializeToString())
    inner = onnx.helper.make_graph([], "inner", [], [], [tensor])
    branch = onnx.helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    nested = onnx.load_from_string(graph())
    nested.graph.node.append(branch)
    with pytest.raises(BadPolicyFile, match="in other files"):
        read_onnx(nested.SerializeToString())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"hello", "ONNX"),
        (graph()[:-40], "ONNX"),
        (b"\x00\x00\x00\x00ORTM" + b"\x00" * 50, "own format"),
        (
            onnx.helper.make_model(onnx.helper.make_graph([], "a", [], [])).SerializeToString(),
            "cannot run",
        ),
        (graph(description={"heads": 5}), "'heads'"),
        (graph(description={"head": "gaussian", "log_std": "x"}), "'x'"),
    ],
)
def test_other_files_are_refused(data, words):
    with pytest.raises(BadPolicyFile, match=words):
        read_onnx(data, "a.onnx")


def test_diverged_weights_are_named():
    model = onnx.load_from_string(graph())
    bad = onnx.numpy_helper.from_array(np.full((8, 3), np.nan, "f4"), "w1")
    model.graph.initializer[2].CopyFrom(bad)
    policy, _ = read_onnx(model.SerializeToString())
    with pytest.raises(UsageError, match="NaN"):
        policy.bind(SEEN, THREE).act(ROWS, RNG)


def test_without_onnxruntime_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"pivec\[onnx\]"):
        read_onnx(graph())
