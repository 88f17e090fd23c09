"""Hostile files of every reader are read or refused, within limits and without opening others."""

from __future__ import annotations

import os
import shutil
import warnings

import pytest

pytest.importorskip("h5py")
pytest.importorskip("minari")
pytest.importorskip("neat")
pytest.importorskip("onnxruntime")
pytest.importorskip("tensorstore")
pytest.importorskip("torch")

from corpus import READERS, make_canary, opened_elsewhere, traced

from spoiling import endings

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="Linux")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    make_canary(folder / "canary")
    return folder


def made(home, names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the libraries that write the files
        return [READERS[name](home, home / "canary") for name in names]


def read(home, names, seed, rounds, tracer=(), quick=False):
    samples = made(home, names)
    found = endings(samples, seed, rounds, [home / "canary"], tracer, quick)
    odd = []
    for name, part in zip(names, found, strict=True):
        texts = [ending.text for ending in part.values()]
        most = [max(values) for values in zip(*(e[1:] for e in part.values()), strict=True)]
        print(f"{name}: {texts.count('read')} read, {texts.count('refused')} refused, {most}")
        assert texts.count("refused") > len(texts) // 10
        odd += [f"{name}, {key}: {e.text}" for key, e in part.items() if not e.is_right]
    assert not odd, "\n".join(odd)


@pytest.mark.parametrize(
    "names",
    [
        [name for name in READERS if name.startswith(("hdf5", "minari"))],
        [name for name in READERS if not name.startswith(("hdf5", "minari", "policy"))],
        [name for name in READERS if name.startswith("policy")],
    ],
    ids=["hdf5", "states", "policies"],
)
def test_hostile_files_give_one_sentence(home, names):
    read(home, names, 0, 10, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_many_hostile_files_give_one_sentence(home, name):
    read(home, [name], 1, 500)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("name", READERS)
def test_no_other_file_is_opened(home, name, tmp_path):
    read(home, [name], 2, 10, traced(tmp_path / "opened"))
    assert not opened_elsewhere(tmp_path / "opened")
