"""How policies are played, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Features = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True)
class PlaySettings:
    """How policies are played.

    Attributes
    ----------
    episodes : int
        Episodes for each policy.
    seed : int
        Everything random follows from it.
    deterministic : bool
        Take the mode of the policy's distribution instead of sampling.
    actions : bool
        Keep the actions too.
    features : callable or None
        Turns a batch of observations into rows of numbers; None flattens them.
    n_envs : int or None
        Environments side by side; changes speed and memory, never the result.
    max_steps : int or None
        Cut episodes after that many steps (counted as truncated).
    backend : str
        ``gymnasium`` or ``envpool``.
    max_states : int or None
        Thin a policy's episodes to at most that many states; see `pivec.rollouts.episodes`.
    threads : int or None
        Threads of EnvPool; all cores if None. A matter of speed.
    """

    episodes: int = 100
    seed: int = 0
    deterministic: bool = False
    actions: bool = False
    features: Features | None = None
    n_envs: int | None = None
    max_steps: int | None = None
    backend: str = "gymnasium"
    max_states: int | None = None
    threads: int | None = None
