"""A stack answers as its policies do one by one, to the last bit."""

from __future__ import annotations

from itertools import pairwise

import gymnasium
import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.policies import NetworkPolicy, Normaliser, Options, Stack, UniformPolicy


def make(sizes, seed, head="categorical", activation="tanh"):
    rng = np.random.default_rng(seed)
    layers = tuple(
        (rng.normal(size=(a, b)) / np.sqrt(a), rng.normal(size=b)) for a, b in pairwise(sizes)
    )
    extra = {}
    if head == "gaussian":
        extra = {"log_std": rng.normal(size=sizes[-1])}
        if seed % 2:
            extra |= {"low": np.full(sizes[-1], -1.0), "high": np.full(sizes[-1], 1.0)}
    return NetworkPolicy(layers, activation, head, **extra)


NETWORKS = [
    ((4, 64, 64, 2), "categorical", "tanh"),
    ((3, 64, 64, 1), "gaussian", "tanh"),
    ((24, 40, 30, 4), "gaussian", "relu"),
    ((7, 11), "categorical", "sigmoid"),
    ((376, 256, 256, 17), "gaussian", "elu"),
]


def filled(policies, lanes):
    stack = Stack(len(policies), lanes, policies[0])
    for slot, policy in enumerate(policies):
        stack.put(slot, policy)
    return stack


@pytest.mark.bits
@pytest.mark.parametrize(("sizes", "head", "activation"), NETWORKS)
def test_a_row_does_not_depend_on_lanes_or_slots(sizes, head, activation):
    policies = [make(sizes, seed, head, activation) for seed in range(5)]
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(5, 40, sizes[0])).astype(np.float32)
    noise = np.stack([policy.noise(rng, 40) for policy in policies])
    for numbers in (noise, None):
        whole = filled(policies, 40).respond(observations, numbers)
        for lanes in (1, 3, 16, 17, 39):
            some = None if numbers is None else numbers[:, -lanes:]
            part = filled(policies, lanes).respond(observations[:, -lanes:], some)
            np.testing.assert_array_equal(part, whole[:, -lanes:])
        for slot, policy in enumerate(policies):
            own = None if numbers is None else numbers[slot]
            np.testing.assert_array_equal(policy.respond(observations[slot], own), whole[slot])


@pytest.mark.bits
@pytest.mark.parametrize(("sizes", "head", "activation"), NETWORKS[:3])
def test_outputs_do_not_depend_on_lanes(sizes, head, activation):
    policy = make(sizes, 1, head, activation)
    observations = np.random.default_rng(0).normal(size=(200, sizes[0])).astype(np.float32)
    whole = policy.distribution(observations)
    single = [policy.distribution(row[None]) for row in observations]
    if head == "gaussian":
        whole, single = whole[0], [mean for mean, _ in single]
    np.testing.assert_array_equal(np.concatenate(single), whole)


@pytest.mark.bits
def test_put_replaces_one_slot_only():
    first, second = make((4, 8, 2), 0), make((4, 8, 2), 1)
    stack = Stack(3, 50, first)
    observations = np.random.default_rng(0).normal(size=(3, 50, 4))
    stack.put(1, second)
    actions = stack.respond(observations, None)
    for slot, policy in enumerate((first, second, first)):
        np.testing.assert_array_equal(actions[slot], policy.respond(observations[slot], None))


def test_answers_are_not_overwritten_by_the_next():
    for head in ("categorical", "gaussian"):
        policy = make((4, 8, 2), 0, head)
        stack = Stack(1, 16, policy)
        rng = np.random.default_rng(0)
        for noise in (None, policy.noise(rng, 16)[None]):
            first = stack.respond(rng.normal(size=(1, 16, 4)), noise)
            kept = first.copy()
            stack.respond(-10 * np.ones((1, 16, 4)), noise)
            np.testing.assert_array_equal(first, kept)


def test_clipping_follows_the_policy_of_the_slot():
    free, boxed = make((4, 8, 2), 0, "gaussian"), make((4, 8, 2), 1, "gaussian")
    stack = Stack(2, 100, free)
    stack.put(0, boxed)
    noise = 3 * np.random.default_rng(0).standard_normal((2, 100, 2), np.float32)
    actions = stack.respond(np.zeros((2, 100, 4)), noise)
    assert np.abs(actions[0]).max() == 1
    assert np.abs(actions[1]).max() > 1
    stack.put(0, free)
    assert np.abs(stack.respond(np.zeros((2, 100, 4)), noise)[0]).max() > 1


