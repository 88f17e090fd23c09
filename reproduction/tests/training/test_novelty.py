"""Novelty search: what a generation does, that it is exact, and that it escapes the pocket."""

from __future__ import annotations

import numpy as np
import pytest
from training_worlds import Broken, Follow, Nested, Switches

from pivec.characterizations import characterization
from pivec.errors import BadData, EnvironmentFailure, PivecError, UsageError
from reproduction.training.novelty import NoveltySearch, adam_step, ascent, centred_ranks

POINT = "pivec/DeceptivePoint-v0"
FEW = {"batch_episodes": 6, "batch_steps": 0, "behaviour_episodes": 2}


def searching(name="gaussian", env=POINT, seed=0, **settings):
    few = {"n_components": 2} if name == "supervector" else {}
    behaviour = None if name is None else characterization(name, **few)
    return NoveltySearch(env, behaviour, seed=seed, settings={**FEW, **settings})


def test_a_generation_equals_the_method_of_conti_step_by_step() -> None:
    search = searching("terminal-state", l2=0.1, sigma=0.5)
    search.advance()
    before = {name: value.copy() for name, value in search.arrays().items()}
    archive, number = search.archive.descriptions.arrays["ends"].copy(), 1

    rng = np.random.default_rng([0, 1 + number, 0xE5])
    gaps = np.linalg.norm(archive[before["latest"], None] - archive[None], axis=2)
    novelty = np.sort(gaps, axis=1)[:, :10].mean(axis=1)
    parent = int(rng.choice(3, p=novelty / novelty.sum()))
    centre = before["members"][parent, 0]
    noise = rng.standard_normal((3, len(centre)))
    moved = np.concatenate([centre + 0.5 * noise, centre - 0.5 * noise])
    data = search._play(moved, [f"generation {number}/0/{i}" for i in range(6)], 1)
    ends = np.stack([episode[-1] for episode in data.episodes()]).astype(float)
    gaps = np.linalg.norm(ends[:, None] - archive[None], axis=2)
    new = np.sort(gaps, axis=1)[:, :10].mean(axis=1)
    scores = (centred_ranks(data.returns) + centred_ranks(new)).reshape(2, 3) / 2
    learner = before["members"][parent].copy()
    gradient = 0.1 * centre - ascent(scores, noise)
    count = int(before["updates"][parent]) + 1
    adam_step(learner, gradient, count, 0.01, 1e-8 / np.sqrt(1 - 0.999**count))

    told = search.advance()
    after = search.arrays()
    assert (told.number, told.parent) == (number, parent)
    assert told.novelty == pytest.approx(novelty[parent])
    assert told.batch_return == pytest.approx(data.returns.mean())
    np.testing.assert_allclose(after["members"][parent], learner, rtol=1e-12)
    others = [i for i in range(3) if i != parent]
    np.testing.assert_array_equal(after["members"][others], before["members"][others])
    np.testing.assert_array_equal(after["entries"][-1], after["members"][parent, 0])
    assert len(search.archive) == 5


def test_es_looks_at_returns_only() -> None:
    search = searching(None)
    told = [search.advance() for _ in range(3)]
    assert search.archive is None
    assert [each.parent for each in told] == [0, 0, 0]
    assert np.isnan(told[0].novelty)
    assert told[-1].steps == 3 * (6 + 2) * 100
    best = np.maximum.accumulate([each.mean_return for each in told])
    assert [each.best_return for each in told] == best.tolist()


def test_the_weight_of_novelty_goes_from_es_to_novelty_alone() -> None:
    only_returns = searching("gaussian", novelty_weight=0.0, population=1)
    plain = searching(None)
    novel = searching("gaussian", novelty_weight=1.0, population=1)
    for search in (only_returns, plain, novel):
        search.advance()
    weights = [search.arrays()["members"][0, 0] for search in (only_returns, plain, novel)]
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.allclose(weights[0], weights[2])


def test_more_pairs_are_played_until_there_are_enough_steps() -> None:
    search = searching(None, batch_steps=1500)  # 6 episodes of 100 steps, then 9 more or 10
    assert search.advance().steps == 1600 + 2 * 100


@pytest.mark.bits
@pytest.mark.parametrize("name", [None, "supervector", "actions", "parameters"])
def test_a_search_that_was_stopped_goes_on_to_the_same_numbers(name) -> None:
    through = searching(name, seed=3)
    for _ in range(5):
        through.advance()
    first = searching(name, seed=3)
    for _ in range(2):
        first.advance()
    second = searching(name, seed=3)
    second.restore(first.arrays())
    for _ in range(3):
        second.advance()
    for key, value in through.arrays().items():
        np.testing.assert_array_equal(second.arrays()[key], value)


def test_policies_join_the_archive_without_noise_on_their_actions() -> None:
    quiet, noisy = (searching(behaviour_quiet=quiet, action_noise=0.1) for quiet in (True, False))
    gaps = [np.ptp(search.archive.data.returns.reshape(3, 2), axis=1) for search in (quiet, noisy)]
    assert (gaps[0] == 0).all()
    assert (gaps[1] > 0).all()


def test_a_search_cannot_go_on_where_policies_play_differently() -> None:
    search = searching()
    search.advance()
    arrays = search.arrays()
    arrays["history"][0, 3] += 0.1
    with pytest.raises(PivecError, match="play differently"):
        searching().restore(arrays)


def test_seeds_make_different_searches_and_the_same_one_again() -> None:
    one, same, other = (searching(seed=seed).advance() for seed in (0, 0, 1))
    assert one == same
    assert one.mean_return != other.mean_return


@pytest.mark.parametrize("env", [Follow, Nested, "CartPole-v1"])
def test_any_environment_and_any_observations(env) -> None:
    told = searching("gaussian", env).advance()
    assert np.isfinite(told.mean_return)
    assert told.steps > 0


class Unbounded(Follow):
    """Rewards without end."""

    def step(self, action):
        shown, _, *rest = super().step(action)
        return shown, float("inf"), *rest


def test_an_environment_that_fails_is_told() -> None:
    with pytest.raises(EnvironmentFailure, match="out of order"):
        searching("gaussian", Broken)
    with pytest.raises(BadData, match="finite"):
        searching("gaussian", Unbounded)
    with pytest.raises(UsageError, match="discrete actions from 0 or a box"):
        searching("gaussian", Switches)


def test_with_novelty_it_gets_out_of_the_pocket_and_without_it_does_not() -> None:
    # The paper's settings; seed 1 is out within its first generations.
    novel = NoveltySearch(POINT, characterization("terminal-state"), seed=1)
    plain = NoveltySearch(POINT, seed=1)
    for _ in range(20):
        novel.advance()
        plain.advance()
    assert novel.history[-1].best_return > 2
    assert 0.5 < plain.history[-1].best_return <= 0.7
