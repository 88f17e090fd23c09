"""The classifier of policies: its training, its posteriors, and the distance between them."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pivec import SkillDiscriminator  # noqa: E402
from pivec.characterizations.networks import jensen_shannon  # noqa: E402
from pivec.characterizations.torch_networks import sum_outputs  # noqa: E402
from pivec.errors import MissingExtra, UsageError  # noqa: E402
from pivec.policies import canonical_order  # noqa: E402
from pivec.states import VisitedStates  # noqa: E402

SMALL = {"n_units": 16, "max_updates": 200, "learning_rate": 0.01}


def make_places(rng, places, n=200):
    return VisitedStates.from_arrays([[rng.normal(place, 1, (n, 2))] for place in places])


def test_jensen_shannon_is_the_mean_divergence_from_the_middle(rng):
    a, b = rng.dirichlet(np.ones(4), 3), rng.dirichlet(np.ones(4), 5)
    b[0, 0] = 0.0
    b[0] /= b[0].sum()
    result = jensen_shannon(a, b)
    for i, p in enumerate(a):
        for j, q in enumerate(b):
            middle = (p + q) / 2
            left = sum(x * np.log(x / m) for x, m in zip(p, middle, strict=True) if x > 0)
            right = sum(x * np.log(x / m) for x, m in zip(q, middle, strict=True) if x > 0)
            assert result[i, j] == pytest.approx((left + right) / 2)


def test_sums_of_outputs_are_those_of_softmaxes(rng):
    weights = rng.normal(size=(3, 4)).astype(np.float32)  # two inputs and the offset, four policies
    states = rng.normal(size=(10_000, 2)).astype(np.float32)
    logits = states @ weights[:2] + weights[2]
    odds = np.exp(logits.astype(np.float64))
    expected = odds / odds.sum(axis=1, keepdims=True)
    cuts = np.array([0, 3, 3, 9000, 10_000])
    sums = sum_outputs(weights.ravel(), [2, 4], states, cuts, softmax=True)
    for i, (begin, end) in enumerate(pairwise(cuts)):
        assert np.allclose(sums[i], expected[begin:end].sum(axis=0), rtol=1e-6)


def test_separate_places_are_told_apart_and_shared_ones_confused(rng):
    data = make_places(rng, (0, 0, 6, -6))
    method = SkillDiscriminator(**SMALL).fit(data)
    posteriors = method.describe(data).vectors[:, np.argsort(canonical_order(data.policies))]
    assert np.allclose(posteriors.sum(axis=1), 1)
    assert posteriors[2, 2] > 0.9
    assert posteriors[0, :2].sum() > 0.9
    # Far from certain: how near to a half is the luck of few states.
    assert posteriors[0, 0] == pytest.approx(0.5, abs=0.25)
    d = method.distances(data)
    assert d[0, 1] < 0.02
    assert d[0, 2] > 0.6
    assert d.max() <= np.log(2)


def test_a_policy_with_more_states_is_no_more_likely(rng):
    """Two policies in one place, one with twenty times the states."""
    states = [[rng.normal(0, 1, (2000, 2))], [rng.normal(0, 1, (100, 2))]]
    data = VisitedStates.from_arrays(states)
    posteriors = SkillDiscriminator(**SMALL | {"learning_rate": 0.001}).fit(data)
    assert posteriors.describe(data).vectors[:, 0] == pytest.approx([0.5, 0.5], abs=0.15)


def test_unseen_policies_are_described_by_the_known_ones(rng):
    data = make_places(rng, (-4, 0, 4))
    method = SkillDiscriminator(**SMALL).fit(data)
    unseen = make_places(rng, (-4, 4))
    assert method.describe(unseen).vectors.shape == (2, 3)
    likeliest = method.describe(unseen).vectors.argmax(axis=1)
    assert canonical_order(data.policies)[likeliest].tolist() == [0, 2]
    assert method.distances(unseen)[0, 1] > 0.6


def test_same_seed_same_numbers_and_global_state_left_alone(rng):
    data = make_places(rng, (0, 1))
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    a, b = (SkillDiscriminator(**SMALL).fit(data).distances(data) for _ in range(2))
    assert np.array_equal(a, b)
    assert torch.equal(torch.random.get_rng_state(), before)
    c = SkillDiscriminator(**SMALL, random_state=1).fit(data).distances(data)
    assert not np.array_equal(a, c)


def test_mistakes_are_named(rng, monkeypatch):
    data = make_places(rng, (0, 1))
    with pytest.raises(UsageError, match="batch_size"):
        SkillDiscriminator(batch_size=0).fit(data)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"skill-discriminator .*pivec\[torch\]"):
        SkillDiscriminator().fit(data)
