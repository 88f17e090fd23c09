"""Measures of behaviour in pyribs' archives: frozen, and faithful to the distances."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ribs")

from ribs.archives import CVTArchive, GridArchive

from pivec.characterizations import Space, characterization, names
from pivec.errors import UsageError
from pivec.integrations import BehaviourMeasures
from pivec.integrations.ribs import ProximityArchive
from pivec.states import VisitedStates

FEW = {"n_components": 4}
# Those that look at policies, and those whose training takes long, are held to the same contract.
OTHERS = {
    "parameters", "actions", "discriminator", "encoder", "skill-discriminator",
    "trajectory-encoder",
}  # fmt: skip


def data(rng, n=20, actions=False):
    """Policies around places in the plane."""
    places = rng.uniform(-2, 2, (n, 2))
    walks = [[rng.normal(place, 0.3, (60, 2))] for place in places]
    moves = [[rng.integers(2, size=59)] for _ in walks] if actions else None
    return VisitedStates.from_arrays(walks, returns=[1.0] * n, actions=moves)


def test_whole_measures_have_the_distances_of_the_characterization(rng):
    known, new = data(rng), data(rng)
    measures = BehaviourMeasures.fit(known, parameters=FEW, n_measures=None)
    wanted = measures.space.method.distances(new)
    got = measures(new)
    assert got.shape == (20, 4 * (1 + 2 * 4))  # means and spreads of two features and their steps
    assert np.allclose(((got[:, None] - got) ** 2).sum(axis=2), wanted, atol=1e-6)


def test_two_measures_are_the_main_directions(rng):
    known = data(rng)
    measures = BehaviourMeasures.fit(known, parameters=FEW)
    whole = BehaviourMeasures(measures.space, n_measures=None)
    centred = whole.reference - whole.reference.mean(axis=0)
    spread = np.linalg.svd(centred, compute_uv=False)[:2]
    assert np.linalg.norm(measures(known), axis=0) == pytest.approx(spread, rel=1e-4)
    assert np.allclose(measures(known), measures.reference, atol=1e-5)


def test_measures_do_not_change_with_what_is_measured(rng):
    measures = BehaviourMeasures.fit(data(rng), parameters=FEW)
    new = data(rng)
    alone = np.concatenate([measures(new[i]) for i in range(len(new))])
    assert np.allclose(alone, measures(new), atol=1e-5)


@pytest.mark.parametrize("kind", ["grid", "cvt"])
def test_archives_of_pyribs_take_them(rng, kind):
    known = data(rng)
    measures = BehaviourMeasures.fit(known, parameters=FEW)
    archive = (
        GridArchive(solution_dim=3, dims=[8, 8], ranges=measures.ranges())
        if kind == "grid"
        else CVTArchive(solution_dim=3, centroids=50, ranges=measures.ranges(), samples=500)
    )
    archive.add(rng.normal(size=(20, 3)), known.mean_returns, measures(known))
    assert archive.stats.num_elites > 5


def test_novelty_is_the_mean_root_of_the_distances_to_the_nearest(rng):
    known, new = data(rng), data(rng)
    measures = BehaviourMeasures.fit(known, parameters=FEW, n_measures=None)
    archive = ProximityArchive(
        measures, solution_dim=2, k_neighbors=3, novelty_threshold=0.0, seed=0
    )
    archive.add(rng.normal(size=(20, 2)), np.zeros(20), archive.measures_of(known))
    got = archive.add(rng.normal(size=(20, 2)), np.zeros(20), archive.measures_of(new))["novelty"]
    roots = np.sqrt(measures.space.method.distances(new, known))
    assert got == pytest.approx(np.sort(roots, axis=1)[:, :3].mean(axis=1), rel=1e-3)


def test_the_threshold_is_the_novelty_of_the_reference(rng):
    known = data(rng)
    measures = BehaviourMeasures.fit(known, parameters=FEW, n_measures=None)
    roots = np.sqrt(measures.space.method.distances(known))
    wanted = np.sort(roots, axis=1)[:, 1:5].mean()
    archive = ProximityArchive(measures, solution_dim=2, k_neighbors=4)
    assert float(archive.novelty_threshold) == pytest.approx(wanted, rel=1e-3)
    archive.add(np.zeros((20, 2)), np.zeros(20), archive.measures_of(known))
    again = archive.add(np.zeros((20, 2)), np.zeros(20), archive.measures_of(known))
    assert (again["status"] == 0).sum() > 5  # what is there already is not novel


@pytest.mark.parametrize("name", [name for name in names() if name not in OTHERS])
def test_any_characterization_gives_measures(rng, name):
    known = characterization(name).get_params()
    small = {key: 4 for key in ("n_components", "n_updates") if key in known}
    measures = BehaviourMeasures.fit(data(rng, 8, actions=True), name, small)
    assert np.isfinite(measures(data(rng, 5, actions=True))).all()


def test_a_space_on_disk_is_enough(rng, tmp_path):
    known = data(rng)
    measures = BehaviourMeasures.fit(known, parameters=FEW)
    measures.space.save(tmp_path)
    assert np.allclose(BehaviourMeasures(tmp_path)(known), measures(known))


def test_mistakes_are_named(rng):
    known = data(rng, 4)
    with pytest.raises(UsageError, match="n_measures"):
        BehaviourMeasures.fit(known, parameters=FEW, n_measures=4)
    with pytest.raises(UsageError, match="no vectors"):
        BehaviourMeasures.fit(known, "gaussian", n_measures=None)
    method = characterization("supervector", n_components=2).fit(known)
    alone = BehaviourMeasures(Space(method, method.describe(known[0])), n_measures=None)
    with pytest.raises(UsageError, match="novelty_threshold"):
        ProximityArchive(alone, solution_dim=1)
