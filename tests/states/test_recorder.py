"""A store that grows while a loop runs: whole at every moment, whoever acts, whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import gymnasium
import numpy as np
import pytest

import pivec
from pivec.errors import BadData, PivecError, UsageError
from pivec.integrations.gymnasium import RecorderOptions, StateRecorder
from pivec.states import Store

SPACE = gymnasium.spaces.Box(-100, 100, (2,), np.float32)


def recorder(folder, n_lanes=1, *, flush_seconds=0.0, **options):
    made = RecorderOptions(folder, SPACE, "Walk-v0", flush_seconds=flush_seconds, **options)
    return StateRecorder(made, n_lanes)


def episode(rec, value, length=3):
    """An episode of one lane, all of its states ``value``."""
    rec.start(np.full((1, 2), value))
    for t in range(length):
        rec.step(np.full((1, 2), value), [1.0], [t == length - 1], [False], np.array([t]))


def values(data, label):
    return sorted(set(data[label].states[:, 0].tolist()))


def test_every_policy_gets_its_episodes(tmp_path):
    rec = recorder(tmp_path)
    for number in range(3):
        rec.set_policy(f"p{number}", group="run", step=10 * number)
        episode(rec, number)
        episode(rec, number + 0.5, length=5)
    rec.close()
    data = pivec.load(tmp_path)
    assert data.labels == ("p0", "p1", "p2")
    assert data.steps == (0, 10, 20)
    assert set(data.groups) == {"run"}
    assert values(data, "p1") == [1.0, 1.5]
    assert data.returns.tolist() == [3.0, 5.0] * 3
    assert data.lengths.tolist() == [4, 6] * 3
    assert data.environment == "Walk-v0"


def test_a_running_episode_stays_with_who_began_it(tmp_path):
    rec = recorder(tmp_path, 2)
    rec.set_policy("old")
    rec.start(np.zeros((2, 2)))
    rec.step(np.zeros((2, 2)), [0, 0], [True, False], [False, False])
    rec.set_policy("new")
    rec.start(np.ones((2, 2)), [True, False])
    rec.step(np.ones((2, 2)), [0, 0], [True, True], [False, False])
    rec.close()
    data = pivec.load(tmp_path)
    assert data["old"].n_episodes == 2
    assert data["new"].n_episodes == 1


def test_going_back_to_a_policy_adds_to_it(tmp_path):
    rec = recorder(tmp_path, actions=True)
    for label, value in (("a", 0), ("b", 1), ("a", 2)):
        rec.set_policy(label)
        episode(rec, value)
    rec.close()
    data = pivec.load(tmp_path)
    assert values(data, "a") == [0.0, 2.0]
    assert data["a"].actions.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(("existing", "kept"), [("append", [0.0, 1.0]), ("replace", [1.0])])
def test_labels_of_an_earlier_time(tmp_path, existing, kept):
    for value in (0, 1):
        rec = recorder(tmp_path, existing=existing)
        rec.set_policy("a")
        episode(rec, value)
        rec.close()
    assert values(pivec.load(tmp_path), "a") == kept
    with pytest.raises(UsageError, match=r"'a'.*existing="):
        recorder(tmp_path).set_policy("a")


def test_several_recorders_share_a_store(tmp_path):
    recorders = [recorder(tmp_path) for _ in range(3)]
    for round_ in range(3):
        for number, rec in enumerate(recorders):
            rec.set_policy(f"{number}/{round_}")
            episode(rec, number)
    for rec in recorders:
        rec.close()
    assert len(pivec.load(tmp_path)) == 9
    assert Store(tmp_path).verify() == []


def test_a_store_that_another_holds_is_waited_for(tmp_path):
    first, second = Store(tmp_path, {}, ["x"]), Store(tmp_path)
    refused = pytest.raises(PivecError, match=str(tmp_path))
    with first.writing(), refused, second.writing(wait=0.05):
        pass
    held, release = threading.Event(), threading.Event()

    def hold():
        with first.writing():
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    threading.Timer(0.2, release.set).start()
    with second.writing(wait=30.0):
        assert release.is_set()
    holder.join()


def test_what_is_written_is_whole_at_every_moment(tmp_path):
    rec = recorder(tmp_path)
    rec.set_policy("a")
    for number in range(20):
        episode(rec, number)
        assert pivec.load(tmp_path).n_episodes == number + 1
    assert len(list(tmp_path.glob("*.arrow"))) == 1


def test_a_crash_between_file_and_index_leaves_the_longer_one(tmp_path, monkeypatch):
    rec = recorder(tmp_path)
    rec.set_policy("a")
    episode(rec, 0)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "flush", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            episode(rec, 1)
    assert values(pivec.load(tmp_path), "a") == [0.0]
    with Store(tmp_path).writing():
        pass  # takes in what the crash left
    assert len(list(tmp_path.glob("*.arrow"))) == 1
    assert values(pivec.load(tmp_path), "a") == [0.0, 1.0]


def test_a_killed_loop_leaves_a_store_that_can_be_read(tmp_path):
    code = """
