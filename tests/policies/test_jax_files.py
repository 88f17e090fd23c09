"""Parameters of Flax and Brax, and what cannot be read, which is named for what it is."""

from __future__ import annotations

import json
import pickle
import struct
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("msgpack")

import msgpack
from fuzzing import brax_bytes, flax_bytes, tree

from pivec.errors import BadPolicyFile, PivecError, PivecWarning, UsageError
from pivec.policies import CheckpointFiles, load_policies
from pivec.policies.formats.jax import read_brax, read_flax, read_msgpack
from spoiling import archive

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(10, 4))
TANH = {"activation": "tanh", "head": "categorical"}


def write(folder, data, description=None, name="a.msgpack"):
    (folder / name).write_bytes(data)
    if description is not None:
        (folder / "a.json").write_text(json.dumps(description))
    return folder / name


def forward(parameters, rows, activation):
    """Outputs by the plain formula."""
    *hidden, last = parameters.values()
    for layer in hidden:
        rows = activation(rows @ layer["kernel"].astype(float) + layer["bias"])
    return rows @ last["kernel"].astype(float) + last["bias"]


def test_messagepack_is_read_as_its_own_package_reads_it():
    value = {
        "small": [0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**40],
        "negative": [-1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**40)],
        "others": [None, True, False, 1.5, "x" * 40, "é" * 300, b"y" * 10, b"z" * 4_000],
        "long": list(range(4_000)),
        **{f"key{i}": i for i in range(20)},
    }
    assert read_msgpack(msgpack.packb(value)) == value
    assert read_msgpack(msgpack.packb(1.5, use_single_float=True)) == 1.5


def test_arrays_of_every_type_are_read():
    for kind in ("f4", "f8", "f2", "i4", "u1", "?"):
        array = RNG.integers(0, 2, size=(2, 3)).astype(kind)
        np.testing.assert_array_equal(read_msgpack(flax_bytes({"a": array}))["a"], array)
    content = msgpack.packb(([1], "bfloat16", struct.pack("<f", 1.5)[2:]))
    assert read_msgpack(msgpack.packb(msgpack.ExtType(1, content))) == [1.5]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xc1", "MessagePack"),
        (b"\x01\x01", "MessagePack.*extra|MessagePack.*Extra"),
        (b"\x92\x01", "MessagePack"),
        (b"\x91" * 5000 + b"\x01", "MessagePack"),
        (b"\x81\xa1a" * 5000 + b"\x01", "MessagePack"),
        (b"\xdc\xff\xff" * 900, "MessagePack"),
        (msgpack.packb([msgpack.Timestamp(1)]), "type -1"),
        (b"\x81\x01\x01", "key"),
        (b"\xd4\x05\x00", "type 5"),
        (b"\xdd\xff\xff\xff\xff" + b"\xc0" * 9, "MessagePack"),
        (msgpack.packb(msgpack.ExtType(1, msgpack.packb(([9], "f4", b"1234")))), "shape"),
        (msgpack.packb(msgpack.ExtType(1, msgpack.packb(([1], "O", b"12345678")))), "has 8 bytes"),
        (msgpack.packb(msgpack.ExtType(1, msgpack.packb(7))), "damaged"),
    ],
)
def test_spoilt_messagepack_is_a_sentence(data, words):
    with pytest.raises(BadPolicyFile, match=words):
        read_msgpack(data)


def test_parameters_of_flax_are_the_network_that_is_described(tmp_path):
    params = tree(4, 8, 5, 3)
    path = write(tmp_path, flax_bytes({"step": 7, "params": {"params": params}}), TANH)
    with pytest.warns(PivecWarning, match="hidden_0, hidden_1"):
        (named,) = load_policies(path)
    assert named.info.step == 7
    logits = forward(params, ROWS, np.tanh)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(named.policy.distribution(ROWS), expected, atol=1e-5)


def test_without_a_description_it_says_what_to_write(tmp_path):
    with pytest.raises(BadPolicyFile, match=r'a\.json.*\{"activation": "tanh"'):
        load_policies(write(tmp_path, flax_bytes({"params": tree(4, 5, 3)})))


