"""What is filmed: an episode from its seed. Nothing heavy, since processes that draw import it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import PivecError, UsageError


class CannotReplay(PivecError):
    """An episode cannot be played again, or not as it was; one sentence says why."""


@dataclass(frozen=True)
class Take:
    """An episode from its seed: what was done, and all the states that came of it.

    Attributes
    ----------
    label, fingerprint : str
        Of the policy.
    seed : int
        Of the episode.
    actions : array
        A row a step.
    states : (n_steps + 1, n_features) float32 array
        As a store keeps them, but not thinned.
    episode : int or None
        Its number in the store; None of a seed that the policy did not play there.
    seated : tuple or None
        The policy, packed, and whether it takes its likeliest actions, for games of several agents.
    """

    label: str
    fingerprint: str
    seed: int
    actions: NDArray[Any]
    states: NDArray[np.float32]
    episode: int | None = None
    seated: tuple[Any, bool] | None = None

    @property
    def last(self) -> int:
        """The last step, in which the terminal state is seen."""
        return len(self.actions)

    def until(self, step: int) -> Take:
        """Cut off what comes after a step."""
        return replace(self, actions=self.actions[:step], states=self.states[: step + 1])


@dataclass(frozen=True)
class Scene:
    """A part of an episode, step ``first`` to ``last``, and a caption for each of its steps."""

    take: Take
    first: int
    last: int
    captions: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last <= self.take.last:
            raise UsageError(
                f"a scene must be within the steps 0 to {self.take.last} of its episode, but is "
                f"{self.first} to {self.last}"
            )
        n = self.last - self.first + 1
        if self.captions is not None and len(self.captions) != n:
            raise UsageError(f"a scene of {n} steps needs {n} captions, not {len(self.captions)}")

    @property
    def ends(self) -> bool:
        """Whether the episode is over then."""
        return self.last == self.take.last
