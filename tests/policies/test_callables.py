"""Functions and objects of the user as policies."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.policies import CallablePolicy, NetworkPolicy, Policy, as_policy

RNG = np.random.default_rng(0)
ROWS = np.arange(6.0).reshape(3, 2)


def plain(observations):
    return observations[:, 0]


def with_rng(observations, rng):
    return rng.random(len(observations))


def with_other_name(obs, generator):
    return generator.random(len(obs))


def with_keywords(observations, *, rng, deterministic):
    return np.zeros(len(observations)) if deterministic else rng.random(len(observations))


class Acts:
    def act(self, observations, rng, deterministic=False):
        return with_keywords(observations, rng=rng, deterministic=deterministic)


class Predicts:
    """As Stable-Baselines3 does."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        return np.full(len(observation), 1 if deterministic else 2), state


class Called:
    def __call__(self, observations):
        return plain(observations)


@pytest.mark.parametrize(
    "thing", [plain, with_rng, with_other_name, with_keywords, Acts(), Called()]
)
def test_each_signature_is_understood(thing):
    policy = as_policy(thing)
    assert isinstance(policy, Policy)
    actions = policy.act(ROWS, np.random.default_rng(1))
    expected = plain(ROWS) if thing is plain or isinstance(thing, Called) else None
    if expected is None:
        expected = np.random.default_rng(1).random(3)
    np.testing.assert_array_equal(actions, expected)


def test_predict_gives_pairs():
    policy = as_policy(Predicts())
    assert policy.act(ROWS, RNG).tolist() == [2, 2, 2]
    assert policy.act(ROWS, RNG, deterministic=True).tolist() == [1, 1, 1]


def test_deterministic_where_it_can_and_a_refusal_where_not():
    assert as_policy(with_keywords).act(ROWS, RNG, deterministic=True).tolist() == [0, 0, 0]
    assert as_policy(Acts()).act(ROWS, RNG, deterministic=True).tolist() == [0, 0, 0]
    with pytest.raises(UsageError, match=r"plain.*deterministic"):
        as_policy(plain).act(ROWS, RNG, deterministic=True)
    with pytest.raises(UsageError, match="'deterministic'"):
        as_policy(lambda observations, **more: 1).act(ROWS, RNG, deterministic=True)


def test_policies_stay_as_they_are():
    network = NetworkPolicy(((np.eye(2), np.zeros(2)),), "tanh", "categorical")
    assert as_policy(network) is network
    wrapped = as_policy(plain)
    assert as_policy(wrapped) is wrapped


def test_callables_that_tell_no_signature_get_the_observations():
    policy = as_policy(np.atleast_1d)
    assert isinstance(policy, CallablePolicy)
    np.testing.assert_array_equal(policy.act(ROWS, RNG), ROWS)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (np.zeros(2), r"each of 3 observations, .*of shape \(2,\)"),
        (1, r"shape \(\)"),
        (None, r"shape \(\)"),
        ([[1], [2, 3], [4]], "different shapes"),
        ((np.zeros(3), "a state"), "memory"),
    ],
)
def test_results_that_are_no_batch_are_refused(result, words):
    with pytest.raises(UsageError, match=words):
        as_policy(lambda observations: result).act(ROWS, RNG)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (5, "of type int"),
        (None, "of type NoneType"),
        (lambda: 1, "takes no argument"),
        (lambda a, b, c: 1, "but takes a, b, c"),
        (Acts, "pass an instance"),
    ],
)
def test_things_that_cannot_act_are_refused(thing, words):
    with pytest.raises(UsageError, match=words):
        as_policy(thing)
