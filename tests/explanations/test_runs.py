"""What changed along a run: the told change is the one that was made, and nothing else is told."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from places import RIGHT, findings, region_at, run_of, shifted

import pivec
from pivec.errors import UsageError
from pivec.explanations import Clip, Difference, Feature, explain_run
from pivec.explanations.differences import FeatureTimes, best_span
from pivec.report import print_run, run_html


@pytest.fixture(scope="module")
def changed():
    return findings(run_of([0.0, 0.0, 0.2, 0.2, 0.5]))


def test_the_told_change_is_the_one_that_was_made_and_equal_steps_tell_nothing():
    """In 20 of 20 draws; 95 % intervals hold what was made in at least 36 of 40 steps."""
    held = 0
    for seed in range(20):
        where = findings(run_of([0.0, 0.0, 0.2, 0.2, 0.5], seed=seed))
        right = region_at(where, RIGHT)
        first, began, between, more = explain_run(where, "ppo-0").phases
        assert first.unchanged == between.unchanged == "nothing changed beyond noise"
        assert not first.changes + between.changes
        for step, kind, before, after in ((began, "began", 0, 0.2), (more, "more", 0.2, 0.5)):
            change = step.regions[0]
            assert (change.kind, change.region) == (kind, right)
            assert change.values == pytest.approx((before, after), abs=0.05)
            held += change.low < after - before < change.high
            feature = step.features[0]
            assert (feature.kind, feature.feature) == (kind, "x")
            assert feature.values == pytest.approx((before, after), abs=0.1)
            assert 1 < float(feature.where.removeprefix("x above ")) < 10
    assert held >= 36


def test_runs_that_do_not_change_tell_nothing():
    """In 95 of 100 runs; here in 20 of 20."""
    for seed in range(20):
        result = explain_run(findings(run_of([0.2] * 6, seed, episodes=10)), "ppo-0")
        assert [step.unchanged for step in result.phases] == ["nothing changed beyond noise"]
        assert result.largest is None
        assert "did not change" in result.headline()
    result.figure()


def test_what_changes_too_slowly_for_two_checkpoints_is_told_all_the_same():
    result = explain_run(findings(run_of(np.linspace(0.1, 0.3, 12))), "ppo-0")
    assert all(step.last - step.first > 1 for step in result.phases if step.changes)
    assert {change.kind for step in result.phases for change in step.regions} <= {"more", "less"}
    assert result.largest is not None


def test_rows_headline_and_largest(changed):
    result = explain_run(changed, "ppo-0")
    assert result.largest == ("ppo-0/1", "ppo-0/2")
    for fact in ("ppo-0", "10 k to 20 k", "distance 0.", "x above"):
        assert fact in result.headline()
    rows = result.rows()
    assert [row["change"] for row in rows if row["from"] == 0] == ["nothing changed beyond noise"]
    assert len({tuple(row) for row in rows}) == 1
    assert len(result.table()) == len(rows)
    assert "x above" in result._repr_html_()
    again = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert again["largest"] == ["ppo-0/1", "ppo-0/2"]
    assert again["phases"][1]["sentences"][0].startswith("began to be where x above")
    assert explain_run(changed, "ppo-0", top=1).phases[1].n_regions >= 1
    assert len(explain_run(changed, "ppo-0", top=1).phases[1].regions) == 1


def test_a_shift_within_a_region_is_told():
    data = shifted(run_of([0.3, 0.3], episodes=30), 0.7)
    [step] = explain_run(findings(data), "ppo-0").phases
    kinds = {(change.kind, change.feature) for change in step.regions}
    assert kinds == {("moved", "y")}
    assert all(change.low < 0.7 < change.high for change in step.regions)


@pytest.mark.parametrize("method", ["visitation", "supervector"])
def test_without_influences_the_states_are_described_again(method):
    where = findings(shifted(run_of([0.3, 0.3, 0.3]), 0.7), method)
    expected = explain_run(where, "ppo-0")
    bare = replace(where.space, descriptions=where.space.descriptions.without_influences())
    result = explain_run(replace(where, space=bare), "ppo-0")
    assert [step.when for step in result.phases] == [step.when for step in expected.phases]
    assert result.phases[1].regions[0].region == expected.phases[1].regions[0].region
    with pytest.raises(UsageError, match="states"):
        explain_run(replace(where, space=bare, data=None), "ppo-0")


def test_without_states_regions_are_told(changed):
    result = explain_run(replace(changed, data=None), "ppo-0")
    assert len(result.phases[1].regions) > len(result.phases[1].features) == 0
    assert len(result.notes) == 1


def test_of_several_fits_the_first_is_told():
    where = findings(run_of([0.0, 0.4]), backgrounds=2)
    result = explain_run(where, "ppo-0")
    assert all(change.region < 3 for change in result.phases[0].regions)
    assert sum(change.part for change in result.phases[0].regions) == pytest.approx(1, abs=0.1)
    assert result.shares[:, :3].sum(axis=1) == pytest.approx(1)
    assert "2 fits" in result.notes[0]


def test_mistakes_are_sentences(changed):
    with pytest.raises(UsageError, match=r"'ppo0'.* ppo-0"):
        explain_run(changed, "ppo0")
    data = changed.states
    for steps, count in ((None, 0), ([10, None, None, None, None], 1)):
        again = pivec.VisitedStates.from_arrays(
            [list(data[k].episodes()) for k in range(5)], groups=["a"] * 5, steps=steps
        )
        with pytest.raises(UsageError, match=f"'a' has {count}"):
            explain_run(findings(again), "a")
    lone = pivec.VisitedStates.from_arrays([list(data[0].episodes())] * 2)
    with pytest.raises(UsageError, match="training run"):
        explain_run(findings(lone), "a")
    where = replace(changed, space=_gaussian(data))
    with pytest.raises(UsageError, match="gaussian"):
        explain_run(where, "ppo-0")


def _gaussian(data):
    method = pivec.characterization("gaussian").fit(data)
    return pivec.Space(method, method.describe(data))


def test_a_run_is_known_by_the_end_of_its_name_and_policies_without_steps_are_left_out():
    data = run_of([0.0, 0.4, 0.4], run="runs/ppo-0")
    infos = [list(data[k].episodes()) for k in range(3)]
    again = pivec.VisitedStates.from_arrays(infos, groups=data.groups, steps=[0, 5, None])
    result = explain_run(findings(again), "ppo-0")
    assert (result.run, result.steps) == ("runs/ppo-0", (0, 5))
    assert "without 1 policy" in result.notes[0]


def test_of_very_many_checkpoints_some_are_looked_at(monkeypatch):
    monkeypatch.setattr("pivec.explanations.runs._MAX_CHECKPOINTS", 3)
    result = explain_run(findings(run_of([0.0, 0.0, 0.0, 0.4, 0.4])), "ppo-0")
    assert result.steps == (0, 20_000, 40_000)
    assert "3 of 5 checkpoints" in result.notes[0]


def test_single_episodes_say_that_noise_is_not_known():
    with pytest.warns(UserWarning, match="single episode"):
        result = explain_run(findings(run_of([0.0, 0.5], episodes=1, length=200)), "ppo-0")
    assert "single episode" in result.notes[0]
    assert math.isnan(result.phases[0].low)
    result.figure()
    print_run(result)


def test_text_from_files_is_harmless(capsys):
    data = run_of([0.0, 0.5], run="<b>[red]\x1b[31m", names=["<i>$x$", "[bold]y"])
    result = explain_run(findings(data), data.groups[0])
    print_run(result)
    printed = capsys.readouterr().out
    assert "\x1b[31m" not in printed
    assert "<i>$x$ above" in printed
    page = run_html(result, "pivec explain <out>")
    assert "<b>" not in page
    assert "<i>$" not in page
    assert "&lt;i&gt;$x$ above" in page
    assert "pivec explain &lt;out&gt;" in page


def test_the_terminal_and_the_page_tell_the_same(changed, capsys):
    result = explain_run(changed, "ppo-0")
    print_run(result)
    printed = " ".join(capsys.readouterr().out.split())
    page = run_html(result).replace("\xa0", " ")
    for step in result.phases:
        for text in (step.when, *([step.unchanged] if step.unchanged else [])):
            assert text in printed
            assert text in page
    assert f"began: {result.phases[1].features[0].where}" in printed
    assert "95 %" in page
    assert "data:image/png" in page


def test_clips_of_the_largest_step_are_shown(changed, tmp_path):
    file = tmp_path / "clips" / "a.webp"
    file.parent.mkdir()
    file.write_bytes(b"RIFF")
    clips = Clip("Both", "from one seed", file), Clip("Another", "", None, "it <b>fails</b>")
    result = replace(explain_run(changed, "ppo-0"), clips=clips)
    assert [clip["path"] for clip in result.to_json()["clips"]] == ["clips/a.webp", None]
    page = run_html(result)
    assert "data:image/webp;base64,UklGRg==" in page
    assert "it &lt;b&gt;fails" in page


def test_long_runs_are_joined_to_few_phases():
    where = findings(run_of(np.tile([0.0, 0.8], 30), episodes=8))
    phases = explain_run(where, "ppo-0").phases
    assert len(phases) == 40
    assert (phases[0].first, phases[-1].last) == (0, 59)
    assert all(a.last == b.first for a, b in pairwise(phases))
    assert any(phase.merged for phase in phases)


@pytest.mark.slow
def test_three_hundred_checkpoints_take_less_than_ten_seconds():
    where = findings(run_of(np.tile([0.0, 0.3, 0.6], 100), episodes=50, length=100))
    start = time.perf_counter()
    result = explain_run(where, "ppo-0")
    assert time.perf_counter() - start < 10
    assert len(result.phases) == 40
    assert "300 checkpoints" in result.notes[0]


def test_times_below_edges_are_those_counted_one_by_one(changed):
    data = changed.states
    for by_state in (False, True):
        counted = FeatureTimes(data, changed.features, by_state)
        times, edges = counted.below, counted.edges
        for p, j in ((0, 0), (4, 1)):
            episodes = list(data[p].episodes())
            rows = [np.concatenate(episodes)] if by_state else episodes
            slow = [
                np.mean([np.mean(row[:, j].astype(float) <= e) for row in rows]) for e in edges[j]
            ]
            assert times[j][p] == pytest.approx(slow, abs=1e-12)


def test_the_best_span_is_the_best_of_all(rng):
    edges = np.arange(6.0)
    for _ in range(20):
        a, b = np.sort(rng.random((2, 6)), axis=1)
        _, i, j = best_span(0, edges, a, b)
        more = np.concatenate([[0.0], b - a, [0.0]])
        spans = [abs(more[k] - more[h]) for h in range(8) for k in range(h + 1, 8)]
        ends = [abs(x) for x in more]
        size = abs(more[j] - more[i])
        assert size == pytest.approx(max(spans)) or size >= 0.95 * max(ends)
        assert size >= 0.95 * max(spans) / 1.3


def test_edges_are_round_and_features_without_values_have_none(rng):
    data = pivec.VisitedStates.from_arrays([[rng.normal(0.0, 1.0, (1000, 1))]])
    [edges] = FeatureTimes(data, [Feature("x")], False).edges
    assert len(edges) > 9
    assert all(len(f"{abs(edge):g}") <= 4 for edge in edges)
    assert not any(str(edge) == "-0.0" for edge in edges)
    data = pivec.VisitedStates.from_arrays([[np.ones((5, 1))], [np.ones((5, 1))]])
    one = np.eye(2)
    assert not list(FeatureTimes(data, [Feature("x")], False).best_spans(*one))


def test_words():
    assert Difference("x above 2", 0, (0.02, 0.001)).kind == "less"
    moved = Difference("x above 2", 0, (-1.0, 0.5), 1.4, 1.6, 0.1, "y", "m")
    assert moved.sentence() == "where x above 2: y −1 → 0.5 m on average"
