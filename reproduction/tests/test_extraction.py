"""Figure 2: the numbers behind the picture are the paper's equations, and the recipe repeats."""

from __future__ import annotations

import csv
import json
from itertools import combinations

import numpy as np
import pytest

from reproduction.recipes import recipe
from reproduction.recipes.extraction import (
    COMPONENTS,
    FEATURES,
    POLICIES,
    _visited,
    angle_and_speed,
    in_the_plane,
    needs,
)
from reproduction.runner import reproduce


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return reproduce("extraction", "smoke", tmp_path_factory.mktemp("extraction"))["extraction"]


@pytest.fixture(scope="module")
def table(folder):
    """The rows of the long table as arrays (policy, component) by column."""
    rows = list(csv.DictReader((folder / "numbers.csv").read_text().splitlines()))
    assert [row["policy"] for row in rows[::COMPONENTS]] == list(POLICIES)
    columns = [name for name in rows[0] if name not in ("policy", "component")]
    return {
        name: np.array([float(row[name]) for row in rows]).reshape(len(POLICIES), COMPONENTS)
        for name in columns
    }


def stacked(table, kind):
    return np.stack([table[f"{kind}_{feature}"] for feature in FEATURES], axis=-1)


def test_angles_are_counted_from_hanging_and_wrap_at_the_top():
    angles = np.linspace(-3, 3, 13)
    upright = angles + np.pi  # Pendulum-v1 counts from the top
    observations = np.stack([np.cos(upright), np.sin(upright), angles * 2], axis=1)
    found = angle_and_speed(observations.astype(np.float32))
    assert np.allclose(found, np.stack([angles, angles * 2], axis=1), atol=1e-6)


def test_adapted_means_are_the_papers_equations(table):
    weights = table["weight"][0]
    means, deviations = stacked(table, "background")[0], stacked(table, "deviation")[0]
    adapted = stacked(table, "adapted")
    data = in_the_plane(_visited(recipe("extraction").counts["smoke"].episodes, 0))
    for i in range(len(POLICIES)):
        states = data.policy_states(i).astype(np.float64)
        z = (states[:, None] - means) / deviations
        density = weights * np.exp(-(z**2).sum(axis=2) / 2) / deviations.prod(axis=1)
        responsibility = density / density.sum(axis=1, keepdims=True)
        n = responsibility.sum(axis=0)
        expectation = responsibility.T @ states / np.maximum(n, 1e-300)[:, None]
        alpha = n / (n + 16)
        expected = alpha[:, None] * expectation + (1 - alpha)[:, None] * means
        assert np.allclose(adapted[i], expected, rtol=1e-4, atol=1e-4)
        assert np.allclose(table["adaptation"][i], alpha, atol=1e-4)


def test_distances_are_equation_6_of_the_means_in_the_table(folder, table):
    numbers = json.loads((folder / "numbers.json").read_text())
    adapted, deviations = stacked(table, "adapted"), stacked(table, "deviation")[0]
    for i, j in combinations(range(len(POLICIES)), 2):
        apart = (((adapted[i] - adapted[j]) / deviations) ** 2).sum(axis=1)
        expected = (table["weight"][0] * apart).sum() / 2
        assert numbers["distances"][i][j] == pytest.approx(expected, rel=1e-6)
    assert max(numbers["distances_to_themselves"]) < np.max(numbers["distances"])


def test_the_policies_do_what_they_are_called():
    data = in_the_plane(_visited(40, 0))
    late = [np.abs(data.policy_states(i)).reshape(40, 201, 2)[:, 100:] for i in range(3)]
    spins, swings, balances = late
    assert np.mean((spins[..., 1] > 3.5).mean(axis=1) > 0.9) > 0.8
    assert 0.5 < np.mean((swings[..., 0] < 2.5).all(axis=1)) < 0.9
    assert np.mean((balances[..., 0] > 2.8).all(axis=1)) > 0.9


def test_the_recipe_gives_the_same_again_and_other_numbers_with_another_seed(folder, tmp_path):
    first = (folder / "numbers.json").read_text()
    anew = reproduce("extraction", "smoke", tmp_path / "a")["extraction"]
    other = reproduce("extraction", "smoke", tmp_path / "b", seed=1)["extraction"]
    assert (anew / "numbers.json").read_text() == first
    assert (other / "numbers.json").read_text() != first
    assert (folder / "extraction.png").stat().st_size < 300_000
    page = (folder / "README.md").read_text()
    assert "| spins – swings |" in page
    assert "a2c-1/step_80000" in page


def test_the_plan_measures_episodes():
    (one,) = needs(None, recipe("extraction").counts["paper"])
    assert one.amount == 600
    assert one.seconds > 0
