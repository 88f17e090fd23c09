"""Untrusted files: not regular files, unpacking without end, exceptions of parsers."""

from __future__ import annotations

import os

import numpy as np
import pytest

from pivec.characterizations import Space
from pivec.errors import BadData, BadPolicyFile, PivecError
from pivec.files import FREE, MOST, Budget, naming, open_regular
from pivec.policies import load_policies
from pivec.states import Store, import_recorded


def test_a_budget_follows_the_size_of_the_file():
    assert Budget(0, "a").total == FREE
    assert Budget(1 << 20, "a").total == FREE + (100 << 20)
    assert Budget(100 << 20, "a").total == MOST
    assert Budget(MOST, "a").total == 4 * MOST, "what is not packed is always read"


def test_regular_files_are_opened(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("a", "link"):
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"x"


@pytest.fixture(params=["pipe", "device", "folder"])
def odd(request, tmp_path):
    """Make something at a path that is not a regular file."""

    def make(name):
        path = tmp_path / name
        path.unlink(missing_ok=True)
        if request.param == "pipe":
            os.mkfifo(path)
        elif request.param == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
        return path

    return make


@pytest.mark.parametrize("name", ["a.zip", "a.json", "vecnormalize.pkl"])
def test_odd_files_among_policies_are_refused(tmp_path, odd, name):
    np.save(tmp_path / "a.npy", np.zeros(2))
    (tmp_path / "a.zip").write_bytes(b"PK")
    (tmp_path / "a.json").write_text("{}")
    odd(name)
    with pytest.raises(PivecError, match=r"regular file|zip|holds no policy"):
        load_policies([tmp_path / ("a.npy" if name == "a.json" else "a.zip")])


def test_odd_files_among_recorded_states_stores_and_spaces_are_refused(tmp_path, odd):
    odd("a.npz")
    with pytest.raises(PivecError, match="regular file"):
        import_recorded([f"npz:{tmp_path}"], tmp_path / "store")
    odd("store.json")
    with pytest.raises(PivecError, match="regular file"):
        Store(tmp_path)
    odd("space.npz")
    with pytest.raises(PivecError, match="regular file"):
        Space.load(tmp_path)


def test_what_the_system_refuses_is_named_once(tmp_path):
    with pytest.raises(BadData) as caught, naming(tmp_path / "a", "x", BadData):
        (tmp_path / "a").read_bytes()
    assert str(caught.value) == f"{tmp_path / 'a'} cannot be read: No such file or directory"


def test_what_a_parser_raises_names_the_file():
    words = r"a\.npz cannot be read as x \(ZeroDivisionError"
    with pytest.raises(BadData, match=words) as caught, naming("a.npz", "x", BadData):
        raise ZeroDivisionError("no")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(BadPolicyFile, match="as it is"), naming("a", "x", BadData):
        raise BadPolicyFile("as it is")
    with pytest.raises(KeyboardInterrupt), naming("a", "x"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"states": np.zeros((0, 5, 2))}, "no episodes"),
        ({"states": np.zeros((0, 2)), "episode": np.zeros(0), "step": np.zeros(0)}, "no episodes"),
        ({"states": np.zeros((2, 5, 0))}, r"\(2, 5, 0\).*feature"),
        ({"states": np.zeros((9, 0)), "episode": np.zeros(9), "step": np.arange(9)}, "feature"),
        ({"states": np.zeros((2, 5, 2)), "lengths": [np.nan, 2]}, "lengths needs"),
        ({"states": np.zeros((2, 5, 2)), "lengths": [1.5, 2]}, "lengths needs"),
        ({"states": np.zeros((2, 5, 2)), "lengths": ["a", "b"]}, "lengths needs"),
        ({"states": np.zeros((2, 5, 2)), "seeds": [np.nan, 2]}, "recorded episodes"),
        ({"states": np.array(5.0)}, "states has shape"),
        ({"states": np.array(["a", "b"])}, "states has shape"),
    ],
)
def test_recorded_arrays_that_make_no_sense_name_their_file(tmp_path, arrays, words):
    np.savez(tmp_path / "odd.npz", **arrays)
    with pytest.raises(BadData, match=rf"odd\.npz.*{words}"):
        import_recorded([f"npz:{tmp_path}"], tmp_path / "store")
