"""Episodes out of lanes that step together: nothing is lost, mixed up or shared."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.rollouts import EpisodeRecorder


def played(rng, n_lanes, n_steps, p_over=0.01, **options):
    """Random lanes, through a gatherer and through plain lists."""
    gatherer = EpisodeRecorder(n_lanes, actions=True, **options)
    now = rng.normal(size=(n_lanes, 2)).astype(np.float32)
    gatherer.start(now)
    running = [([row], [], 0.0) for row in now.copy()]
    got, wanted = [], []
    for _ in range(n_steps):
        actions, rewards = rng.integers(5, size=n_lanes), rng.normal(size=n_lanes)
        new = rng.normal(size=(n_lanes, 2)).astype(np.float32)
        over = rng.random(n_lanes) < p_over
        terminal = {int(i): rng.normal(size=2).astype(np.float32) for i in np.flatnonzero(over)}
        buffer = new.copy()
        got += gatherer.step(buffer, rewards, over, np.zeros(n_lanes, bool), actions, terminal)
        buffer[:] = np.nan  # what came in was copied
        for i in range(n_lanes):
            states, moves, total = running[i]
            moves.append(actions[i])
            total += rewards[i]
            if over[i]:
                wanted.append((i, np.array([*states, terminal[i]]), np.array(moves), total))
                running[i] = ([new[i]], [], 0.0)
            else:
                running[i] = ([*states, new[i]], moves, total)
        if over.any():
            gatherer.start(new, over)
    return gatherer, got, wanted, running


@pytest.mark.parametrize("p_over", [0.2, 0.005])
def test_episodes_are_those_of_plain_lists(p_over):
    # 1 500 steps: room has to be made several times, and more of it for long episodes.
    _, got, wanted, _ = played(np.random.default_rng(0), 3, 1500, p_over)
    assert len(got) == len(wanted) > 5
    for (lane, episode), (i, states, moves, total) in zip(got, wanted, strict=True):
        assert lane == i
        assert np.array_equal(episode.states, states)
        assert np.array_equal(episode.actions, moves)
        assert episode.total_reward == pytest.approx(total)
        assert (episode.terminated, episode.truncated) == (True, False)


def test_what_is_running_can_be_cut():
    gatherer, _, _, running = played(np.random.default_rng(1), 2, 40, 0.0)
    [(first, episode)] = gatherer.cut([True, False])
    assert first == 0
    assert np.array_equal(episode.states, running[0][0])
    assert episode.truncated
    assert not gatherer.active[0]
    assert [lane for lane, _ in gatherer.cut()] == [1]
    assert gatherer.cut() == []


def test_an_episode_without_a_step_is_none():
    gatherer = EpisodeRecorder(1)
    gatherer.start([[1.0]])
    assert gatherer.cut() == []


def test_pieces_of_a_task_without_an_end():
    gatherer = EpisodeRecorder(1, cut_after=3)
    gatherer.start([[0.0]])
    pieces = [
        episode
        for t in range(1, 8)
        for _, episode in gatherer.step([[float(t)]], [1.0], [False], [False])
    ]
    assert [piece.states.ravel().tolist() for piece in pieces] == [[0, 1, 2, 3], [3, 4, 5, 6]]
    assert all(piece.truncated and piece.total_reward == 3.0 for piece in pieces)


def test_lanes_that_were_not_started_give_nothing():
    gatherer = EpisodeRecorder(2)
    gatherer.start(np.zeros((2, 1)), [True, False], seeds=[7, 8])
    [(lane, episode)] = gatherer.step(np.ones((2, 1)), [0, 0], [True, True], [False, False])
    assert (lane, episode.seed) == (0, 7)


@pytest.mark.bits
@pytest.mark.parametrize("cut_after", [None, 7])
def test_many_steps_at_once_are_the_same_as_one_by_one(cut_after):
    rng = np.random.default_rng(2)
    rows, rewards = rng.normal(size=(700, 2, 3)).astype(np.float32), rng.normal(size=(700, 2))
    actions = rng.integers(4, size=(700, 2))
    one, many = (EpisodeRecorder(2, actions=True, cut_after=cut_after) for _ in range(2))
    got = []
    for gatherer in (one, many):
        gatherer.start(np.zeros((2, 3)))
    alone = [e for r, w, a in zip(rows, rewards, actions, strict=True)
             for e in one.step(r, w, None, None, a)]  # fmt: skip
    for begin, end in ((0, 5), (5, 400), (400, 700)):
        got += many.extend(rows[begin:end], rewards[begin:end], actions[begin:end])
    alone, got = alone + one.cut(), got + many.cut()
    assert len(got) == len(alone) == (2 if cut_after is None else 200)
    for (a, x), (b, y) in zip(got, alone, strict=True):
        assert a == b
        assert np.array_equal(x.states, y.states)
        assert np.array_equal(x.actions, y.actions)
        assert x.total_reward == pytest.approx(y.total_reward)
