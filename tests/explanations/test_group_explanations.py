"""What sets groups of runs apart: what was made so is told first, and chance is called chance."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from places import RIGHT, findings, groups_of, region_at
from scipy.stats import ttest_ind

from pivec.errors import UsageError
from pivec.explanations import explain_groups
from pivec.explanations.differences import FeatureTimes, welch
from pivec.report import group_explanation_html, print_group_explanation
from pivec.statistics import benjamini_hochberg

FIVE = {"ppo": [0.3, 0.32, 0.28, 0.35, 0.25], "a2c": [0.02, 0.0, 0.01, 0.03, 0.02]}


@pytest.fixture(scope="module")
def five():
    return findings(groups_of(FIVE))


def test_what_differs_is_told_first(five):
    result = explain_groups(five)
    assert result.groups == ("a2c", "ppo")
    assert result.runs[1] == tuple(f"ppo-{k}" for k in range(5))
    feature, region = result.features[0], result.regions[0]
    assert region.region == region_at(five, RIGHT)
    assert feature.where.startswith("x above")
    for contrast in (feature, region):
        assert contrast.significant
        assert contrast.separation == 1
        assert contrast.values == pytest.approx((0.016, 0.3), abs=0.03)
        assert contrast.low < 0.284 < contrast.high
    for fact in ("all 5 runs of ppo", "x above", "any of a2c: 2"):
        assert fact in result.headline()
    assert "chance" not in result.headline()
    assert sum(c.part for c in result.regions) == pytest.approx(1)
    assert len(result.table()) == 2 + 3
    json.dumps(result.to_json(), allow_nan=False)


def test_equal_groups_are_not_told_apart():
    """Of 20 draws of two groups of four runs that scatter, at most 2 have a sure difference."""
    wrong = 0
    for seed in range(20):
        draws = np.random.default_rng(seed).uniform(0.1, 0.4, (2, 4))
        where = findings(groups_of(dict(zip("ab", draws, strict=True)), seed, 1, episodes=5))
        result = explain_groups(where)
        wrong += any(c.significant for c in result.features + result.regions)
        if not any(c.significant for c in result.leading):
            assert "chance" in result.headline() or not result.leading
    assert wrong <= 2


def test_groups_are_chosen_by_patterns_and_names(five):
    by_pattern = explain_groups(five, {"B": "ppo-[12]", "A": ["a2c-*"]})
    assert by_pattern.groups == ("B", "A")
    assert [len(runs) for runs in by_pattern.runs] == [2, 5]
    assert by_pattern.left_out == ("ppo-0", "ppo-3", "ppo-4")
    assert by_pattern.regions[0].separation == -1
    named = explain_groups(five, ["ppo", "a2c"])
    assert named.groups == ("ppo", "a2c")
    assert named.regions[0].size == pytest.approx(-explain_groups(five).regions[0].size)


def test_mistakes_are_sentences():
    where = findings(groups_of({"ppo": [0.1, 0.2], "a2c": [0.1, 0.2], "sac": [0.3, 0.3]}))
    with pytest.raises(UsageError, match=r"3 \(a2c, ppo, sac\)"):
        explain_groups(where)
    with pytest.raises(UsageError, match=r"'sacc'.* sac\?"):
        explain_groups(where, ["ppo", "sacc"])
    with pytest.raises(UsageError, match=r"1 \(ppo\)"):
        explain_groups(where, {"ppo": "ppo-*"})
    assert explain_groups(where, ["sac", "ppo"]).groups == ("sac", "ppo")


def test_a_single_run_gives_no_test(five):
    result = explain_groups(five, {"a": "a2c-*", "b": "ppo-0"})
    [caveat] = result.caveats()
    assert "single run of b" in caveat
    assert all(math.isnan(c.low) and not c.significant for c in result.features + result.regions)
    assert "x above" in result.headline()
    assert "chance" in result.headline()
    result.figure()


def test_so_few_runs_say_so():
    where = findings(groups_of({"a": [0.1, 0.12], "b": [0.5, 0.45]}))
    result = explain_groups(where)
    assert result.least_p == pytest.approx(1 / 3)
    assert "chance alone gives about" in result.caveats()[0]
    assert "both runs of b" in result.headline()


def test_the_last_checkpoints_are_looked_at(five):
    last = explain_groups(five, last=1)
    data = five.states
    rows = [i for i, step in enumerate(data.steps) if step == 100 and "a2c" in data.groups[i]]
    right = region_at(five, RIGHT)
    counts = five.space.descriptions.arrays["counts"][rows]
    shares = (counts / counts.sum(axis=1, keepdims=True))[:, right]
    contrast = next(c for c in last.regions if c.region == right)
    assert contrast.runs[0] == pytest.approx(shares)


def test_without_states_regions_are_told(five):
    result = explain_groups(replace(five, data=None))
    assert not result.features
    assert result.regions[0].separation
    assert len(result.notes) == 1


def test_of_several_fits_the_first_is_told():
    result = explain_groups(findings(groups_of(FIVE, checkpoints=1), backgrounds=2))
    assert len(result.regions) == 3
    assert sum(c.values[0] for c in result.regions) == pytest.approx(1)
    assert "2 fits" in result.notes[0]


def test_numbers_are_those_of_slow_formulas(five, rng):
    a, b = rng.random((4, 3)), rng.random((6, 3))
    low, high, p_value = welch(a, b)
    slow = ttest_ind(b, a, equal_var=False)
    assert p_value == pytest.approx(slow.pvalue)
    ends = slow.confidence_interval(0.95)
    assert low == pytest.approx(ends.low)
    assert high == pytest.approx(ends.high)
    result = explain_groups(five)
    points = five.space.descriptions.points
    groups = five.space.descriptions.groups
    runs = [[np.mean([points[i] for i, g in enumerate(groups) if g == run], 0) for run in own]
            for own in result.runs]  # fmt: skip
    apart = (np.mean(runs[0], 0) - np.mean(runs[1], 0)) ** 2
    apart -= sum(np.var(own, axis=0, ddof=1) / len(own) for own in runs)
    parts = apart.reshape(3, -1).sum(axis=1) / apart.sum()
    assert [c.part for c in result.regions] == pytest.approx(np.sort(parts)[::-1])


def test_spans_are_tested_by_exchanging_runs(five):
    result = explain_groups(five)
    data = five.states
    times = FeatureTimes(data, five.features, by_state=False).below
    runs = [run for own in result.runs for run in own]
    rows = [[i for i, group in enumerate(data.groups) if group == run] for run in runs]
    p_values = []
    for below in times:
        means = np.array([below[own].mean(axis=0) for own in rows])
        sizes = []
        for chosen in combinations(range(10), 5):
            others = [k for k in range(10) if k not in chosen]
            more = np.append(means[list(chosen)].mean(0) - means[others].mean(0), 0.0)
            sizes.append(more.max() - more.min())
        p_values.append(np.mean(np.array(sizes) >= sizes[0] - 1e-12))
    assert sorted(c.q_value for c in result.features) == pytest.approx(
        sorted(benjamini_hochberg(p_values))
    )


def test_text_from_files_is_harmless(capsys):
    data = groups_of({"<b>[red]": [0.1, 0.1], "$x": [0.4, 0.5]}, names=["<i>", "[bold]"])
    result = explain_groups(findings(data))
    print_group_explanation(result)
    printed = capsys.readouterr().out
    assert "[red]" in printed
    assert "<i> above" in printed
    page = group_explanation_html(result)
    assert "<b>" not in page
    assert "<i> above" not in page
    assert "&lt;b&gt;[red]" in page
    result.figure()


def test_the_terminal_names_runs_and_groups(five, capsys):
    result = explain_groups(five)
    print_group_explanation(result)
    printed = capsys.readouterr().out
    assert "All 5 runs of ppo" in printed
    assert "ppo: ppo-0, ppo-1" in printed
    assert "Time of a2c" in printed
