"""Atari with the preprocessing of Stable-Baselines3 and CleanRL (``--atari``), and Procgen.

Frames are those of Stable-Baselines3's ``make_atari_env`` and ``VecFrameStack`` (Mnih et al. 2015;
Machado et al. 2018), channels first. An episode is a whole game, and rewards are the game's own.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pivec.errors import MissingExtra, UsageError

NOTHING, FIRE, AFTER_FIRE = 0, 1, 2  # actions that start a game

Frame = NDArray[np.uint8]
Outcome = tuple[Frame, float, bool, bool, dict[str, Any]]


class Atari(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Stacks of small grey frames, each the maximum of two, of every fourth step of a game.

    Parameters
    ----------
    env : gymnasium.Env
        A game of the Arcade Learning Environment.
    skip : int
        Number of steps of the game for which an action is repeated.
    stack : int
        Number of frames in an observation, the newest last.
    size : int
        Height and width of a frame.
    noops : int
        A game begins with 1 to this many no-op frames.
    restart : bool
        After a lost life continue as training does, which treats it as the end of an episode: one
        no-op step, FIRE, and older frames are dropped. Many policies never learn to press FIRE,
        and would wait for ever.
    padding : str
        Frames before the first: "zero" as in Stable-Baselines3, or "reset", the first frame, as in
        CleanRL.
    game_skip : int
        Number of frames per step of the game, with which it must have been made (``frameskip``).
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        skip: int = 4,
        stack: int = 4,
        size: int = 84,
        noops: int = 30,
        restart: bool = True,
        padding: Literal["zero", "reset"] = "zero",
        game_skip: int = 1,
    ) -> None:
        super().__init__(env)
        if not hasattr(env.unwrapped, "ale"):
            raise UsageError(f"expected an ale-py game, but {env} is not one")
        made = 1 if env.spec is None else env.spec.kwargs.get("frameskip", 1)
        if env.spec is not None and made != game_skip:
            raise UsageError(
                f"it repeats actions itself, and the game does so for {made} frames: make it with "
                f"frameskip={game_skip}, or choose with --atari --frame-skip"
            )
        if min(skip, stack, size, noops) < 1 or padding not in ("zero", "reset"):
            raise UsageError("expected numbers of at least 1, and padding zero or reset")
        try:
            self._cv2: Any = importlib.import_module("cv2")
        except ImportError as error:
            raise MissingExtra("--atari", "atari") from error
        self._skip, self._noops, self._restart, self._padding = skip, noops, restart, padding
        meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        self._fires = meanings[FIRE:AFTER_FIRE] == ["FIRE"] and len(meanings) > AFTER_FIRE
        self._lives, self._frames = 0, np.zeros((stack, size, size), np.uint8)
        self.observation_space = gymnasium.spaces.Box(0, 255, self._frames.shape, np.uint8)

    def reset(self, **arguments: Any) -> tuple[Frame, dict[str, Any]]:
        frame, info = self.env.reset(**arguments)
        for _ in range(self.env.unwrapped.np_random.integers(1, self._noops + 1)):
            frame, _, terminated, truncated, info = self.env.step(NOTHING)
            if terminated or truncated:
                frame, info = self.env.reset(**arguments)
        frame, *_ = self._fire(frame, 0.0, False, False, info)
        self._lives = self._count_lives()
        return self._begin(frame), info

    def step(self, action: Any) -> Outcome:
        frame, reward, terminated, truncated, info = self._repeat(action)
        lives = self._count_lives()
        lost, self._lives = 0 < lives < self._lives, lives
        if not (self._restart and lost) or terminated or truncated:
            return self._push(frame), reward, terminated, truncated, info
        outcome = self._repeat(NOTHING)
        frame, more, terminated, truncated, info = self._fire(*outcome)
        self._lives = self._count_lives()
        return self._begin(frame), reward + more, terminated, truncated, info

    def _count_lives(self) -> int:
        return int(self.env.unwrapped.ale.lives())  # type: ignore[attr-defined]

    def _fire(
        self, frame: Frame, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> Outcome:
        """Press FIRE and another button in games that wait for it."""
        for action in (FIRE, AFTER_FIRE) if self._fires else ():
            if not (terminated or truncated):
                frame, more, terminated, truncated, info = self._repeat(action)
                reward += more
        return frame, reward, terminated, truncated, info

    def _repeat(self, action: Any) -> Outcome:
        """Repeat an action; the frame is the maximum of the last two at each pixel."""
        total, before = 0.0, None
        for _ in range(self._skip):
            frame, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            last, before = before, frame
            if terminated or truncated:
                break
        frame = frame if last is None else np.maximum(last, frame)
        return frame, total, terminated, truncated, info

    def _begin(self, frame: Frame) -> Frame:
        """Forget earlier frames."""
        self._frames[:] = self._small(frame) if self._padding == "reset" else 0
        return self._push(frame)

    def _push(self, frame: Frame) -> Frame:
        self._frames[:-1] = self._frames[1:]
        self._frames[-1] = self._small(frame)
        return self._frames.copy()

    def _small(self, frame: Frame) -> Any:
        if frame.ndim == 3:
            frame = self._cv2.cvtColor(frame, self._cv2.COLOR_RGB2GRAY)
        size = self._frames.shape[:0:-1]
        return self._cv2.resize(frame, size, interpolation=self._cv2.INTER_AREA)


# ---- Procgen as Gymnasium environments; the package supports only the old Gym, without seeds ----


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
        """Begin a level drawn from the seed; Procgen takes seeds only when a game is made."""
        super().reset(seed=seed, options=options)
        make = importlib.import_module("procgen").ProcgenGym3Env
        self._game = make(rand_seed=int(self.np_random.integers(2**31)), **self._options)
        self._image = self._game.observe()[1]["rgb"][0]
        return self._image, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step; after the last step Procgen shows the next level already, which is hidden."""
        self._game.act(np.array([action], np.int32))
        [reward], images, [ended] = self._game.observe()
        self._image = self._image if ended else images["rgb"][0]
        return self._image, float(reward), bool(ended), False, {}

    def render(self) -> Any:
        return self._image


for game in GAMES:
    if f"procgen-{game}-v0" not in gymnasium.registry:
        maker = f"{Procgen.__module__}:{Procgen.__name__}"
        gymnasium.register(f"procgen-{game}-v0", maker, kwargs={"env_name": game})
