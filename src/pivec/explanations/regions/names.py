"""Names of features with their units: those of the usual Gymnasium environments, as they are.

Held against Gymnasium's code, and not only its documentation: the first leg of LunarLander is the
right one, and its velocities are scaled, so they have no unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any


@dataclass(frozen=True)
class Feature:
    """What a number of a state means.

    Of a flag, which is 0 or 1, ``name`` says what is so where it is 1, and ``absent`` where it is
    0, empty where that is not worth a word; of other numbers ``absent`` is None.

    Examples
    --------
    >>> Feature("pole angle", "rad").title
    'pole angle (rad)'
    """

    name: str
    unit: str = ""
    absent: str | None = None

    @property
    def is_flag(self) -> bool:
        """Whether it is 0 or 1."""
        return self.absent is not None

    @property
    def limits(self) -> tuple[float, float]:
        """From where to where it can be, as far as its name tells."""
        return (-1.0, 1.0) if self.name.startswith(("cos(", "sin(")) else (-math.inf, math.inf)

    @property
    def title(self) -> str:
        """The name with the unit, for axes and columns."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


def features_of(collected: Mapping[str, Any], names: Sequence[str]) -> tuple[Feature, ...]:
    """Give the features of a state their meaning, where it is known for sure.

    Parameters
    ----------
    collected : mapping
        How the states were collected, as `Space.collected` holds it.
    names : sequence of str
        Names of the features, as they are stored.

    Returns
    -------
    tuple of Feature
        From the table below, if the environment is in it, nothing was put between it and the
        states, and the stored names are those that pivec gives by itself. Otherwise the stored
        names; ``x=3``, as pivec calls one of several choices, is a flag.

    Examples
    --------
    >>> features_of({"environment": "CartPole-v1"}, ["x[0]", "x[1]", "x[2]", "x[3]"])[2]
    Feature(name='pole angle', unit='rad', absent=None)
    >>> features_of({"environment": "MyPole-v0"}, ["x[0]", "mode=1"])
    (Feature(name='x[0]', unit='', absent=None), Feature(name='mode=1', unit='', absent=''))
    """
    arguments = collected.get("arguments") or {}
    plain = not collected.get("wrappers") and not collected.get("features")
    if plain and isinstance(arguments, Mapping) and all(map(_HARMLESS.fullmatch, arguments)):
        environment = str(collected.get("environment", ""))
        for pattern, make in _TABLE.items():
            if re.fullmatch(pattern, environment):
                for prefix, features in make():
                    if tuple(names) == _stored(prefix, features):
                        return features
    return tuple(Feature(name, absent="" if _CHOICE.search(name) else None) for name in names)


_Known = tuple[str, tuple[Feature, ...]]  # how pivec calls them (below), and what they are
_CHOICE = re.compile(r"=-?\d+$")
# Arguments that change what happens and what it is worth, but not what is observed.
_HARMLESS = re.compile(
    r"hardcore|continuous|gravity|g|enable_wind|(wind|turbulence)_power|goal_velocity|is_slippery"
    r"|success_rate|map_name|is_rainy|fickle_passenger|natural|sab|sutton_barto_reward"
    r"|(reward|control|forward|healthy|ctrl|contact)\w*_(schedule|weight|reward|range)"
    r"|terminate_when_unhealthy|reset_noise_scale|frame_skip|max_episode_steps|render_mode"
)


def _stored(prefix: str, features: Sequence[Feature]) -> tuple[str, ...]:
    """Names that `pivec.rollouts.spaces.feature_names` gives: of a box, a choice, or Blackjack."""
    if prefix == "box":
        return tuple(f"x[{i}]" for i in range(len(features)))
    if prefix == "choice":
        return tuple(f"x={i}" for i in range(len(features)))
    return tuple(f"{k}={i}" for k, n in enumerate((32, 11, 2)) for i in range(n))


def _box(*texts: str) -> Callable[[], Iterable[_Known]]:
    """Read alternatives: features between bars, units in brackets, flags with their absence."""

    def read() -> Iterable[_Known]:
        for text in texts:
            yield "box", tuple(_feature(part.strip()) for part in text.split("|"))

    return read


def _feature(text: str) -> Feature:
    present, flag, absent = text.partition(" ~ ")
    if flag:
        return Feature(present, absent=absent)
    name, _, unit = text.partition(" (")
    return Feature(name, unit.removesuffix(")"))


