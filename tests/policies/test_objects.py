"""Pickled objects are read as data: as pickle reads them, and nothing runs."""

from __future__ import annotations

import pickle
from collections import OrderedDict

import numpy as np
import pytest

from pivec import files as reading
from pivec.errors import BadPolicyFile
from pivec.policies.tensors import Object, as_array, read_objects


class Thing:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("a",)

    def __init__(self):
        self.a = 5


MINE = (Thing.__module__.partition(".")[0], "numpy", "collections", "copyreg")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_attributes_and_arrays_are_those_of_the_object(protocol):
    arrays = {
        "plain": np.arange(6.0).reshape(2, 3),
        "turned": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        "big": np.arange(3, dtype=">f4"),
        "none": np.zeros((0, 2)),
        "scalar": np.float64(2.5),
        "flags": np.array([True, False]),
    }
    thing = Thing(**arrays, text="x", inner=Thing(y=[1, (2, 3)]), keyed={(1, -2): 3})
    found = read_objects(pickle.dumps(thing, protocol), MINE)
    assert isinstance(found, Object)
    for name, array in arrays.items():
        read = as_array(found.state[name])
        np.testing.assert_array_equal(found.state[name] if read is None else read, array)
    assert found.state["text"] == "x"
    assert found.state["inner"].state == {"y": [1, (2, 3)]}
    assert found.state["keyed"] == {(1, -2): 3}


def test_other_states_are_read_too():
    assert read_objects(pickle.dumps(Slotted()), MINE).state == {"a": 5}
    assert read_objects(pickle.dumps(OrderedDict(a=1)), MINE) == {"a": 1}
    assert as_array(5) is None


def test_random_generators_do_not_matter():
    found = read_objects(pickle.dumps(Thing(rng=np.random.default_rng(0), b=2)), MINE)
    assert found.state["b"] == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Thing(a=np.array([{}], object)), "type|damaged|asks"),
        (Thing(a=np.array(["x"])), "type"),
        (Thing(a=np.zeros(2, "m8[s]")), "type"),
        (Thing(a=abs), r"builtins\.abs|instruction|asks"),
        ({(1, 2, 3): 4}, "neither text nor numbers"),
    ],
)
def test_other_values_are_refused(value, words):
    if value.__class__ is Thing and value.a is abs:
        # A name that is not called does no harm, but what is called must be known.
        assert read_objects(pickle.dumps(value), MINE).state["a"].name == "abs"
        return
    with pytest.raises(BadPolicyFile, match=words):
        read_objects(pickle.dumps(value), MINE)


def test_classes_of_other_packages_are_refused_by_name():
    with pytest.raises(BadPolicyFile, match="Thing"):
        read_objects(pickle.dumps(Thing()), ("numpy",))


def test_the_same_bytes_again_and_again_are_counted(monkeypatch):
    raw = np.zeros(1000)
    many = [raw.copy() for _ in range(3)]
    data = pickle.dumps(many)
    assert len(read_objects(data, MINE)) == 3
    monkeypatch.setattr(reading, "FREE", -100 * len(data) + 20_000)
    with pytest.raises(BadPolicyFile, match="more than 20000 bytes"):
        read_objects(data, MINE)


def test_a_dictionary_shared_by_many_objects_is_counted():
    state = (
        b"}(" + b"".join(b"J" + i.to_bytes(4, "little") + b"K\x00" for i in range(20_000)) + b"u"
    )
    module = MINE[0].encode()
    thing = b"c" + module + b"\nThing\n)\x81q\x02" + b"h\x01b"
    program = b"\x80\x02" + state + b"q\x01" + thing * 5000 + b"."
    with pytest.raises(BadPolicyFile, match="bytes"):
        read_objects(program, MINE)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (b"\x80\x04cnumpy\ndtype\n\x8c\x02??\x89\x88\x87R.", None),
        (b"cnumpy\ndtype\n(X\x02\x00\x00\x00f8\x89\x88tRK\x01b.", "set the state"),
        (b"K\x01)b.", "set the state"),
        (b"K\x01)\x81.", "NEWOBJ"),
        (b"K\x01)R.", "function"),
        (b"c_codecs\nencode\n(X\x03\x00\x00\x00\xe2\x82\xacX\x06\x00\x00\x00latin1tR.", "bytes"),
    ],
)
def test_programs_that_make_no_sense_are_refused(program, words):
    if words is None:
        assert read_objects(program, MINE) is not None
        return
    with pytest.raises(BadPolicyFile, match=words):
        read_objects(program, MINE)


def test_arrays_that_do_not_fit_their_bytes_are_refused():
    data = pickle.dumps(np.arange(4, dtype=np.float64), 4)
    for old, new in ((b"f8", b"f4"), (b"f8", b"V8"), (b"f8", b"zz"), (b"K\x04\x85", b"K\x05\x85")):
        assert old in data
        with pytest.raises(BadPolicyFile, match=r"shape|type"):
            read_objects(data.replace(old, new), MINE)
