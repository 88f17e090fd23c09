"""Atari and Procgen."""

from __future__ import annotations

import sys
import warnings

import gymnasium
import numpy as np
import pytest

import pivec
from pivec.errors import PivecWarning, UsageError
from pivec.policies import PolicyInfo
from pivec.rollouts import Environment, environment_of, split_arguments
from pivec.rollouts.atari import Atari

pytest.importorskip("ale_py")
pytest.importorskip("cv2")


def game(name, **arguments):
    assert Environment(name).spec is not None  # imports the module that registers it
    return gymnasium.make(name, **arguments)


@pytest.mark.parametrize(
    ("name", "frame_skip"),
    [("BreakoutNoFrameskip-v4", None), ("ALE/Pong-v5", 4), ("ALE/Breakout-v5", 16)],
)
def test_frames_and_rewards_are_those_of_sb3(name, frame_skip):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    options = pivec.options.CollectOptions(atari=True, frame_skip=frame_skip)
    ours = environment_of(name, [PolicyInfo("model.zip", source="model.zip")], options).make()
    # What make_atari_env does by itself with such an id, except for Pong here.
    arguments = {"frameskip": 1} if frame_skip == 4 else None
    single = make_atari_env(name, env_kwargs=arguments, wrapper_kwargs={"clip_reward": False})
    theirs = VecFrameStack(single, 4)
    theirs.seed(3)
    shown, (seen, _) = theirs.reset(), ours.reset(seed=3)
    np.testing.assert_array_equal(np.moveaxis(shown[0], -1, 0), seen)
    rng, lost, total = np.random.default_rng(0), 0, 0.0
    for _ in range(250):
        action = int(rng.integers(ours.action_space.n))
        seen, reward, terminated, truncated, _ = ours.step(action)
        shown, rewards, done, _ = theirs.step([action])
        total += reward
        if terminated or truncated:
            assert done[0]
            break
        # Where a life is lost an episode of training ends, and here the game goes on as there.
        np.testing.assert_array_equal(np.moveaxis(shown[0], -1, 0), seen)
        lost += done[0]
        assert done[0] or rewards[0] == reward
    assert total != 0
    if "Breakout" in name:
        assert (lost, terminated) == (4, True)
    theirs.close()


def test_without_a_restart_nothing_is_pressed_and_frames_before_the_first_may_repeat_it():
    env = Atari(game("ALE/Breakout-v5", frameskip=1), restart=False, padding="reset")
    first, _ = env.reset(seed=0)
    assert first.shape == (4, 84, 84)
    assert env.observation_space.contains(first)
    assert (first == first[0]).all()
    lives = [env.unwrapped.ale.lives() for _ in range(120) if env.step(0)]
    assert lives[0] == 5
    assert lives[-1] == 4  # the ball was lost, and no other is served


def test_it_is_an_option_that_a_folder_tells_again():
    options = pivec.options.CollectOptions(atari=True)
    world = environment_of("ALE/Pong-v5", [], options)
    assert world.arguments == {"frameskip": 1}
    info = pivec.policies.policy.PolicyInfo(
        "a",
        metadata=world.to_json(),
    )
    again = environment_of(None, [info])
    assert (again.wrappers, again.arguments) == (world.wrappers, world.arguments)
    data = pivec.collect(
        "ALE/Pong-v5", "random", 1, atari=True, features="cells", max_steps=20, n_envs=1
    )
    assert len(data.states) == 21


def test_a_shape_may_be_written_as_a_list():
    resized = 'gymnasium.wrappers:ResizeObservation{"shape": [42, 40]}'
    env = Environment.of("ALE/Pong-v5", wrappers=[resized]).make()
    assert env.observation_space.shape == (42, 40, 3)


def test_what_does_not_fit_is_named():
    with pytest.raises(UsageError, match=r"4 frames.*frameskip=1"):
        Environment.of("ALE/Pong-v5", wrappers=["pivec.rollouts.atari:Atari"]).make()
    with pytest.raises(UsageError, match=r"ale-py.*CartPole-v1"):
        environment_of("CartPole-v1", [], pivec.options.CollectOptions(atari=True)).make()
    with pytest.raises(UsageError, match="--frame-skip"):
        pivec.options.CollectOptions(frame_skip=4)
    options = pivec.options.CollectOptions(atari=True, frame_skip=6, env_kwargs={"frameskip": 4})
    with pytest.raises(UsageError, match=r"6.*multiple.*4"):
        environment_of("ALE/Pong-v5", [], options)


DEFAULT = {"skip": 4, "game_skip": 1}
ZOO = "stable_baselines3.common.atari_wrappers:"


