"""Options are stated once: Python and the command line take the same, with the same ranges."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest
import typer

import pivec
from pivec.characterizations import names
from pivec.cli import app
from pivec.errors import UsageError
from pivec.options import (
    CollectKeywords,
    CollectOptions,
    CompareKeywords,
    DescribeKeywords,
    DescribeOptions,
    EncoderKeywords,
    EncoderOptions,
    FigureOptions,
    PlanOptions,
    PrecisionOptions,
    ReplayKeywords,
    ReplayOptions,
    WatchKeywords,
    WatchOptions,
)
from pivec.workflows import Collector

FUNCTIONS = {
    "collect": (CollectKeywords, CollectOptions),
    "compare": (CompareKeywords, CollectOptions, DescribeOptions, PrecisionOptions, FigureOptions),
    "same": (DescribeKeywords, CollectOptions, DescribeOptions),
    "plan": (DescribeKeywords, PlanOptions, DescribeOptions),
    "watch": (WatchKeywords, CollectOptions, DescribeOptions, WatchOptions, FigureOptions),
}


def options_of(command):
    found = typer.main.get_command(app).commands[command].params
    return {name: option for option in found for name in option.opts}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_python_the_command_line_and_type_checkers_know_the_same_options(name):
    keywords, *bundles = FUNCTIONS[name]
    parameters = inspect.signature(getattr(pivec, name)).parameters
    flags = options_of(name)
    known = {field.name: field for bundle in bundles for field in fields(bundle)}
    assert set(known) == set(keywords.__annotations__) | {"episodes", "seed"}
    for field in known.values():
        assert parameters[field.name].default == field.default
        flag = flags.get("--" + field.name.replace("_", "-"))
        assert (flag is not None) == field.metadata.get("command_line", True)
        if flag is not None:
            assert flag.help
            assert field.default == () or flag.default == field.default


def test_keywords_of_other_options():
    assert set(ReplayKeywords.__annotations__) == {field.name for field in fields(ReplayOptions)}
    assert set(EncoderKeywords.__annotations__) == {field.name for field in fields(EncoderOptions)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_typo_yields_a_suggestion(name):
    with pytest.raises(UsageError) as error:
        getattr(pivec, name)("CartPole-v1", "random", episods=3)
    assert "'episods'" in str(error.value)
    assert "did you mean episodes" in str(error.value)


def test_the_help_of_compare_fits_on_two_screens(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    lines = run("compare", "--help").out.splitlines()
    assert len(lines) <= 100
    assert "[ENV] SOURCE..." in lines[1]


def test_the_help_of_the_method_names_them_all():
    words = options_of("compare")["--method"].help.replace(",", " ").split()
    assert set(names()) <= set(words)


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ({"episodes": 0}, ("episodes", "1")),
        ({"seed": -1}, ("seed", "-1")),
        ({"jobs": 1.5}, ("jobs", "1.5")),
        ({"n_envs": 0}, ("n_envs", "0")),
        ({"episodes": 5, "max_states_per_policy": 9}, ("max_states_per_policy", "20")),
    ],
)
def test_ranges_are_checked_in_python_too(wrong, facts):
    with pytest.raises(UsageError) as error:
        CollectOptions(**wrong)
    assert all(fact in str(error.value) for fact in facts)


def test_features_that_are_only_named_are_not_used_by_mistake():
    assert CollectOptions().view is None
    with pytest.raises(TypeError, match="cells"):
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
