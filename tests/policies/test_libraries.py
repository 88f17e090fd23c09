"""Checkpoints of real libraries load, and answer as the library's own models do.

A row is a folder of tests/data/libraries, made by a script in scripts/checkpoints.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import pivec
from pivec.errors import BadPolicyFile
from pivec.policies import CallablePolicy, load_policies
from pivec.rollouts import Environment, bind, flatten

ROOT = Path(__file__).parents[2]
_place = ROOT / "scripts" / "checkpoints" / "rows.py"
_spec = importlib.util.spec_from_file_location("rows", _place)
rows = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rows)
ROWS = rows.read_rows()
# What files do not tell is assumed, and said.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pivec.errors.PivecWarning", "ignore:The old environment creation:DeprecationWarning"
)


def load(name):
    """Load the policy of a row: without trust, or refused and then with it."""
    row = ROWS[name]
    if "needs" in row:  # a package that reads the file as data
        pytest.importorskip(row["needs"])
    path = rows.ROWS / name / row["policy"]
    if row["needs_trust"]:
        with pytest.raises(BadPolicyFile, match="--trust"):
            load_policies(path)
    (named,) = load_policies(path, trust=row["needs_trust"])
    return bind(world(row), [named])[0]


def world(row):
    return Environment.of(row["environment"], wrappers=row.get("wrappers", ()))


def shown(name, answers):
    """The observations of a row as policies see them, dictionaries flattened."""
    if "observations" in answers:
        return answers["observations"]
    space = world(ROWS[name]).make().observation_space
    return flatten(space, {key: answers[f"observations.{key}"] for key in space})


def along_episodes(policy, observations, starts):
    """Actions of a policy with a memory, and what it draws them from."""
    if isinstance(policy, CallablePolicy):  # of a library
        memory, actions = None, []
        for row, start in zip(observations, starts, strict=True):
            memory = None if start else memory
            action, memory = policy.ask(row[None], np.random.default_rng(0), memory)
            actions.append(action)
        return np.concatenate(actions), None
    memory, actions, distributions = policy.initial_memory(1), [], []
    for row, start in zip(observations, starts, strict=True):
        memory = policy.initial_memory(1) if start else memory
        distributions.append(np.asarray(policy.distribution(row[None], memory)))
        action, memory = policy.respond(row[None], None, memory)
        actions.append(action)
    return np.concatenate(actions), np.concatenate(distributions, axis=-2)


def close(value, expected):
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ROWS)
def test_numbers_are_the_librarys_own(name):
    policy = load(name).policy
    with np.load(rows.ROWS / name / "answers.npz") as answers:
        observations = shown(name, answers)
        assert len(observations) == rows.OBSERVATIONS
        if "starts" in answers:
            actions, distribution = along_episodes(policy, observations, answers["starts"])
        else:
            told = [answers["masks"]] if "masks" in answers else []
            actions = policy.respond(observations, None, *told)
            known = {"probabilities", "mean"} & set(answers)
            distribution = policy.distribution(observations, *told) if known else None
        assert np.shape(actions) == answers["actions"].shape
        close(actions, answers["actions"])
        if "probabilities" in answers:
            close(distribution, answers["probabilities"])
        if "mean" in answers:
            mean, std = distribution
            close(mean, answers["mean"])
            close(std, answers["std"])


@pytest.mark.parametrize("name", ROWS)
def test_returns_are_the_librarys_own_within_noise(name):
    with np.load(rows.ROWS / name / "answers.npz") as answers:
        expected = answers["returns"]
    assert len(expected) >= rows.EPISODES
    named = load(name)
    data = pivec.collect(world(ROWS[name]), named, episodes=rows.EPISODES)
    errors = [sample.var(ddof=1) / len(sample) for sample in (data.returns, expected)]
    difference = data.returns.mean() - expected.mean()
    assert abs(difference) <= 4 * np.sqrt(sum(errors)) + 1e-6 * abs(expected.mean())


def test_the_page_has_the_table_of_these_rows():
    """Run scripts/checkpoints/rows.py to write it."""
    assert rows.table() in (ROOT / "docs" / "libraries.md").read_text()


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_small_and_its_script_is_there(name):
    files = [file for file in (rows.ROWS / name).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 100_000
    assert (ROOT / ROWS[name]["script"]).is_file()
