"""The monitor of a run: distances in one fixed space, their noise, a map that stays."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations import Space, characterization, names
from pivec.distances import SettlingRule
from pivec.errors import UsageError
from pivec.maps import tsne_map
from pivec.states import VisitedStates
from pivec.states.derived import joined
from pivec.training.behaviour import BehaviourMonitor


def window(rng, place, step=0, episodes=12, length=30):
    walks = [rng.normal(place, 1.0, (length, 2)) for _ in range(episodes)]
    return VisitedStates.from_arrays(
        [walks],
        labels=[f"run/{step}"],
        groups=["run"],
        steps=[step],
        returns=[[float(place)] * episodes],
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
    method = characterization("supervector", n_components=4, random_state=1)
    d = method.fit(joined(windows[:3])).distances(joined(windows))
    n = len(windows)
    assert [change.to_first for change in monitor.changes[1:]] == pytest.approx(d[0, 1:], rel=1e-4)
    legs = [d[i, i + 1] for i in range(n - 1)]
    assert [change.to_previous for change in monitor.changes[1:]] == pytest.approx(legs, rel=1e-4)
    assert monitor.changes[-1].path_length == pytest.approx(sum(legs), rel=1e-4)
    assert np.isnan(monitor.changes[0].to_previous)
    to_expert = method.distances(joined(windows), expert)[:, 0]
    assert [change.to_expert for change in monitor.changes] == pytest.approx(to_expert, rel=1e-4)
    assert [change.step for change in monitor.changes] == [100 * i for i in range(n)]
    assert [change.mean_return for change in monitor.changes][3] == 2.0


def test_noise_tells_real_changes_from_chance(windows):
    monitor = BehaviourMonitor(parameters=FEW)
    for one in windows:
        monitor.add(one)
    excess = [
        (change.to_previous - change.noise.mean) / change.noise.deviation
        for change in monitor.changes[1:]
    ]
    assert min(excess[2:4]) > 5
    assert max(excess[4:]) < 5


def test_the_stop_is_that_of_the_rule_on_the_whole_matrix(windows):
    monitor = BehaviourMonitor(parameters=FEW)
    rule = SettlingRule(3, tolerance=0.001, deviations=5.0)
    settled = [monitor.add(one) is not None and monitor.has_settled(rule) for one in windows]
    matrix = monitor.method.distances(monitor.descriptions)
    noise = [change.noise for change in monitor.changes]
    first = rule.settled_at(matrix, noise)
    assert first == settled.index(True) == 7


def test_a_given_space_is_used_as_it_is(windows, rng, tmp_path):
    data = joined(windows)
    method = characterization("supervector", n_components=4).fit(data)
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
    monitor = BehaviourMonitor(name, small, divisions=2)
    for one in windows[:4]:
        change = monitor.add(one)
    assert np.isfinite([change.to_previous, change.noise.mean, *change.position]).all()


def test_mistakes_are_named(windows):
    for bad in ({"fit_on": 0}, {"divisions": 1}, {"expert": joined(windows[:2])}):
        with pytest.raises(UsageError):
            BehaviourMonitor(**bad)
    monitor = BehaviourMonitor()
    with pytest.raises(UsageError, match="one policy"):
        monitor.add(joined(windows[:2]))
    with pytest.raises(UsageError, match="nothing"):
        _ = monitor.space
