"""Playing on until distances are sure: only where it is needed, and to the same numbers again."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import pivec
from pivec.characterizations import characterization
from pivec.errors import PivecError, PivecWarning, UsageError
from pivec.options import CollectOptions, PrecisionOptions
from pivec.run_log import RunLog
from pivec.states import VisitedStates
from pivec.statistics import Spread, intervals_of
from pivec.workflows import Collector
from pivec.workflows.comparison import (
    collect_until,
    describe,
    next_episodes,
    noise_of_policies,
    precision_of,
)


class FakeCollector:
    """Stands for a collector: policies whose episodes are drawn beforehand."""

    def __init__(self, spreads, recorded=(), most=1000, seed=0, **options):
        rng = np.random.default_rng(seed)
        self.walks = [
            i + rng.normal(0, spread, (most, 1, 2)) + rng.normal(0, 1, (most, 5, 2))
            for i, spread in enumerate(spreads)
        ]
        self.labels = [f"p{i}" for i in range(len(spreads))]
        self.acting = tuple(label for label in self.labels if label not in recorded)
        self.options = CollectOptions(**{"episodes": 20} | options)
        self.asked = []

    def run(self, episodes):
        self.asked.append(dict(episodes))
        counts = [episodes.get(label, 20) for label in self.labels]
        parts = [walks[:n] for walks, n in zip(self.walks, counts, strict=True)]
        return VisitedStates.from_arrays(parts, self.labels)


def method():
    return characterization("visitation", n_components=4, random_state=0)


def counts_of(data):
    return np.diff(data.policy_starts)


def test_it_plays_until_all_intervals_are_narrow_and_not_on():
    options = PrecisionOptions(until=0.05)
    collector, how = FakeCollector([0.2, 0.2, 1.5]), method()
    data, words = collect_until(collector, how, options)
    reach = precision_of(how.intervals(data), options).reach
    assert reach.max() <= 0.05
    assert collector.asked[0] == dict.fromkeys(collector.labels, 20)
    before = precision_of(how.intervals(collector.run(collector.asked[-2])), options)
    assert before.reach.max() > 0.05
    assert words.startswith("3 of 3 pairs")
    for one, two in zip(collector.asked[:-2], collector.asked[1:-1], strict=True):
        assert all(one[label] <= two[label] <= 2 * one[label] for label in one)


def test_those_who_add_the_noise_play():
    # The episodes of the last one differ in place; the steps of all are alike.
    places = characterization("visitation", n_components=4, of="states", random_state=0)
    collector = FakeCollector([0.1, 0.1, 0.1, 2.0])
    counts = counts_of(collect_until(collector, places, PrecisionOptions(0.04))[0])
    assert counts[3] > 2 * counts[:3].max()


def test_the_space_is_that_of_the_first_episodes():
    collector, how = FakeCollector([0.2, 1.5]), method()
    collect_until(collector, how, PrecisionOptions(until=0.05))
    pilot = method().fit(collector.run(dict.fromkeys(collector.labels, 20)))
    for name, value in pilot.fitted_arrays().items():
        assert np.array_equal(value, how.fitted_arrays()[name])


def test_nearest_pairs_need_less():
    both = [
        collect_until(
            FakeCollector([0.3] * 4), method(), PrecisionOptions(0.03, until_pairs=pairs)
        )[0]
        for pairs in ("all", "nearest")
    ]
    assert both[1].n_episodes < both[0].n_episodes


def test_what_at_most_does_not_reach_is_said():
    collector = FakeCollector([0.2, 1.5, 0.2])
    with pytest.warns(PivecWarning, match=r"±0\.001 after 90 .* about \d+,?\d* epi"):
        data, words = collect_until(collector, method(), PrecisionOptions(0.001, at_most=90))
    assert counts_of(data).tolist() == [90, 90, 90]
    assert words.startswith("0 of 3 pairs")


def test_recorded_policies_do_not_play_and_others_not_for_them_in_vain():
    collector = FakeCollector([0.2, 0.2, 2.0], recorded=["p2"])
    with pytest.warns(PivecWarning, match="'p2' are known to within"):
        data, _ = collect_until(collector, method(), PrecisionOptions(0.05))
    assert counts_of(data)[2] == 20
    assert counts_of(data).max() < 1000
    assert all("p2" not in asked for asked in collector.asked)


def test_a_method_without_intervals_says_so():
    how = characterization("trajectories")
    with (
        pytest.warns(PivecWarning, match="trajectories has no intervals"),
        pytest.warns(PivecWarning, match="without an interval"),
    ):
        data, _ = collect_until(FakeCollector([0.2, 0.2]), how, PrecisionOptions(until=0.05))
    assert counts_of(data).tolist() == [20, 20]


def test_it_tells_what_happens(capsys):
    collect_until(FakeCollector([0.2, 1.5]), method(), PrecisionOptions(until=0.05), progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"round 1: 2 of 2 policies need \d+ more episodes", lines[0])
    assert lines[-1].startswith("1 of 1 pairs")


def test_the_noise_of_policies_is_found_from_that_of_pairs(rng):
    own = rng.uniform(size=6)
    pairs = np.add.outer(own, own)
    np.fill_diagonal(pairs, 0.0)
    assert noise_of_policies(pairs) == pytest.approx(own)
    assert noise_of_policies(pairs[:2, :2]) == pytest.approx([own[:2].sum() / 2] * 2)
    pairs[2] = pairs[:, 2] = np.nan
    assert noise_of_policies(pairs)[[0, 1, 3, 4, 5]] == pytest.approx(own[[0, 1, 3, 4, 5]])
    assert np.isnan(noise_of_policies(pairs)[2])


def sure_of(traces, distance, episodes, shares=0.5):
    """Intervals of policies whose distances all have this variance."""
    traces = np.array(traces)
    spread = Spread(traces, shares * traces, shares * traces, np.full(len(traces), episodes - 1.0))
    squares = np.full((len(traces),) * 2, distance) + np.add.outer(traces, traces)
    variance = 4 * distance * np.add.outer(traces, traces)
    return intervals_of(squares, variance, spread.column, spread)


def test_planned_episodes_are_those_the_variance_needs():
    """Equal policies: with 1.5 times the episodes the intervals are as narrow as asked."""
    sure = sure_of([0.01, 0.01, 0.01], 0.3, 1000)
    wide = sure.first / 1.5 + sure.second / 1.5**2
    until = float(np.sqrt(wide[0, 1] / (sure.first + sure.second)[0, 1]))
    until *= float((sure.high - sure.distance)[0, 1])
    options = PrecisionOptions(until=until)
    played = np.full(3, 1000)
    wanted = next_episodes(sure, precision_of(sure, options), played, np.full(3, 10**6))
    assert wanted.tolist() == [1500] * 3


def test_nobody_plays_where_all_is_narrow_or_used_up():
    sure = sure_of([0.01, 0.02], 0.3, 100)
    played = np.full(2, 100)
    for until, most in ((9.0, 1000), (1e-9, 100)):
        precision = precision_of(sure, PrecisionOptions(until=until))
        assert next_episodes(sure, precision, played, np.full(2, most)).tolist() == [100, 100]


@pytest.mark.parametrize(
    ("collecting", "precision", "said"),
    [
        ({"episodes": 1}, {}, "at least 2 episodes"),
        ({"episodes": 50}, {"at_most": 40}, "at_most is 40.* 50 episodes"),
        ({"max_states_per_policy": 900}, {}, "max_states_per_policy"),
    ],
)
def test_what_cannot_be_played_on_is_refused_before(collecting, precision, said):
    collector = FakeCollector([0.2, 0.2], **collecting)
    with pytest.raises(UsageError, match=said):
        collect_until(collector, method(), PrecisionOptions(until=0.1, **precision))
    assert not collector.asked


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"until": 0.0}, "until .* 0"), ({"until_pairs": "x"}, "all or nearest")],
)
def test_options_are_checked(wrong, said):
    with pytest.raises(UsageError, match=said):
        PrecisionOptions(**wrong)


def lean(observations):
    return (observations[:, 2] > 0).astype(int)


def follow(observations):
    return (observations[:, 2] + observations[:, 3] > 0).astype(int)


POLICIES = {"lean": lean, "follow": follow, "random": "random"}
UNTIL = PrecisionOptions(until=0.1, at_most=300)


def play_on(store):
    how = characterization("visitation", n_components=4, random_state=0)
    collector = Collector("CartPole-v1", POLICIES, CollectOptions(10), store)
    return collect_until(collector, how, UNTIL)[0], how


def test_a_stopped_command_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    whole, one = play_on(tmp_path / "a")
    assert whole.n_episodes > 30
    calls = []

    def stopped(store, record):
        calls.append(record)
        if len(calls) == 5:  # while they play on
            raise PivecError("stopped")
        add(store, record)

    add = pivec.Store.add
    with monkeypatch.context() as patched:
        patched.setattr(pivec.Store, "add", stopped)
        with pytest.raises(PivecError, match="stopped"):
            play_on(tmp_path / "b")
    few = int(counts_of(whole).max()) + 5
    pivec.collect("CartPole-v1", POLICIES, few, store=tmp_path / "b")  # and more came
    again, two = play_on(tmp_path / "b")
    assert np.array_equal(again.policy_starts, whole.policy_starts)
    assert np.array_equal(again.states, whole.states)
    assert np.array_equal(two.intervals(again).low, one.intervals(whole).low)


def test_a_comparison_says_what_was_done(tmp_path):
    made = pivec.compare(
        "CartPole-v1", POLICIES, tmp_path, episodes=10, until=0.1, at_most=300,
        method="visitation", components=4,
    )  # fmt: skip
    assert len(set(made.space.descriptions.n_episodes)) > 1
    settings = json.loads((tmp_path / "run.json").read_text())["settings"]
    assert re.match(
        r"3 of 3 pairs .*0\.1, after \d rounds? and \d+ to \d+ ep", settings["precision"]
    )
    page = (tmp_path / "report.html").read_text()
    assert page.count("not on significance") == 2  # where intervals are explained, and settings
    describe(pivec.load(tmp_path), log := RunLog(tmp_path), made.space.method, None, {})
    assert log.settings["precision"] is None