def _joined(parts: Iterable[str]) -> str:
    return " | ".join(parts)


def _joints(names: str, pattern: str) -> str:
    """Apply a pattern to names with commas between."""
    return _joined(pattern.format(name) for name in names.split(", "))


def _choices(names: Iterable[str]) -> tuple[Feature, ...]:
    return tuple(Feature(name, absent="") for name in names)


def _grid(rows: int, columns: int) -> list[str]:
    return [f"row {row}, column {column}" for row, column in product(range(rows), range(columns))]


def _lake() -> Iterable[_Known]:
    # Other shapes come with desc=, an argument that is not among the harmless ones.
    for size in (4, 8):
        yield "choice", _choices(_grid(size, size))


def _cliff() -> Iterable[_Known]:
    yield "choice", _choices(_grid(4, 12))


def _taxi() -> Iterable[_Known]:
    places = ("at red", "at green", "at yellow", "at blue", "in the taxi")
    goals = ("red", "green", "yellow", "blue")
    states = product(_grid(5, 5), places, goals)
    yield "choice", _choices(f"taxi at {at}, passenger {is_} to {to}" for at, is_, to in states)


def _blackjack() -> Iterable[_Known]:
    sums = [f"player has {i}" for i in range(32)]
    cards = ["dealer shows nothing", "dealer shows an ace"]
    cards += [f"dealer shows {i}" for i in range(2, 11)]
    yield "tuple", _choices([*sums, *cards, "no usable ace", "usable ace"])


def _legs(number: str) -> str:
    return (
        f"angle of the {number} hip (rad) | speed of the {number} hip | angle of the {number} knee "
        f"| speed of the {number} knee | {number} leg touches ~ {number} leg off the ground"
    )


_ANGLE, _SPEED = "angle of the {} (rad)", "angular velocity of the {} (rad/s)"
# Of a body that moves freely: where it is and its quaternion, then how it moves.
_FREE = _joined(["height (m)", *(f"orientation {axis}" for axis in "wxyz")])
_FREELY = _joined(
    [f"velocity along {axis} (m/s)" for axis in "xyz"]
    + [f"angular velocity around {axis} (rad/s)" for axis in "xyz"]
)
_CHEETAH = "back thigh, back shin, back foot, front thigh, front shin, front foot"
_WALKER = "right thigh, right leg, right foot, left thigh, left leg, left foot"
_SHOULDER = "shoulder pan, shoulder lift, upper arm roll, elbow, forearm roll, wrist, wrist roll"
_ANT = ", ".join(f"{joint} of leg {leg}" for leg in range(1, 5) for joint in ("hip", "ankle"))
_HUMANOID = (
    "abdomen around z, abdomen around y, abdomen around x, right hip around x, right hip around z, "
    "right hip around y, right knee, left hip around x, left hip around z, left hip around y, "
    "left knee, right shoulder 1, right shoulder 2, right elbow, left shoulder 1, left shoulder 2, "
    "left elbow"
)
_ANT_BODIES = "torso, " + ", ".join(f"{part} {leg}" for leg in range(1, 5) for part in
                                    ("body of leg", "thigh of leg", "shin of leg"))  # fmt: skip
_HUMANOID_BODIES = (
    "torso, lower waist, pelvis, right thigh, right shin, right foot, left thigh, left shin, "
    "left foot, right upper arm, right lower arm, left upper arm, left lower arm"
)


def _moving(place: str, joints: str, motion: str) -> str:
    """Where a body is and the angles of its joints, then how it moves and its joints turn."""
    return _joined([place, _joints(joints, _ANGLE), motion, _joints(joints, _SPEED)])


def _of_bodies(quantity: str, size: int, bodies: str) -> str:
    # Which of the numbers is which, MuJoCo and Gymnasium tell differently, so they are counted.
    return _joined(f"{quantity} {i} of the {b}" for b in bodies.split(", ") for i in range(size))


def _humanoid(bodies: str, joints: str) -> str:
    return _joined(
        [
            _moving(_FREE, _HUMANOID, _FREELY),
            _of_bodies("inertia", 10, bodies),
            _of_bodies("velocity", 6, bodies),
            _joints(joints, "motor force of the {}"),
            _of_bodies("outer force", 6, bodies),
        ]
    )


