"""Spoilt stores, spaces and recorded states are refused in words, whatever is wrong with them."""

from __future__ import annotations

import hashlib
import json
import warnings

import numpy as np
import pytest

from pivec.characterizations import Space, characterization
from pivec.states import VisitedStates, import_recorded, json_digest
from spoiling import Sample, check, counts

NAMES = ["npz padded", "npz long", "store", "space", "minari hdf5", "minari arrow"]


def content(folder):
    """File name -> bytes, the largest first; locks and marks are left out."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    files.sort(key=lambda path: -path.stat().st_size)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def sample(name, folder, patch):
    return Sample(f"state_attempts:{name.split()[0]}", _files(name, folder, patch), repair=repair)


def _files(name, folder, patch):
    rng = np.random.default_rng(0)
    walks = [rng.normal(size=(n, 3)).astype(np.float32) for n in (5, 4)]
    if name == "npz padded":
        states = np.zeros((2, 5, 3), np.float32)
        np.savez(
            folder / "walker.npz", states=states, lengths=[5, 4], returns=[1.0, 2.0], seeds=[1, 2]
        )
    elif name in ("npz long", "store"):
        moves = rng.integers(2, size=9)
        where = (folder / "from") if name == "store" else folder
        where.mkdir(exist_ok=True)
        np.savez_compressed(
            where / "walker.npz",
            states=np.concatenate(walks),
            episode=np.repeat([0, 1], [5, 4]),
            step=[0, 1, 2, 3, 4, 0, 1, 2, 3],
            actions=moves,
            feature_names=["x", "y", "z"],
        )
        if name == "store":
            import_recorded([f"npz:{where}"], folder / "store")
            return content(folder / "store")
    elif name == "space":
        data = VisitedStates.from_arrays([walks, walks[::-1]], ["a", "b"])
        method = characterization("gaussian").fit(data)
        Space(method, method.describe(data), np.zeros((2, 2))).save(folder)
        with np.load(folder / "space.npz") as file:
            arrays = dict(file)
        index = json.loads(arrays["index"].tobytes())
        index["format"] = 1  # which has no checksum, so that damage reaches the readers
        arrays["index"] = np.frombuffer(json.dumps(index).encode(), np.uint8)
        np.savez(folder / "space.npz", **arrays)
    else:
        _minari(folder, patch, walks, name.split()[1])
        return content(folder / "walk" / "x-v0")
    return content(folder)


def _minari(folder, patch, walks, data_format):
    minari = pytest.importorskip("minari")
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    patch.setenv("MINARI_DATASETS_PATH", str(folder))
    buffers = [
        EpisodeBuffer(
            id=i,
            seed=i,
            observations=walk,
            actions=np.zeros(len(walk) - 1, np.int64),
            rewards=np.ones(len(walk) - 1),
            terminations=np.arange(len(walk) - 1) == len(walk) - 2,
            truncations=np.zeros(len(walk) - 1, bool),
            infos={},
        )
        for i, walk in enumerate(walks)
    ]
    minari.create_dataset_from_buffers(
        "walk/x-v0",
        buffers,
        observation_space=spaces.Box(-np.inf, np.inf, (3,), np.float32),
        action_space=spaces.Discrete(2),
        algorithm_name="a",
        author="a",
        author_email="a",
        code_permalink="a",
        description="a",
        data_format=data_format,
    )


def repair(files):
    """Give the index of a store the checksums of its files, so that they are read."""
    try:
        index = json.loads(files["store.json"])
        index.pop("sha256")
        for row in index["policies"]:
            row["sha256"] = hashlib.sha256(files[row["file"]]).hexdigest()
        index["sha256"] = json_digest(index)
        return {**files, "store.json": json.dumps(index).encode()}
    except Exception:  # no index that could be repaired
        return files


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari's own
        return {name: sample(name, tmp_path_factory.mktemp("sound"), patch) for name in NAMES}


@pytest.fixture(scope="module")
def counted(sound):
    return dict(zip(NAMES, counts(list(sound.values()), 0, 30), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_spoilt_states_give_one_sentence(counted, name):
    check(counted[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_spoilt_states_give_one_sentence(sound, name):
    (counted,) = counts([sound[name]], 1, 500)
    print(f"{name}: {dict(counted)}")
    check(counted)
