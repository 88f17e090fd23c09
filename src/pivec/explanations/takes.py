"""What is filmed: an episode from its seed. Nothing heavy, since processes that draw import it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import PivecError


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
    """

    label: str
    fingerprint: str
    seed: int
    actions: NDArray[Any]
    states: NDArray[np.float32]
    episode: int | None = None

    @property
    def last(self) -> int:
        """The last step, in which the terminal state is seen."""
        return len(self.actions)

    def until(self, step: int) -> Take:
        """Cut off what comes after a step."""
        return replace(self, actions=self.actions[:step], states=self.states[: step + 1])
