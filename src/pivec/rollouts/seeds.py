"""One seed for each (seed, policy, episode): an episode is the same however it is scheduled."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

# Distinguishes the stream of actions from the environment's own stream of the same seed.
_ACTIONS = 0x616374


def episode_seeds(seed: int, identity: str, episodes: int) -> NDArray[np.int64]:
    """Seeds of a policy's episodes; the first ones do not depend on how many are asked for.

    They follow from what the policy is (`PolicyInfo.identity`), so that neither other policies
    nor another label change anything. Below 2**31, which every environment accepts.

    Examples
    --------
    >>> bool((episode_seeds(0, "run/10", 2) == episode_seeds(0, "run/10", 5)[:2]).all())
    True
    """
    words = np.frombuffer(hashlib.sha256(identity.encode()).digest()[:16], dtype="<u4")
    sequence = np.random.SeedSequence([seed, *(int(word) for word in words)])
    return (sequence.generate_state(episodes) >> 1).astype(np.int64)


def action_stream(episode_seed: int) -> np.random.Generator:
    """Return the random stream from which the actions of one episode are drawn."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([episode_seed, _ACTIONS])))
