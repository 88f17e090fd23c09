"""Environments side by side, compared with the same ones alone."""

from __future__ import annotations

import gymnasium
import numpy as np


def play_beside_singles(name, arguments, kind, choose, steps):
    """Step four lanes and four single environments alike; all must agree bit for bit.

    ``choose`` gives the actions for (lanes, what they show). Returns, for each way to end, how many
    episodes ended so: terminated, truncated.
    """
    envs = gymnasium.make_vec(name, num_envs=4, **arguments)
    assert isinstance(envs.unwrapped, kind)
    singles = [gymnasium.make(name, **arguments) for _ in range(4)]
    shown, _ = envs.reset(seed=3)
    assert np.array_equal(shown, [env.reset(seed=3 + i)[0] for i, env in enumerate(singles)])
    over = np.zeros(4, dtype=bool)
    ends = np.zeros(2, dtype=int)
    for _ in range(steps):
        actions = choose(envs.unwrapped, shown)
        shown, rewards, terminated, truncated, _ = envs.step(actions)
        for i, env in enumerate(singles):
            expected = (env.reset()[0], 0.0, False, False) if over[i] else env.step(actions[i])[:4]
            assert shown[i].dtype == expected[0].dtype
            assert np.array_equal(shown[i], expected[0])
            assert (rewards[i], terminated[i], truncated[i]) == expected[1:]
        over = terminated | truncated
        ends += terminated.sum(), truncated.sum()
    return ends