_ANT_MOTION = _moving(_FREE, _ANT, _FREELY)
_ROOT = ", ".join(f"root {i}" for i in range(6))
_TWO_POLES = (
    "cart position (m) | sin(first pole from upright) | sin(second pole from the first) "
    "| cos(first pole from upright) | cos(second pole from the first) | cart velocity (m/s) "
    "| angular velocity of the first pole (rad/s) | angular velocity of the second pole (rad/s) "
    "| constraint force on the cart"
)
_REACHER = (
    "cos(first arm) | cos(second arm) | sin(first arm) | sin(second arm) | target x (m) "
    "| target y (m) | angular velocity of the first arm (rad/s) "
    "| angular velocity of the second arm (rad/s) | fingertip x from target (m) "
    "| fingertip y from target (m)"
)
_TORSO = "height (m) | angle of the torso (rad)"
_TORSO_SPEED = "forward velocity (m/s) | vertical velocity (m/s) | " + _SPEED.format("torso")

_TABLE: dict[str, Callable[[], Iterable[_Known]]] = {
    r"CartPole-v[01]": _box(
        "cart position (m) | cart velocity (m/s) | pole angle (rad) | pole angular velocity (rad/s)"
    ),
    r"MountainCar(Continuous)?-v0": _box("position | velocity"),
    r"Acrobot-v1": _box(
        "cos(first link from hanging) | sin(first link from hanging) | cos(second link from first) "
        "| sin(second link from first) | angular velocity of the first link (rad/s) "
        "| angular velocity of the second link (rad/s)"
    ),
    r"Pendulum-v[01]": _box(
        "cos(angle from upright) | sin(angle from upright) | angular velocity (rad/s)"
    ),
    r"LunarLander(Continuous)?-v[23]": _box(
        "horizontal position | height | horizontal velocity | vertical velocity | angle (rad) "
        "| angular velocity | right leg touches ~ right leg off the ground "
        "| left leg touches ~ left leg off the ground"
    ),
    r"BipedalWalker(Hardcore)?-v[23]": _box(
        _joined(
            ["hull angle (rad)", "hull angular velocity", "forward velocity", "vertical velocity"]
            + [_legs("first"), _legs("second")]
            + [f"lidar {8.6 * i:.0f}° from down" for i in range(10)]
        )
    ),
    r"InvertedPendulum-v[245]": _box(
        "cart position (m) | pole angle (rad) | cart velocity (m/s) | pole angular velocity (rad/s)"
    ),
    r"InvertedDoublePendulum-v[245]": _box(
        _TWO_POLES,
        f"{_TWO_POLES} | constraint force on the first pole | constraint force on the second pole",
    ),
    r"Reacher-v[245]": _box(_REACHER, f"{_REACHER} | fingertip z from target (m)"),
    r"Pusher-v[245]": _box(
        _joined(
            [_joints(_SHOULDER, _ANGLE), _joints(_SHOULDER, _SPEED)]
            + [f"{what} {axis} (m)" for what in ("fingertip", "object", "goal") for axis in "xyz"]
        )
    ),
    r"Swimmer-v[2345]": _box(
        _moving(
            _ANGLE.format("body"),
            "first joint, second joint",
            "velocity along x (m/s) | velocity along y (m/s) | " + _SPEED.format("body"),
        )
    ),
    r"Hopper-v[2345]": _box(_moving(_TORSO, "thigh, leg, foot", _TORSO_SPEED)),
    r"Walker2d-v[2345]": _box(_moving(_TORSO, _WALKER, _TORSO_SPEED)),
    r"HalfCheetah-v[2345]": _box(
        _moving("height from the start (m) | " + _ANGLE.format("torso"), _CHEETAH, _TORSO_SPEED)
    ),
    r"Ant-v[2345]": _box(
        _ANT_MOTION,
        _joined([_ANT_MOTION, _of_bodies("outer force", 6, _ANT_BODIES)]),
        _joined([_ANT_MOTION, _of_bodies("outer force", 6, f"world, {_ANT_BODIES}")]),
    ),
    r"Humanoid(Standup)?-v[2345]": _box(
        _humanoid(_HUMANOID_BODIES, _HUMANOID),
        _humanoid(f"world, {_HUMANOID_BODIES}", f"{_ROOT}, {_HUMANOID}"),
    ),
    r"FrozenLake(8x8)?-v[01]": _lake,
    r"CliffWalking(Slippery)?-v[01]": _cliff,
    r"Taxi-v[34]": _taxi,
    r"Blackjack-v[01]": _blackjack,
}
