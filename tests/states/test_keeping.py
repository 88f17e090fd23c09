"""What workers played comes into the store with the same bytes, written by them or sent."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from pivec.policies import NamedPolicy, PolicyInfo
from pivec.rollouts import Episode, PlayedPolicy
from pivec.states import Keeper, Store, take

SETTINGS = {"environment": "Walk-v0"}


def played(length):
    states = np.arange(2 * length, dtype=np.float32).reshape(-1, 2)
    episode = Episode(states, None, 1.0, 7, True, False)
    return PlayedPolicy(0, NamedPolicy(None, PolicyInfo("a", fingerprint="f")), [episode], 1)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.arrow")}


@pytest.mark.parametrize("sees", [True, False])
def test_the_same_file_from_a_worker_that_sees_the_store_or_not(tmp_path, sees):
    here = Store(tmp_path / "here", SETTINGS, ("x", "y"))
    with here.writing(), Keeper(here, {}) as keeper:
        take(here, keeper(played(3)))
    there = Store(tmp_path / "there", SETTINGS, ("x", "y"))
    with there.writing():
        with Keeper(there, {}) as keeper:
            elsewhere = pickle.loads(pickle.dumps(keeper))
            if not sees:
                [token] = (tmp_path / "there").glob(".pivec-*")
                token.unlink()
            packing = elsewhere(played(3))
            assert bool(contents(tmp_path / "there")) == sees == isinstance(packing, str)
            take(there, packing)
        assert not list((tmp_path / "there").glob(".pivec-*"))
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert Store(tmp_path / "there").load().n_states == 3
    # Played on, in a worker again.
    kept = {"a": there["a"].records[0]}
    with there.writing(), Keeper(there, kept) as keeper:
        take(there, pickle.loads(pickle.dumps(keeper))(played(5)))
    assert there["a"].lengths.tolist() == [3, 5]
    assert len(contents(tmp_path / "there")) == 1