import os, sys, gymnasium
from pivec.integrations.gymnasium import RecordStates
env = RecordStates(gymnasium.make("CartPole-v1"), sys.argv[1], flush_seconds=0.0)
for number in range(5):
    env.reset(seed=number)
    while not any(env.step(0)[2:4]): pass
if sys.argv[2] == "kill": os._exit(9)
raise RuntimeError("the loop failed")
"""
    for how in ("kill", "raise"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / how), how],
            env=os.environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode != 0
        assert pivec.load(tmp_path / how).n_episodes == 5


def test_cut_episodes_are_kept_or_not(tmp_path):
    for keep, n in ((True, 3), (False, 1)):
        rec = recorder(tmp_path / str(keep), keep_cut=keep)
        rec.set_policy("a")
        episode(rec, 0)
        for _ in range(2):
            rec.start(np.ones((1, 2)))
            rec.step(np.ones((1, 2)), [1.0], [False], [False])
        rec.close()
        data = pivec.load(tmp_path / str(keep))
        assert data.n_episodes == n
        assert data.truncated.tolist() == [False, True, True][:n]


def test_very_long_recordings_are_thinned(tmp_path):
    rec = recorder(tmp_path, max_states_per_policy=60)
    rec.set_policy("a")
    for value in range(4):
        episode(rec, value, length=40)
    rec.set_policy("b")
    rec.set_policy("a")
    episode(rec, 4, length=40)
    rec.close()
    [info] = pivec.load(tmp_path).policies
    assert pivec.load(tmp_path).n_states <= 60
    assert info.metadata["kept_every"] == 4
    assert values(pivec.load(tmp_path), "a") == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_features_are_what_is_kept(tmp_path):
    features = {"features": lambda batch: batch[:, :1] * 2, "feature_names": ["double"]}
    rec = recorder(tmp_path, **features)
    rec.set_policy("a")
    episode(rec, 3)
    rec.close()
    data = pivec.load(tmp_path)
    assert data.feature_names == ("double",)
    assert values(data, "a") == [6.0]


def test_mistakes_are_named(tmp_path):
    with pytest.raises(UsageError, match="existing"):
        recorder(tmp_path, existing="maybe")
    rec = recorder(tmp_path)
    with pytest.raises(UsageError, match="set_policy"):
        rec.start(np.zeros((1, 2)))
    with pytest.raises(UsageError, match="label"):
        rec.set_policy("")
    rec.set_policy("a")
    with pytest.raises(BadData, match="finite"):
        episode(rec, np.nan)
    episode(rec, 0.0)
    other = StateRecorder(RecorderOptions(tmp_path, SPACE, "Other-v0"))
    other.set_policy("b")
    with pytest.raises(UsageError, match="environment"):
        other.start(np.zeros((1, 2)))
    wrong = recorder(tmp_path / "w", features=lambda batch: batch[:, 0])
    wrong.set_policy("a")
    with pytest.raises(BadData, match="n_features"):
        wrong.start(np.zeros((1, 2)))
