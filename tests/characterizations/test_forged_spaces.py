"""Spaces with right checksums but wrong content are rejected in one sentence, or change nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import warnings

import numpy as np
import pytest

import pivec
from pivec.characterizations import Space
from pivec.errors import BadStore, PivecError

METHODS = {
    "visitation": {"n_components": 3},
    "supervector": {"n_components": 3, "adapt": "mwv"},
    "gaussian": {},
    "discretization": {},
    "mmd": {"n_frequencies": 8},
    "sliced-wasserstein": {"n_directions": 4, "n_quantiles": 4},
    "trajectories": {},
    "terminal-state": {},
    "returns": {},
}
MAY_BE_NAN = {"summary.mean_returns", "summary.return_stds", "positions"}
POSITIVE = {"weights", "variances", "scale", "counts", "n_episodes", "n_states", "lengths",
            "shares", "effective_episodes", "bandwidth", "every"}  # fmt: skip


@pytest.fixture(scope="module", params=METHODS)
def saved(request, tmp_path_factory):
    rng = np.random.default_rng(0)
    walks = [[rng.normal(k, 1, (12, 2)) for _ in range(5)] for k in range(4)]
    data = pivec.VisitedStates.from_arrays(walks, returns=[np.arange(5.0) + k for k in range(4)])
    method = pivec.characterization(request.param, **METHODS[request.param]).fit(data)
    described = method.describe(data, influences=method.traits.influences)
    folder = tmp_path_factory.mktemp(request.param)
    Space(method, described, rng.normal(size=(4, 2)), {"environment": "Walk-v0"}).save(folder)
    return folder


def read(folder):
    with np.load(folder / "space.npz") as archive:
        arrays = dict(archive)
    return json.loads(arrays.pop("index").tobytes()), arrays


def write(folder, index, arrays):
    """Write what another program may have written, with the checksum that belongs to it."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    text = json.dumps(index | {"sha256": digest.hexdigest()} if "sha256" in index else index)
    content = arrays | {"index": np.frombuffer(text.encode(), dtype=np.uint8)}
    np.savez(folder / "space.npz", **content)


def distances(folder):
    space = Space.load(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = space.method.distances(space.descriptions)
        if "influences" in space.descriptions.arrays:
            space.method.intervals(space.descriptions)
    return found


def forged_arrays(name, array):
    """Yield what cannot be an array of this name."""
    yield array[None]
    yield np.asarray(array, dtype=str)
    yield array.astype(complex)
    yield array.astype(np.float32 if array.dtype != np.float32 else np.float64)
    yield array.astype(">f8" if array.dtype.kind == "f" else ">i8")
    if array.ndim:
        yield array[:-1]
        yield np.concatenate([array, array[-1:]])
        yield array.ravel()[0]
        yield array[:0]
    if array.ndim > 1:
        yield array.ravel()
        if array.shape[1] > 1 and name != "vectors":  # which are not always used
            yield array[..., :-1]
            yield array[..., :1]
    for value in (np.nan, np.inf, -np.inf) if array.dtype.kind == "f" else ():
        if name not in MAY_BE_NAN:
            changed = array.copy()
            changed.flat[-1] = value
            yield changed
    if name.split(".")[-1] in POSITIVE or name.endswith(".starts"):
        yield -array - 1
    if name in ("learned.weights", "described.weights"):
        yield array * 2
    if name.endswith(".starts"):
        yield array[::-1].copy()
        yield np.where(array > 0, array.max(), 0)


def test_the_forged_file_differs_in_nothing_else(saved, tmp_path):
    write(tmp_path, *read(saved))
    assert np.array_equal(distances(tmp_path), distances(saved))


def test_every_array_must_have_its_type_shape_and_range(saved, tmp_path):
    index, arrays = read(saved)
    for name, array in arrays.items():
        for k, forged in enumerate(forged_arrays(name, array)):
            write(tmp_path, index, arrays | {name: np.asarray(forged)})
            with pytest.raises(BadStore) as error:
                pytest.fail(f"{name} {k} {forged!r}: {Space.load(tmp_path)}")
            assert str(tmp_path) in str(error.value)
            assert "\n" not in str(error.value)
    for name in ("learned.more", "described.more", "more", "described.more.starts"):
        write(tmp_path, index, arrays | {name: np.zeros(4)})
        with pytest.raises(BadStore):
            Space.load(tmp_path)


def test_influences_of_earlier_versions_are_read(saved, tmp_path):
    index, arrays = read(saved)
    space, name = Space.load(saved), "described.influences"
    if name not in arrays:
        pytest.skip("no influences")
    arrays[name] = np.concatenate(space.descriptions.influences)
    del arrays[f"{name}.scale"]
    write(tmp_path, index | {"format": 2}, arrays)
    sides = [space.descriptions, Space.load(tmp_path).descriptions]
    now, then = (space.method.intervals(described) for described in sides)
    assert np.allclose(then.high, now.high, rtol=1e-6)


def check(folder, expected, what):
    """Accept the same distances, or an error that users are meant to see."""
    with contextlib.suppress(PivecError):
        assert np.allclose(distances(folder), expected, rtol=1e-9), what


def test_an_array_that_is_missing_changes_no_distance(saved, tmp_path):
    expected = distances(saved)
    index, arrays = read(saved)
    for name in arrays:
        write(tmp_path, index, {key: array for key, array in arrays.items() if key != name})
        check(tmp_path, expected, name)


def forged_json(value):
    """Yield copies of JSON in which one value is another, or is missing."""
    yield from (None, True, -1, 10**30, 0.5, "x", [], {}, [1], {"x": 1})
    if isinstance(value, dict):
        for key, part in value.items():
            yield {name: other for name, other in value.items() if name != key}
            yield from (value | {key: forged} for forged in forged_json(part))
    if isinstance(value, list) and value:
        yield value[:-1]
        yield [*value, value[-1]]
        yield from ([forged, *value[1:]] for forged in forged_json(value[0]))


@pytest.mark.parametrize("saved", ["visitation", "trajectories"], indirect=True)
def test_every_field_of_the_index_may_be_wrong(saved, tmp_path):
    expected = distances(saved)
    index, arrays = read(saved)
    for forged in forged_json(index):
        if isinstance(forged, dict):
            write(tmp_path, forged, arrays)
            check(tmp_path, expected, json.dumps(forged)[:3000])


@pytest.mark.parametrize("saved", ["visitation"], indirect=True)
def test_commands_reject_forged_spaces(run, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "out" / "space")
    index, arrays = read(saved)
    write(tmp_path / "out" / "space", index, arrays | {"summary.n_states": np.zeros((4, 2))})
    for command in (("explain", "out"), ("regions", "out"), ("groups", "out"), ("serve", "out")):
        assert "unexpected" not in run(*command, code=1).err
