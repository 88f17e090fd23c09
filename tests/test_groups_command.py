"""`pivec groups` as people use it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pivec

RUNS = ["ppo-0", "ppo-1", "ppo-2", "a2c-0", "a2c-1", "a2c-2", "[red]mine"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Leave a space as `compare` does."""
    rng = np.random.default_rng(0)
    walks = [
        [rng.normal(2.0 * (run[0] == "p") + 0.1 * k, 1.0, (12, 2)) for _ in range(6)]
        for k, run in enumerate(RUNS)
    ]
    data = pivec.VisitedStates.from_arrays(walks, groups=RUNS, steps=range(len(RUNS)))
    method = pivec.characterization("visitation", n_components=4).fit(data)
    path = tmp_path_factory.mktemp("groups")
    described = method.describe(data, influences=True)
    pivec.Space(method, described, collected={"environment": "Walk-v0"}).save(path / "space")
    return path


def test_groups_are_said_and_kept(run, folder, tmp_path):
    done = run("groups", folder, "--out", tmp_path / "new")
    assert "by name, ignoring the number at the end" in done.out
    assert "a2c: a2c-0, a2c-1, a2c-2" in done.out
    assert "in no group: [red]mine" in done.out
    assert "p cannot fall below 0.1" in done.out
    kept = json.loads((tmp_path / "new" / "groups.json").read_text())
    assert [group["name"] for group in kept["groups"]] == ["a2c", "ppo"]
    assert kept["test"]["p_value"] == 0.1
    assert (tmp_path / "new" / "groups.png").stat().st_size > 10_000


def test_groups_may_be_given(run, folder, tmp_path):
    done = run("groups", folder / "space", "--group", "on=ppo-*", "--group", "on=a2c-*",
               "--group", "mine=*mine", "--last", 1, "--out", tmp_path)  # fmt: skip
    assert "as given; last 1 policy of each run:" in done.out
    kept = json.loads((tmp_path / "groups.json").read_text())
    assert [len(group["runs"]) for group in kept["groups"]] == [1, 6]
    assert kept["groups"][0]["distance"]["value"] is None
    assert "need three runs per group" in done.out


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ("sac=sac-*", ("'sac-*'", "'sac'", "ppo-0, ppo-1")),
        ("sac", ("--group", "NAME=PATTERN", "'sac'")),
    ],
)
def test_mistakes_are_sentences(run, folder, given, facts):
    done = run("groups", folder, "--group", given, code=2)
    assert all(fact in done.err for fact in facts)


def test_one_group_has_a_diversity_and_no_test(run, folder, tmp_path):
    done = run("groups", folder, "--group", "all=*-?", "--out", tmp_path)
    assert "two groups" in done.out
    assert "p =" not in done.out
