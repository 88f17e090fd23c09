"""Several processes play the same episodes as one, and leave nobody behind."""

from __future__ import annotations

import heapq
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pyarrow as pa
import pytest
from worlds import Broken, Countdown, coin, network, same

import pivec
from pivec.errors import EnvironmentFailure, PivecError, PivecWarning, UsageError
from pivec.options import CollectOptions
from pivec.rollouts import Environment, play


def grumpy(observations, rng):
    raise ZeroDivisionError("no more")


def vanishing(observations, rng):
    os._exit(7)


def first_column(observations):
    return observations[:, :1]


@pytest.fixture
def policies(rng):
    networks = {f"net-{i}": network(rng) for i in range(5)}
    return {**networks, "coin": coin, "random": "random"}


@pytest.mark.bits
def test_the_result_does_not_depend_on_the_number_of_jobs(policies, tmp_path):
    one = pivec.collect("CartPole-v1", policies, episodes=4, actions=True)
    three = pivec.collect("CartPole-v1", policies, episodes=4, actions=True, jobs=3)
    assert one.labels == three.labels
    assert same(one, three)
    assert np.array_equal(one.actions, three.actions)
    stored = pivec.collect("CartPole-v1", policies, episodes=4, store=tmp_path, jobs=2)
    assert same(one, stored)
    again = pivec.collect("CartPole-v1", policies, episodes=4, store=tmp_path, jobs=1)
    assert same(one, again)


def test_factories_and_features_of_a_module_travel():
    policies = {"a": coin, "b": coin}
    two = pivec.collect(Countdown, policies, episodes=3, jobs=2, features=first_column)
    assert same(two, pivec.collect(Countdown, policies, episodes=3, features=first_column))


def test_lambdas_and_closures_reach_workers():
    policies = {"a": lambda o: (o[:, 0] > 0).astype(int), "b": coin}
    data = pivec.collect(lambda: gymnasium.make("CartPole-v1"), policies, episodes=1, jobs=2)
    assert data.labels == ("a", "b")


class Locked:
    """A policy that cannot be pickled."""

    def __init__(self):
        self.lock = threading.Lock()

    def act(self, observations):
        return np.zeros(len(observations), int)


def test_what_cannot_be_sent_is_named():
    with pytest.raises(UsageError, match=r"locked .*_thread\.lock"):
        pivec.collect("CartPole-v1", {"locked": Locked(), "b": coin}, episodes=1, jobs=2)


def test_failures_in_a_process_are_told_as_they_are():
    with (
        pytest.warns(PivecWarning, match="other policies continue"),
        pytest.raises(EnvironmentFailure, match=r"[bc], episode \d+ \(seed \d+\).*motor fell off"),
    ):
        pivec.collect(Broken, {"b": coin, "c": coin}, episodes=20, jobs=2)
    with pytest.raises(PivecError, match=r"grump, episode 0 .*ZeroDivisionError: no more"):
        pivec.collect("CartPole-v1", {"grump": grumpy, "c": coin}, episodes=1, jobs=2)


def test_a_process_that_dies_is_noticed():
    with pytest.raises(PivecError, match="code 7"):
        pivec.collect("CartPole-v1", {"gone": vanishing, "c": coin}, episodes=1, jobs=2)


SLOW = """
import sys, time
import gymnasium
import numpy as np
import pivec

def slow(observations):
    time.sleep(0.0005)
    return np.zeros(len(observations), int)

if __name__ == "__main__":
    policies = {f"p{i}": slow for i in range(4000)}
    pivec.collect("CartPole-v1", policies, episodes=5, store=sys.argv[1], n_envs=5, jobs=2)
"""


def workers_of(pid):
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(row.split()[0]) for row in found.stdout.splitlines() if "parallel.processes" in row]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0]


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes through /proc")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_behind(tmp_path, sign):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    source = str(Path(pivec.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "store")],
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": source},
    )
    deadline = time.monotonic() + 90
    while len(list(tmp_path.glob("store/*.arrow"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = workers_of(process.pid)
    assert len(workers) == 2
    process.send_signal(sign)
    process.wait(timeout=60)
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))
    kept = sum(
        pa.ipc.open_file(file.read_bytes()).num_record_batches
        for file in tmp_path.glob("store/*.arrow")
    )
    with pivec.Store(tmp_path / "store").writing():  # adopts what a killed run left
        pass
    assert len(pivec.load(tmp_path / "store")) == kept


@pytest.fixture
def workers(monkeypatch):
    monkeypatch.setattr(play, "current", lambda: SimpleNamespace(n_workers=64))


def test_64_workers_are_busy_for_nine_tenths_of_the_time(workers):
    dealt, shares = list(play._shares(1000, 1)), []
    assert sorted(chain.from_iterable(dealt)) == list(range(1000))
    assert len(dealt) < 500
    for seed in range(20):
        lengths = np.random.default_rng(seed).uniform(1, 10, 1000)
        free = [0.0] * 64
        for piece in dealt:
            heapq.heappush(free, heapq.heappop(free) + lengths[piece].sum())
        shares.append(lengths.sum() / 64 / max(free))
    assert min(shares) > 0.9


def test_lanes_that_step_together_are_filled():
    options = CollectOptions(episodes=100)
    assert play._filling(Environment("CartPole-v1"), options, 200) == 21
    assert play._filling(Environment("MountainCar-v0"), options, 200) == 1
