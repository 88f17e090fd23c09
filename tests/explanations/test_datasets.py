"""Recorded episodes as a dataset: planted copies, drift and missing places, and where they show."""

import csv
import shutil

import numpy as np
import pandas as pd
import pytest

import pivec
from pivec.explanations import ComparisonFolder, explore_datasets

STEPS = 40


def walks(rng, n, places=(0.0, 6.0, 12.0), drift=0.0):
    """Walks around one of some places each; the second feature changes with their number."""
    found = []
    for e in range(n):
        start = np.array([rng.choice(places), drift * e / n, 0.0]) + rng.normal(0, 0.5, 3)
        found.append(start + np.cumsum(rng.normal(0, 0.15, (STEPS, 3)), axis=0))
    return found


def episodes_table(path, episodes):
    rows = [
        pd.DataFrame(states, columns=["x", "<y>", "z"]).assign(episode=e, t=range(len(states)))
        for e, states in enumerate(episodes)
    ]
    pd.concat(rows, ignore_index=True).to_parquet(path)
    return path


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Compare demonstrations with copies and drift to rollouts that lack a place."""
    folder, rng = tmp_path_factory.mktemp("datasets"), np.random.default_rng(0)
    demos = walks(rng, 60, drift=4.0)
    demos += [demos[5].copy(), demos[9] + rng.normal(0, 1e-3, (STEPS, 3)), demos[5].copy()]
    rollouts = walks(rng, 60, (0.0, 6.0))
    rollouts[7] = demos[20] + 1e-3
    tables = [
        episodes_table(folder / "demos.parquet", demos),
        episodes_table(folder / "rollouts.parquet", rollouts),
    ]
    return pivec.compare(list(map(str, tables)), out=folder / "out", components=12)


def table(folder, name):
    with (folder / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_planted_copies_are_listed_and_exact_ones_told_apart(compared):
    groups = compared.datasets.groups
    found = [[(row.policy, row.episode, row.exact) for row in group] for group in groups]
    assert found == [
        [("demos", 5, True), ("demos", 60, True), ("demos", 62, True)],
        [("demos", 9, False), ("demos", 61, False)],
        [("demos", 20, False), ("rollouts", 7, False)],
    ]
    near = groups[1][0]
    assert 0 < near.distance < 0.01 < 0.1 < near.others
    assert [row.distance for row in groups[0]] == [0.0] * 3
    rows = table(compared.folder, "duplicates.csv")
    assert [(row["policy"], int(row["episode"]), row["exact"]) for row in rows[2:4]] == [
        ("demos", 62, "true"),
        ("demos", 9, "false"),
    ]


def test_distances_of_near_duplicates_are_root_mean_squares_in_deviations(compared):
    data = compared.stored.states
    at = ((np.arange(16) + 0.5) / 16)[:, None]
    points = np.array([own[(at[:, 0] * len(own)).astype(int)] for own in data.episodes()])
    points = (points - points.mean(axis=(0, 1))) / points.std(axis=(0, 1))
    near = compared.datasets.groups[1][0]
    apart = np.sqrt(((points - points[9]) ** 2).mean(axis=(1, 2)))
    assert near.distance == pytest.approx(apart[61], rel=1e-4)
    assert near.others == pytest.approx(np.sort(apart)[2], rel=1e-4)


def test_what_rollouts_reach(compared):
    [reach] = compared.datasets.reach
    assert (reach.policy, reach.dataset) == ("rollouts", "demos")
    third = np.mean([own[:, 0].mean() > 9 for own in compared.stored.states["demos"].episodes()])
    assert reach.reached < 1 - third + 0.1  # some drifted away, too
    assert reach.reached_low <= reach.reached <= reach.reached_high < 0.9
    assert reach.outside_low <= reach.outside <= reach.outside_high
    assert reach.outside < 0.2
    assert f"{100 * reach.reached:.0f} %" in reach.words
    [row] = table(compared.folder, "coverage.csv")
    assert float(row["reached"]) == reach.reached


def test_drift_names_what_changed(compared):
    demos, rollouts = compared.datasets.drift
    assert demos.p_value <= 0.002 < 0.05 < rollouts.p_value
    data = compared.stored.states["demos"]
    means = np.array([own[:, 1].mean() for own in data.episodes()])
    first, last = means[:21].mean(), means[-21:].mean()
    change = demos.changes[0]
    assert change.quantity == "<y>"
    assert (change.first, change.last) == pytest.approx((first, last))
    assert change.deviations == pytest.approx((last - first) / data.states[:, 1].std(), rel=1e-5)
    assert len(change.tenths) == 10
    assert change.tenths[0] < change.tenths[4] < change.tenths[8]
    rows = table(compared.folder, "drift.csv")
    assert [row["quantity"] for row in rows if row["policy"] == "rollouts"] == [""]
    assert rows[0]["quantity"] == "<y>"


def test_they_are_on_the_console_and_the_page(compared, capsys):
    from pivec.report import print_summary

    print_summary(compared.findings)
    printed = " ".join(capsys.readouterr().out.split())
    for words in (compared.datasets.reach[0].words, "7 of 123 episodes", "<y>"):
        assert words in printed
    page = compared.report.read_text(encoding="utf-8")
    assert "As a dataset" in page
    assert "&lt;y&gt;" in page
    assert "<y>" not in page.partition('type="application/json"')[0]


def test_one_dataset_alone(tmp_path):
    rng = np.random.default_rng(1)
    path = episodes_table(tmp_path / "one.parquet", walks(rng, 40))
    result = pivec.compare(str(path), out=tmp_path / "out", components=8)
    found = result.datasets
    assert (found.duplicates, found.reach) == ((), ())
    assert found.drift[0].p_value > 0.05
    assert "no near-duplicates" in found.words
    assert not (tmp_path / "out" / "duplicates.csv").exists()
    assert len(result.kinds) > 1
    assert "As a dataset" in result.report.read_text(encoding="utf-8")


def test_tables_of_an_earlier_comparison_are_removed(tmp_path):
    rng = np.random.default_rng(1)
    first = walks(rng, 30)
    pivec.compare({"a": [*first, first[3]], "b": walks(rng, 30)}, out=tmp_path, components=4)
    assert {"duplicates.csv", "coverage.csv", "drift.csv"} <= {f.name for f in tmp_path.iterdir()}
    for name in ("states", "space"):
        shutil.rmtree(tmp_path / name)
    pivec.compare("CartPole-v1", "random:2", tmp_path, episodes=5, components=4)
    left = {f.name for f in tmp_path.iterdir()}
    assert not left & {"duplicates.csv", "coverage.csv", "drift.csv"}


def test_the_order_of_others_does_not_change_it(tmp_path):
    rng = np.random.default_rng(2)
    parts = {"demos": walks(rng, 30), "a": walks(rng, 30, (0.0, 6.0)), "b": walks(rng, 30, (0.0,))}
    results = []
    for order in (("demos", "a", "b"), ("demos", "b", "a")):
        data = {label: parts[label] for label in order}
        done = pivec.compare(data, out=tmp_path / order[1], components=6)
        results.append({row.policy: row for row in done.datasets.reach})
    for label in "ab":
        one, other = ([*vars(result[label]).values()][2:] for result in results)
        assert one == pytest.approx(other, rel=1e-9)
    assert results[0]["a"].reached > results[0]["b"].reached


def test_few_episodes_and_checkpoints(tmp_path):
    rng = np.random.default_rng(4)
    parts = {"demos": walks(rng, 30), "few": walks(rng, 6)}
    found = pivec.compare(parts, out=tmp_path / "few", components=6).datasets
    assert np.isnan([found.reach[0].reached, found.reach[0].outside]).all()
    assert found.coverage[0].startswith("1 policy")
    assert table(tmp_path / "few", "coverage.csv")[0]["reached"] == ""
    assert [row.policy for row in found.drift] == ["demos"]
    run = pivec.VisitedStates.from_arrays(list(parts.values()), groups=["a", "a"], steps=[1, 2])
    found = pivec.compare(run, out=tmp_path / "run", components=6).datasets
    assert (found.reach, found.coverage) == ((), [])


def test_outcomes_may_drift(tmp_path):
    rng = np.random.default_rng(3)
    score = np.arange(40.0)
    data = pivec.VisitedStates.from_arrays(
        {"demos": walks(rng, 40, drift=5.0)}, outcomes={"score": [score]}
    )
    done = pivec.compare(data, out=tmp_path, components=6)
    [drift] = done.datasets.drift
    [change] = [change for change in drift.changes if change.quantity == "score"]
    assert (change.first, change.last) == (score[:13].mean(), score[-13:].mean())


def test_simulated_policies_are_no_dataset(tmp_path):
    done = pivec.compare("CartPole-v1", "random:2", tmp_path, episodes=5, components=4)
    assert done.datasets is None
    opened = ComparisonFolder.open(done)
    assert explore_datasets(ComparisonFolder(opened.folder, opened.space, None)) is None
