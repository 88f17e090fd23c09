"""Actions: closed forms on probe states, and policies that cannot be asked."""

from __future__ import annotations

import numpy as np
import pytest
from behaviours import network, with_policies

from pivec import Actions
from pivec.errors import UsageError
from pivec.policies import UniformPolicy


def test_total_variation_of_discrete_actions(behaviours):
    policies = [network(place, outputs=4, seed=i) for i, place in enumerate(range(6))]
    data = with_policies(behaviours, policies)
    method = Actions(n_probes=50).fit(data)
    assert method.probes_.shape == (50, 3)
    answers = [policy.distribution(method.probes_).astype(float) for policy in policies]
    expected = [[0.5 * np.abs(p - q).sum(axis=1).mean() for q in answers] for p in answers]
    assert np.allclose(method.distances(data), expected, atol=1e-12)


def test_symmetric_kl_of_gaussian_actions(behaviours):
    policies = [network(i / 3, head="gaussian", seed=i) for i in range(6)]
    data = with_policies(behaviours, policies)
    method = Actions(n_probes=20, floor=1e-12).fit(data)
    answers = [policy.distribution(method.probes_) for policy in policies]

    def kl(p, q):
        (m, s), (n, t) = ((x.astype(float) for x in y) for y in (p, q))
        each = np.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - 0.5
        return each.sum(axis=1).mean()

    expected = [[kl(p, q) + kl(q, p) for q in answers] for p in answers]
    assert np.allclose(method.distances(data), expected, rtol=1e-6, atol=1e-9)


def test_the_random_policy_is_uniform_over_discrete_actions(behaviours):
    still = network(0.0)  # no lean: nearly uniform
    data = with_policies(behaviours, [UniformPolicy(), network(9.0), still, still, still, still])
    d = Actions().fit(data).distances(data)
    assert d[0, 1] == pytest.approx(0.5, abs=1e-3)
    assert d[0, 2] < 0.2
    with pytest.raises(UsageError, match="all of these are random"):
        Actions().fit(with_policies(behaviours, [UniformPolicy()] * 6))


def test_policies_that_cannot_be_compared_are_named(behaviours):
    mixed = with_policies(behaviours, [network(0.0)] * 5 + [network(0.0, head="gaussian")])
    with pytest.raises(UsageError, match=r"'run_1/200'.*gaussian.*discrete"):
        Actions().fit(mixed).describe(mixed)

    class Silent:
        def act(self, observations, rng, deterministic=False):
            return np.zeros(len(observations))

    silent = with_policies(behaviours, [Silent()] * 6)
    with pytest.raises(UsageError, match=r"'run_\d/\d+' is a Silent"):
        Actions().fit(silent)
    wide = with_policies(behaviours, [network(0.0, inputs=7)] * 6)
    with pytest.raises(UsageError, match=r"7 .*3"):
        Actions().fit(wide)
    with pytest.raises(UsageError, match="n_probes"):
        Actions(n_probes=0).fit(behaviours)


def test_the_seed_draws_the_probes(behaviours):
    a, b, c = (Actions(40, random_state=s).fit(behaviours).probes_ for s in (0, 0, 1))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