@pytest.mark.parametrize("name", ["a.pkl", "a.pickle", "params"])
def test_pickled_parameters_are_read_like_those_of_flax(tmp_path, name):
    params = {"params": tree(4, 5, 3)}
    layers = {**TANH, "layers": ["hidden_0", "hidden_1"]}
    (packed,) = load_policies(write(tmp_path, flax_bytes(params), layers))
    (tmp_path / "params.json").write_text(json.dumps(layers))
    (named,) = load_policies(write(tmp_path, pickle.dumps(params), name=name))
    assert named.info.fingerprint == packed.info.fingerprint
    for folder in ("empty", "other"):
        (tmp_path / folder).mkdir()
    path = write(tmp_path / "empty", pickle.dumps(params), name=name)
    with pytest.raises(BadPolicyFile, match=rf"{path.stem}\.json.*hidden_0\.weight \(4, 5\)"):
        load_policies(path)
    path = write(tmp_path / "other", pickle.dumps([params, Own()]), name=name)
    with pytest.raises(BadPolicyFile, match=r"Own.*dictionaries of arrays"):
        load_policies(path)


class Own:
    pass


def test_pickled_arrays_that_are_not_named_as_in_flax_need_their_order(tmp_path):
    arrays = {"a/w": np.eye(4), "a/b": np.zeros(4)}
    layers = {**TANH, "layers": [["a/w", "a/b"]]}
    with pytest.raises(BadPolicyFile, match=r"weights.*in-out"):
        load_policies(write(tmp_path, pickle.dumps(arrays), layers, "a.pkl"))
    layers["weights"] = "out-in"
    (named,) = load_policies(write(tmp_path, pickle.dumps(arrays), layers, "a.pkl"))
    assert named.policy.sizes == (4, 4)


def test_arrays_within_arrays_are_rejected():
    value = 1
    for _ in range(2000):  # the stack of C has room for 150
        value = msgpack.ExtType(1, msgpack.packb(value))
    with pytest.raises(BadPolicyFile):
        read_msgpack(msgpack.packb(value))


def test_names_of_arrays_are_bounded(tmp_path):
    deep = np.zeros((2, 2), "f4")
    for _ in range(50):
        deep = {"x" * 20: deep}
    for data, name in ((flax_bytes(deep), "a.msgpack"), (pickle.dumps(deep), "a.pkl")):
        with pytest.raises(BadPolicyFile, match="400 characters"):
            load_policies(write(tmp_path, data, TANH | {"weights": "in-out"}, name))


def test_the_actor_is_told_from_the_critic_or_must_be_named(tmp_path):
    both = {"critic": tree(4, 6, 1), "actor": tree(4, 5, 3)}
    with pytest.warns(PivecWarning, match=r"actor\.hidden_0, actor\.hidden_1"):
        (named,) = load_policies(write(tmp_path, flax_bytes({"params": both}), TANH))
    assert named.policy.sizes == (4, 5, 3)
    alike = flax_bytes({"params": {"x": tree(4, 6, 3), "y": tree(4, 5, 3)}})
    with pytest.raises(BadPolicyFile, match=r"layers is missing: .*x\.hidden_0, x\.hidden_1; y\."):
        load_policies(write(tmp_path, alike, TANH))
    layers = {**TANH, "layers": ["y.hidden_0", "y.hidden_1"]}
    (named,) = load_policies(write(tmp_path, alike, layers))
    assert named.policy.sizes == (4, 5, 3)


def test_deviations_of_flax_are_found_by_their_name():
    class Described(CheckpointFiles):
        def description(self):
            return {"activation": "tanh", "head": "gaussian"}

    params = {**tree(4, 5, 2), "log_std": np.array([0.5, -0.5], "f4")}
    policy, _ = read_flax(flax_bytes({"params": params}), "it", Described())
    np.testing.assert_allclose(policy.log_std, [0.5, -0.5])


def test_cleanrls_scripts_for_jax_are_told_by_their_trees(tmp_path):
    actor = {"params": tree(4, 5, 2)}
    path = write(tmp_path, flax_bytes({"0": actor, "1": actor}), name="a.cleanrl_model")
    with pytest.warns(PivecWarning, match="activation.*relu"):
        (named,) = load_policies(path)
    assert named.info.metadata["algorithm"] == "DDPG or TD3"
    assert named.policy.options.squash
    path = write(
        tmp_path, flax_bytes({"0": {"seed": 1}, "1": {"0": actor}}), name="a.cleanrl_model"
    )
    with pytest.raises(BadPolicyFile, match="CleanRL"):
        load_policies(path)


