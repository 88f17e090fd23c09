"""Data with everything any characterization looks at: states, actions, policies, returns."""

from __future__ import annotations

import numpy as np

from pivec.policies import NetworkPolicy
from pivec.states import PolicyRecord, VisitedStates

PLACES = [0.0, 0.5, 1.0, 0.0, -0.5, -1.0]


def network(place, *, seed=0, inputs=3, outputs=2, head="categorical"):
    """A network whose weights and actions lean the farther the place."""
    rng = np.random.default_rng(seed)
    weights = 0.1 * rng.normal(size=(inputs, outputs)) + 0.02 * place
    bias = np.linspace(place, -place, outputs)
    log_std = np.zeros(outputs) if head == "gaussian" else None
    return NetworkPolicy(((weights, bias),), "tanh", head, log_std)


def make_behaviours(places, *, episodes=4, length=60, features=3, seed=0, **given):
    """Walks around a place, with actions and returns that follow it; ``given`` replaces parts."""
    rng = np.random.default_rng(seed)
    states = given.pop("states", None) or [
        [_walk(rng, place, length, features) for _ in range(episodes)] for place in places
    ]
    actions = given.pop("actions", None) or [
        [(rng.random(len(e) - 1) < 0.5 + 0.4 * place).astype(int) for e in some]
        for place, some in zip(places, states, strict=True)
    ]
    policies = given.pop("policies", None) or [
        network(place, inputs=states[0][0].shape[1], seed=i % 3 == 0)
        for i, place in enumerate(places)
    ]
    returns = given.pop("returns", None) or [
        [10 * place + 0.01 * i + e for e in range(len(states[i]))] for i, place in enumerate(places)
    ]
    data = VisitedStates.from_arrays(
        states,
        labels=given.pop("labels", [f"run_{i // 3}/{100 * (i % 3)}" for i in range(len(places))]),
        groups=[f"run_{i // 3}" for i in range(len(places))],
        steps=[100 * (i % 3) for i in range(len(places))],
        actions=actions,
        returns=returns,
        environment="Walk-v0",
    )
    return with_policies(data, policies)


def _walk(rng, place, length, features):
    """States that follow each other: a place, and steps that are half forgotten."""
    states = np.empty((length, features), dtype=np.float32)
    at = rng.normal(0, 1, features)
    for t in range(length):
        states[t] = place + at
        at = 0.5 * at + np.sqrt(0.75) * rng.normal(0, 1, features)
    states[-1] = place + 0.05 * at  # every episode ends at the place
    return states


def with_policies(data, policies):
    """The same data with the policies themselves."""
    records = [
        PolicyRecord.in_memory(record.info, record.episodes, record.read_arrays(), policy)
        for record, policy in zip(data.records, policies, strict=True)
    ]
    return VisitedStates(records, data.feature_names, data.environment)
