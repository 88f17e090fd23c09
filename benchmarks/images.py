"""Actions of a policy of Stable-Baselines3 that looks at Atari frames, against its own predict.

Both on one thread. Ours gives a row the same bits whatever its company, without torch.
"""

from __future__ import annotations

import io
import time

import gymnasium
import numpy as np

from measure import table, write_section
from pivec.parallel import single_threaded_blas
from pivec.policies.formats.sb3 import read_sb3


class Frames(gymnasium.Env):
    """Never played: it tells the spaces of an Atari game as policies see it."""

    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)


def milliseconds(call, tries=15):
    """The least processor time of some tries: others may be using the machine."""
    times = []
    for _ in range(tries):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times) * 1e3


def main() -> None:
    import torch
    from stable_baselines3 import DQN

    torch.set_num_threads(1)
    model = DQN("CnnPolicy", Frames(), buffer_size=1, device="cpu")
    buffer = io.BytesIO()
    model.save(buffer)
    policy = read_sb3(buffer.getvalue())[0].bind(Frames.observation_space, Frames.action_space)
    rng, rows = np.random.default_rng(0), []
    for n in (1, 8, 64):
        frames = rng.integers(0, 256, (n, 4, 84, 84), np.uint8)
        with single_threaded_blas():
            ours = milliseconds(lambda f=frames: policy.act(f, rng, deterministic=True))
            theirs = milliseconds(lambda f=frames: model.predict(f, deterministic=True))
        rows.append([n, ours, theirs, theirs / ours])
    text = "Actions for so many stacks of four frames of 84 x 84, NatureCNN, one thread:\n\n"
    text += table(["frames", "pivec, ms", "SB3's predict, ms", "ratio"], rows)
    write_section("images", text)
    print(text)


if __name__ == "__main__":
    main()
