"""States that are not observations: out of info, out of the environment; environments by name."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from test_play import coin, same
from worlds import Countdown

import pivec
from pivec.errors import BadData, PivecWarning, UsageError
from pivec.explanations import Replayer
from pivec.rollouts import Environment, Values, choose_backend, features_to_json, n_inputs
from pivec.rollouts.features import features_from_json
from pivec.states import Store


class Telling(Countdown):
    """Tells in info what it does not show; the speed after steps alone."""

    def __init__(self, top=10, gap=-1):
        self.top, self.gap = top, gap

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        return observation, self._tell()

    def step(self, action):
        *outcome, _ = super().step(action)
        info = self._tell() | {"speed": np.array([self.time, 2 * self.time])}
        if self.time == self.gap:
            del info["speed"]
        return *outcome, info

    def _tell(self):
        return {
            "left": {"steps": self.length - self.time},
            "place": [self.top, self.time],
            "t": "x",
        }


def both(observations, infos):
    return np.column_stack([observations, [info["place"][1] for info in infos]])


def all_three(observations, infos, environments):
    return [[env.unwrapped.time, env.unwrapped.length] for env in environments]


def play(features, env=Telling, episodes=4, **options):
    return pivec.collect(env, {"coin": coin}, episodes=episodes, features=features, **options)


def test_values_of_info_are_states_while_policies_see_observations():
    plain, data = play(None), play("info:left.steps,place,place.1")
    assert data.feature_names == ("left.steps", "place[0]", "place[1]", "place.1")
    time, length = plain.states.T
    assert np.array_equal(data.states, np.column_stack([length - time, 10 + 0 * time, time, time]))
    assert [len(e) for e in data.episodes()] == [len(e) for e in plain.episodes()]


@pytest.mark.parametrize("options", [{"n_envs": 1}, {"n_envs": 3}, {"max_steps": 1}])
def test_what_reset_does_not_tell_is_taken_from_the_first_step(options):
    with pytest.warns(PivecWarning, match="speed"):
        data = play("info:left.steps,speed", episodes=20, **options)
    for episode in data.episodes():
        time = np.maximum(np.arange(len(episode)), 1)
        assert np.array_equal(episode[:, 1:], np.column_stack([time, 2 * time]))
        assert (np.diff(episode[:, 0]) == -1).all()


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_a_value_that_is_missing_later_is_no_state():
    with pytest.raises(BadData, match="nan in feature 0"):
        play("info:speed", lambda: Telling(gap=3), episodes=20)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("info:sped", r"info has no 'sped' \(did you mean speed\?\): it has left, place, t, speed"),
        ("info:left.right", "'left.right'"),
        ("info:t", "t of info.* str"),
        ("info:", "info:x_position"),
        ("env:lenght", r"env has no 'lenght' \(did you mean length\?\)"),
    ],
)
def test_what_is_not_there_is_said(features, words):
    with pytest.raises(UsageError, match=words):
        play(features)


def test_functions_get_what_they_take():
    assert [n_inputs(f) for f in (None, np.sqrt, both, all_three)] == [1, 1, 2, 3]
    assert np.array_equal(play(both).states[:, 2], play(None).states[:, 0])
    assert np.array_equal(play(all_three).states, play(None).states)
    assert np.array_equal(play("env:time,length").states, play(None).states)


def test_environments_on_arrays_are_stepped_one_by_one_where_features_look(monkeypatch):
    plain = pivec.collect("CartPole-v1", {"coin": coin}, episodes=3)
    states = pivec.collect("CartPole-v1", {"coin": coin}, episodes=3, features="env:state")
    assert states.feature_names == tuple(f"state[{i}]" for i in range(4))
    assert np.array_equal(states.states, plain.states)
    plain_lanes = Environment("CartPole-v1", one_by_one=True)
    assert choose_backend("auto", plain_lanes) == "gymnasium"
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    with pytest.raises(UsageError, match="--backend gymnasium"):
        choose_backend("envpool", plain_lanes)


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_episodes_play_again(tmp_path):
    gym.register("Telling-v0", Telling)
    try:
        data = play("info:place,speed", "Telling-v0", store=tmp_path)
        for number, states in enumerate(data.episodes()):
            again = Replayer(Store(tmp_path), None, {"coin": coin}).stored("coin", number)
            assert np.array_equal(again.states, states)
    finally:
        del gym.registry["Telling-v0"]


def test_only_values_of_info_are_known_again_by_name():
    values = Values("info", ("a b", "c.d"))
    assert features_from_json(features_to_json(values)) == values
    joint = Values("env", ("joint.a",))
    assert features_from_json(features_to_json(joint)) == joint
    with pytest.raises(UsageError, match="--features"):
        features_from_json(features_to_json(Values("env", ("close",))))


def test_recorded_states_have_no_info(tmp_path):
    np.savez(tmp_path / "a.npz", observations=np.zeros((1, 3, 2)))
    with pytest.raises(UsageError, match="observations, infos"):
        pivec.collect(Telling, f"npz:{tmp_path}", features=both)


# ---- environments that are named as module:function ----


def test_a_function_is_named_with_arguments(tmp_path):
    data = play("info:place.0", 'test_seen:Telling{"top": 3}', store=tmp_path)
    assert set(data.states.ravel()) == {3}
    settings = Store(tmp_path).settings
    assert (settings["environment"], settings["arguments"]) == ("test_seen:Telling", {"top": 3})
    assert set(play("info:place.0", "test_seen:Telling", env_kwargs={"top": 4}).states.ravel()) == {
        4
    }
    assert set(play("info:place.0", Telling, env_kwargs={"top": 5}).states.ravel()) == {5}
    with pytest.raises(pivec.PivecError, match=r"'top': 3"):
        play("info:place.0", "test_seen:Telling", store=tmp_path)


def test_a_function_travels_to_other_processes():
    alone = play("info:place.1", "test_seen:Telling")
    assert same(alone, play("info:place.1", "test_seen:Telling", jobs=2))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("test_seen:Teling", r"'Teling' \(did you mean Telling\?\)"),
        ("no_such_module:make", "'no_such_module'"),
        ("test_seen:coin", "gymnasium.Env|TypeError"),
        ("builtins:dict", "gymnasium.Env.*builtins.dict"),
        ('test_seen:Telling{"high": 1}', "TypeError"),
    ],
)
def test_a_function_that_makes_none_is_refused(name, words):
    with pytest.raises(pivec.PivecError, match=words):
        play(None, name)
