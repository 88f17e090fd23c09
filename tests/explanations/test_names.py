"""Names of features: as many as there are, and what they say is so."""

from __future__ import annotations

import re
import warnings

import gymnasium
import numpy as np
import pytest

from pivec.explanations import Feature, features_of
from pivec.explanations.names import known_features
from pivec.rollouts import feature_names, flatten

IDS = (
    "CartPole-v0", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1",
    "Pendulum-v1", "LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3",
    "BipedalWalkerHardcore-v3", "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "Taxi-v4",
    "Blackjack-v1",
)  # fmt: skip
# Of MuJoCo, which may not be installed, with the lengths of their observations.
MUJOCO = {
    "Ant-v3": 111, "Ant-v4": 27, "Ant-v5": 105, "HalfCheetah-v4": 17, "HalfCheetah-v5": 17,
    "Hopper-v4": 11, "Hopper-v5": 11, "Humanoid-v4": 376, "Humanoid-v5": 348,
    "HumanoidStandup-v4": 376, "HumanoidStandup-v5": 348, "InvertedDoublePendulum-v4": 11,
    "InvertedDoublePendulum-v5": 9, "InvertedPendulum-v4": 4, "InvertedPendulum-v5": 4,
    "Pusher-v5": 23, "Reacher-v4": 11, "Reacher-v5": 10, "Swimmer-v4": 8, "Swimmer-v5": 8,
    "Walker2d-v4": 17, "Walker2d-v5": 17,
}  # fmt: skip
STORED = tuple(f"x[{i}]" for i in range(4))


