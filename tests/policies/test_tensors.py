"""The reader of torch files: agrees with torch, and runs nothing."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import pickletools
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

from pivec import files as reading
from pivec.errors import BadPolicyFile
from pivec.files import Budget
from pivec.policies import tensors
from pivec.policies import tensors as pickles
from pivec.policies.tensors import read_tensors


def torch_file(program: bytes, storages: dict[str, bytes] | None = None, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("archive/data.pkl", program)
        for name, content in (storages or {}).items():
            file.writestr(f"archive/data/{name}", content)
        for name, content in members.items():
            file.writestr(f"archive/{name}", content)
    return buffer.getvalue()


def unicode(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


def integers(*values: int) -> bytes:
    return b"(" + b"".join(b"J" + v.to_bytes(4, "little", signed=True) for v in values) + b"t"


def tensor_program(
    kind="FloatStorage", key="0", length=6, offset=0, shape=(2, 3), strides=(3, 1), name="w"
) -> bytes:
    """A state dictionary with one tensor, instruction by instruction."""
    number = b"J" + length.to_bytes(4, "little", signed=True)
    storage = b"(" + unicode("storage") + f"ctorch\n{kind}\n".encode() + unicode(key)
    storage += unicode("cpu") + number + b"tQ"
    arguments = storage + b"J" + offset.to_bytes(4, "little", signed=True)
    arguments += integers(*shape) + integers(*strides) + b"\x89" + b"}"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"tR"
    return b"\x80\x02}" + unicode(name) + tensor + b"s."


NUMBERS = np.arange(6, dtype="<f4")


def test_a_tensor_is_read():
    found = read_tensors(torch_file(tensor_program(), {"0": NUMBERS.tobytes()}))
    np.testing.assert_array_equal(found["w"], NUMBERS.reshape(2, 3))


def test_strides_and_offset_are_followed():
    program = tensor_program(offset=1, shape=(2, 2), strides=(1, 2))
    found = read_tensors(torch_file(program, {"0": NUMBERS.tobytes()}))
    np.testing.assert_array_equal(found["w"], [[1, 3], [2, 4]])


def test_big_endian_files_are_read():
    data = torch_file(tensor_program(), {"0": NUMBERS.astype(">f4").tobytes()}, byteorder=b"big")
    np.testing.assert_array_equal(read_tensors(data)["w"], NUMBERS.reshape(2, 3))


def test_an_empty_tensor_is_read():
    program = tensor_program(length=0, shape=(0, 3), strides=(3, 1))
    assert read_tensors(torch_file(program, {"0": b""}))["w"].shape == (0, 3)


@pytest.mark.parametrize("kind", list(tensors.STORAGES))
def test_every_kind_of_number_agrees_with_torch(kind):
    torch = pytest.importorskip("torch")
    dtype = {
        "FloatStorage": torch.float32,
        "DoubleStorage": torch.float64,
        "HalfStorage": torch.float16,
        "BFloat16Storage": torch.bfloat16,
        "LongStorage": torch.int64,
        "IntStorage": torch.int32,
        "ShortStorage": torch.int16,
        "CharStorage": torch.int8,
        "ByteStorage": torch.uint8,
        "BoolStorage": torch.bool,
    }[kind]
    values = (torch.arange(24).reshape(4, 6) * 1.37).to(dtype)
    state = {"a": values, "b": values.t(), "c": values[1:, 2:4], "d": values[0, 0]}
    state["e"] = torch.nn.Parameter(torch.ones(3, 2))
    buffer = io.BytesIO()
    torch.save(OrderedDict(state), buffer)
    found = read_tensors(buffer.getvalue())
    assert list(found) == list(state)
    for name, tensor in state.items():
        expected = tensor.detach().to(torch.float64).numpy()
        np.testing.assert_array_equal(found[name].astype(np.float64), expected)
        assert found[name].dtype.isnative


def test_state_dictionaries_of_modules_agree_with_torch():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    found = read_tensors(buffer.getvalue())
    assert set(found) == set(module.state_dict())
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(found[name], tensor.numpy())


class _Payload:
    """Touches a file when unpickled, by the function given."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_a_file_that_asks_to_run_a_command_is_refused_and_runs_nothing(tmp_path, protocol):
    touched = tmp_path / "touched"
    program = pickle.dumps({"w": _Payload(os.system, f"touch {touched}")}, protocol)
    with pytest.raises(BadPolicyFile, match=r"system|instruction"):
        read_tensors(torch_file(program))
    assert not touched.exists()
    pickle.loads(program)
    assert touched.exists(), "the payload itself must work, or this test shows nothing"