@pytest.mark.parametrize("head", ["categorical", "gaussian"])
def test_wrong_shapes_are_named_and_not_broadcast(head):
    policy = make((4, 8, 2), 0, head)
    stack = Stack(2, 5, policy)
    for shape in ((2, 5, 1), (2, 1, 4), (5, 4), (2, 6, 4)):
        with pytest.raises(UsageError, match=r"observations of shape \(2, 5, 4\)"):
            stack.respond(np.zeros(shape), None)
    for shape in ((2, 5, 3), (2, 1, 1), (1, 5, 2), (10, 1)):
        with pytest.raises(UsageError, match=r"random numbers of shape \(2, 5, [12]\)"):
            stack.respond(np.zeros((2, 5, 4)), np.zeros(shape, np.float32))
    with pytest.raises(UsageError, match="random numbers"):
        policy.respond(
            np.zeros((3, 4)), np.zeros((2, policy.noise(np.random.default_rng(0), 0).shape[1]))
        )


def test_policies_of_another_architecture_are_refused():
    stack = Stack(2, 5, make((4, 8, 2), 0))
    space = gymnasium.spaces.Discrete(2)
    for other in (make((4, 9, 2), 0), UniformPolicy().bind(space, space)):
        with pytest.raises(UsageError, match="cannot hold"):
            stack.put(0, other)
    with pytest.raises(UsageError, match="slots"):
        Stack(0, 5, make((4, 8, 2), 0))


KINDS = {
    "categorical": {"head": "categorical"},
    "multi_categorical": {"head": "multi_categorical", "options": Options(choices=(9, 3))},
    "bernoulli": {"head": "bernoulli"},
    "epsilon_greedy": {"head": "epsilon_greedy", "options": Options(epsilon=0.3)},
    "proportional": {"head": "proportional"},
    "gaussian": {"head": "gaussian", "log_std": np.linspace(-2, 1, 12)},
    "clipped deviations": {"head": "state_gaussian"},
    "squashed deviations": {
        "head": "state_gaussian",
        "options": Options(deviations="tanh", squash=True, mean_limit=2.0),
        "low": np.full(6, -1.0),
        "high": np.full(6, 2.0),
    },
    "state-dependent exploration": {
        "head": "state_gaussian",
        "options": Options(deviations="plain"),
        "state_std": np.random.default_rng(3).random((33, 12)),
    },
    "deterministic": {
        "head": "deterministic",
        "options": Options(squash=True),
        "low": np.full(12, -1.0),
        "high": np.full(12, 2.0),
    },
    "normalised": {
        "head": "gaussian",
        "log_std": np.zeros(12),
        "normaliser": Normaliser(np.full(5, 0.1), np.full(5, 0.7), np.full(5, 1.5)),
    },
}


@pytest.mark.bits
@pytest.mark.parametrize("activation", ["tanh", "gelu"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_the_same_in_any_company(kind, activation):
    rng = np.random.default_rng(0)
    policies = [
        NetworkPolicy(
            tuple(
                (rng.normal(size=(a, b)) / np.sqrt(a), rng.normal(size=b))
                for a, b in pairwise((5, 33, 12))
            ),
            activation,
            **KINDS[kind],
        )
        for _ in range(2)
    ]
    observations = rng.normal(size=(2, 40, 5)).astype(np.float32)
    noise = np.stack([policy.noise(rng, 40) for policy in policies])
    whole = filled(policies, 40).respond(observations, noise)
    chances = [
        policy.distribution(rows) for policy, rows in zip(policies, observations, strict=True)
    ]
    for lanes in range(1, 40):
        some = slice(40 - lanes, 40)
        part = filled(policies, lanes).respond(observations[:, some], noise[:, some])
        np.testing.assert_array_equal(part, whole[:, some])
        own = policies[1].distribution(observations[1, some])
        for i in range(2 if isinstance(own, tuple) else 1):
            mine, theirs = (d[i] if isinstance(d, tuple) else d for d in (own, chances[1]))
            np.testing.assert_array_equal(mine, theirs[some])
