"""The whole comparison: every file it promises, resumed, staged, and placed in an earlier space."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import pivec
from pivec.characterizations import Space
from pivec.errors import PivecWarning, UsageError

LEFT_BEHIND = {
    "states",
    "space",
    "distances.csv",
    "distances.png",
    "pairs.csv",
    "kinds.csv",
    "episodes.csv",
    "map.csv",
    "map.png",
    "report.html",
    "run.json",
}


def tilt(gain):
    def policy(observations, rng):
        lean = observations[:, 2] + gain * observations[:, 3]
        return (lean + 0.05 * rng.normal(size=len(lean)) > 0).astype(int)

    return policy


POLICIES = {f"tilt/{gain}": tilt(gain) for gain in (0.0, 0.2, 0.5)} | {"random": "random"}
SMALL = {"episodes": 5, "parameters": {"n_components": 4}}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return pivec.compare("CartPole-v1", POLICIES, folder, command="pivec compare ...", **SMALL)


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, strict=True))


def test_it_leaves_everything_it_promises(done):
    assert {path.name for path in done.folder.iterdir()} == LEFT_BEHIND
    head, *lines = read(done.folder / "distances.csv")
    assert tuple(head[1:]) == done.labels == tuple(POLICIES)
    assert np.array_equal([[float(cell) for cell in line[1:]] for line in lines], done.distances)
    head, *lines = read(done.folder / "pairs.csv")
    assert head == ["policy", "other", "distance", "low", "high", "overlap", "p", "q"]
    assert {frozenset(line[:2]) for line in lines} == {*map(frozenset, combinations(POLICIES, 2))}
    assert all(float(line[3]) <= float(line[2]) <= float(line[4]) for line in lines)
    head, *lines = read(done.folder / "map.csv")
    rows = dict(zip(head, zip(*lines, strict=True), strict=True))
    places = np.array([rows["x"], rows["y"]], dtype=float).T
    assert np.allclose(places, done.space.positions)
    assert np.allclose(list(map(float, rows["mean_return"])), pivec.load(done.folder).mean_returns)
    for name in ("map.png", "distances.png"):
        assert (done.folder / name).read_bytes().startswith(b"\x89PNG")
        assert (done.folder / name).stat().st_size < 300_000


def test_run_json_tells_how_it_was_made(done):
    run = json.loads((done.folder / "run.json").read_text())
    assert run["run"]["command"] == "pivec compare ..."
    assert run["settings"]["seed"] == 0
    assert run["settings"]["parameters"]["n_components"] == 4
    assert run["versions"]["numpy"] == np.__version__
    timings, peaks = run["run"]["timings"], run["run"]["peak_mb"]
    assert set(timings) == set(peaks) == {"collect", "describe", "distances", "map", "report"}
    assert 50 < peaks["collect"] <= peaks["report"]


def lasting(path):
    """Return the content of a file without what is marked as volatile."""
    if path.name == "run.json":
        record = json.loads(path.read_text())
        assert record.pop("run")
        return record
    if path.suffix == ".html":
        marked = r"<(\w+)[^>]* data-volatile.*?</\1>"
        return re.sub(marked, "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return path.read_bytes()


def test_two_identical_runs_differ_only_in_what_is_marked(run, tmp_path):
    for out in ("a", "b"):
        few = "--episodes", 3, "--components", 2
        run("compare", "CartPole-v1", "random:3", *few, "--out", out)
        for command in (("explain", out, "--clips", 0), ("regions", out), ("unusual", out)):
            run(*command)
    a, b = (sorted(p for p in (tmp_path / out).rglob("*") if p.is_file()) for out in ("a", "b"))
    assert [p.relative_to(tmp_path / "a") for p in a] == [p.relative_to(tmp_path / "b") for p in b]
    for one, other in zip(a, b, strict=True):
        assert lasting(one) == lasting(other), one
    command = json.loads((tmp_path / "b/run.json").read_text())["run"]["command"]
    assert command.endswith("--out b")
    page = (tmp_path / "b/report.html").read_text(encoding="utf-8")
    assert "--out b" in page
    assert "--out b" not in lasting(tmp_path / "b/report.html")


def test_the_page_names_every_policy(done):
    page = done.report.read_text()
    for label in POLICIES:
        assert label in page
    assert "CartPole-v1" in page


def test_the_same_command_gives_the_same_numbers(done, tmp_path):
    again = pivec.compare("CartPole-v1", POLICIES, tmp_path, **SMALL)
    assert np.array_equal(again.distances, done.distances)
    assert np.array_equal(again.space.positions, done.space.positions)
    assert (tmp_path / "map.csv").read_text() == (done.folder / "map.csv").read_text()


def test_a_rerun_with_more_policies_keeps_the_states_of_the_others(tmp_path):
    few = {"tilt/0.0": POLICIES["tilt/0.0"], "random": "random"}
    pivec.compare("CartPole-v1", few, tmp_path, **SMALL)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "states").glob("*.arrow")}
    all_of_them = pivec.compare("CartPole-v1", POLICIES, tmp_path, **SMALL)
    assert all_of_them.labels == tuple(POLICIES)
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())


def test_new_policies_are_placed_without_moving_the_others(done, tmp_path):
    new = {"tilt/0.3": tilt(0.3), "same": POLICIES["tilt/0.5"]}
    placed = pivec.compare("CartPole-v1", new, tmp_path, episodes=5, space=done.folder)
    assert placed.labels == (*new, *POLICIES)
    assert placed.space.is_reference == [False] * 2 + [True] * 4
    old = Space.load(done.folder)
    assert np.array_equal(placed.space.method.background_.means, old.method.background_.means)
    assert np.array_equal(placed.space.positions[2:], old.positions)
    assert np.array_equal(placed.distances[2:, 2:], done.distances)
    nearest = min(range(2, 6), key=lambda i: placed.distances[1, i])
    assert placed.labels[nearest] == "tilt/0.5"


def test_a_space_without_influences_is_joined_without_intervals(done, tmp_path):
    old = done.space.descriptions
    kept = {name: a for name, a in old.arrays.items() if "influences" not in name}
    replace(done.space, descriptions=replace(old, arrays=kept)).save(tmp_path / "old")
    new = {"tilt/0.3": tilt(0.3)}
    with pytest.warns(PivecWarning, match="no intervals"):
        placed = pivec.compare(
            "CartPole-v1", new, tmp_path / "new", episodes=5, space=tmp_path / "old"
        )
    assert placed.measured.n_known == 0
    assert len(placed.measured.pairs) == 10


def test_a_space_of_another_environment_is_refused(done, tmp_path):
    with pytest.raises(UsageError, match="environment = 'CartPole-v1'"):
        pivec.compare("Acrobot-v1", "random", tmp_path, episodes=1, space=done.folder)


def test_gaussians_have_a_map_too(tmp_path):
    result = pivec.compare("CartPole-v1", POLICIES, tmp_path, episodes=3, method="gaussian")
    assert result.space.positions.shape == (4, 2)
    assert {path.name for path in tmp_path.iterdir()} == LEFT_BEHIND - {"kinds.csv", "episodes.csv"}


def test_one_policy_gives_a_page(tmp_path):
    result = pivec.compare("CartPole-v1", "random", tmp_path, **SMALL)
    assert result.distances.tolist() == [[0.0]]
    assert result.report.exists()


def test_what_a_characterization_needs_is_collected(tmp_path):
    from importlib.resources import files

    shelf = files("pivec") / "demo_policies" / "CartPole-v1" / "ppo-0"
    with pytest.warns(PivecWarning, match="parameters .*width 0"):
        result = pivec.compare("CartPole-v1", str(shelf), tmp_path, episodes=2, method="parameters")
    assert result.distances.shape == (8, 8)
    assert pivec.Store(tmp_path / "states").settings["policies"]
