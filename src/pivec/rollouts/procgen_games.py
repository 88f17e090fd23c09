"""Games of Procgen as Gymnasium environments; the package knows the old Gym alone, and no seeds."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np

GAMES = ("bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball",
         "fruitbot", "heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder",
         "starpilot")  # fmt: skip


class Procgen(gymnasium.Env[Any, Any]):
    """One game; its levels, episode after episode, follow from the seed of the last reset."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(15)

    def __init__(self, env_name: str, render_mode: str | None = None, **options: Any) -> None:
        self.render_mode = render_mode
        self._options = {"env_name": env_name, "num": 1, "num_threads": 0} | options

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin a level that the seed draws: seeds are taken only when a game is made."""
        super().reset(seed=seed, options=options)
        make = importlib.import_module("procgen").ProcgenGym3Env
        self._game = make(rand_seed=int(self.np_random.integers(2**31)), **self._options)
        self._seen = self._game.observe()[1]["rgb"][0]
        return self._seen, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act; after the last step the game shows its next level already, which is not shown."""
        self._game.act(np.array([action], np.int32))
        [reward], images, [ended] = self._game.observe()
        self._seen = self._seen if ended else images["rgb"][0]
        return self._seen, float(reward), bool(ended), False, {}

    def render(self) -> Any:
        """Give what is seen."""
        return self._seen


for game in GAMES:
    if f"procgen-{game}-v0" not in gymnasium.registry:
        maker = f"{Procgen.__module__}:{Procgen.__name__}"
        gymnasium.register(f"procgen-{game}-v0", maker, kwargs={"env_name": game})
