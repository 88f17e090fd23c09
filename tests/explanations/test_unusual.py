"""Unusual episodes are found and explained, and so are states where no policy has been."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path

import filmed_worlds as worlds
import numpy as np
import pytest
from PIL import Image

import pivec
from pivec.errors import BadStore, PivecWarning, UsageError
from pivec.explanations import (
    Clip,
    ComparisonFolder,
    coverage_radius,
    find_unusual,
    measure_coverage,
    warn_uncovered,
)
from pivec.options import ReplayOptions
from pivec.report import unusual_html
from pivec.states import regrouped

NAMES = ("height", "speed", "angle")


def walks(seed, *, episodes=50, length=20, policies=2):
    rng = np.random.default_rng(seed)
    return [
        [rng.normal(0, 1, (length, 3)).astype(np.float32) for _ in range(episodes)]
        for _ in range(policies)
    ]


def visited(arrays, **more):
    labels = [f"policy-{i}" for i in range(len(arrays))]
    names = NAMES[: arrays[0][0].shape[1]]
    return pivec.VisitedStates.from_arrays(arrays, labels, feature_names=names, **more)


def findings_of(data, method="visitation", *, states=True, **parameters):
    if method in ("visitation", "supervector"):
        parameters = {"n_components": 6} | parameters
    how = pivec.characterization(method, **parameters).fit(data)
    described = how.describe(data, influences=how.traits.influences)
    space = pivec.Space(how, described, reach=coverage_radius(how, data))
    return ComparisonFolder(Path("out"), space, data if states else None)


def with_odd_episode(seed, episode=17):
    """One of the episodes of the second policy spends half of its time high up."""
    arrays = walks(seed)
    arrays[1][episode][::2, 0] += 6.0
    return visited(arrays)


@pytest.mark.parametrize("of", ["moves", "states"])
@pytest.mark.parametrize("seed", range(25))
def test_an_episode_that_goes_elsewhere_is_first_and_told_by_where(seed, of):
    quick = {"n_init": 1, "max_iter": 10}
    findings = findings_of(with_odd_episode(seed), random_state=seed, of=of, **quick)
    first = find_unusual(findings, top=3).episodes[0]
    assert (first.policy, first.episode) == ("policy-1", 17)
    assert first.times > 2
    assert first.feature.name == "height"
    assert first.mean - first.usual_mean == pytest.approx(3, abs=1)
    more = max(first.regions, key=lambda region: region.size)
    assert more.size > 0.3
    if of == "moves":  # its steps are as unusual as its places, so that several regions show it
        return
    mixture = findings.background.mixtures_[0]
    assert mixture.means[:, 0].argmax() == more.region
    assert more.values == (pytest.approx(0.0, abs=0.02), pytest.approx(0.5, abs=0.1))
    assert "height" in more.where


def test_times_are_those_of_leaving_episodes_out():
    data = with_odd_episode(0)
    findings = findings_of(data)
    m = data["policy-1"].n_episodes
    groups = [np.delete(np.arange(m), e) for e in range(m)]
    points = findings.space.method.describe(regrouped([data["policy-1"]], groups)).points
    lengths = np.linalg.norm(points - points.mean(axis=0), axis=1)
    result = find_unusual(findings).of("policy-1")
    assert result.times == pytest.approx(lengths / np.median(lengths), rel=1e-3)  # of 16 bits
    assert result.typical == lengths.argmin()


def test_a_share_of_spread_is_of_all_squares():
    result = find_unusual(findings_of(with_odd_episode(0)), top=100)
    assert len(result.episodes) == 100
    mine = [row.spread for row in result.episodes if row.policy == "policy-1"]
    assert sum(mine) == pytest.approx(1)


@pytest.mark.parametrize("method", ["supervector", "gaussian", "discretization", "mmd"])
def test_other_ways_to_describe_tell_as_well(method):
    arrays = walks(1)
    arrays[1][17][:, 0] += 6.0
    result = find_unusual(findings_of(visited(arrays), method), ["policy-1"], top=2)
    first = result.episodes[0]
    assert (first.episode, first.feature.name) == (17, "height")
    assert (result.outside is None) == (method != "supervector")
    assert ["visitation" in note for note in result.notes] == [True] * (method == "supervector")


def test_a_way_that_knows_no_episodes_is_refused():
    data = visited(walks(0, episodes=3))
    how = pivec.characterization("trajectories").fit(data)
    findings = ComparisonFolder(Path("out"), pivec.Space(how, how.describe(data)), data)
    with pytest.raises(UsageError, match=r"trajectories, .*--method visitation"):
        find_unusual(findings)


def test_episodes_that_are_all_alike_are_said_to_be():
    episode = walks(0)[0][0]
    result = find_unusual(findings_of(visited([[episode] * 5, [episode + 1] * 5])))
    assert all((row.times == 1).all() for row in result.policies)
    json.dumps(result.to_json(), allow_nan=False)
    result.figure()


def test_an_episode_among_equal_ones_is_as_far_as_they_are_many():
    episode = walks(0)[0][0]
    result = find_unusual(findings_of(visited([[episode] * 9 + [episode + 1], [episode] * 9])))
    first = result.episodes[0]
    assert (first.policy, first.episode) == ("policy-0", 9)
    assert first.times == pytest.approx(9, rel=1e-3)


def test_where_the_usual_is_the_mean_itself_others_are_infinitely_far():
    data = visited(walks(0, episodes=5, policies=1), returns=[[0.0, 0.0, 0.0, 2.0, -2.0]])
    result = find_unusual(findings_of(data, "returns"))
    assert [row.times for row in result.episodes] == [math.inf, math.inf, 1, 1, 1]
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["episodes"][0]["times"] is None
    assert "infinitely" in result.headline()
    result.figure()


def test_of_two_episodes_none_is_unusual():
    few, many = walks(0, episodes=2)[0], walks(1)[0]
    result = find_unusual(findings_of(visited([few, many])))
    assert {row.policy for row in result.episodes} == {"policy-1"}
    assert "1 policy has fewer than 3 episodes" in result.notes[0]
    for n in (1, 2):
        with pytest.raises(UsageError, match=r"3 .*episodes"):
            find_unusual(findings_of(visited(walks(0, episodes=n))))


def test_without_states_it_is_not_known_what_is_unusual():
    result = find_unusual(findings_of(with_odd_episode(0), states=False), top=1)
    assert result.episodes[0].episode == 17
    assert result.episodes[0].reasons == []
    assert math.isnan(result.of("policy-1").usual_return)
    assert result.to_json()["episodes"][0]["length"] is None
    assert "–" in unusual_html(result)
    assert result.outside is None
    assert "states" in result.notes[0]
    result.figure()


def test_returns_and_lengths_stand_beside_those_of_the_policy():
    arrays = walks(3, episodes=5, policies=1)
    arrays[0][2] = np.repeat(arrays[0][2] + 5, 2, axis=0)
    data = visited(arrays, returns=[[1.0, 2.0, 30.0, 4.0, 5.0]])
    row = find_unusual(findings_of(data)).rows()[0]
    assert (row["episode"], row["return"], row["usual_return"]) == (2, 30.0, 4.0)
    assert (row["length"], row["usual_length"]) == (40, 20.0)


def test_states_of_other_episodes_than_were_described_are_refused():
    findings = findings_of(visited(walks(0, episodes=5)))
    other = replace(findings, data=visited(walks(0, episodes=4)))
    with pytest.raises(UsageError, match="4 episodes of 'policy-0', but 5"):
        find_unusual(other)


# ---- states outside ----


def em_step(z, weights, means, variances):
    """One step of EM, written out."""
    logs = np.log(weights) - 0.5 * (
        np.log(2 * np.pi * variances) + (z[:, None] - means) ** 2 / variances
    ).sum(axis=2)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    n = shares.sum(axis=0)
    means = shares.T @ z / n[:, None]
    squares = (shares[:, :, None] * (z[:, None] - means) ** 2).sum(axis=0)
    return n / n.sum(), means, np.maximum(squares / n[:, None], 0.01)


def gaps(z, means, variances):
    squares = (z[:, None] - means) ** 2 / (variances + 0.01)
    return np.sqrt(squares.mean(axis=2).min(axis=1))


def moves(data):
    """All states but the last of each episode, with their steps to the next."""
    return np.concatenate([np.hstack([s[:-1], np.diff(s, axis=0)]) for s in data.episodes()])


def test_the_reach_is_the_largest_quantile_of_episodes_held_back():
    arrays = walks(0)
    arrays[1] = [1.5 * episode for episode in arrays[1]]
    data = visited(arrays)
    space = findings_of(data).space
    mixture = space.method.mixtures_[0]
    z = (moves(data) - mixture.center) / mixture.scale
    half = np.repeat(np.arange(data.n_episodes) % 2, data.lengths - 1)
    distance = np.empty(len(z))
    for held in (0, 1):
        fitted = mixture.weights, mixture.means, mixture.variances
        for _ in range(3):
            fitted = em_step(z[half != held], *fitted)
        distance[half == held] = gaps(z[half == held], *fitted[1:])
    quantiles = [np.quantile(part, 0.99) for part in np.split(distance, 2)]
    assert quantiles[1] > quantiles[0]
    assert space.reach == pytest.approx(quantiles[1], rel=1e-6)


def test_a_policy_of_one_episode_is_held_against_regions_as_they_are():
    data = visited(walks(0, episodes=1, length=200))
    space = findings_of(data).space
    mixture = space.method.mixtures_[0]
    z = (moves(data) - mixture.center) / mixture.scale
    parts = np.split(gaps(z, mixture.means, mixture.variances), 2)
    expected = max(np.quantile(part, 0.99) for part in parts)
    assert space.reach == pytest.approx(expected, rel=1e-6)


def test_of_many_states_some_are_enough_for_the_reach():
    rng = np.random.default_rng(0)
    data = pivec.VisitedStates.from_arrays([[rng.normal(0, 1, (300_000, 1))]])
    method = pivec.characterization("visitation", n_components=1, of="states").fit(data)
    # Regions are widened by a tenth of a deviation.
    assert coverage_radius(method, data) == pytest.approx(2.576 / 1.005, abs=0.05)


def test_far_states_do_not_overflow():
    findings = findings_of(visited([[1e-30 * episode for episode in own] for own in walks(0)]))
    far = visited([[np.full((9, 3), 3e38, np.float32)]])
    [row] = measure_coverage(replace(findings, data=far)).policies
    assert row.outside == row.states == 8
    assert math.isfinite(row.deviations)


def test_two_halves_of_one_population_are_inside():
    findings = findings_of(visited(walks(0)))
    more = visited(walks(1))
    result = measure_coverage(replace(findings, data=more))
    assert 0 < result.policies[0].share < 0.03
    assert not result.policies[0].is_notable
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_uncovered(findings.space, more)


def test_states_elsewhere_are_counted_with_feature_and_side():
    findings = findings_of(visited(walks(0)))
    arrays = walks(1)
    for episode in arrays[1][:10]:
        episode[:10, 1] -= 12.0
    new = visited(arrays)
    first = measure_coverage(replace(findings, data=new)).policies[0]
    assert first.policy == "policy-1"
    assert 100 <= first.outside <= 130
    assert first.share == first.outside / 950  # moves
    assert 10 <= first.episodes <= 35
    assert first.feature == "speed"
    assert first.deviations > 5
    assert first.words.endswith("below")
    with pytest.warns(PivecWarning, match=r"1\d % of the states of 'policy-1'"):
        warn_uncovered(findings.space, new)


def test_a_few_states_outside_are_no_warning():
    findings = findings_of(visited(walks(0)))
    far = np.array([[0.0, 0, 0], [0, 0, 0], [0, 40, 0]], np.float32)
    lone = measure_coverage(replace(findings, data=visited([[far]])))
    assert lone.policies[0].share == 0.5
    assert not lone.policies[0].is_notable
    assert "50 %" in lone.headline()
    many = np.concatenate([np.zeros((90, 3)), np.full((10, 3), 40)]).astype(np.float32)
    both = measure_coverage(replace(findings, data=visited([[far], [many]])))
    assert "10 % of the states of policy-1" in both.headline()


def test_states_that_are_met_again_are_not_outside():
    rng = np.random.default_rng(0)
    cells = [[rng.integers(0, 3, (40, 2)).astype(np.float32) for _ in range(5)] for _ in "ab"]
    findings = findings_of(visited(cells))
    assert not any(row.outside for row in measure_coverage(findings).policies)


def test_a_space_without_a_radius_is_said_to_have_none(tmp_path):
    findings = findings_of(visited(walks(0)))
    bare = replace(findings, space=replace(findings.space, reach=math.nan))
    with pytest.raises(UsageError, match="radius"):
        measure_coverage(bare)
    assert "radius" in find_unusual(bare).notes[0]


def test_figures_and_pages_take_any_names():
    data = with_odd_episode(0)
    labels = ["</script><b>$\\frac", "\x1b[31m[bold]red"]
    records = [
        replace(record, info=replace(record.info, label=label))
        for record, label in zip(data.records, labels, strict=True)
    ]
    named = pivec.VisitedStates(records, ["<i>", "$x$", "[red]"])
    result = find_unusual(findings_of(named))
    reason = "<b>no\x1b"
    shot = replace(result, clips=(Clip("<b>", "\x1b", None, reason),), notes=(reason,))
    for shown in (result._repr_html_(), unusual_html(shot, "pivec <b>\x1b")):
        assert "<b>" not in shown
        assert "<i>" not in shown
        assert "\x1b" not in shown
    assert "default-src 'none'" in unusual_html(result)
    assert result.outside._repr_html_().startswith("<p>No policy")


def test_a_reach_that_is_no_number_is_a_spoilt_space(tmp_path):
    findings = findings_of(visited(walks(0, episodes=3)))
    replace(findings.space, reach=2.0).save(tmp_path)
    assert pivec.Space.load(tmp_path).reach == 2.0
    with np.load(tmp_path / "space.npz") as file:
        arrays = dict(file)
    index = json.loads(arrays["index"].tobytes()) | {"reach": "far"}
    arrays["index"] = np.frombuffer(json.dumps(index).encode(), np.uint8)
    np.savez(tmp_path / "space.npz", **arrays)
    with pytest.raises(BadStore, match="damaged"):
        pivec.Space.load(tmp_path)


def test_policies_of_an_earlier_space_are_ranked_if_they_are_asked_for():
    findings = findings_of(with_odd_episode(0))
    placed = replace(
        findings, space=replace(findings.space, n_reference=1), data=findings.data.select([0])
    )
    assert {row.policy for row in find_unusual(placed).episodes} == {"policy-0"}
    result = find_unusual(placed, ["policy-1"])
    assert result.episodes[0].episode == 17
    assert result.outside is None
    with pytest.raises(UsageError, match="policy-1"):
        measure_coverage(placed, ["policy-1"])


# ---- clips ----


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """A comparison of two random policies in a world that draws."""
    folder = tmp_path_factory.mktemp("walked")
    few = {"episodes": 4, "parameters": {"n_components": 3}}
    return pivec.compare(worlds.make_walk, "random:2", folder, **few)


def test_the_typical_and_the_unusual_episode_are_filmed_side_by_side(walked, tmp_path):
    replay = ReplayOptions(env=worlds.make_walk)
    result = find_unusual(walked, clips=tmp_path / "clips", replay=replay)
    labels = list(dict.fromkeys(row.policy for row in result.episodes))
    assert [clip.title.split(":")[0] for clip in result.clips] == labels
    first = result.clips[0]
    episode, typical = result.episodes[0].episode, result.of(labels[0]).typical
    assert f"episode {typical}, the most typical; episode {episode}" in first.caption
    with Image.open(first.path) as film:
        assert film.n_frames == 13
        assert film.size[0] > 480
    assert "data:image/webp" in unusual_html(result)
    assert result.to_json()["clips"][0]["path"] == f"clips/{first.path.name}"
    assert result.notes == ()


def test_what_cannot_be_filmed_says_why_and_the_rest_stays(walked, tmp_path):
    result = find_unusual(walked, clips=tmp_path / "clips")  # the environment is a function
    assert all(clip.path is None for clip in result.clips)
    assert "env=" in result.notes[0]
    assert len(result.notes) == 1
    assert len(result.episodes) == 8
    assert "env=" in unusual_html(result)
