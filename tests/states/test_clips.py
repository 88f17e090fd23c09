"""Clips of episodes, filmed with no screen."""

from __future__ import annotations

import numpy as np
import pytest

import pivec
from pivec.errors import PivecError, UsageError
from pivec.rollouts.environment import Environment
from pivec.states.clips import render_clips

pytest.importorskip("pygame")


def frames_of(path):
    from PIL import Image

    with Image.open(path) as film:
        return film.n_frames, film.size


def test_the_chosen_episodes_are_filmed(tmp_path):
    data = pivec.collect("CartPole-v1", "random:2", episodes=3, actions=True)
    paths = render_clips(data, Environment("CartPole-v1"), tmp_path, [0, 2])
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        "random-0/episode-0.gif",
        "random-0/episode-2.gif",
        "random-1/episode-0.gif",
        "random-1/episode-2.gif",
    ]
    frames, (width, _) = frames_of(paths[1])
    assert width == 320
    # 50 pictures a second, of which every second is kept, and the last.
    assert frames <= -(-(int(data.lengths[2]) - 1) // 2) + 1


def test_what_cannot_be_filmed_is_said(tmp_path):
    data = pivec.collect("CartPole-v1", "random", episodes=1)
    with pytest.raises(UsageError, match="--actions"):
        render_clips(data, Environment("CartPole-v1"), tmp_path)
    data = pivec.collect("CartPole-v1", "random", episodes=1, actions=True)
    with pytest.raises(UsageError, match="expected 0 to 0"):
        render_clips(data, Environment("CartPole-v1"), tmp_path, [1])
    with pytest.raises(UsageError, match="render_mode"):
        render_clips(data, Environment("x", factory=lambda: None), tmp_path)
    longer = pivec.collect(
        "CartPole-v1", {"still": lambda o: (o[:, 2] > 0).astype(int)}, episodes=1, actions=True
    )
    with pytest.raises(PivecError, match="does not repeat itself"):
        render_clips(longer, Environment("CartPole-v1", {"max_episode_steps": 5}), tmp_path)
    thin = pivec.collect("CartPole-v1", "random", episodes=2, actions=True,
                         max_states_per_policy=6)  # fmt: skip
    with pytest.raises(UsageError, match="thinned"):
        render_clips(thin, Environment("CartPole-v1"), tmp_path)
    assert np.isfinite(thin.states).all()
