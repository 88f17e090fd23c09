"""Regions: their words, who visits them, when, and where nearest to the middle."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import pivec
from pivec.characterizations import Space, Visitation, characterization, region_ranges
from pivec.explanations import (
    ComparisonFolder,
    Feature,
    Regions,
    RegionSummary,
    Replayer,
    Visit,
    explain_pair,
    region_names,
    summarize_regions,
)
from pivec.explanations import names as words_of
from pivec.explanations.names import MIDDLE, written
from pivec.figures import to_png
from pivec.mixtures import Mixture
from pivec.report import regions_html
from pivec.states import Store, VisitedStates


def fitted(mixture):
    """Make a characterization of a mixture, as if it had been fitted."""
    method = Visitation(n_components=mixture.n_components, of="states")
    for name in ("weights", "means", "variances", "center", "scale"):
        setattr(method, f"{name}_", getattr(mixture, name))
    return method


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(1)
    return Mixture(
        rng.dirichlet(np.ones(5)), rng.normal(size=(5, 3)), rng.uniform(0.01, 1, (5, 3)),
        [1.0, -200.0, 0.0], [2.0, 50.0, 0.001],
    )  # fmt: skip


def test_ranges_hold_four_fifths_of_a_region(mixture):
    for k, region in enumerate(region_ranges(mixture)):
        for d, (low, high) in enumerate(region):
            mean = mixture.center[d] + mixture.scale[d] * mixture.means[k, d]
            normal = stats.norm(mean, mixture.scale[d] * np.sqrt(mixture.variances[k, d]))
            assert normal.cdf([low, high]) == pytest.approx([0.1, 0.9], abs=1e-5)


def test_quantiles_of_the_mixture_are_those_of_its_marginals(mixture):
    for share in (0.05, 0.5, 0.95):
        quantiles = words_of._quantiles(mixture, share)
        normal = stats.norm(mixture.means, np.sqrt(mixture.variances))
        assert mixture.weights @ normal.cdf(quantiles) == pytest.approx([share] * 3, rel=1e-9)


def test_divergences_are_integrals(mixture):
    mean = mixture.weights @ mixture.means
    spread = mixture.variances + (mixture.means - mean) ** 2
    deviation = np.sqrt(mixture.weights @ spread)
    normal = stats.norm(mixture.means, np.sqrt(mixture.variances))
    x = np.linspace(-12, 12, 60_001)[:, None, None]
    density = normal.pdf(x)
    slow = np.trapezoid(density * (normal.logpdf(x) - stats.norm(mean, deviation).logpdf(x)),
                        x[:, 0, 0], axis=0)  # fmt: skip
    fast = words_of._divergence(mixture.means, mixture.variances, mean, deviation**2)
    assert fast == pytest.approx(slow, rel=1e-6)
    shares = words_of._flag_divergence(np.array([0.2, 0.0, 1.0]), np.array([0.5, 0.25, 0.5]))
    slow = [0.2 * np.log(0.4) + 0.8 * np.log(1.6), np.log(1 / 0.75), np.log(2)]
    assert shares == pytest.approx(slow)


def test_a_region_is_told_by_what_sets_it_apart():
    # Three regions that differ in the second feature alone; the third is narrow in one of them.
    model = fitted(
        Mixture(
            [0.4, 0.4, 0.2],
            [[0.0, -1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]],
            [[1.0, 0.01, 1.0], [1.0, 0.01, 0.01], [1.0, 0.01, 1.0]],
            [0.0, 10.0, 0.0],
            [1.0, 5.0, 1.0],
        )
    )
    features = (Feature("a"), Feature("speed", "m/s"), Feature("c"))
    assert region_names(model.background_, features) == (
        "speed below 5.6 m/s",
        "speed 9.4 to 10.6 m/s, c −0.13 to 0.13",
        "speed above 19.4 m/s",
    )


def test_regions_without_anything_special_still_differ():
    model = fitted(Mixture([0.5, 0.5], [[-0.1], [0.1]], [[1.0], [1.0]], [0.0], [1.0]))
    words = region_names(model.background_, (Feature("x"),))
    assert words == ("x −1.4 to 1.2", "x −1.2 to 1.4")
    alone = fitted(Mixture([1.0], [[0.0]], [[1.0]], [0.0], [1.0]))
    assert region_names(alone.background_, (Feature("x"),)) == (MIDDLE,)
    same = fitted(Mixture([0.5, 0.5], [[0.0], [0.0]], [[1.0], [1.0]], [0.0], [1.0]))
    assert region_names(same.background_, (Feature("x"),)) == (f"{MIDDLE} (0)", f"{MIDDLE} (1)")


def test_equal_regions_of_many_features_stay_short():
    shape = (2, 5000)
    means = np.tile([[0.0], [0.0], [1.0]], (1, 5000))
    model = fitted(Mixture([0.25, 0.25, 0.5], means, np.full((3, 5000), 0.1), *np.ones(shape)))
    words = region_names(model.background_, tuple(Feature(f"x[{i}]") for i in range(5000)))
    assert words[0].count(", ") == 7
    assert words[0].endswith(" (0)")
    assert words[1].endswith(" (1)")


def flags(*shares):
    """Make a model of regions in which a flag is 1 so often; and a number that says nothing."""
    p = np.array(shares)[:, None]
    n = len(p)
    ones = np.ones((n, 1))
    return fitted(
        Mixture(
            np.full(n, 1 / n),
            np.hstack([p, 0 * ones]),
            np.hstack([p - p**2 + 1e-7, ones]),
            [0.0, 0.0],
            [1.0, 1.0],
        )
    )


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        (Feature("legs touch", absent="legs in the air"), ("legs touch", "legs in the air")),
        (Feature("x=3", absent=""), ("x=3", MIDDLE)),
        (Feature("x[6]"), ("x[6] = 1", "x[6] = 0")),
    ],
)
def test_flags_are_told_in_words(feature, words):
    assert region_names(flags(1.0, 0.0).background_, (feature, Feature("y"))) == words


def test_a_flag_that_is_so_at_times_is_told_with_its_share():
    model = flags(0.6, 0.0, 0.0, 0.0, 0.0)
    words = region_names(model.background_, (Feature("row 1", absent=""), Feature("y")))
    assert words[0] == "row 1 (60 %)"


def test_what_is_not_0_or_1_is_no_flag():
    """Whatever its name says; and small numbers are not zeros."""
    model = fitted(Mixture([0.7, 0.3], [[1.0], [3.0]], [[0.1], [0.1]], [0.0], [1.0]))
    assert region_names(model.background_, (Feature("mode=3", absent=""),))[1] == "mode=3 above 2.6"
    small = fitted(Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.1], [0.1]], [0.0], [1e-4]))
    assert all("=" not in name for name in region_names(small.background_, (Feature("x"),)))


def test_a_feature_that_never_changes_is_not_told():
    model = fitted(Mixture([0.5, 0.5], [[0.0, -1.0], [0.0, 1.0]], [[1e-6, 0.1], [1e-6, 0.1]],
                           [7.0, 0.0], [1.0, 1.0]))  # fmt: skip
    assert all(
        "x" not in words for words in region_names(model.background_, (Feature("x"), Feature("y")))
    )


def test_a_point_has_no_range():
    model = fitted(Mixture([0.5, 0.5], [[-1.0], [1.0]], [[1e-6], [1.0]], [0.0], [1.0]))
    assert region_names(model.background_, (Feature("x"),))[0] == "x about −1.00"


def test_a_cosine_stays_one():
    """A normal distribution reaches beyond 1, a cosine does not."""
    model = fitted(Mixture([0.4, 0.6], [[0.9], [0.0]], [[0.02], [0.3]], [0.0], [1.0]))
    assert region_names(model.background_, (Feature("cos(angle)"),))[0] == "cos(angle) above 0.72"
    assert region_names(model.background_, (Feature("angle"),))[0] == "angle 0.72 to 1.08"


def test_numbers_have_the_digits_that_their_spread_needs():
    assert written(1e7, 5) == "1e+07"
    assert written(-1234567.0, 5) == "−1.2e+06"
    assert written(0.1234, -2) == "0.12"


@pytest.fixture(scope="module")
def walks():
    """Two policies in three regions of a line; the second is thinned by two."""
    model = Mixture([0.4, 0.4, 0.2], [[0.0], [5.0], [9.0]], [[1.0], [1.0], [0.25]], [0.0], [1.0])
    first = [[0.5, 0.25, 4.0, 5.5], [0.1, 9.5]]
    second = [[1.0, 8.9, 1.5, 5.0]]
    data = VisitedStates.from_arrays(
        [[np.array(walk)[:, None] for walk in policy] for policy in (first, second)],
        labels=["a", "b"],
    )
    thinned = replace(data.policies[1], metadata={"kept_every": 2})
    episodes = data.records[1].episodes.copy()
    episodes["steps"] = 5  # at the times 0, 1, 4 and 5
    records = [data.records[0], replace(data.records[1], info=thinned, episodes=episodes)]
    return VisitedStates(records, data.feature_names), model


def with_regions(data, model):
    """Describe data by regions that were not fitted."""
    method = fitted(model)
    method.fit(data)  # for all else that a fit leaves
    for name in ("weights", "means", "variances", "center", "scale"):
        setattr(method, f"{name}_", getattr(model, name))
    return ComparisonFolder(Path("here"), Space(method, method.describe(data)), data)


def test_sightings_are_counted_by_hand(walks):
    regions = summarize_regions(with_regions(*walks), visits=5)
    # Half of the weight is a policy's, divided evenly between its episodes and their states.
    spread = np.zeros((3, 10))
    spread[0, [0, 2]] += 1 / 16
    spread[1, [5, 7]] += 1 / 16
    spread[0, 0] += 1 / 8
    spread[2, 5] += 1 / 8
    for region, tenth in ((0, 0), (2, 1), (0, 6), (1, 8)):
        spread[region, tenth] += 1 / 8
    when = np.array([region.when for region in regions])
    assert when == pytest.approx(spread / spread.sum(axis=1, keepdims=True))
    assert [region.begins for region in regions] == pytest.approx([1.0, 0.0, 0.0])
    assert [region.ends for region in regions] == pytest.approx([0.0, 0.75, 0.25])
    visits = [visit for region in regions for visit in region.visits]
    assert [(v.policy, v.region, v.episode, v.step, v.distance) for v in visits] == [
        ("a", 0, 1, 0, pytest.approx(0.1)), ("b", 0, 0, 0, 1.0), ("b", 1, 0, 5, 0.0),
        ("a", 1, 0, 3, 0.5), ("b", 2, 0, 1, pytest.approx(0.2, rel=1e-5)), ("a", 2, 1, 1, 1.0),
    ]  # fmt: skip


def rows_of(states, of):
    """States, or each with the step to the next one; a lone state does not move."""
    if of == "states":
        return states
    steps = np.diff(states, axis=0) if len(states) > 1 else 0 * states
    return np.hstack([states[: len(steps)], steps])


@pytest.mark.parametrize("of", ["moves", "states"])
def test_the_nearest_visit_is_the_nearest(of):
    """Against going through all states of all policies one by one."""
    findings = described(Visitation(n_components=4, of=of))
    data, mixture = findings.states, findings.background.background_
    slow = {}
    for label in data.labels:
        for number, states in enumerate(data[label].episodes()):
            for step, row in enumerate(rows_of(states, of)):
                region = int(mixture.assign(row[None])[0][0])
                z = (mixture.standardise(row) - mixture.means[region]) ** 2
                distance = float(np.sqrt((z / mixture.variances[region]).mean()))
                if distance < slow.get((label, region), (np.inf,))[0]:
                    slow[label, region] = distance, number, step
    fast = [visit for region in summarize_regions(findings) for visit in region.visits]
    assert {(v.policy, v.region): (v.distance, v.episode, v.step) for v in fast} == {
        key: (pytest.approx(d, rel=1e-5), episode, step) for key, (d, episode, step) in slow.items()
    }
    assert all(visit.seed is None for visit in fast)
    difference = explain_pair(findings, "a", "c")
    shown = {frame.visit for frame in difference.frames}
    assert shown <= {visit for visit in fast if visit.policy in "ac"}
    assert {visit.region for visit in shown} <= set(difference.leading)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    data = pivec.collect("CartPole-v1", "random:2", episodes=6, store=folder / "states")
    method = Visitation(n_components=4).fit(data)
    collected = dict(Store(folder / "states").settings)
    Space(method, method.describe(data), collected=collected).save(folder / "space")
    return folder


def test_regions_of_a_comparison(compared):
    faces = summarize_regions(compared)
    assert len(faces) == len(faces.rows()) == len(faces.to_json()["regions"]) == 4
    assert [row["share"] for row in faces.rows()] == sorted((r.share for r in faces), reverse=True)
    assert sum(region.share for region in faces) == pytest.approx(1)
    assert sum(region.ends for region in faces) == pytest.approx(1)
    assert faces.features[2] == Feature("pole angle", "rad")
    for region in faces:
        spent = faces.shares[:, region.number]
        assert region.share == pytest.approx(spent.mean())
        assert region.highest == (faces.labels[spent.argmax()], spent.max())
        assert region.lowest == (faces.labels[spent.argmin()], spent.min())
        assert len(region.visits) == 2
        assert region.visits[0].distance <= region.visits[1].distance
        assert {visit.policy for visit in region.visits} == set(faces.labels)
        assert sum(region.when) == pytest.approx(1)
    assert json.loads(json.dumps(faces.to_json())) == faces.to_json()
    assert "CartPole-v1" in faces.headline()


def test_a_visit_is_a_state_of_the_store(compared):
    """The state that a visit names lies in the region, and has the seed of its episode."""
    findings = ComparisonFolder.open(compared)
    for region in summarize_regions(findings):
        for visit in region.visits:
            mine = findings.states[visit.policy]
            row = rows_of(list(mine.episodes())[visit.episode], "moves")[visit.step]
            assert findings.background.background_.assign(row[None])[0] == [region.number]
            assert visit.seed == mine.seeds[visit.episode]


def test_a_space_without_states_has_words_and_shares(compared, tmp_path):
    shutil.copytree(compared / "space", tmp_path / "space")
    faces = summarize_regions(tmp_path)
    assert [r.name for r in faces] == [r.name for r in summarize_regions(compared)]
    assert faces[0].visits == ()
    assert math.isnan(faces[0].ends)
    assert faces[0].period == ""
    assert "states" in faces.notes[0]
    assert faces.rows()[0]["policy"] is None
    assert json.dumps(faces.to_json(), allow_nan=False)
    assert to_png(faces.figure(), 50)


def described(method):
    """Fit a characterization on a few random walks."""
    rng = np.random.default_rng(3)
    data = VisitedStates.from_arrays(
        [[rng.normal(size=(n, 2)) for n in (7, 1, 30)] for _ in range(3)], labels=["a", "b", "c"]
    )
    method = method.fit(data)
    return ComparisonFolder(Path("here"), Space(method, method.describe(data)), data)


def test_several_fits_show_the_first():
    faces = summarize_regions(described(Visitation(n_components=3, backgrounds=2)))
    assert len(faces) == 3
    assert sum(region.share for region in faces) == pytest.approx(1)
    assert "2 fits" in faces.notes[0]


def test_what_has_no_regions_says_so():
    with pytest.raises(pivec.UsageError, match="gaussian"):
        summarize_regions(described(characterization("gaussian")))


def test_a_region_that_nobody_visits_comes_last(walks):
    """It is part of another one: the likelier of two that share their middle has all states."""
    data, _ = walks
    model = Mixture([0.1, 0.3, 0.3, 0.3], [[0.0], [0.0], [5.0], [9.0]], [[1.0]] * 4, [0.0], [1.0])
    faces = summarize_regions(with_regions(data, model))
    assert faces[0].visits == ()
    assert faces.by_moment()[-1].number == 0
    assert faces.rows()[-1]["when"] == ""
    assert to_png(faces.figure(), 25)
    assert regions_html(faces).count('<div class="tenths">') == 3


@pytest.mark.parametrize("n", [1, 4, 100])
def test_the_figure_holds_few_and_many(n):
    visit = Visit("<b>$x$", 0, 0, 1, 2, 0.5)
    most, least, name = ("a", 0.5), ("b", 0.0), "$x$ above 1 " * 9
    face = RegionSummary(0, name, 1 / n, most, least, (0.1,) * 10, 0, 0, (visit,), ((0.0, 1.0),))
    faces = [replace(face, number=i) for i in range(n)]
    shares = np.full((3, n), 1 / n)
    result = Regions("$E$", "visitation", (Feature("x"),), ("a", "b", "c"), shares, tuple(faces))
    figure = result.figure()
    assert figure.get_size_inches()[1] < 25
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert sum(text.startswith(r"\$x\$") for text in texts) == min(n, 64)
    assert n > 4 or to_png(figure, 25)


@pytest.mark.parametrize(
    ("tenths", "words"),
    [
        ({0: 0.7, 5: 0.3}, "at the beginning"),
        ({8: 0.3, 9: 0.3, 1: 0.4}, "at the end"),
        ({4: 0.5, 5: 0.5}, "in the middle"),
        ({1: 0.4, 4: 0.4, 9: 0.2}, "in the first half"),
        ({0: 0.4, 4: 0.2, 9: 0.4}, "throughout"),
    ],
)
def test_when_in_an_episode(tenths, words):
    when = tuple(tenths.get(i, 0.0) for i in range(10))
    region = RegionSummary(0, "x", 1.0, ("a", 1.0), ("a", 1.0), when, 0.0, 0.0, (), ())
    assert region.period == words


@pytest.mark.parametrize("of", ["moves", "states"])
def test_steps_of_thinned_episodes_are_those_of_the_environment(tmp_path, of):
    """Against the whole episodes, which are played again."""
    parameters = {"n_components": 3, "of": of}
    options = {"episodes": 4, "max_states_per_policy": 24, "parameters": parameters}
    out = tmp_path / "out"
    pivec.compare("CartPole-v1", ["random"], out=out, progress=False, **options)
    opened = ComparisonFolder.open(out)
    assert opened.states.records[0].every > 1
    visits = [visit for region in summarize_regions(out) for visit in region.visits]
    assert visits
    for visit in visits:
        states = Replayer(opened).stored(visit.policy, visit.episode).states
        regions = opened.regions_along(states)
        assert regions[visit.step] == visit.region
