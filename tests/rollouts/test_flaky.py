"""Environments that fail now and then, always, or in a way that results would not show."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from worlds import Composite, Countdown, Flaky, Telling, coin, network, same

import pivec
from pivec.errors import BadData, EnvironmentFailure, PivecError, PivecWarning, UsageError
from pivec.rollouts import play

MANY = 200


@pytest.fixture(scope="module")
def healthy():
    return pivec.collect(Flaky, f"random:{MANY}", episodes=5)


@pytest.mark.parametrize("options", [{}, {"jobs": 2}], ids=str)
def test_one_run_completes_if_one_reset_in_a_hundred_raises(options, healthy, tmp_path):
    make = functools.partial(Flaky, reset_every=100)
    with pytest.warns(PivecWarning, match=r"\d+ of 1000 .*episode \d \(seed \d+\).*not answer"):
        data = pivec.collect(make, f"random:{MANY}", episodes=5, store=tmp_path, **options)
    assert same(data, healthy)
    assert data.labels == healthy.labels


def test_one_run_completes_on_a_cluster(ray_address, healthy):
    make = functools.partial(Flaky, reset_every=100)
    with pytest.warns(PivecWarning, match=r"of 1000 .*not answer"):
        data = pivec.collect(make, f"random:{MANY}", episodes=5, engine=f"ray:{ray_address}")
    assert same(data, healthy)


def counts(observations, rng, memory):
    """A policy whose actions depend on the time since the episode began."""
    time = 0 if memory is None else memory
    return np.array([rng.random() < time / 30]).astype(int), time + 1


@pytest.mark.parametrize(
    "options",
    [
        {"n_envs": 1},
        {"n_envs": 5, "actions": True},
        {"max_states_per_policy": 80},
        {"features": lambda observations: observations[:, :1]},
    ],
    ids=" ".join,
)
def test_repeated_episodes_are_the_same(options, rng):
    policies = {"net": network(rng, 2), "counts": counts, "random": "random"}
    make = functools.partial(Flaky, reset_every=13, step_every=67)
    expected = pivec.collect(Flaky, policies, episodes=20, **options)
    with pytest.warns(PivecWarning, match="of 60"):
        data = pivec.collect(make, policies, episodes=20, **options)
    assert same(data, expected)
    if "actions" in options:
        assert np.array_equal(data.actions, expected.actions)


def test_what_info_has_after_steps_alone_is_repeated():
    class Drops(Telling):
        n = 30

        def step(self, action):
            Drops.n += 1
            if Drops.n % 31 == 0:
                raise OSError("gone")
            return super().step(action)

    names = {"features": "info:speed,left.steps", "episodes": 9}
    with pytest.warns(PivecWarning, match="after a step"):
        expected = pivec.collect(Telling, {"coin": coin}, **names)
    with (
        pytest.warns(PivecWarning, match="after a step"),
        pytest.warns(PivecWarning, match=r"of 9 .*gone"),
    ):
        assert same(pivec.collect(Drops, {"coin": coin}, **names), expected)


@pytest.mark.parametrize("jobs", [1, 2])
def test_other_policies_are_finished_and_kept(jobs, healthy, tmp_path):
    policies, label = "random:30", healthy.labels[11]
    seed = int(healthy[label].seeds[3])
    make = functools.partial(Flaky, doomed=(seed,))
    with (
        pytest.warns(PivecWarning, match=f"{label}.*continue"),
        pytest.raises(EnvironmentFailure) as error,
    ):
        pivec.collect(make, policies, episodes=5, store=tmp_path, jobs=jobs)
    facts = [label, "episode 3", f"seed {seed}", "ConnectionError", "29 of 30"]
    assert all(re.search(fact, str(error.value)) for fact in [*facts, str(tmp_path)])
    assert "_work" in "".join(traceback.format_exception(error.value))  # where it was raised
    assert len(pivec.load(tmp_path)) == 29
    repaired = pivec.collect(functools.partial(Flaky), policies, episodes=5, store=tmp_path)
    assert same(repaired, pivec.collect(Flaky, policies, episodes=5))


def lengths_of_working(observations, infos, environments):
    assert not any(env.unwrapped.broken for env in environments)
    return np.array([[env.unwrapped.length] for env in environments])


@pytest.mark.parametrize("n_envs", [1, 2, 64])
def test_features_do_not_get_broken_environments(n_envs):
    options = {"features": lengths_of_working, "episodes": 4, "n_envs": n_envs}
    expected = pivec.collect(Flaky, "random:9", **options)
    seeds = [int(expected[label].seeds[2]) for label in expected.labels[:3]]
    make = functools.partial(Flaky, step_every=53, doomed=seeds)
    with (
        pytest.warns(PivecWarning, match="of 36"),
        pytest.warns(PivecWarning, match="continue"),
        pytest.raises(EnvironmentFailure, match=f"seed {seeds[0]}.*3 policies failed"),
    ):
        pivec.collect(make, "random:9", **options)


def test_retries_are_counted():
    asked = Counter()

    class Stubborn(Countdown):
        """Answers the third time it is asked for an episode."""

        def reset(self, *, seed=None, options=None):
            asked[seed] += 1
            if seed and asked[seed] < 3:
                raise TimeoutError("busy")
            return super().reset(seed=seed)

    with pytest.raises(EnvironmentFailure, match="busy"):
        pivec.collect(Stubborn, {"coin": coin}, episodes=1, retries=1)
    assert max(n for seed, n in asked.items() if seed) == 2
    asked.clear()
    with pytest.warns(PivecWarning, match="3 of 3"):
        pivec.collect(Stubborn, {"coin": coin}, episodes=3, retries=2)
    asked.clear()
    with pytest.raises(EnvironmentFailure, match="busy"):
        pivec.collect(Stubborn, {"coin": coin}, episodes=3, retries=0)
    with pytest.raises(UsageError, match="retries"):
        pivec.collect(Stubborn, {"coin": coin}, retries=-1)


def test_making_and_probing_may_fail_too():
    class Rare(Flaky):
        made = 0

        def __init__(self):
            super().__init__()
            Rare.made += 1
            if Rare.made % 3 == 1:
                raise OSError("no port is free")
            self.broken = Rare.made % 3 == 2  # fails when it is reset

    with pytest.warns(PivecWarning, match="of 10"):
        data = pivec.collect(Rare, {"coin": coin}, episodes=10, retries=3)
    assert same(data, pivec.collect(Countdown, {"coin": coin}, episodes=10))


def test_what_would_fail_again_is_not_repeated():
    calls = []

    def wrong(observations):
        calls.append("policy")
        raise ZeroDivisionError("mine")

    def features(observations):
        calls.append("features")
        return np.zeros((len(observations), 1 + (len(calls) > 9)))

    class Refuses(Countdown):
        def step(self, action):
            calls.append("environment")
            raise BadData("no such thing")

    with pytest.raises(PivecError, match=r"a, episode 0 .*ZeroDivisionError: mine"):
        pivec.collect(Countdown, {"a": wrong, "b": coin}, episodes=1)
    with pytest.raises(BadData, match="no such thing"):
        pivec.collect(Refuses, {"a": coin}, episodes=1)
    assert calls == ["policy", "environment"]
    with pytest.raises((PivecError, ValueError)):
        pivec.collect(Countdown, {"a": coin}, episodes=9, features=features)
    assert len(calls) < 20


def test_if_nothing_works_most_policies_are_not_tried():
    tried = set()

    class Dead(Countdown):
        def reset(self, *, seed=None, options=None):
            tried.add(seed)
            if seed:
                raise OSError("no licence")
            return super().reset(seed=seed)

    with (
        pytest.warns(PivecWarning, match="continue"),
        pytest.raises(EnvironmentFailure, match="no licence"),
    ):
        pivec.collect(Dead, f"random:{MANY}", episodes=1)
    assert len(tried) < 20


class Pays(Countdown):
    def __init__(self, reward):
        self.reward = reward

    def step(self, action):
        shown, _, *rest = super().step(action)
        return shown, self.reward, *rest


@pytest.mark.parametrize(
    ("reward", "found"),
    [
        (np.inf, "inf"),
        (np.nan, "nan"),
        ("1.5", "'1.5'"),
        (None, "None"),
        (np.ones(2), r"\(2,\)"),
        ([1.0], r"\(1,\)"),
    ],
    ids=str,
)
def test_rewards_that_are_no_finite_number_are_named(reward, found):
    with pytest.raises(BadData, match=rf"coin, episode 0 .*Pays.*reward.*{found}"):
        pivec.collect(Pays, {"coin": coin}, episodes=1, env_kwargs={"reward": reward})


@pytest.mark.parametrize("reward", [1, True, np.float32(1), np.int8(1), np.array(1.0)], ids=repr)
def test_numbers_of_all_types_are_rewards(reward):
    data = pivec.collect(lambda: Pays(reward), {"coin": coin}, episodes=2)
    assert np.array_equal(data.returns, data.lengths - 1)


class Unseeded(Countdown):
    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return observation + np.random.default_rng().normal(size=2).astype(np.float32), info


class Always(gym.Env):
    """Episodes always begin alike, one part of the observation is missing, and it never ends."""

    observation_space = spaces.Dict({"x": spaces.Box(-1, 1, (1,)), "words": spaces.Text(9)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return {"x": np.full(1, 0.5, np.float32), "words": "a"}, {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


def test_an_ignored_seed_is_said_in_the_report(tmp_path):
    with pytest.warns(PivecWarning, match="Unseeded ignores its seed"):
        result = pivec.compare(Unseeded, "random:2", tmp_path, episodes=2, components=2)
    assert "Unseeded ignores its seed" in result.report.read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pivec.collect(Composite, "random", episodes=1)
        warnings.filterwarnings("ignore", "states cannot contain text")
        pivec.collect(Always, "random", episodes=1, max_steps=3)


def test_episodes_without_end_are_refused(monkeypatch):
    monkeypatch.setattr(play, "LONG", 500)
    monkeypatch.setattr(play, "ENDLESS", 1000)
    with (
        pytest.warns(PivecWarning, match=r"random, episode 0 .*Always.*--max-steps"),
        pytest.raises(BadData, match=r"random, episode 0 .*step 1\d\d\d.*Always.*--max-steps"),
    ):
        pivec.collect(Always, "random", episodes=1, features=lambda o: o["x"])
    pivec.collect(Always, "random", episodes=1, features=lambda o: o["x"], max_steps=2000)


def test_states_that_are_all_identical_are_said(tmp_path):
    with pytest.warns(PivecWarning) as said:
        result = pivec.compare(
            Always, "random:3", tmp_path, episodes=3, max_steps=9, features=lambda o: o["x"]
        )
    assert any("90 states" in str(warning.message) for warning in said)
    assert not result.distances.any()


CRASHING = """
import os, signal
from worlds import Countdown

class Crashing(Countdown):
    def step(self, action):
        os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.skipif(os.name == "nt", reason="has no such signal")
def test_a_crash_of_the_process_names_the_line(tmp_path):
    (tmp_path / "crashing.py").write_text(CRASHING)
    source = Path(pivec.__file__).parents[1], Path(__file__).parent, tmp_path
    command = [sys.executable, "-m", "pivec", "collect", "crashing:Crashing", "random"]
    done = subprocess.run(
        [*command, "--episodes", "1", "--out", str(tmp_path / "out")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, source))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGSEGV
    assert re.search(r"crashing\.py\W+line 7 in step", done.stderr)
