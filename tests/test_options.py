"""Options are said once: Python and the command line take the same, with the same ranges."""

from __future__ import annotations

from dataclasses import fields

import pytest
import typer

from pivec.characterizations import names
from pivec.cli.main import app
from pivec.cli.options import flag
from pivec.errors import UsageError
from pivec.options import CollectOptions, DescribeOptions, PrecisionOptions, WatchOptions
from pivec.workflows import Collector

COMMANDS = {
    "collect": [CollectOptions],
    "compare": [CollectOptions, DescribeOptions, PrecisionOptions],
    "describe": [DescribeOptions],
    "same": [CollectOptions, DescribeOptions],
    "watch": [CollectOptions, DescribeOptions, WatchOptions],
}


def options_of(command):
    found = typer.main.get_command(app).commands[command].params
    return {name: option for option in found for name in option.opts}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_field_is_an_option_with_its_default_and_a_help(command):
    options = options_of(command)
    for bundle in COMMANDS[command]:
        for field in fields(bundle):
            if not field.metadata.get("command_line", True):
                assert flag(field.name) not in options
                continue
            option = options[flag(field.name)]
            assert option.help
            assert "``" not in option.help
            if field.default != ():
                assert option.default == field.default


def test_the_help_of_the_method_names_them_all():
    words = options_of("compare")["--method"].help.replace(",", " ").split()
    assert set(names()) <= {word.rstrip(".") for word in words}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"episodes": 0}, "episodes must be a whole number of at least 1 and at most"),
        ({"seed": -1}, "seed must be a whole number of at least 0, but is -1"),
        ({"jobs": 1.5}, "jobs must be a whole number of at least 1 or None, but is 1.5"),
        ({"n_envs": 0}, "n_envs must be a whole number of at least 1 or None, but is 0"),
        ({"episodes": 5, "max_states_per_policy": 9}, "ask for 10 or more"),
    ],
)
def test_ranges_hold_in_python_too(wrong, said):
    with pytest.raises(UsageError, match=said):
        CollectOptions(**wrong)


def test_features_that_are_only_named_are_not_used_by_mistake():
    assert CollectOptions().view is None
    with pytest.raises(TypeError, match="are not loaded"):
        CollectOptions(features="cells").view  # noqa: B018


def test_a_store_depends_on_every_option_that_is_not_of_speed_or_trust():
    """A new option decides about states until it is said not to, so stores are never mixed."""
    options = CollectOptions(jobs=2, n_envs=3, seed=4, backend="gymnasium")
    collector = Collector("CartPole-v1", "random", options)
    assert collector.settings == {
        "environment": "CartPole-v1", "arguments": {}, "wrappers": [], "imports": [],
        "features": None, "policies": False, "backend": "gymnasium", "seed": 4,
        "deterministic": False, "actions": False, "max_steps": None, "max_states_per_policy": None,
    }  # fmt: skip