def test_the_refusal_names_what_the_file_wanted():
    program = pickle.dumps(_Payload(os.system, "true"), 2)
    with pytest.raises(BadPolicyFile, match=r"it asks to run (posix|nt)\.system"):
        read_tensors(torch_file(program))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (b"cos\nsystem\n(X\x04\x00\x00\x00truetR.", r"run os\.system"),
        (b"(X\x04\x00\x00\x00trueios\nsystem\n.", r"INST for 'os\.system'"),
        (b"(cos\nsystem\nX\x04\x00\x00\x00trueo.", r"OBJ for os\.system"),
        (b"cos\nsystem\n)\x81.", r"class os\.system"),
        (b"\x80\x04cos\nsystem\n)}\x92.", r"NEWOBJ_EX for os\.system"),
        (b"ccollections\nOrderedDict\n(K\x01tR.", r"run collections\.OrderedDict"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.", r"run builtins\.eval"),
        (b"\x82\x01.", "EXT1"),
        (b"Pabc\n.", "PERSID"),
        (b"}(K\x01K\x02u.", "named tensors"),
        (b"}X\x01\x00\x00\x00wK\x01s.", "named tensors"),
        (b"}}b.", "set the state"),
        (b"K\x01.", "dictionary"),
        (b"K\x01K\x02.", "left over"),
        (b"}", "damaged"),
        (b"", "damaged"),
        (b".", "damaged"),
        (b"R.", "damaged"),
        (b"t.", "mark is missing"),
        (b"h\x05.", "memo is missing"),
        (b"(K\x01q\x00.", "left over"),
        (b"(q\x00.", "damaged"),
        (b")K\x01K\x02s.", "something else"),
        (b"}()K\x01u.", "neither text nor numbers"),
        (b"}(K\x01u.", "no value"),
        (b"K\x01)R.", "function"),
        (b"]K\x01aK\x02K\x03a.", "something else"),
        (b"\xff\xff\xff", "damaged"),
        (b"\x8b\xff\xff\xff\x7f\x00.", "damaged"),
        (b"\x80\x04K\x01K\x02\x93.", "text"),
        (b"ctorch._utils\n_rebuild_parameter\n(NNNtR.", "tensor"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n(NNNNNNtR.", "no storage"),
        (b"K\x01Q.", "not understood"),
    ],
)
def test_programs_that_are_no_tensors_are_refused_by_name(program, words):
    with pytest.raises(BadPolicyFile, match=words):
        read_tensors(torch_file(program))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"length": 7}, "24 bytes instead of 28"),
        ({"length": -6}, "shape"),
        ({"kind": "DoubleStorage"}, "24 bytes instead of 48"),
        ({"kind": "ComplexFloatStorage"}, "ComplexFloatStorage"),
        ({"key": "1"}, "data/1"),
        ({"key": "../data.pkl"}, "storage"),
        ({"offset": 1}, "beyond its storage"),
        ({"offset": -1}, "shape"),
        ({"shape": (3, 3)}, "beyond its storage"),
        ({"shape": (2, -3)}, "shape"),
        ({"shape": (2, 3, 1)}, "shape"),
        ({"shape": (1,) * 9, "strides": (1,) * 9}, "shape"),
        ({"shape": (2**30, 2**30), "strides": (0, 0)}, "beyond its storage"),
        ({"strides": (100, 1)}, "beyond its storage"),
        ({"strides": (-3, 1)}, "shape"),
    ],
)
def test_tensors_that_do_not_fit_their_storage_are_refused(change, words):
    with pytest.raises(BadPolicyFile, match=words):
        read_tensors(torch_file(tensor_program(**change), {"0": NUMBERS.tobytes()}))


def test_a_tensor_in_the_place_of_a_name_is_refused():
    tensor = tensor_program()[3 + len(unicode("w")) : -2]
    program = b"\x80\x02(" + tensor + b"ctorch\nFloatStorage\n" + unicode("0") * 2 + b"K\x06tQ."
    with pytest.raises(BadPolicyFile, match="reference"):
        read_tensors(torch_file(program, {"0": NUMBERS.tobytes()}))


