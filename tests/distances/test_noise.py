"""The distance that chance alone gives, and what stands out of it."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations import characterization
from pivec.distances import chance_distance
from pivec.errors import UsageError
from pivec.states import VisitedStates


def sample(rng, place, episodes=12, actions=False):
    """Episodes that differ in their own level, as real ones do."""
    walks = [rng.normal(place + rng.normal(0, 0.5), 1.0, (20, 2)) for _ in range(episodes)]
    moves = [rng.integers(2, size=19) for _ in walks] if actions else None
    return VisitedStates.from_arrays(
        [walks], returns=[0.0], actions=None if moves is None else [moves]
    )


@pytest.mark.parametrize(
    ("method", "parameters"),
    [("supervector", {"n_components": 3}), ("gaussian", {}), ("terminal-state", {})],
)
def test_it_is_what_samples_of_one_policy_are_apart(rng, method, parameters):
    made = characterization(method, **parameters).fit(sample(rng, 0.0, 60))
    truth = [made.distances(sample(rng, 0.0), sample(rng, 0.0))[0, 0] for _ in range(100)]
    told = [chance_distance(made, sample(rng, 0.0), sample(rng, 0.0), rng, 20) for _ in range(20)]
    # Statistical: 100 distances know their deviation to 7 %, 20 splits of a sample less well.
    assert np.mean([noise.mean for noise in told]) == pytest.approx(np.mean(truth), rel=0.25)
    assert np.mean([noise.deviation for noise in told]) == pytest.approx(np.std(truth), rel=0.5)


def test_policies_that_differ_stand_out(rng):
    made = characterization("supervector", n_components=3).fit(sample(rng, 0.0, 60))
    a, b = sample(rng, 0.0), sample(rng, 2.0)
    noise = chance_distance(made, a, b, rng, 20)
    assert made.distances(a, b)[0, 0] > noise.mean + 5 * noise.deviation


def test_characterizations_of_actions_and_returns_work_too(rng):
    a, b = sample(rng, 0.0, actions=True), sample(rng, 0.0, actions=True)
    for name in ("state-actions", "returns"):
        made = characterization(name).fit(a)
        assert np.isfinite(chance_distance(made, a, b, rng).mean)


def test_mistakes_are_named(rng):
    a = sample(rng, 0.0)
    made = characterization("gaussian").fit(a)
    two = VisitedStates.from_arrays([[np.zeros((2, 2))], [np.zeros((2, 2))]])
    with pytest.raises(UsageError, match="one policy"):
        chance_distance(made, a, two, rng)
    with pytest.raises(UsageError, match="divisions"):
        chance_distance(made, a, a, rng, 1)
