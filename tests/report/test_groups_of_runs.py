"""Groups of runs: which there are, and what is said of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import pivec
from pivec.characterizations import Space, measure
from pivec.errors import PivecWarning, UsageError
from pivec.policies import PolicyInfo, group_names, rows_of_runs
from pivec.report import Findings, compare_groups
from pivec.run_log import RunLog
from pivec.statistics import mean_within


def infos(*runs, algorithm=None):
    return [
        PolicyInfo(f"{run}/{i}", group=run, metadata={"algorithm": a} if a else {})
        for i, (run, a) in enumerate(zip(runs, algorithm or [""] * len(runs), strict=True))
    ]


@pytest.mark.parametrize(
    ("runs", "group"),
    [
        (("ppo-0", "ppo-1"), "ppo"),
        (("ppo_seed3", "ppo_seed4"), "ppo"),
        (("sac-seed-1", "sac-seed-2"), "sac"),
        (("a2c/run_2", "a2c/run_10"), "a2c"),
        (("ppo/CartPole-v1_1", "ppo/CartPole-v1_2"), "ppo/CartPole-v1"),
        (("dqn12", "dqn7"), "dqn"),
        (("ppo.lr3e-4.0", "ppo.lr3e-4.1"), "ppo.lr3e-4"),
    ],
)
def test_runs_whose_names_differ_in_their_number_are_a_group(runs, group):
    names, words = group_names(infos(*runs, "other-0", "other-1", ""))
    assert names == dict.fromkeys(runs, group) | dict.fromkeys(("other-0", "other-1"), "other")
    assert "by name" in words


def test_algorithms_are_groups_where_names_say_nothing():
    runs = infos("run_1", "run_2", "run_3", "run_4", algorithm=["PPO", "PPO", "A2C", "A2C"])
    assert set(group_names(runs)[0].values()) == {"PPO", "A2C"}
    same = infos("x-1", "x-2", "x-3", "x-4", algorithm=["PPO", "PPO", "A2C", "A2C"])
    names, words = group_names(same)
    assert set(names.values()) == {"PPO", "A2C"}
    assert words == "by algorithm"


def test_versions_of_environments_are_no_numbers_of_runs():
    with pytest.raises(UsageError, match="names of the runs"):
        group_names(infos("CartPole-v1", "CartPole-v0"))


def test_patterns_say_which_runs_belong_together():
    runs = infos("ppo-0", "ppo-1", "sac", "mine")
    names, words = group_names(runs, {"on": "ppo-*", "off": ["sac", "mi*"]})
    assert names == {"ppo-0": "on", "ppo-1": "on", "sac": "off", "mine": "off"}
    assert words == "as given"


@pytest.mark.parametrize(
    ("runs", "groups", "message"),
    [
        (("ppo-0",), {"sac": "sac-*"}, r"'sac-\*' of .*ppo-0"),
        (("ppo-0",), {"a": "ppo*", "b": "*-0"}, "'ppo-0' matches .*'a' and .*'b'"),
        (("", ""), None, "none belongs to a run"),
        (("a", "b"), None, "expected groups of several runs"),
    ],
)
def test_mistakes_are_sentences(runs, groups, message):
    with pytest.raises(UsageError, match=message):
        group_names(infos(*runs), groups)


def test_the_last_checkpoints_are_those_of_the_largest_steps():
    policies = [PolicyInfo(f"a-0/{s}", "a-0", s) for s in (30, 9, 200, 40)]
    policies += [PolicyInfo("a-0/best", "a-0"), PolicyInfo("a-1/5", "a-1", 5)]
    names = {"a-0": "a", "a-1": "a"}
    assert rows_of_runs(policies, names, 2) == [3, 2, 5]
    assert sorted(rows_of_runs(policies, names, None)) == list(range(6))
    with pytest.raises(UsageError, match="no training step"):
        rows_of_runs(policies[4:5], names, 1)


RUNS = ["ppo-0", "ppo-0", "ppo-1", "ppo-2", "a2c-0", "a2c-0", "a2c-1", "a2c-2", "random"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    middles = {run: rng.normal(3.0 * (run[0] == "p"), 0.4, 2) for run in sorted(set(RUNS))}
    walks = [[rng.normal(middles[run], 1.0, (15, 2)) for _ in range(8)] for run in RUNS]
    return pivec.VisitedStates.from_arrays(walks, groups=RUNS, steps=range(len(RUNS)))


def described(data, name="visitation", **parameters):
    method = pivec.characterization(name, **parameters).fit(data)
    return Space(method, method.describe(data, influences=method.traits.influences))


@pytest.fixture(scope="module")
def space(data):
    return described(data, n_components=6)


def test_numbers_are_those_of_the_distances_between_runs(space):
    result = compare_groups(space)
    d = space.method.intervals(space.descriptions).distance
    members = {run: [i for i, r in enumerate(RUNS) if r == run] for run in RUNS}

    def mean(a, b):
        return np.mean([d[i, j] for i in members[a] for j in members[b]])

    def apart(a, b):
        return mean(a, b) - mean(a, a) / 2 - mean(b, b) / 2

    [a2c, ppo], [pair] = result.groups, result.pairs
    assert (a2c.name, a2c.runs, a2c.n_policies) == ("a2c", ("a2c-0", "a2c-1", "a2c-2"), 4)
    three = [("0", "1"), ("0", "2"), ("1", "2")]
    for group in (a2c, ppo):
        runs = [(f"{group.name}-{i}", f"{group.name}-{j}") for i, j in three]
        assert group.distance.value == pytest.approx(np.mean([apart(*r) for r in runs]))
        assert group.policy_distance.value == pytest.approx(np.mean([mean(*r) for r in runs]))
        assert group.distance.low < group.distance.value < group.distance.high
    assert pair.distance.value == pytest.approx(
        np.mean([apart(f"a2c-{i}", f"ppo-{j}") for i in range(3) for j in range(3)])
    )
    assert pair.test.p_value == result.test.p_value == 0.1
    assert result.left_out == ("random",)
    assert result.runs == (*a2c.runs, *ppo.runs)
    assert result.run_distances[0][4] == pytest.approx(apart("a2c-0", "ppo-1"))


def test_nothing_depends_on_the_order_of_policies(space):
    order = np.random.default_rng(1).permutation(len(RUNS))
    other = replace(space, descriptions=space.descriptions.select(order))
    a, b = compare_groups(space).to_json(), compare_groups(other).to_json()
    assert json.dumps(a)
    assert a["groups"][0]["distance"]["value"] == pytest.approx(
        b["groups"][0]["distance"]["value"], rel=1e-12
    )
    assert a["test"] == pytest.approx(b["test"], rel=1e-9)
    assert a["runs"] == b["runs"]


def test_distances_that_are_not_squared_are_roots_of_mean_squares(data):
    space = described(data, "terminal-state")
    assert not space.method.traits.squared
    intervals = space.method.intervals(data)
    result = compare_groups(space, last=1, intervals=intervals)
    rows = [i for i in range(8) if RUNS[i + 1] != RUNS[i]]  # the last of each run
    d = intervals.distance[np.ix_(rows, rows)]
    raw = space.method.distances(space.descriptions)[np.ix_(rows, rows)]
    ppo = mean_within(d[:3, :3] ** 2, (raw**2 - d**2)[:3, :3])
    assert result.groups[1].distance.value == pytest.approx(math.sqrt(ppo.value))
    assert result.groups[1].distance.high == pytest.approx(math.sqrt(ppo.high))
    # Distances without a scale have no diversity unless a margin is given.
    assert (result.margin, math.isnan(result.groups[1].behaviours.value)) == (None, True)
    assert compare_groups(space, intervals=intervals, margin=0.1).groups[1].behaviours.value >= 1


def test_diversity_counts_the_behaviours(rng):
    """Five runs that behave differently, and five that behave the same."""
    places = [0, 5, 10, 15, 20] + [30] * 5
    runs = [f"{'mixed' if i < 5 else 'same'}-{i % 5}" for i in range(10)]
    walks = [[rng.normal(x, 1, (20, 1)) for _ in range(60)] for x in places]
    data = pivec.VisitedStates.from_arrays(walks, groups=runs)
    mixed, same = compare_groups(described(data, "visitation", n_components=16)).groups
    assert mixed.behaviours.value == pytest.approx(5, abs=0.05)
    assert same.behaviours.value == pytest.approx(1, abs=0.1)


def test_a_single_run_has_no_interval_and_is_a_group_only_if_said(space):
    result = compare_groups(space, {"ppo": "ppo-*", "random": "random"})
    alone = result.groups[1]
    assert math.isnan(alone.distance.value)
    assert math.isnan(result.pairs[0].distance.low)
    assert result.test.least_p == 0.25
    text = json.dumps(result.to_json())
    assert "NaN" not in text
    both = compare_groups(space, {"a": "ppo-0", "b": "random"})
    assert both.test is None
    only = compare_groups(space, {"ppo": "ppo-*"})
    assert (only.test, only.pairs) == (None, ())


def test_noise_that_cannot_be_taken_off_is_said(data):
    method = pivec.characterization("visitation", n_components=4).fit(data)
    with pytest.warns(PivecWarning, match="sampling noise"):
        compare_groups(Space(method, method.describe(data)))


def test_groups_for_the_page_are_two_or_none(space, data):
    def groups_of(rows):
        part = replace(space, descriptions=space.descriptions.select(rows))
        measured = measure(part.method, part.descriptions)
        return Findings.of(part, measured, RunLog("nowhere")).groups

    assert [group.name for group in groups_of(range(len(RUNS))).groups] == ["a2c", "ppo"]
    assert groups_of([i for i, run in enumerate(RUNS) if run[0] == "p"]) is None
    assert groups_of([len(RUNS) - 1]) is None
