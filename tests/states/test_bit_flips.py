"""A flipped bit in any file of a store or a space is found, or changes nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest

import pivec
from pivec.characterizations import Space
from pivec.errors import PivecError, PivecWarning

FLIPS = [8, pytest.param(200, marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A store that keeps its policies, and a space."""
    folder = tmp_path_factory.mktemp("flips")
    rng = np.random.default_rng(0)
    layers = ((rng.normal(size=(4, 2)).astype(np.float32), np.zeros(2, np.float32)),)
    network = pivec.policies.networks.NetworkPolicy(layers, activation="tanh", head="categorical")
    policies = {"net": network, "random": "random"}
    pivec.collect(
        "CartPole-v1", policies, 2, store=folder / "states", keep_policies=True, actions=True
    )
    method = pivec.characterization("gaussian").fit(pivec.load(folder / "states"))
    described = method.describe(pivec.load(folder / "states"))
    Space(method, described, np.zeros((2, 2))).save(folder / "space")
    return folder


def flipped(path, count, seed):
    """Give the file ``count`` times with one bit flipped, and then as it was."""
    content = path.read_bytes()
    rng = np.random.default_rng(seed)
    try:
        for bit in rng.integers(8 * len(content), size=count).tolist():
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            yield bit
    finally:
        path.write_bytes(content)


def seen(data):
    """Everything a reader of a store may look at."""
    actors = [record.read_policy() for record in data.records]
    actors = [getattr(actor, "fingerprint", None) for actor in actors]
    rest = (data.policies, data.feature_names, data.environment, actors)
    numbers = (data.states, data.actions, data.returns, data.seeds, data.terminated)
    arrays = (*numbers, data.truncated, data.episode_starts, data.policy_starts)
    return rest, [array.tobytes() for array in arrays]


def space_seen(space):
    arrays = space.method.fitted_arrays() | space.descriptions.arrays
    arrays |= {"vectors": space.descriptions.vectors, "points": space.descriptions.points}
    arrays |= {"positions": space.positions, "starts": space.descriptions.n_states}
    rest = (
        space.method.parameters_json(),
        space.method.feature_names_,
        space.descriptions.policies,
    )
    return rest, {k: None if a is None else np.asarray(a).tobytes() for k, a in arrays.items()}


def found_or_harmless(read, path, count, expected, seed=0):
    for bit in flipped(path, count, seed):
        try:
            got = read()
        except PivecError:
            continue
        assert got == expected, f"bit {bit} of {path.name}"


@pytest.mark.parametrize("count", FLIPS)
@pytest.mark.parametrize("kind", ["net-*.arrow", "store.json"])
def test_in_a_store(compared, kind, count):
    folder = compared / "states"
    [path] = folder.glob(kind)
    found_or_harmless(lambda: seen(pivec.load(folder)), path, count, seen(pivec.load(folder)))


@pytest.mark.parametrize("count", FLIPS)
@pytest.mark.parametrize("kind", ["space.npz", "space.json"])
def test_in_a_space(compared, kind, count):
    folder = compared / "space"
    read = partial(Space.load, folder)
    found_or_harmless(lambda: space_seen(read()), folder / kind, count, space_seen(read()))


@pytest.mark.parametrize("count", FLIPS)
def test_in_what_a_killed_run_left(compared, tmp_path, count):
    folder = tmp_path / "states"
    shutil.copytree(compared / "states", folder)
    expected = seen(pivec.load(folder))
    store = pivec.Store(folder)
    rows, store.rows = store.rows, {}
    store.flush()
    index = (folder / "store.json").read_bytes()

    def adopted():
        (folder / "store.json").write_bytes(index)
        again = pivec.Store(folder)
        with again.writing():
            pass
        return seen(again.load(list(rows)))

    assert adopted() == expected
    [path] = folder.glob("net-*.arrow")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found_or_harmless(adopted, path, count, expected)
    assert {one.category for one in said} == {PivecWarning}
    assert len(said) == count


FORGED = """
import pathlib, struct, sys
from pivec.errors import BadStore
from pivec.states.arrow import PolicyFile

content = pathlib.Path(sys.argv[1]).read_bytes()
path = pathlib.Path(sys.argv[2])
refused = 0
for at in range(0, len(content) - 8, 8):
    [value] = struct.unpack_from("<q", content, at)
    if 0 < value < 1 << 32:
        forged = bytearray(content)
        struct.pack_into("<q", forged, at, 1000 * value + 64)
        path.write_bytes(forged)
        try:
            record = PolicyFile(path).record(0)
            record.read_arrays()[0].sum()
            record.episodes["return"].sum()
        except BadStore:
            refused += 1
assert refused > 10, refused
"""


def test_lengths_beyond_the_end_of_the_file_are_refused(compared, tmp_path):
    """Reading them would end the process: SIGBUS."""
    [path] = (compared / "states").glob("net-*.arrow")
    arguments = [sys.executable, "-c", FORGED, str(path), str(tmp_path / "forged.arrow")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
