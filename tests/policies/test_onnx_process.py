"""The process of onnxruntime: what never ends, what takes too much, and what it may reach."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import gymnasium
import numpy as np
import pytest

from pivec.errors import BadPolicyFile
from pivec.parallel import confined
from pivec.policies import load_policies
from pivec.policies.formats import onnx as onnx_process

onnx = pytest.importorskip("onnx")

from onnx_graphs import graph, slow  # noqa: E402
from readers import read_onnx  # noqa: E402

helper, FLOAT, INT, BOOL = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, 9
SEEN, THREE = gymnasium.spaces.Box(-9, 9, (4,)), gymnasium.spaces.Discrete(3)
ROWS = np.random.default_rng(1).normal(size=(37, 4)).astype(np.float32)


def worker():
    """The child process that runs models."""
    return confined._child(os.getpid())._worker


def model(nodes, constants=()):
    """A model of one input (n, 4) and one output, from nodes between 'x' and 'y'."""
    value = helper.make_tensor_value_info
    made = helper.make_model(
        helper.make_graph(
            nodes, "g", [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, None)], list(constants)
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    made.ir_version = 8
    return made.SerializeToString()


def constant(name, kind, shape, values):
    return helper.make_tensor(name, kind, shape, values)


def endless():
    """A loop of 2**62 rounds."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["a"], ["b"])],
        "body",
        [value("i", INT, []), value("go", BOOL, []), value("a", FLOAT, None)],
        [value("on", BOOL, []), value("b", FLOAT, None)],
    )
    return model(
        [helper.make_node("Loop", ["times", "always", "x"], ["y"], body=body)],
        [constant("times", INT, [], [1 << 62]), constant("always", BOOL, [], [True])],
    )


def huge(size=1 << 30):
    """An output that needs a tensor of 4 GB."""
    return model(
        [
            helper.make_node("ConstantOfShape", ["size"], ["big"]),
            helper.make_node("ReduceSum", ["big"], ["total"], keepdims=0),
            helper.make_node("Add", ["x", "total"], ["y"]),
        ],
        [constant("size", INT, [1], [size])],
    )


def test_a_model_that_never_ends_is_stopped_and_the_others_go_on(monkeypatch):
    sound, _ = read_onnx(graph(), "sound.onnx")
    expected = sound.model.outputs(ROWS)
    np.testing.assert_allclose(expected, slow(ROWS), atol=1e-5)
    stuck, _ = read_onnx(endless(), "stuck.onnx")
    process = worker()
    with monkeypatch.context() as patch:
        patch.setattr(onnx_process, "SECONDS", 1)
        with pytest.raises(BadPolicyFile, match=r"stuck\.onnx.* 1 s"):
            stuck.model.outputs(ROWS)
    assert process.code == -signal.SIGXCPU
    np.testing.assert_array_equal(sound.model.outputs(ROWS), expected)


