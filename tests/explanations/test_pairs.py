"""What differs between two policies of a folder, and where in their episodes it shows."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import explained_pairs as made
import pivec
from pivec.errors import UsageError
from pivec.explanations import ComparisonFolder, explain_pair, leading_regions, pair_folder
from pivec.explanations.clips import best_window


def walks(rng, share_of_far):
    """Twelve episodes around 0, which spend so much of their time around 8."""
    n = int(40 * share_of_far)
    return [
        np.concatenate([rng.normal(0, 1, (40, 2)), rng.normal([8, 0], 1, (n, 2))])
        for _ in range(12)
    ]


def folder_with(path, method="visitation", **parameters):
    rng = np.random.default_rng(0)
    data = pivec.VisitedStates.from_arrays(
        [walks(rng, share) for share in (0.1, 1.0, 0.1)],
        labels=["runs/near", "runs/far", "runs/near2"],
        feature_names=["height", "speed"],
        environment="Walk-v0",
    )
    method = pivec.characterization(method, **parameters).fit(data)
    described = method.describe(data, influences=method.traits.influences)
    space = pivec.Space(method, described, collected={"environment": "Walk-v0"})
    return ComparisonFolder(path, space, data)


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    return folder_with(tmp_path_factory.mktemp("pairs"), n_components=3)


def test_the_first_region_is_where_only_one_of_them_is(findings):
    difference = explain_pair(findings, "near", "far")
    assert difference.labels == ("runs/near", "runs/far")
    assert difference.different
    first = difference.leading[0]
    e = difference.decomposition
    assert e.words[first].startswith("height above")
    assert e.share[1, first] > 5 * e.share[0, first]
    assert "runs/near and runs/far" in difference.headline()
    assert {frame.visit.policy for frame in difference.frames} == {"runs/near", "runs/far"}
    for frame in difference.frames:
        assert difference.frame(frame.visit.policy, frame.visit.region) is frame
    shares = [difference.share(region) for region in range(len(e.words))]
    assert sum(shares) == pytest.approx(1.0, rel=1e-9)


def test_policies_that_behave_alike_are_not_told_apart(findings):
    difference = explain_pair(findings, "near", "near2")
    assert difference.different is False
    assert len(difference.leading) == 3  # all that there are, marked
    assert difference.decomposition.regions.noise.all()


def test_without_states_the_space_tells(findings):
    bare = ComparisonFolder(findings.folder, findings.space, None)
    difference = explain_pair(bare, "near", "far")
    there = explain_pair(findings, "near", "far")
    assert difference.decomposition.distance == pytest.approx(
        there.decomposition.distance, rel=1e-5
    )
    assert difference.leading == there.leading
    assert not difference.frames
    assert "runs/near and runs/far" in difference.notes[0]


def test_a_typo_is_answered_with_what_was_meant(findings):
    with pytest.raises(UsageError, match=r"'runs/farr'.* runs/far\?"):
        explain_pair(findings, "near", "runs/farr")
    with pytest.raises(UsageError, match="both refer to runs/near"):
        explain_pair(findings, "near", "runs/near")


def test_a_method_without_regions_says_so(tmp_path):
    findings = folder_with(tmp_path, "gaussian")
    difference = explain_pair(findings, "near", "far")
    assert "gaussian" in difference.notes[0]
    assert "; " not in difference.headline()
    assert difference.to_json()["leading"] == [0]


def test_cells_are_told_by_where_they_are(tmp_path):
    difference = explain_pair(folder_with(tmp_path, "discretization"), "near", "far")
    words = difference.decomposition.words[difference.leading[0]]
    assert re.fullmatch(r"height −?[\d.]+ to [\d.]+, speed −?[\d.]+ to −?[\d.]+ \(cell .*\)", words)


def test_a_method_that_cannot_tell_says_which_can(tmp_path):
    findings = folder_with(tmp_path, "terminal-state")
    with pytest.raises(UsageError, match="visitation"):
        explain_pair(findings, "near", "far")


def test_json_is_strict_and_whole(findings):
    difference = explain_pair(findings, "near", "far", top=1)
    read = json.loads(json.dumps(difference.to_json(), allow_nan=False))
    assert len(read["leading"]) == 1
    parts = read["decomposition"]
    assert sum(parts["regions"]["measured"]) == pytest.approx(parts["distance"], rel=1e-9)
    assert read["frames"][0]["visit"]["policy"] in difference.labels


def test_every_pair_has_its_own_folder(findings):
    difference = explain_pair(findings, "near", "far")
    assert pair_folder(findings, difference).relative_to(findings.folder).as_posix() == (
        "explain/runs_near--runs_far"
    )
    odd = replace(difference.decomposition, labels=("a/b", "a b"))
    infos = tuple(
        replace(info, label=x)
        for info, x in zip(findings.policies, ["a/b", "a b", "c"], strict=True)
    )
    space = replace(
        findings.space, descriptions=replace(findings.space.descriptions, policies=infos)
    )
    first, second = pair_folder(
        ComparisonFolder(findings.folder, space, None), replace(difference, decomposition=odd)
    ).name.split("--")
    assert first != second
    assert first.startswith("a_b-")


def test_leading_regions_are_the_largest_that_are_not_chance():
    explanation = made.explanation_of()
    assert leading_regions(explanation) == (0, 1)
    assert leading_regions(explanation, 1) == (0,)
    chance = replace(explanation.regions, noise=np.ones(4, dtype=bool))
    assert leading_regions(replace(explanation, regions=chance)) == (0, 1, 2)


def test_shifts_are_those_that_are_sure():
    difference = made.difference_of()
    (shift,) = difference.significant_shifts(0)
    assert (shift.feature, shift.value) == (1, -1.2)
    assert difference.significant_shifts(3) == []


def test_averages_that_shift_are_sure_among_all_features():
    (shift,) = made.difference_of().average_shifts()
    assert (shift.feature, shift.value) == (0, 0.3)
    # An interval that only just leaves 0 out is one in twenty by chance, and there are forty.
    wide = {"averages": np.zeros((2, 40)), "ranges": np.tile([0.0, 1.0], (4, 40, 1))}
    ends = {"average_shift_low": np.full(40, -0.1), "average_shift_high": np.full(40, 0.1)}
    ends["average_shift_low"][0], ends["average_shift_high"][0] = 0.001, 0.201
    shift = {"average_shift": np.zeros(40)}
    shift["average_shift"][0] = 0.101
    explanation = replace(made.explanation_of(), **wide, **ends, **shift)
    assert made.difference_of(explanation).average_shifts() == []


def test_a_step_is_worth_the_part_of_its_region():
    ours, theirs = (made.difference_of().region_values(which) for which in (0, 1))
    np.testing.assert_allclose(ours, [0.12 + 0.09, -0.02 + 0.03, 0, 0], atol=1e-12)
    np.testing.assert_allclose(theirs, [-0.12 + 0.09, 0.02 + 0.03, 0, 0], atol=1e-12)


def test_the_best_cut_is_the_best_of_all(rng):
    lengths = rng.integers(1, 30, size=20)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    worth = rng.normal(size=starts[-1])
    for length in (1, 7, 100):
        episode, first, last = best_window(worth, starts, length)
        sums = {
            (e, first): worth[starts[e] + first : starts[e] + first + n].sum()
            for e in range(20)
            for n in [min(length, lengths[e])]
            for first in range(lengths[e] - n + 1)
        }
        assert (episode, first) == max(sums, key=sums.get)
        assert last - first + 1 == min(length, lengths[episode])