@pytest.mark.parametrize(
    ("metadata", "frames"),
    [
        ({"environment": "ALE/Pong-v5", "wrappers": [ZOO + "AtariWrapper"]}, (4, 4)),
        ({"environment": "PongNoFrameskip-v4", "wrappers": [ZOO + "AtariWrapper"]}, (1, 4)),
        (
            {
                "environment": "ALE/Pong-v5",
                "arguments": {"frameskip": 2},
                "wrappers": ["mine:Other", ZOO + 'MaxAndSkipEnv{"skip": 3}'],
            },
            (2, 3),
        ),
        ({"environment": "PongNoFrameskip-v4"}, None),
        ({"environment": "Pong-v4", "wrappers": [ZOO + "AtariWrapper"]}, None),  # a random number
        ({"environment": "ALE/Pong-v5", "wrappers": [3, ZOO + "AtariWrapper"]}, None),
        ({"environment": "mine:Pong-v5", "wrappers": [ZOO + "AtariWrapper"]}, None),
        ({}, None),
    ],
)
def test_policies_act_as_often_as_in_training_or_it_is_said_that_this_is_not_known(
    metadata, frames
):
    info = PolicyInfo("model", source="model.zip", metadata=metadata)
    options = pivec.options.CollectOptions(atari=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PivecWarning)
        world = environment_of("ALE/Pong-v5", [info, PolicyInfo("r", source="random")], options)
        environment_of("PongNoFrameskip-v4", [], options)
    told = [str(one.message) for one in caught if "frame-skip" in str(one.message)]
    game_skip, skip = frames or (1, 4)
    assert world.arguments == {"frameskip": game_skip}
    [wrapper] = world.wrappers
    given = {"skip": skip, "game_skip": game_skip}
    assert split_arguments(wrapper)[1] == {k: n for k, n in given.items() if n != DEFAULT[k]}
    assert len(told) == (frames is None)
    if told:
        assert all(words in told[0] for words in ("model.zip", "4 frames", "16"))


def test_policies_with_different_frame_skips_are_not_mixed():
    infos = [
        PolicyInfo(name, source=name, metadata={"environment": name, "wrappers": [wrapper]})
        for name, wrapper in [
            ("ALE/Pong-v5", ZOO + "AtariWrapper"),
            ("PongNoFrameskip-v4", ZOO + "AtariWrapper"),
        ]
    ]
    options = pivec.options.CollectOptions(atari=True)
    with pytest.raises(UsageError, match=r"v5 with 4 x 4.*v4 with 1 x 4"):
        environment_of("ALE/Pong-v5", infos, options)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN", "QRDQN"])
def test_policies_of_sb3_answer_games_as_they_do_themselves(algorithm, tmp_path):
    pytest.importorskip("sb3_contrib")
    import sb3_contrib
    import stable_baselines3 as sb3

    env = Atari(game("ALE/Pong-v5", frameskip=1))
    kind = getattr(sb3, algorithm, None) or getattr(sb3_contrib, algorithm)
    buffer = {"buffer_size": 1} if "DQN" in algorithm else {}
    model = kind("CnnPolicy", env, seed=0, device="cpu", **buffer)
    model.save(tmp_path / "model.zip")
    [named] = pivec.load_policies(tmp_path / "model.zip")
    policy = named.policy.bind(env.observation_space, env.action_space)
    frames = [env.reset(seed=0)[0], *(env.step(2)[0] for _ in range(99))]
    expected = [model.predict(frame, deterministic=True)[0] for frame in frames]
    answers = policy.act(np.stack(frames), np.random.default_rng(0), deterministic=True)
    np.testing.assert_array_equal(answers, expected)
    data = pivec.collect(
        "ALE/Pong-v5",
        [named],
        1,
        atari=True,
        frame_skip=4,
        features=f"policy:{named.info.label}",
        max_steps=30,
    )
    assert data.states.shape == (31, 512)


# What the package has of its own interface: levels one after another, drawn when it is made.
PACKAGE = """
import numpy as np

class ProcgenGym3Env:
    def __init__(self, num, env_name, rand_seed, num_threads=4, length=5):
        assert (num, env_name, num_threads) == (1, "maze", 0)
        self.rng, self.length = np.random.default_rng(rand_seed), length
        self.begin()

    def begin(self):
        self.time, self.level = 0, self.rng.integers(1, 200)

    def act(self, actions):
        assert actions.shape == (1,) and actions.dtype == np.int32
        self.time += 1
        self.first = self.time == self.length
        if self.first:
            self.begin()

    def observe(self):
        image = np.full((1, 64, 64, 3), self.level + self.time, np.uint8)
        return np.ones(1, np.float32), {"rgb": image}, np.array([getattr(self, "first", True)])
"""


@pytest.fixture(autouse=True)
def _package(tmp_path, monkeypatch):
    (tmp_path / "procgen.py").write_text(PACKAGE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "procgen", raising=False)
    yield
    sys.modules.pop("procgen", None)


def collected(name, **arguments):
    brightness = {"features": lambda images: images[:, 0, 0, :1].astype(float)}
    return pivec.collect(name, "random", episodes=4, env_kwargs=arguments, **brightness)


@pytest.mark.parametrize("name", ["procgen:procgen-maze-v0", "procgen-maze-v0"])
def test_a_seed_draws_the_level(name):
    data = collected(name)
    np.testing.assert_array_equal(data.states, collected(name).states)
    starts = [episode[0, 0] for episode in data.episodes()]
    assert len(set(starts)) > 1
    np.testing.assert_array_equal(data.returns, 5.0)


def test_the_next_level_is_not_shown_and_arguments_reach_the_game():
    data = collected("procgen-maze-v0", length=3)
    for episode in data.episodes():
        assert (np.diff(episode[:, 0]) <= 1).all()
        assert (np.diff(episode[:, 0]) >= 0).all()
    np.testing.assert_array_equal(data.returns, 3.0)


def test_what_is_seen_is_drawn():
    env = Environment("procgen-maze-v0").make(render_mode="rgb_array")
    seen, _ = env.reset(seed=1)
    np.testing.assert_array_equal(env.render(), seen)