def test_ctrl_c_ends_a_model_that_never_ends(tmp_path):
    (tmp_path / "stuck.onnx").write_bytes(endless())
    code = (
        "from pivec.policies.formats.onnx import read_onnx\nimport numpy as np, sys\n"
        "from pivec.parallel import confined\nimport os\n"
        f"policy, _ = read_onnx(open({str(tmp_path / 'stuck.onnx')!r}, 'rb').read())\n"
        "print(confined._child(os.getpid())._worker._process.pid, flush=True)\n"
        "try:\n    policy.model.outputs(np.zeros((1, 4)))\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    child = int(parent.stdout.readline())
    time.sleep(0.5)
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: to the child as well
    assert parent.communicate(timeout=60)[0] == "interrupted\n"
    assert gone(child)


def test_no_process_outlives_its_parent(tmp_path):
    (tmp_path / "stuck.onnx").write_bytes(endless())
    code = (
        "from pivec.policies.formats.onnx import read_onnx\nimport numpy as np\n"
        "from pivec.parallel import confined\nimport os\n"
        f"policy, _ = read_onnx(open({str(tmp_path / 'stuck.onnx')!r}, 'rb').read())\n"
        "print(confined._child(os.getpid())._worker._process.pid, flush=True)\n"
        "policy.model.outputs(np.zeros((1, 4)))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    time.sleep(0.5)
    parent.kill()
    parent.communicate()
    assert gone(child)


def gone(pid, patience=10.0):
    last = time.monotonic() + patience
    while time.monotonic() < last:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":  # nobody has fetched its code
                return True
        time.sleep(0.05)
    return False


def test_too_much_memory_is_refused():
    policy, _ = read_onnx(huge(), "huge.onnx")
    with pytest.raises(BadPolicyFile, match=r"huge\.onnx .*(memory|alloc)"):
        policy.model.outputs(ROWS)
    small, _ = read_onnx(huge(1 << 20), "small.onnx")
    np.testing.assert_allclose(small.model.outputs(ROWS), ROWS)


@pytest.mark.parametrize("tag", ["long tag", "bits above 32", "long value", "value above 32 bits"])
def test_external_data_cannot_be_hidden(tmp_path, monkeypatch, tag):
    """As protobuf reads a tag of five bytes, whose highest bits it drops, and an enum."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(np.ones(4, "f4").tobytes())
    entry = onnx.StringStringEntryProto(key="location", value="secret").SerializeToString()
    field = {"long tag": b"\xea\x80\x80\x80\x00", "bits above 32": b"\xea\x80\x80\x80\x10"}
    value = {"long value": b"\x81\x80\x00", "value above 32 bits": b"\x81\x80\x80\x80\x10"}
    tensor = onnx.TensorProto(dims=[4], data_type=FLOAT, name="w").SerializeToString()
    if tag in field:
        tensor += field[tag] + bytes([len(entry)]) + entry
    tensor += b"\x70" + value.get(tag, b"\x01")
    whole = onnx.load_from_string(model([helper.make_node("Add", ["x", "w"], ["y"])]))
    data = whole.SerializeToString()
    graph_at = whole.graph.SerializeToString()
    assert data.count(graph_at) == 1
    longer = graph_at + b"\x2a" + bytes([len(tensor)]) + tensor
    at = data.index(graph_at)
    head = data[: at - len(varint(len(graph_at)))] + varint(len(longer))
    hidden = head + longer + data[at + len(graph_at) :]
    if tag != "bits above 32":  # the implementation in C drops them, that of Python refuses
        assert onnx.load_from_string(hidden).graph.initializer[0].data_location == 1
    with pytest.raises(BadPolicyFile, match=r"in other files|damaged"):
        read_onnx(hidden, "a.onnx")
    # And were it hidden from the check: the process cannot open any file.
    monkeypatch.setattr(onnx_process, "reject_external_data", lambda _: None)
    with pytest.raises(BadPolicyFile, match=r"a\.onnx"):
        read_onnx(hidden, "a.onnx")


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def test_a_fork_has_a_runtime_of_its_own():
    policy, _ = read_onnx(graph(), "a.onnx")
    expected = policy.model.outputs(ROWS)
    pid = os.fork()
    if pid == 0:
        same = np.array_equal(policy.model.outputs(ROWS), expected)
        worker().end(now=True)
        os._exit(0 if same else 1)
    assert os.waitpid(pid, 0)[1] == 0
    np.testing.assert_array_equal(policy.model.outputs(ROWS), expected)


def test_many_rows_travel_in_parts(monkeypatch):
    policy, _ = read_onnx(graph(), "a.onnx")
    rows = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
    expected = policy.model.outputs(rows)
    monkeypatch.setattr("pivec.policies.formats.onnx.MAX_REQUEST", 1000)
    np.testing.assert_array_equal(policy.model.outputs(rows), expected)


def test_the_error_of_a_policy_file_names_it(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x08")
    with pytest.raises(BadPolicyFile, match=r"bad\.onnx"):
        load_policies(tmp_path)
