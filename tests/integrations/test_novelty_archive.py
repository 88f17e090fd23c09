"""The archive: novelty against a slow formula, refitting, behaviours by name."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations import characterization
from pivec.errors import UsageError
from pivec.integrations import BehaviourArchive, behaviour_named, behaviour_text


@pytest.mark.parametrize("name", ["terminal-state", "gaussian", "supervector", "returns"])
def test_novelty_is_the_mean_distance_to_the_nearest(walks, name) -> None:
    few = {"n_components": 2} if name == "supervector" else {}
    archive = BehaviourArchive(characterization(name, **few), neighbours=3)
    known, new = walks.select([0, 1, 2, 3]), walks.select([4, 5])
    archive.add(known)
    fresh = characterization(name, **few).fit(known)
    for policy, novelty in enumerate(archive.novelty(new)):
        distances = sorted(fresh.distances(new, known)[policy])
        assert novelty == pytest.approx(sum(distances[:3]) / 3)


def test_a_small_archive_counts_all_and_members_count_themselves(walks) -> None:
    archive = BehaviourArchive(characterization("terminal-state"), neighbours=10)
    archive.add(walks.select([0, 1, 2]))
    whole = characterization("terminal-state").fit(walks).distances(walks)
    np.testing.assert_allclose(archive.novelty(walks.select([5])), whole[5, :3].mean())
    np.testing.assert_allclose(archive.novelty([2, 0]), whole[[2, 0], :3].mean(axis=1))


def test_the_background_model_is_fitted_anew_and_every_entry_described_anew(walks) -> None:
    archive = BehaviourArchive(characterization("supervector", n_components=2))
    archive.add(walks.select([0, 1]))
    before = archive.descriptions.vectors.copy()
    archive.add(walks.select([5]))
    again = characterization("supervector", n_components=2).fit(walks.select([0, 1, 5]))
    np.testing.assert_array_equal(
        archive.descriptions.vectors, again.describe(walks.select([0, 1, 5])).vectors
    )
    assert not np.allclose(archive.descriptions.vectors[:2], before)
    assert len(archive) == 3


def test_mistakes_are_told(walks) -> None:
    with pytest.raises(UsageError, match="empty"):
        BehaviourArchive(characterization("gaussian")).novelty(walks)
    with pytest.raises(UsageError, match="neighbours must be a whole number of at least 1"):
        BehaviourArchive(characterization("gaussian"), neighbours=0)


def test_behaviours_by_name_take_defaults_arguments_and_the_seed() -> None:
    defaults = {"supervector": {"n_components": 4, "relevance": 8.0}}
    made = behaviour_named('supervector{"n_components": 7}', defaults, seed=3)
    assert (made.n_components, made.relevance, made.random_state) == (7, 8.0, 3)
    assert behaviour_named('supervector{"random_state": 5}', {}, seed=3).random_state == 5
    assert behaviour_named("gaussian", defaults, seed=3).covariance == "diagonal"
    with pytest.raises(UsageError, match="no characterization is called 'gausian'"):
        behaviour_named("gausian", {}, 0)


def test_an_object_travels_as_text() -> None:
    made = characterization("supervector", n_components=3, relevance=2.0, random_state=9)
    again = behaviour_named(behaviour_text(made), {"supervector": {"n_components": 4}}, seed=1)
    assert again.get_params() == made.get_params()


def test_what_cannot_be_named_is_refused() -> None:
    base = type(characterization("gaussian"))

    class Mine(base):
        """A characterization that only its owner knows."""

    with pytest.raises(UsageError, match="NoveltySearch with the object itself"):
        behaviour_text(Mine())
    with pytest.raises(UsageError, match="behaviour must be a characterization"):
        behaviour_text(7)
