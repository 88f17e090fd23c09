"""The archive: novelty against a slow formula, refitting, behaviours by name."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations import characterization
from pivec.errors import UsageError
from pivec.integrations import BehaviourArchive


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
    with pytest.raises(UsageError, match="neighbours"):
        BehaviourArchive(characterization("gaussian"), neighbours=0)