def test_bounds_on_work_and_memory(monkeypatch):
    data = torch_file(tensor_program(), {"0": NUMBERS.tobytes()})
    budget = Budget(0, "x.pth")
    read_tensors(data, budget=budget)
    budget.left = budget.total - budget.left  # what it took, which includes the tensor itself
    budget.left -= 1
    with pytest.raises(BadPolicyFile, match=r"x\.pth unpacks to more than"):
        read_tensors(data, budget=budget)
    monkeypatch.setattr(pickles, "MAX_OPCODES", 5)
    with pytest.raises(BadPolicyFile, match="more than 5 instructions"):
        read_tensors(data)


def test_deep_nesting_does_no_harm():
    with pytest.raises(BadPolicyFile):
        read_tensors(torch_file(b")" + b"\x85" * 50_000 + b"."))
    with pytest.raises(BadPolicyFile):
        read_tensors(torch_file(b"}X\x01\x00\x00\x00w)" + b"\x85" * 50_000 + b"s."))
    with pytest.raises(BadPolicyFile):
        read_tensors(torch_file(b")" + b"\x85" * 50_000 + b")R."))
    with pytest.raises(BadPolicyFile):
        read_tensors(torch_file(b"ccollections\nOrderedDict\n)" + b"\x85" * 50_000 + b"R."))


def test_archives_are_bounded(monkeypatch):
    data = torch_file(tensor_program(), {"0": NUMBERS.tobytes()})
    with pytest.raises(BadPolicyFile, match="not a zip"):
        read_tensors(b"hello")
    with pytest.raises(BadPolicyFile, match=r"before version 1\.6"):
        read_tensors(pickle.dumps(1, 2))
    with pytest.raises(BadPolicyFile, match="truncated"):
        read_tensors(data[:-10])
    with pytest.raises(BadPolicyFile, match="unknown byte order"):
        read_tensors(torch_file(b".", byteorder=b"middle"))
    monkeypatch.setattr(reading, "MAX_MEMBERS", 1)
    with pytest.raises(BadPolicyFile, match="more than 1"):
        read_tensors(data)


def test_a_zip_bomb_is_refused_before_it_is_unpacked():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"\x00" * 100_000_000)
    budget = Budget(len(buffer.getvalue()), "x.pth")
    with pytest.raises(BadPolicyFile, match="bytes"):
        read_tensors(buffer.getvalue(), budget=budget)
    assert -reading.CHUNK <= budget.left < 0, "it stopped at once"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_unpack_without_bounds_are_refused(method):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        file.writestr("archive/data.pkl", b"\x00" * 1000)
    with pytest.raises(BadPolicyFile, match="unsupported compression"):
        read_tensors(buffer.getvalue())


def test_highly_compressible_weights_are_read():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", tensor_program(length=4_000_000, shape=(4000, 1000)))
        file.writestr("archive/data/0", bytes(16_000_000))
    assert not read_tensors(buffer.getvalue())["w"].any()


def test_tensors_that_share_a_storage_unpack_it_once():
    inner = tensor_program()[3:-2]  # its name and the tensor
    shared = b"\x80\x02}" + b"".join(
        inner.replace(unicode("w"), unicode(f"w{i}")) + b"s" for i in range(2000)
    )
    budget = Budget(0, "x.pth")
    found = read_tensors(torch_file(shared + b".", {"0": NUMBERS.tobytes()}), budget=budget)
    assert len(found) == 2000
    assert budget.total - budget.left == 24 + len(shared + b".") + 2000 * 24


def test_zips_that_are_no_torch_file_are_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("hello", b"")
    with pytest.raises(BadPolicyFile, match="not a torch file"):
        read_tensors(buffer.getvalue())


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("archive/data.pkl", tensor_program())
        file.writestr("archive/data.pkl", b".")
    with pytest.raises(BadPolicyFile, match="same name"):
        read_tensors(buffer.getvalue())


def test_random_programs_give_no_other_error():
    rng = np.random.default_rng(0)
    codes = np.array([ord(opcode.code) for opcode in pickletools.opcodes], np.uint8)
    whole = np.frombuffer(tensor_program(), np.uint8)
    for i in range(1500):
        if i % 3 == 0:
            program = rng.choice(codes, rng.integers(1, 40))
        elif i % 3 == 1:
            program = whole.copy()
            program[rng.integers(len(whole), size=2)] = rng.choice(codes, 2)
        else:
            program = np.delete(whole, rng.integers(len(whole), size=2))
        data = torch_file(program.tobytes(), {"0": NUMBERS.tobytes()})
        with contextlib.suppress(BadPolicyFile):
            read_tensors(data)
