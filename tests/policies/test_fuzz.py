"""Spoilt files of every format are refused in words: no other error, and nothing runs."""

from __future__ import annotations

import pickle
import warnings
import zipfile

import pytest

from pivec.errors import BadPolicyFile, PivecError
from pivec.policies import FORMATS, load_policies

pytest.importorskip("torch")
pytest.importorskip("neat")

from fuzzing import Payload, samples

from spoiling import archive, forged

# Others are whole names, of files in folders: see test_libraries.
SUFFIXES = sorted(suffix for suffix in FORMATS if suffix.startswith("."))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return samples(tmp_path_factory.mktemp("sound"))


def test_every_format_has_a_sample(sound):
    suffixes = {"." + next(iter(files)).partition(".")[2] for files in sound.values()}
    assert suffixes == set(SUFFIXES)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_of_the_wrong_type_are_refused(tmp_path, sound, suffix):
    for name, files in sound.items():
        own, content = next(iter(files.items()))
        if own.endswith(suffix) or name == "torchrl":  # which its content tells
            continue
        if suffix in (".pth", ".cleanrl_model", ".pt") and own.partition(".")[2] in (
            *("cleanrl_model", "pth", "pt"),
        ):
            continue
        if suffix in (".pkl", ".pickle") and own.endswith((".pkl", ".pickle")):
            continue
        with pytest.raises(PivecError):
            load_policies(write(tmp_path / f"b{suffix}", content))
    for content in (b"\x00", b"\n", b"PK", b"\x80\x05.", b"{}", b"[]", bytes(1000), b"\xff" * 1000):
        with pytest.raises(PivecError):
            load_policies(write(tmp_path / f"b{suffix}", content))


def write(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("suffix", sorted(FORMATS))
def test_pickles_do_not_run(tmp_path, suffix, protocol):
    touched = tmp_path / "touched"
    evil = pickle.dumps({"w": Payload(touched)}, protocol)
    wrapped = [
        evil,
        archive({"archive/data.pkl": evil}),
        archive({"data": b"{}", "policy.pth": archive({"archive/data.pkl": evil})}),
        archive({"data": evil, "policy.pth": evil}),
        archive({"best.npy": b"\x93NUMPY\x01\x00v\x00" + evil}),
        archive({"a/code/x.py": b"import os", "a/constants.pkl": evil, "a/data.pkl": evil}),
        archive({"a/version": b"3", "a/models/model.json": b"{}", "a/data.pkl": evil}),
    ]
    (tmp_path / "b.cfg").write_text("[DefaultGenome]\nnum_inputs = 1\nnum_outputs = 1\n")
    (tmp_path / "b.json").write_text('{"sizes": [1, 1], "head": "deterministic"}')
    (tmp_path / "vecnormalize.pkl").write_bytes(evil)
    for content in wrapped:
        with pytest.raises(PivecError):
            load_policies(write(tmp_path / f"b{suffix}", content))
    assert not touched.exists()
    pickle.loads(evil)
    assert touched.exists(), "the payload itself must work, or this test shows nothing"


@pytest.mark.parametrize("suffix", [".zip", ".npz", ".pt", ".pth", ".cleanrl_model", ".pt2"])
def test_archives_are_not_unpacked_beyond_bounds_or_outside_of_memory(tmp_path, sound, suffix):
    (tmp_path / "b.json").write_text('{"sizes": [1, 1], "head": "deterministic"}')
    before = sorted(tmp_path.parent.iterdir())
    member = {".zip": "data", ".npz": "best.npy"}.get(suffix, "archive/data.pkl")
    extra = {"policy.pth": b""} if suffix == ".zip" else {}
    escaping = archive({"../../escaped": b"x", "/escaped": b"x", member: b"x", **extra})
    bomb = forged(extra, member, b"", 100, 100 << 20)
    liar = forged(extra, member, b"", 20, 100)
    other = forged(extra, member, b"", 20, 20 << 20, zipfile.ZIP_BZIP2)
    for content in (bomb, liar, other, escaping):
        with pytest.raises(BadPolicyFile):
            load_policies(write(tmp_path / f"b{suffix}", content))
    assert sorted(tmp_path.parent.iterdir()) == before
    assert not (tmp_path.parent / "escaped").exists()
