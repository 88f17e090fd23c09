"""Rows of observations are those of Gymnasium; what does not fit is named with its step."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from worlds import coin

import pivec
from pivec.errors import BadData, EnvironmentFailure, PivecError, PivecWarning, UsageError
from pivec.rollouts import Environment, EpisodeRecorder, observations
from pivec.rollouts import play as table

SPACES = [
    Box(-1, 1, (3,)),
    Box(-1, 1, ()),
    Box(0, 255, (2, 3), np.uint8),
    Discrete(4),
    Discrete(4, start=-2),
    MultiBinary([2, 2]),
    MultiDiscrete([2, 3, 4]),
    MultiDiscrete([[2, 3], [4, 5]]),
    Tuple([Discrete(3), Box(0, 1, (2,))]),
    Dict({"z": Discrete(2), "a": Dict({"inner": Box(0, 1, (1, 2))})}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_rows_are_those_of_gymnasium(space):
    space.seed(0)
    elements = [space.sample() for _ in range(5)]
    batch = observations.empty_batch(space, 5)
    for row, element in enumerate(elements):
        observations.assign(batch, row, element)
    flat = observations.flatten(space, batch)
    assert flat.dtype == np.float32
    assert np.allclose(flat, [gym.spaces.flatten(space, element) for element in elements])
    assert len(observations.feature_names(space)) == flat.shape[1]
    assert len(set(observations.feature_names(space))) == flat.shape[1]
    assert np.array_equal(
        observations.flatten(space, observations.pick(batch, slice(2, 4))), flat[2:4]
    )


def test_spaces_without_a_length_are_refused():
    with pytest.raises(UsageError, match="features="):
        observations.feature_names(Text(5))


WHERE = r"coin, episode \d+ \(seed \d+\), step 2: "


class Odd(gym.Env):
    """Three good observations of zeros, then ``what`` with the reward ``reward``."""

    def __init__(self, space, what, reward=0.0, moves=None):
        self.observation_space = space
        self.action_space = moves or spaces.Discrete(2)
        self.what, self.reward = what, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), {}

    def step(self, action):
        self.time += 1
        good = np.zeros(self.observation_space.shape, self.observation_space.dtype)
        late = self.time > 2
        if late and isinstance(self.what, BaseException):
            raise self.what
        shown = self.what if late and self.what is not None else good
        return shown, self.reward if late else 0.0, self.time > 3, False, {}


def play(space, what=None, policy=coin, reward=0.0, moves=None, **options):
    return pivec.collect(
        lambda: Odd(space, what, reward, moves),
        {"coin": policy},
        episodes=3,
        **options,
    )


BOX, WHOLE = spaces.Box(-9, 9, (3,), np.float32), spaces.Box(0, 255, (3,), np.uint8)


@pytest.mark.parametrize(
    ("space", "what", "words"),
    [
        (BOX, np.zeros(1, np.float32), r"shape \(1,\) .* has shape \(3,\)"),
        (BOX, 0.5, r"shape \(\) "),
        (BOX, np.zeros((1, 3)), r"shape \(1, 3\)"),
        (BOX, ["1", "2", "3"], "type <U1"),
        (BOX, [None, 1.0, 2.0], "type object"),
        (WHOLE, np.array([0.5, 1.0, 2.0]), r"\[0.5, 1.0, 2.0\] does not fit .* uint8"),
        (WHOLE, np.array([np.nan, 1.0, 2.0]), r"nan"),
        (WHOLE, np.array([300, 1, 2]), r"\[300, 1, 2\]"),
        (spaces.Discrete(3), -1, r"the observation -1 is not one of Discrete\(3\)"),
        (spaces.Discrete(3), 3, "the observation 3"),
        (spaces.MultiDiscrete([2, 3]), np.array([0, -1]), r"\[0, -1\] is not one of"),
    ],
)
@pytest.mark.parametrize("n_envs", [1, 3])
def test_observations(space, what, words, n_envs):
    with pytest.raises(BadData, match=f"(?s){WHERE}.*{words}"):
        play(space, what, n_envs=n_envs)


def test_whole_numbers_of_another_type_are_taken():
    data = play(WHOLE, np.array([1.0, 2.0, 255.0]))
    assert data.states.max() == 255


@pytest.mark.parametrize("reward", [None, np.nan])
def test_rewards(reward):
    with pytest.raises(BadData, match=f"{WHERE}.*the reward"):
        play(BOX, reward=reward)


class Late:
    """Answers zeros, and in the third step of an episode ``what``."""

    def __init__(self, what, calls=2):
        self.what, self.calls = np.asarray(what), calls

    def __call__(self, observations):
        self.calls -= 1
        return (self.what if self.calls < 0 else np.zeros_like(self.what))[None]


REAL = spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    ("moves", "what", "words"),
    [
        (spaces.Discrete(2), 0.7, r"the action 0.7 is not one of Discrete\(2\)"),
        (spaces.Discrete(2), 2, "the action 2 is not one of"),
        (spaces.Discrete(2), -1, "the action -1"),
        (spaces.Discrete(2), np.float32("nan"), "the action nan"),
        (REAL, [np.nan, 0.0], r"the action \[nan, 0.0\] is not one of Box"),
        (REAL, [np.inf, 0.0], "inf"),
        (spaces.MultiDiscrete([2, 3]), [1, 3], r"\[1, 3\]"),
        (spaces.MultiBinary(2), [1, 2], r"\[1, 2\]"),
    ],
)
def test_actions(moves, what, words):
    with pytest.raises(BadData, match=f"{WHERE}.*{words}"):
        play(BOX, policy=Late(what), moves=moves, n_envs=1)


def test_actions_of_policies_that_answer_in_batches():
    class Batch:
        architecture = "own"

        def act(self, observations, rng, deterministic=False):
            raise NotImplementedError

        def noise(self, rng, n):
            return np.zeros((n, 1), np.float32)

        def respond(self, observations, noise):
            return np.full(len(observations), 0.7)

    with pytest.raises(BadData, match=r"coin, episode 0 .*step 0: the action 0.7"):
        play(BOX, policy=Batch())
    Batch.respond = lambda self, observations, noise: np.zeros((len(observations), 2))
    with pytest.raises(UsageError, match=r"\(3,\)"):
        play(BOX, policy=Batch())


@pytest.mark.parametrize("jobs", [1, 2])
def test_leaving_python_is_theirs(jobs):
    with (
        pytest.warns(PivecWarning, match="other policies continue"),
        pytest.raises(EnvironmentFailure, match=r"SystemExit .*step\(.\): 3"),
    ):
        pivec.collect(Leaving, {"a": leave_later, "b": leave_later}, episodes=1, jobs=jobs)
    with pytest.raises(PivecError, match="SystemExit: 4"):
        pivec.collect("CartPole-v1", {"a": leave, "b": leave}, episodes=1, jobs=jobs)


class Leaving(Odd):
    """Calls sys.exit."""

    def __init__(self):
        super().__init__(BOX, SystemExit(3))


def leave_later(observations):
    return np.zeros(len(observations), int)


def leave(observations):
    raise SystemExit(4)


class Unmade(Odd):
    """Cannot be made, or not be closed."""

    def __init__(self, where="__init__"):
        super().__init__(BOX, None)
        self.where = where
        if where == "__init__":
            raise RuntimeError("no display")

    def close(self):
        raise OSError("still busy")


def test_environments_that_raise_when_made_or_closed():
    with pytest.raises(EnvironmentFailure, match=r"Unmade .*RuntimeError .*no dis"):
        pivec.collect(Unmade, {"coin": coin}, episodes=1)
    gym.register("Unmade-v0", lambda: Unmade())
    with pytest.raises(EnvironmentFailure, match=r"Unmade-v0 .*RuntimeError"):
        pivec.collect("Unmade-v0", {"coin": coin}, episodes=1)
    with pytest.warns(PivecWarning, match=r"OSError .*close\(\): still busy"):
        data = pivec.collect(lambda: Unmade("close"), {"coin": coin}, episodes=1)
    assert data.n_episodes == 1


@pytest.mark.parametrize("env", ["", " "])
def test_no_environment(env):
    with pytest.raises(UsageError, match="CartPole-v1"):
        Environment.of(env)


def test_features_that_take_no_batch():
    with pytest.raises(UsageError, match=r"sqrt.*batch of 1 .*TypeError"):
        pivec.collect("CartPole-v1", "random", 1, features="math:sqrt")


def test_endless_episodes_are_hinted_at_once(monkeypatch):
    class Endless(Odd):
        def step(self, action):
            super().step(action)
            return np.zeros(3, np.float32), 0.0, self.time >= 1000, False, {}

    def make():
        return Endless(BOX, None)

    monkeypatch.setattr(table, "PATIENCE", -1.0)
    with pytest.warns(PivecWarning, match="--max-steps") as said:
        pivec.collect(make, {"coin": coin}, episodes=3)
    assert len(said) == 1
    pivec.collect(make, {"coin": coin}, episodes=1, max_steps=500)


def test_rows_are_not_broadcast_in_other_loops():
    gatherer = EpisodeRecorder(1)
    gatherer.start(np.zeros((1, 3)))
    with pytest.raises(BadData, match=r"\(1, 1\).*\(1, 3\)"):
        gatherer.step(np.zeros((1, 1)), [0.0], [False], [False])


class Far(Odd):
    """A place of 1e9 +- 1 beside an ordinary number, in double precision."""

    def __init__(self):
        super().__init__(spaces.Box(-np.inf, np.inf, (2,), np.float64), None)

    def _see(self):
        return np.array([1e9 + self.place, self.place])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1)
        return self._see(), {}

    def step(self, action):
        self.place += 0.25 * (2 * action - 1)
        self.time += 1
        return self._see(), 0.0, self.time > 5, False, {}


def left(observations):
    return np.zeros(len(observations), int)


def test_states_far_from_zero_keep_their_digits(tmp_path):
    data = pivec.collect(Far, {"coin": coin, "left": left}, episodes=3, store=tmp_path)
    assert data.feature_names == ("x[0] - 1000000000", "x[1]")
    assert np.allclose(data.states[:, 0], data.states[:, 1], atol=1e-6)
    again = pivec.collect(Far, {"left": left, "coin": coin}, episodes=3, n_envs=1)
    assert np.array_equal(again["coin"].states, data["coin"].states)
    assert np.array_equal(pivec.load(tmp_path).states, data.states)


def test_features_far_from_zero_too():
    data = pivec.collect(Far, {"coin": coin}, episodes=2, features=lambda seen: seen[:, ::-1])
    assert data.feature_names == ("f[0]", "f[1] - 1000000000")
    assert np.allclose(data.states[:, 0], data.states[:, 1], atol=1e-6)