def made(name, **arguments):
    """Make an environment, of an old version too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a newer version
        return gymnasium.make(name, disable_env_checker=True, **arguments)


def features(name, env, **collected):
    stored = feature_names(env.observation_space)
    return features_of({"environment": name, **collected}, stored), stored


@pytest.mark.parametrize("name", IDS)
def test_every_feature_has_a_name_of_its_own(name):
    env = made(name)
    known, stored = features(name, env)
    assert_all_named(known, stored)
    env.close()


def assert_all_named(known, stored):
    assert not set(stored) & {feature.name for feature in known}
    assert len({feature.name for feature in known}) == len(known) == len(stored)


@pytest.mark.parametrize("name", MUJOCO)
def test_every_feature_of_mujoco_has_a_name(name):
    stored = tuple(f"x[{i}]" for i in range(MUJOCO[name]))
    assert_all_named(features_of({"environment": name}, stored), stored)
    longer = (*stored, *(f"x[{len(stored) + i}]" for i in range(5)))
    assert features_of({"environment": name}, longer)[0].name == "x[0]"


def test_every_environment_of_the_table_is_held():
    for pattern, _, _ in known_features():
        assert any(re.fullmatch(pattern, name) for name in (*IDS, *MUJOCO)), pattern


@pytest.mark.parametrize(
    "collected",
    [
        {"environment": "CartPole-v2"},
        {"environment": "phys2d/CartPole-v1"},
        {"environment": "mine:CartPole-v1"},
        {"environment": "CartPole-v1", "wrappers": ["gymnasium.wrappers:NormalizeObservation"]},
        {"environment": "CartPole-v1", "features": "scaled"},
        {"environment": "CartPole-v1", "arguments": {"frame": "mine"}},
        {},
    ],
)
def test_what_is_not_sure_is_not_named(collected):
    assert [feature.name for feature in features_of(collected, STORED)] == list(STORED)


def test_names_that_somebody_gave_stay():
    collected = {"environment": "CartPole-v1"}
    given = ("a", "b", "c", "d")
    assert [feature.name for feature in features_of(collected, given)] == list(given)
    moved = (*STORED[:3], "x[3] - 1e+09")
    assert [feature.name for feature in features_of(collected, moved)] == list(moved)
    assert features_of(collected, STORED[:3])[0] == Feature("x[0]")


def test_arguments_that_change_nothing_seen_are_allowed():
    known = features_of({"environment": "CartPole-v1", "arguments": {"sutton_barto_reward": True}},
                        STORED)  # fmt: skip
    assert known[0] == Feature("cart position", "m")
    lake = tuple(f"x={i}" for i in range(16))
    collected = {"environment": "FrozenLake-v1", "arguments": {"is_slippery": False}}
    assert features_of(collected, lake)[6] == Feature("row 1, column 2", absent="")
    # A lake of 2 x 8 has 16 places as well.
    collected["arguments"] = {"desc": ["SFFFFFFF", "FFFFFFFG"]}
    assert features_of(collected, lake)[6] == Feature("x=6", absent="")


def acted(name, steps, action=None, seed=0):
    """Act, and go through (observation by name, the environment itself)."""
    env = made(name)
    known, _ = features(name, env)
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    for _ in range(steps):
        taken = env.action_space.sample() if action is None else action
        observation, _, terminated, _, _ = env.step(taken)
        row = flatten(env.observation_space, np.asarray(observation)[None])[0]
        by_name = {feature.name: value for feature, value in zip(known, row, strict=True)}
        yield by_name, env.unwrapped
        if terminated:
            break
    env.close()


def test_the_lander_is_told_as_it_is():
    contacts = set()
    for seed in range(20):
        for seen, env in acted("LunarLander-v3", 400, 0, seed):
            assert seen["angle"] == np.float32(env.lander.angle)
            assert np.sign(seen["horizontal velocity"]) == np.sign(env.lander.linearVelocity.x)
            assert np.sign(seen["angular velocity"]) == np.sign(env.lander.angularVelocity)
            right, left = sorted(env.legs, key=lambda leg: -leg.position.x)
            if abs(env.lander.angle) < 1:  # or right is left
                assert seen["right leg touches"] == right.ground_contact
                assert seen["left leg touches"] == left.ground_contact
                contacts |= {(right.ground_contact, left.ground_contact)}
    assert {(True, False), (False, True)} <= contacts


def test_the_walker_is_told_as_it_is():
    for seen, env in acted("BipedalWalker-v3", 60):
        assert seen["hull angle"] == np.float32(env.hull.angle)
        assert np.sign(seen["forward velocity"]) == np.sign(env.hull.linearVelocity.x)
        assert seen["angle of the first hip"] == np.float32(env.joints[0].angle)
        assert seen["angle of the second hip"] == np.float32(env.joints[2].angle)
        assert seen["first leg touches"] == env.legs[1].ground_contact
        assert seen["second leg touches"] == env.legs[3].ground_contact
        rays = [env.lidar[i].p2[0] - env.lidar[i].p1[0] for i in (0, 9)]
        assert abs(rays[0]) < 1e-5 < 1 < rays[1]  # down, and ahead
        assert seen["lidar 0° from down"] == np.float32(env.lidar[0].fraction)


def test_classic_ones_are_told_as_they_are():
    for seen, env in acted("CartPole-v1", 30, 1):
        at, speed, angle, turning = env.state
        told = ("cart position", "cart velocity", "pole angle", "pole angular velocity")
        assert [seen[name] for name in told] == [np.float32(v) for v in (at, speed, angle, turning)]
    for seen, env in acted("Pendulum-v1", 30):
        angle, turning = env.state
        assert seen["cos(angle from upright)"] == np.float32(np.cos(angle))
        assert seen["angular velocity"] == np.float32(turning)
    for seen, env in acted("Acrobot-v1", 30):
        assert seen["sin(second link from first)"] == np.float32(np.sin(env.state[1]))


def test_grids_and_cards_are_told_as_they_are():
    for seen, env in acted("FrozenLake-v1", 20):
        row, column = divmod(env.s, 4)
        assert [name for name, is_so in seen.items() if is_so] == [f"row {row}, column {column}"]
    for seen, env in acted("Taxi-v4", 20):
        row, column, passenger, goal = env.decode(env.s)
        place = ("at red", "at green", "at yellow", "at blue", "in the taxi")[passenger]
        words = f"taxi at row {row}, column {column}, passenger {place} to "
        words += ("red", "green", "yellow", "blue")[goal]
        assert [name for name, is_so in seen.items() if is_so] == [words]
    env = made("Blackjack-v1")
    known, _ = features("Blackjack-v1", env)
    row = flatten(env.observation_space, (np.array([13]), np.array([1]), np.array([1])))[0]
    told = [feature.name for feature, is_so in zip(known, row, strict=True) if is_so]
    assert told == ["player has 13", "dealer shows an ace", "usable ace"]


def test_joints_of_mujoco_stand_in_their_order():
    """A joint that is moved shows under its name: the angle, and how fast."""
    pytest.importorskip("mujoco")
    for name, length in MUJOCO.items():
        if name == "Ant-v3":
            continue
        env = made(name).unwrapped
        known, stored = features(name, env)
        assert len(known) == len(stored) == length
        if not name.startswith(("Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker")):
            continue
        env.reset(seed=0)
        numbers = {feature.name: i for i, feature in enumerate(known)}
        for joint in map(env.model.joint, range(env.model.njnt)):
            if joint.type[0] != 3 or joint.name.startswith("root"):
                continue
            position, velocity = env.init_qpos.copy(), env.init_qvel.copy()
            position[joint.qposadr[0]], velocity[joint.dofadr[0]] = 0.625, 0.375
            env.set_state(position, velocity)
            seen, words = env._get_obs(), plain(joint.name)
            if f"angle of the {words}" not in numbers:  # the other leg is called left
                words = f"right {words}"
            assert seen[numbers[f"angle of the {words}"]] == 0.625, words
            assert seen[numbers[f"angular velocity of the {words}"]] == 0.375, words


def plain(joint):
    """Say the name of a joint in the files of MuJoCo in words."""
    joint = joint.removesuffix("_joint")
    if match := re.fullmatch(r"(hip|ankle)_(\d)", joint):
        return f"{match[1]} of leg {match[2]}"
    if match := re.fullmatch(r"(thigh|leg|foot)(_left)?", joint):
        return f"left {match[1]}" if match[2] else match[1]
    if match := re.fullmatch(r"([bf])(thigh|shin|foot)", joint):
        return f"{'back' if match[1] == 'b' else 'front'} {match[2]}"
    joint = re.sub(r"_([xyz])$", r" around \1", joint)
    return re.sub(r"(\d)$", r" \1", joint).replace("_", " ")