def test_brax_normalises_and_squashes(tmp_path):
    params = tree(4, 5, 4)
    with pytest.warns(PivecWarning) as said:
        (named,) = load_policies(write(tmp_path, brax_bytes(params), name="params"))
    texts = " ".join(str(warning.message) for warning in said)
    for words in ("swish", "normalize_observations", "from -1 to 1"):
        assert words in texts
    outputs = forward(params, (ROWS - 0.5) / 2, lambda x: x / (1 + np.exp(-x)))
    mean, std = replace(named.policy, low=[-1, -1], high=[1, 1]).distribution(ROWS)
    np.testing.assert_allclose(mean, outputs[:, :2], atol=1e-5)
    np.testing.assert_allclose(std, np.log1p(np.exp(outputs[:, 2:])) + 0.001, atol=1e-5)


def test_a_description_says_what_a_file_of_brax_does_not(tmp_path):
    given = {"activation": "relu", "normaliser": None}
    path = write(tmp_path, brax_bytes(tree(4, 5, 4)), given, "a.pkl")
    with pytest.warns(PivecWarning, match="from -1 to 1"):
        (named,) = load_policies(path)
    assert named.policy.activation == "relu"
    assert named.policy.normaliser is None
    with pytest.raises(BadPolicyFile, match="'head'"):
        load_policies(write(tmp_path, brax_bytes(tree(4, 5, 4)), {"head": "gaussian"}, "a.pkl"))


def test_a_network_of_brax_that_is_not_known_is_refused():
    odd = {**tree(4, 5, 4), "LayerNorm_0": {"scale": np.ones(5, "f4")}}
    with pytest.raises(BadPolicyFile, match=r"LayerNorm_0\.scale"):
        read_brax(brax_bytes(odd))
    spread = {"MLP_0": tree(4, 5), "Dense_0": tree(5, 2)["hidden_0"]}
    policy, _ = read_brax(brax_bytes({**spread, "std_param": {"value": np.array([1.0, 2.0])}}))
    np.testing.assert_allclose(policy.log_std, np.log([1, 2]), rtol=1e-6)
    assert policy.sizes == (4, 5, 2)


def test_lists_within_lists_do_not_fill_the_memory():
    shared = [0]
    for _ in range(60):
        shared = [shared, shared]
    with pytest.raises(BadPolicyFile, match="bytes"):
        read_brax(pickle.dumps((shared, "brax.training"))[:-1] + b".")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("saved_model.pb", b"\x08\x01", "SavedModel"),
        ("ckpt.199", b"x", "Dopamine and Acme"),
        ("model.ckpt-3.index", b"x", "TensorFlow"),
        ("model.h5", b"\x89HDF...keras_version", "a Keras model"),
        ("data.hdf5", b"\x89HDF", "`pivec import`"),
        ("model.pkl", b"\x80\x04.stable_baselines.common.policies", "Stable-Baselines 2"),
        ("b.pkl", pickle.dumps("stable_baselines3.common.buffers"), "a replay buffer"),
        ("v.pkl", pickle.dumps("stable_baselines3.common.vec_env.vec_normalize"), "VecNormalize"),
        ("agent.pkl", pickle.dumps({"dyn/rssm/w": 1}), "DreamerV3"),
        ("a.pkl", pickle.dumps("torch.storage"), "torch.*state_dict"),
        ("a.pkl", archive({"a/data.pkl": b"."}), r"torch\.save.*\.pt"),
        ("a.pkl", pickle.dumps([1]), "neat-python"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, data, words):
    with pytest.raises(PivecError, match=words):
        load_policies(write(tmp_path, data, name=name))


def test_an_optimiser_is_no_policy_and_a_folder_of_tensorflow_is_named(tmp_path):
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(2, 2)
    torch.save(torch.optim.Adam(layer.parameters()).state_dict(), tmp_path / "optimizer.pt")
    with pytest.raises(BadPolicyFile, match="optimiser"):
        load_policies(tmp_path / "optimizer.pt")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"saved_model\.pb.*SavedModel"):
        load_policies(tmp_path / "saved")


def test_a_checkpoint_of_orbax_needs_tensorstore_and_says_so(tmp_path):
    entry = {
        "key_metadata": [{"key": "a", "key_type": 2}],
        "value_metadata": {"value_type": "jax.Array"},
    }
    (tmp_path / "step_5").mkdir()
    path = tmp_path / "step_5" / "_METADATA"
    path.write_text(json.dumps({"tree_metadata": {"('a',)": entry}}))
    with pytest.raises(BadPolicyFile, match=r"_METADATA.*TensorStore|cannot be read"):
        load_policies(tmp_path)
