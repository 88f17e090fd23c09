"""Real planted differences: changed physics, sensors and actuators, and changed policies.

`sample` runs one policy in one environment; sizes are those of the physical parameter, and size 0
changes nothing. Families of environments that are not installed are left out.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from planted_families import Family, Rng

DEMO = Path(__file__).parents[1] / "src" / "pivec" / "demo_policies"
CARTPOLE = DEMO / "CartPole-v1" / "ppo-0" / "step_20224.safetensors"
PENDULUM = DEMO / "Pendulum-v1" / "ppo-0" / "step_409600.safetensors"


class Changed(gym.Wrapper):  # type: ignore[type-arg]
    """An environment with one fault."""

    def __init__(
        self,
        env: Any,
        delay: int = 0,  # steps until an action takes effect
        noise: float = 0.0,  # of the sensors, in standard deviations of the features
        skip: int = 0,  # further steps for which each action is repeated
        slips: float = 0.0,  # share of actions that are replaced by random ones
        damping: float = 0.0,  # share of Pendulum's angular velocity that is lost per step
        slippery: float = 0.0,  # share of the friction of all of MuJoCo's surfaces that is gone
        **attributes: float,  # of the unwrapped environment
    ) -> None:
        super().__init__(env)
        self.delay, self.noise, self.skip, self.slips = int(delay), noise, int(skip), slips
        self.damping = damping
        if slippery:
            env.unwrapped.model.geom_friction[:] *= 1 - slippery
        for name, value in attributes.items():
            setattr(env.unwrapped, name, value)

    def reset(self, **settings: Any) -> Any:
        observation, info = self.env.reset(**settings)
        self.waiting: deque[Any] = deque()
        return self._seen(observation), info

    def step(self, action: Any) -> Any:
        rng = self.env.unwrapped.np_random
        if self.slips and rng.random() < self.slips:
            self.env.action_space.seed(int(rng.integers(2**31)))
            action = self.env.action_space.sample()
        self.waiting.append(action)
        if len(self.waiting) > self.delay + 1:
            self.waiting.popleft()
        total = 0.0
        for _ in range(self.skip + 1):
            observation, reward, ended, cut, info = self.env.step(self.waiting[0])
            total += float(reward)
            if self.damping:
                state = self.env.unwrapped.state
                state[1] *= 1 - self.damping
                observation[2] = state[1]
            if ended or cut:
                break
        return self._seen(observation), total, ended, cut, info

    def _seen(self, observation: Any) -> Any:
        if not self.noise:
            return observation
        scale = {4: (1.0, 0.5, 0.1, 0.5), 3: (0.7, 0.7, 3.0)}[len(observation)]
        draw = self.env.unwrapped.np_random.normal(size=len(observation))
        return (observation + self.noise * np.array(scale) * draw).astype(np.float32)


def make(env_id: str, changes: dict[str, float], arguments: dict[str, Any]) -> Any:
    return Changed(gym.make(env_id, **arguments), **changes)


def rounded(policy: Any, bits: int) -> Any:
    """Round weights to so many bits per layer, symmetrically about zero."""

    def coarse(part: np.ndarray) -> np.ndarray:
        step = np.abs(part).max() / (2 ** (bits - 1) - 1)
        return (np.round(part / step) * step).astype(part.dtype)

    return replace(policy, layers=tuple(tuple(map(coarse, layer)) for layer in policy.layers))


def sample(
    size: float,
    rng: Rng,
    n: int,
    side: int,
    *,
    env_id: str = "Pendulum-v1",
    policy: Path | str = "random",
    change: str = "",  # argument of `Changed`, or of the environment (from, per size)
    argument: tuple[str, float, float] | None = None,  # name, value at size 0 and slope
    attribute: tuple[str, float, float] | None = None,
    bits: bool = False,  # whether size is a number of bits
) -> Any:
    """Run one side; return `VisitedStates` of one policy called a or b."""
    import pivec
    from pivec.policies import name_policies

    size = size * side
    changes = {change: size} if change else {}
    if attribute is not None:
        changes[attribute[0]] = attribute[1] + attribute[2] * size
    arguments = {} if argument is None else {argument[0]: argument[1] + argument[2] * size}
    acting: Any = policy
    if isinstance(policy, Path):
        acting = name_policies(policy)[0].policy
        acting = rounded(acting, int(size)) if bits and size else acting
    seed = int(rng.integers(2**31))
    make_env = partial(make, env_id, changes, arguments)
    return pivec.collect(make_env, {"ab"[side]: acting}, n, seed, actions=True, n_envs=1)


def _real() -> list[Family]:
    cartpole = {"env_id": "CartPole-v1", "policy": CARTPOLE}
    families = [
        ("gravity", "Pendulum, random actions, gravity 9.81 − size", (0, 1.0, 3.0, 6.81),
         {"argument": ("g", 9.81, -1.0)}),
        ("mass", "Pendulum, random actions, mass 1 + size", (0, 0.1, 0.5, 1.0),
         {"attribute": ("m", 1.0, 1.0)}),
        ("friction", "Pendulum, random actions, velocity lost per step", (0, 0.002, 0.01),
         {"change": "damping"}),
        ("cart-mass", "CartPole, mass of the cart 1 + size", (0, 0.5, 2.0),
         cartpole | {"attribute": ("total_mass", 1.1, 1.0)}),
        ("delay", "CartPole, actions delayed by so many steps", (0, 1, 2),
         cartpole | {"change": "delay"}),
        ("noise", "CartPole, sensor noise", (0, 0.01, 0.1), cartpole | {"change": "noise"}),
        ("skip", "Pendulum, demo policy, actions repeated", (0, 1, 3),
         {"policy": PENDULUM, "change": "skip"}),
        ("slips", "CartPole, share of random actions", (0, 0.01, 0.1),
         cartpole | {"change": "slips"}),
        ("bits", "CartPole, weights rounded to so many bits", (0, 8, 4), cartpole | {"bits": True}),
    ]  # fmt: skip
    if importlib.util.find_spec("Box2D"):
        families.append(
            ("lander-gravity", "LunarLander, random actions, gravity −10 + size", (0, 1.0, 4.0),
             {"env_id": "LunarLander-v3", "argument": ("gravity", -10.0, 1.0)})
        )  # fmt: skip
    if importlib.util.find_spec("mujoco"):
        families.append(
            ("hopper-friction", "Hopper, random actions, friction × (1 − size)", (0, 0.5, 0.9),
             {"env_id": "Hopper-v5", "change": "slippery"})
        )  # fmt: skip
    return [
        Family(name, "real", planted, partial(sample, **settings), ladder=sizes)
        for name, planted, sizes, settings in families
    ]


WORLDS: dict[str, Family] = {family.name: family for family in _real()}
