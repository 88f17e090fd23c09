"""The paper's own environments, registered with Gymnasium when this module is imported.

novelty/world.py       `pivec/DeceptivePoint-v0`: a way up that ends in a pocket (novelty search)
trust_region/world.py  `pivec/DangerousPath-v0`: one right action a step, and mines (trust region)
gridworld/world.py     `pivec/GridWorld-v0`: walls, and now and then a random action (Figure 1)

All of pivec imports it where it meets such an id; elsewhere write ``import reproduction.worlds``, or
``gymnasium.make("reproduction.worlds:pivec/...")``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from reproduction.array_env import ArrayVectorEnv

# Name, module, class (with VectorEnv instead of Env for many), steps of an episode.
_ENVIRONMENTS = (
    ("DeceptivePoint-v0", "novelty", "DeceptivePoint", 100),
    ("DangerousPath-v0", "trust_region", "DangerousPath", 25),
    ("GridWorld-v0", "gridworld", "GridWorld", 500),
)
_LANE = np.zeros(1, np.intp)


class LaneEnv(gymnasium.Env[Any, Any]):
    """One environment as Gymnasium has it: a lane of its vectorised version.

    It has the arguments of the vectorised version. Episodes end when the world ends them; cutting
    them is `gymnasium.make`'s matter.
    """

    vectorised: ClassVar[type[ArrayVectorEnv]]
    metadata = ArrayVectorEnv.metadata

    def __init__(self, render_mode: str | None = None, **arguments: Any) -> None:
        self.render_mode = render_mode
        self.lanes = self.vectorised(1, render_mode=render_mode, **arguments)
        self.observation_space = self.lanes.single_observation_space
        self.action_space = self.lanes.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self.lanes.reset_lanes(_LANE, None if seed is None else [seed])
        return self.lanes.observations[0].copy(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Take an action."""
        rewards, terminated, _ = self.lanes.step_lanes(_LANE, np.asarray(action)[None])
        shown = self.lanes.observations[0].copy()
        return shown, float(rewards[0]), bool(terminated[0]), False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """Draw it, if made with ``render_mode="rgb_array"``."""
        return None if self.render_mode is None else self.lanes.picture(0)


def register() -> None:
    """Register the environments with Gymnasium, those that are not registered yet.

    Examples
    --------
    >>> register()
    >>> gymnasium.spec("pivec/DeceptivePoint-v0").max_episode_steps
    100
    """
    for name, module, kind, steps in _ENVIRONMENTS:
        if f"pivec/{name}" not in gymnasium.registry:
            gymnasium.register(
                f"pivec/{name}",
                entry_point=f"reproduction.{module}.world:{kind}Env",
                vector_entry_point=f"reproduction.{module}.world:{kind}VectorEnv",
                max_episode_steps=steps,
            )


register()
