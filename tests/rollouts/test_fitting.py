"""Where no file tells the environment, the sentence names those that the policy fits."""

from __future__ import annotations

from importlib.resources import files

import pytest

import pivec
from pivec.errors import UsageError
from pivec.policies import load_policies
from pivec.rollouts.environment import fitting_environments

SHELF = files("pivec") / "demo_policies"


@pytest.mark.parametrize(
    ("name", "words"),
    [("CartPole-v1", "CartPole-v1 (4 values, 2 actions)"),
     ("Pendulum-v1", "Pendulum-v1 (3 values, 1 action)")],
)  # fmt: skip
def test_a_policy_fits_its_environment(name, words):
    named = load_policies(str(SHELF / name))[0]
    assert words in fitting_environments([named.policy])


def test_what_fits_everything_or_cannot_be_asked_tells_nothing():
    assert fitting_environments([load_policies("random")[0].policy]) == ""
    assert fitting_environments([lambda seen: seen]) == ""
    assert fitting_environments([]) == ""


def test_the_sentence_tells_the_next_step():
    policy = load_policies(str(SHELF / "CartPole-v1"))[0].policy
    with pytest.raises(UsageError, match=r"CartPole-v1 \(4 values"):
        pivec.collect(None, {"mine": policy}, episodes=1)
