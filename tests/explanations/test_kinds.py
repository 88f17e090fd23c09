"""Kinds of episodes: planted habits within episodes and across them."""

import csv
from dataclasses import replace

import numpy as np
import pytest

import pivec
from pivec.explanations import ComparisonFolder, find_kinds


def circles(rng, n, across):
    """Walk on a circle: one way per episode, or one way and back."""
    episodes = []
    for _ in range(n):
        way = rng.choice([-1.0, 1.0]) * np.ones(120)
        if not across:
            way[60:] *= -1.0
        angle = rng.uniform(0, 2 * np.pi) + np.cumsum(0.1 * way + 0.03 * rng.normal(size=120))
        episodes.append(np.column_stack([np.cos(angle), np.sin(angle)]))
    return episodes


@pytest.fixture(scope="module")
def habits(tmp_path_factory):
    """Compare policies with the same moves on average; of one there are two samples."""
    rng = np.random.default_rng(0)
    episodes = {"mixing": circles(rng, 20, False), "<b>turns</b>": circles(rng, 20, True)}
    episodes["mixing too"] = circles(rng, 20, False)
    return pivec.compare(episodes, out=tmp_path_factory.mktemp("habits"), components=16)


def test_habits_across_episodes_are_kinds(habits):
    kinds = habits.kinds
    assert len(kinds) == 3
    [mixture] = [kind for kind in kinds.kinds if "mixture" in kind.name]
    shares = dict(zip(kinds.labels, kinds.shares[:, mixture.number - 1], strict=True))
    assert shares == {"mixing": 1.0, "mixing too": 1.0, "<b>turns</b>": 0.0}
    assert mixture.policy in ("mixing", "mixing too")
    low, high = kinds.intervals()
    assert ((low <= kinds.shares) & (kinds.shares <= high) & (high - low < 0.5)).all()
    assert (kinds.counts.sum(axis=1) == 20).all()


def test_two_policies_differ_in_their_episodes_alone(habits):
    pair = habits.explain("mixing", "<b>turns</b>")
    assert pair.decomposition.estimate < 0.02
    assert pair.whole.p_value <= 0.001
    assert pair.whole.mixes == pair.whole.steadier == 0
    assert "same way on average" in pair.episode_words()[0]
    assert habits.explain("<b>turns</b>", "mixing").whole.mixes == 1
    same = habits.explain("mixing", "mixing too")
    assert same.whole.p_value > 0.05
    assert same.whole.mixes is None
    assert len(same.episode_words()) == 1
    assert pair.to_json()["whole"]["kinds"]["counts"][0] != [0, 0, 0]


def test_a_small_difference_is_not_called_the_same(habits):
    pair = habits.explain("mixing", "<b>turns</b>")
    sure = replace(pair, decomposition=replace(pair.decomposition, low=0.001))
    assert sure.different
    assert "in nearly the same way on average" in sure.episode_words()[0]
    unsure = replace(pair, decomposition=replace(pair.decomposition, low=0.0))
    assert "in the same way on average" in unsure.episode_words()[0]
    far = replace(pair, decomposition=replace(pair.decomposition, low=0.0, estimate=0.1))
    assert "not differ significantly on average, but" in far.episode_words()[0]


def test_kinds_that_neither_policy_has_are_not_listed(habits):
    whole = habits.explain("mixing", "<b>turns</b>").whole
    counts = np.array([[3, 0, 1], [5, 0, 0]])
    other = replace(whole, p_value=0.001, kinds=replace(whole.kinds, counts=counts))
    lines = other.words(["a", "b"], on_average="")
    assert [line.split(" (")[0] for line in lines[1:]] == ["kind 1", "kind 3"]


def test_files_and_page_have_the_kinds(habits):
    with (habits.folder / "kinds.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9
    assert sum(int(row["episodes"]) for row in rows) == 60
    page = habits.report.read_text("utf-8")
    assert "3 kinds" in page
    assert "<b>turns" not in page
    # Pairs that are alike on average, but not in their episodes.
    found = {frozenset(row[:2]) for row in habits.findings.unlike_episodes}
    assert found == {frozenset(["<b>turns</b>", other]) for other in ("mixing", "mixing too")}
    assert pivec.load_comparison(habits.folder).kinds.rows() == habits.kinds.rows()


def test_kinds_do_not_depend_on_the_order_of_policies(habits):
    opened = ComparisonFolder.open(habits)
    space = opened.space
    turned = ComparisonFolder(opened.folder, space, opened.data.select([2, 0, 1]))
    first, other = find_kinds(opened), find_kinds(turned)
    assert repr(first.kinds) == repr(other.kinds)  # whose unknown returns are NaN
    assert (first.counts == other.counts[[1, 2, 0]]).all()
    # Those of two policies are the kinds of all.
    part = find_kinds(opened, ["mixing too", "mixing"])
    assert repr(part.kinds) == repr(first.kinds)
    assert (part.counts == first.counts[[2, 0]]).all()


def test_alike_episodes_are_of_one_kind(tmp_path):
    rng = np.random.default_rng(0)
    walks = {name: [rng.normal(size=(50, 2)) for _ in range(12)] for name in "ab"}
    done = pivec.compare(walks, out=tmp_path, components=4)
    assert len(done.kinds) == 1
    assert 'id="kinds"' not in done.report.read_text("utf-8")
    assert (tmp_path / "kinds.csv").exists()
    assert pivec.compare(walks, out=tmp_path, method="gaussian").kinds is None
    assert not (tmp_path / "kinds.csv").exists()
