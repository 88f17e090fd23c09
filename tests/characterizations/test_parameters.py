"""Parameters: every number of the network counts, shapes must agree."""

from __future__ import annotations

import numpy as np
import pytest
from behaviours import network, with_policies

from pivec import Parameters
from pivec.errors import UsageError
from pivec.policies import NetworkPolicy, UniformPolicy


def test_distance_is_that_of_all_parameters(behaviours, rng):
    def draw():
        layers = [(rng.normal(size=s), rng.normal(size=s[1])) for s in ((3, 5), (5, 2))]
        return NetworkPolicy(tuple(layers), "tanh", "gaussian", rng.normal(size=2))

    policies = [draw() for _ in range(6)]
    data = with_policies(behaviours, policies)
    described = Parameters().fit(data).describe(data)
    assert described.vectors.shape == (6, 15 + 5 + 10 + 2 + 2)

    def gap(p, q):
        pairs = [
            (a, b)
            for x, y in zip(p.layers, q.layers, strict=True)
            for a, b in zip(x, y, strict=True)
        ]
        pairs.append((p.log_std, q.log_std))
        return np.sqrt(sum(((a.astype(float) - b) ** 2).sum() for a, b in pairs))

    expected = [[gap(p, q) for q in policies] for p in policies]
    assert np.allclose(Parameters().fit(data).distances(data), expected)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (network(0.0, outputs=4), r"3-2 \(tanh, categorical\).*3-4 \(tanh, categorical\)"),
        (network(0.0, head="gaussian"), r"3-2 \(tanh, categorical\).*3-2 \(tanh, gaussian\)"),
    ],
)
def test_different_shapes_name_both(behaviours, other, told):
    data = with_policies(behaviours, [network(0.0)] * 5 + [other])
    with pytest.raises(UsageError, match=rf"'run_\d/\d+' is {told}") as caught:
        Parameters().fit(data).describe(data)
    assert "run_1/200" in str(caught.value)


def test_a_policy_without_parameters_is_named(behaviours):
    data = with_policies(behaviours, [network(0.0), UniformPolicy()] + [network(0.0)] * 4)
    with pytest.raises(UsageError, match="'run_0/100' is a UniformPolicy"):
        Parameters().fit(data).describe(data)
