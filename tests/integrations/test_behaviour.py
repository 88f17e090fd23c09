"""The monitor of a run: distances in one fixed space, their noise, a map that stays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from pivec.characterizations import Characterization, Space, characterization, names
from pivec.errors import UsageError
from pivec.integrations import BehaviourMonitor
from pivec.report import tsne_map
from pivec.states import VisitedStates, joined
from pivec.statistics import ConvergenceRule, sampled_travel


def window(rng, place, step=0, episodes=12, length=30):
    walks = [rng.normal(place, 1.0, (length, 2)) for _ in range(episodes)]
    return VisitedStates.from_arrays(
        [walks],
        labels=[f"run/{step}"],
        groups=["run"],
        steps=[step],
        returns=[place + np.linspace(-0.5, 0.5, episodes)],
        actions=[[rng.integers(2, size=length - 1) for _ in walks]],
    )


@pytest.fixture
def windows(rng):
    places = [0.0, 0.5, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    return [window(rng, place, 100 * i) for i, place in enumerate(places)]


FEW = {"n_components": 4}


def test_distances_are_those_of_the_space_fitted_on_the_first(windows, rng):
    expert = window(rng, 3.0)
    monitor = BehaviourMonitor(parameters=FEW, fit_on=3, expert=expert, seed=1)
    answers = [monitor.add(one) for one in windows]
    assert answers[:2] == [None, None]
    assert answers[2] is monitor.changes[2]
    changes, n, data = monitor.changes, len(windows), joined(windows)
    method = characterization("visitation", n_components=4, random_state=1)
    known = method.fit(joined(windows[:3])).intervals(data)
    legs = np.arange(n - 1), np.arange(1, n)
    first = 0, slice(1, n)
    for place, distance, interval in (
        (legs, "to_previous", "previous_interval"),
        (first, "to_first", "first_interval"),
    ):
        found = [getattr(change, distance) for change in changes[1:]]
        apart = np.maximum(known.distance[place], 0.0)
        assert found == pytest.approx(apart, rel=1e-4, abs=1e-7)
        bounds = np.array([getattr(change, interval) for change in changes[1:]])
        np.testing.assert_allclose(bounds[:, 0], known.low[place], rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(bounds[:, 1], known.high[place], rtol=1e-4, atol=1e-7)
        assert np.isnan([getattr(changes[0], distance), *getattr(changes[0], interval)]).all()
    assert [c.noise for c in changes[1:]] == pytest.approx(known.noise[legs], rel=1e-4)
    errors = [change.standard_error for change in changes[1:]]
    assert errors == pytest.approx(known.standard_error[legs], rel=1e-3)
    to_expert = np.maximum(method.intervals(data, expert).distance[:, 0], 0.0)
    assert [c.to_expert for c in changes] == pytest.approx(to_expert, rel=1e-4, abs=1e-7)
    assert [change.step for change in changes] == [100 * i for i in range(n)]
    assert [change.mean_return for change in changes][3] == pytest.approx(2.0)


@pytest.mark.parametrize("together", [3, 64])
def test_the_way_is_the_sum_of_the_legs_with_an_interval_of_the_whole(
    windows, together, monkeypatch
):
    monkeypatch.setattr("pivec.integrations.monitor._TOGETHER", together)
    of = "moves" if together > len(windows) else "states"
    monitor = BehaviourMonitor(parameters=FEW | {"of": of})
    for one in windows:
        monitor.add(one)
    known = monitor.descriptions
    legs, errors = sampled_travel(known.points, known.influences)
    lengths = [change.path_length for change in monitor.changes]
    assert lengths == pytest.approx([0.0, *np.cumsum(legs)], rel=1e-6)
    half = [(c.path_interval[1] - c.path_length) / t.ppf(0.975, 11) for c in monitor.changes]
    assert half == pytest.approx(errors, rel=0.05)  # of three at a time, and of all at once


def test_a_run_that_stands_still_has_come_no_way(rng):
    lengths = []
    for _ in range(10):
        monitor = BehaviourMonitor(parameters=FEW, fit_on=1)
        for step in range(12):
            monitor.add(window(rng, 0.0, step))
        length, (low, high) = monitor.changes[-1].path_length, monitor.changes[-1].path_interval
        assert low <= max(length, 0.0) < high
        lengths.append(length)
    noise = sum(change.noise for change in monitor.changes[1:])
    assert abs(np.mean(lengths)) < 3 * np.std(lengths) / np.sqrt(10) < 0.5 * noise


def test_intervals_tell_real_changes_from_chance(windows):
    monitor = BehaviourMonitor(parameters=FEW)
    for one in windows:
        monitor.add(one)
    excess = [change.to_previous / change.standard_error for change in monitor.changes[1:]]
    assert min(excess[2:4]) > 3
    assert max(excess[4:]) < 3


def test_the_stop_is_that_of_the_rule_on_the_whole_matrix(windows):
    monitor = BehaviourMonitor(parameters=FEW)
    rule = ConvergenceRule(3, tolerance=0.001, deviations=3.0)
    settled = [monitor.add(one) is not None and monitor.has_settled(rule) for one in windows]
    known = monitor.method.intervals(monitor.descriptions)
    first = rule.converged_at(known.distance, known.standard_error)
    assert first == settled.index(True) == 7


def test_distances_stay_as_they_are_without_intervals(windows):
    monitor = BehaviourMonitor(parameters=FEW, intervals=False)
    for one in windows:
        change = monitor.add(one)
    d = monitor.method.distances(joined(windows))
    assert change.to_previous == pytest.approx(d[-2, -1], rel=1e-4)
    assert change.path_length == pytest.approx(np.diagonal(d, 1).sum(), rel=1e-4)
    unknown = [change.noise, change.standard_error, *change.path_interval, *change.first_interval]
    assert np.isnan(unknown).all()
    assert not monitor.has_settled(ConvergenceRule(3, tolerance=0.0))
    assert monitor.has_settled(ConvergenceRule(3, tolerance=0.1))


def test_a_given_space_is_used_as_it_is(windows, rng, tmp_path):
    data = joined(windows)
    method = characterization("visitation", n_components=4).fit(data)
    described = method.describe(data)
    positions = tsne_map(described.points).positions
    Space(method, described, positions).save(tmp_path)
    monitor = BehaviourMonitor(space=tmp_path)
    change = monitor.add(windows[4])
    assert change is not None
    assert change.position == pytest.approx(positions[4], abs=1e-5)
    without = BehaviourMonitor(space=Space(method, described))
    places = [without.add(one).position for one in windows]
    assert np.linalg.norm(np.subtract(places[0], places[-1])) ** 2 == pytest.approx(
        method.distances(windows[0], windows[-1])[0, 0], rel=0.1
    )


def test_the_map_does_not_move(windows):
    one, two = BehaviourMonitor(parameters=FEW), BehaviourMonitor(parameters=FEW)
    for each in windows:
        one.add(each)
    for each in windows[:5]:
        two.add(each)
    assert [change.position for change in one.changes[:5]] == [
        change.position for change in two.changes
    ]


def test_its_space_can_be_kept_for_other_runs(windows, tmp_path):
    monitor = BehaviourMonitor(parameters=FEW)
    for one in windows:
        monitor.add(one)
    monitor.space.save(tmp_path)
    again = BehaviourMonitor(space=tmp_path)
    again.add(windows[0])
    assert again.add(windows[5]).to_first == pytest.approx(monitor.changes[5].to_first)


@pytest.mark.parametrize(
    "name", [n for n in names() if n not in ("parameters", "actions", "discriminator", "encoder",
                                             "skill-discriminator", "trajectory-encoder")]
)  # fmt: skip
def test_characterizations_of_the_registry_work(name, windows):
    known = characterization(name).get_params()
    small = {key: 4 for key in ("n_components", "n_updates") if key in known}
    monitor = BehaviourMonitor(name, small)
    for one in windows[:4]:
        change = monitor.add(one)
    method = monitor.method
    assert np.isfinite([change.to_previous, *change.position]).all()
    known = np.isfinite([change.noise, *change.path_interval])
    assert known.all() == known.any() == (not method.traits.no_intervals)


class Middle(Characterization):
    """The mean state, by a description that is not said to be a function of sums."""

    name = "middle"

    def _describe(self, data):
        points = np.array([data[i].states.mean(axis=0) for i in range(len(data))], dtype=float)
        return points, points, {}


def test_episodes_are_left_out_for_methods_without_influences(rng):
    small = [window(rng, place, i, 4, 6) for i, place in enumerate([0.0, 2.0, 0.0])]
    method = Middle().fit(joined(small))
    space = Space(method, method.describe(joined(small)))
    assert not method.traits.influences
    monitor, plain = (BehaviourMonitor(space=space, intervals=wanted) for wanted in (True, False))
    for one in small:
        change, as_is = monitor.add(one), plain.add(one)
    assert change.to_previous == pytest.approx(as_is.to_previous - change.noise)
    assert np.isnan(as_is.noise)
    low, high = change.previous_interval
    assert 0 < low < change.to_previous < high
    assert change.first_interval[0] == 0.0
    assert monitor.has_settled(ConvergenceRule(2, tolerance=0.0, deviations=1e9))


def test_mistakes_are_named(windows):
    for bad in ({"fit_on": 0}, {"expert": joined(windows[:2])}):
        with pytest.raises(UsageError):
            BehaviourMonitor(**bad)
    monitor = BehaviourMonitor()
    with pytest.raises(UsageError, match="one policy"):
        monitor.add(joined(windows[:2]))
    with pytest.raises(UsageError, match="nothing"):
        _ = monitor.space
