"""The map of episodes: kinds next to each other, unusual ones known, and nothing left to chance."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import pivec
from packed import unpacked
from pivec.explanations import ComparisonFolder, cluster_comparison, times_as_far
from pivec.report import EpisodeMap, episode_map, layout, tsne_map
from pivec.report.script_data import episode_data, size_of

GIVEN, HOSTILE = "<b>run</b>&\x1b[31m", "<b>run</b>&\\x1b[31m"
ODD = 11  # an episode of the second policy that goes elsewhere


def places(rng, n, *centres):
    """Episodes around one of several places each, in turn."""
    return [rng.normal(centres[e % len(centres)], 1.0, (40, 2)) for e in range(n)]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    rng = np.random.default_rng(0)
    episodes = {
        "both": places(rng, 24, 0.0, 6.0),
        GIVEN: places(rng, 24, 0.0),
        "three": places(rng, 24, 0.0, 6.0, 12.0),
    }
    episodes[GIVEN][ODD][:20] += 12.0
    returns = [np.arange(24.0), np.full(24, np.nan), np.arange(24.0)]
    data = pivec.VisitedStates.from_arrays(episodes, returns=returns)
    return pivec.compare(data, out=tmp_path_factory.mktemp("episodes"), components=8)


def mapped(comparison, policies=None):
    """Compute the map again, with policies in another order."""
    opened = ComparisonFolder.open(comparison)
    if policies is not None:
        opened = ComparisonFolder(opened.folder, opened.space, opened.data.select(policies))
    return episode_map.map_episodes(opened, cluster_comparison(opened))


def by_name(result, *columns):
    return {
        (row["policy"], row["episode"]): [row[column] for column in columns]
        for row in result.rows()
    }


def test_all_episodes_are_there_once_with_what_is_known_of_them(compared):
    result = compared.episode_map
    assert isinstance(result, EpisodeMap)
    assert len(result) == result.total == 72
    rows = by_name(result, "return", "length", "seed")
    assert rows["both", 5] == [5.0, 40, None]
    assert np.isnan(rows[HOSTILE, 5][0])
    for label, counts in zip(compared.labels, compared.kinds.counts, strict=True):
        own = [row["kind"] for row in result.rows() if row["policy"] == label]
        assert (np.bincount(own, minlength=len(counts) + 1)[1:] == counts).all()


def test_neighbours_are_of_one_kind(compared):
    result = compared.episode_map
    apart = cdist(result.positions, result.positions)
    np.fill_diagonal(apart, np.inf)
    near = result.kind[apart.argsort(axis=1)[:, :3]]
    assert (near == result.kind[:, None]).mean() > 0.9
    assert len(set(result.kind)) >= 3


def test_the_odd_episode_is_marked_and_its_distance_is_that_of_leaving_it_out(compared):
    result, label = compared.episode_map, compared.labels.index(HOSTILE)
    marked = [(result.policies[i], result.episodes[i]) for i in result.unusual]
    assert marked[0] == (HOSTILE, ODD)
    assert (result.times[result.unusual] >= episode_map.UNUSUAL).all()
    assert (np.diff(result.times[result.unusual]) <= 0).all()
    rest = np.setdiff1d(np.arange(len(result)), result.unusual)
    assert (result.times[rest] < episode_map.UNUSUAL).all()
    # A description moves by about 1/n of the distance of an episode, or leaving it out by it.
    method, data = compared.space.method, compared.stored.data.select([label])
    whole = method.describe(data)
    moved = np.sqrt(method.distances(method.leave_one_out(data), whole)[:, 0])
    slow = moved / np.median(moved)
    own = result.times[[policy == HOSTILE for policy in result.policies]]
    assert own == pytest.approx(slow, rel=0.25)
    assert np.corrcoef(own, slow)[0, 1] > 0.99


def test_the_order_of_policies_does_not_matter(compared):
    first, other = compared.episode_map, mapped(compared, [2, 0, 1])
    columns = "x", "y", "kind", "times_as_far"
    one, two = (by_name(result, *columns) for result in (first, other))
    assert one.keys() == two.keys()
    assert np.array(list(one.values())) == pytest.approx(np.array([two[key] for key in one]))
    marked = [
        [(result.policies[i], result.episodes[i]) for i in result.unusual]
        for result in (first, other)
    ]
    assert marked[0] == marked[1]


def test_last_bits_do_not_move_episodes(monkeypatch):
    # All directions but one are alike, so that the first two components are badly determined.
    rng = np.random.default_rng(1)
    points = rng.normal(rng.integers(4, size=(500, 1)), 0.3, (500, 7)) / 3.0
    near = points * (1.0 + 1e-15 * rng.normal(size=points.shape))
    assert (layout.landmark_tsne(points, points) == layout.landmark_tsne(near, near)).all()
    monkeypatch.setattr(layout, "DECIMALS", 17)
    one, two = (layout.landmark_tsne(x, x) for x in (points, near))
    assert 0.0 < np.abs(one - two).max() < 1e-6 * np.ptp(one)


def test_positions_are_means_of_those_of_landmarks_by_distance():
    rng = np.random.default_rng(1)
    sample, points = rng.normal(size=(40, 3)), rng.normal(size=(5, 3))
    chosen = sample[np.sort(np.random.default_rng(0).permutation(40))]
    steps = {"n_iter": layout.LATE_STEPS, "n_early": layout.EARLY_STEPS}
    known = tsne_map(chosen.round(layout.DECIMALS), **steps).positions
    result = layout.landmark_tsne(points, sample)
    for point, found in zip(points, result, strict=True):
        weights = [np.linalg.norm(point - landmark) ** -6 for landmark in chosen]
        slow = sum(w * place for w, place in zip(weights, known, strict=True)) / sum(weights)
        assert found == pytest.approx(slow, rel=1e-5)
    # A landmark is at its own position, and equal episodes are at the same.
    assert layout.landmark_tsne(chosen[[3, 3]], sample) == pytest.approx(known[[3, 3]])
    many = np.repeat(sample[:20], 9, axis=0)
    twins = layout.landmark_tsne(many, many).reshape(20, 9, 2)
    assert (twins == twins[:, :1]).all()
    # Copies do not push others away.
    assert (twins[:, 0] == layout.landmark_tsne(sample[:20], sample[:20])).all()


def test_few_and_equal_episodes_have_a_place():
    assert (layout.landmark_tsne(np.ones((5, 2)), np.ones((5, 2))) == 0.0).all()
    assert layout.landmark_tsne(np.ones((1, 7)), np.ones((1, 7))).shape == (1, 2)


@pytest.mark.parametrize(("most", "policies", "each"), [(12, 3, 4), (2, 2, 1)])
def test_as_many_of_each_policy_are_shown_beside_typical_and_unusual_ones(
    compared, monkeypatch, most, policies, each
):
    monkeypatch.setattr(episode_map, "MAX_SHOWN", most)
    result, whole = mapped(compared), compared.episode_map
    shown = set(zip(result.policies, result.episodes.tolist(), strict=True))
    assert len(shown) == len(result) < result.total == 72
    kinds = result.kinds.kinds
    typical = {(kind.policy, kind.episode) for kind in kinds}
    marked = {(result.policies[i], result.episodes[i]) for i in result.unusual}
    assert typical <= shown
    # Unusual ones are known of the policies that are shown.
    known = {result.policies[i] for i in np.flatnonzero(np.isfinite(result.times))}
    assert len(known) == policies
    expected = {(whole.policies[i], whole.episodes[i]) for i in whole.unusual}
    assert marked == {row for row in expected if row[0] in known}
    rest = shown - typical - marked
    for label in known:
        n = sum(row[0] == label for row in shown)
        assert each <= n <= each + len(typical) + len(marked)
        assert sum(row[0] == label for row in rest) <= each
    assert f"{len(result)} of 72 episodes" in result.words
    assert ("of 3 policies" in result.words) == (len({row[0] for row in shown}) < 3)
    # Kinds are those of all episodes.
    assert (result.kinds.counts == compared.kinds.counts).all()


def test_of_very_many_episodes_the_first_ones_are_known(compared, monkeypatch):
    monkeypatch.setattr("pivec.explanations.kinds._COUNTED", 30)
    result = mapped(compared)
    assert result.kinds.first == 10
    assert len(result) == 30
    assert result.total == 72
    assert result.episodes.max() == 9
    whole = by_name(compared.episode_map, "times_as_far", "return")
    for name, known in by_name(result, "times_as_far", "return").items():
        assert known == pytest.approx(whole[name], nan_ok=True)
    # Two policies are still counted with all their episodes.
    assert (compared.explain("both", "three").whole.kinds.counts.sum(axis=1) == 24).all()


def test_the_files_have_the_map(compared):
    with (compared.folder / "episodes.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = compared.episode_map.rows()
    assert [float(row["x"]) for row in rows] == [row["x"] for row in expected]
    assert [row["kind"] for row in rows] == [str(row["kind"]) for row in expected]
    assert {row["policy"] for row in rows} == {"both", "three", HOSTILE}
    assert {row["seed"] for row in rows} == {""}
    assert {row["return"] for row in rows[24:48]} == {""}
    assert repr(pivec.load_comparison(compared.folder).episode_map.rows()) == repr(expected)


def test_the_page_has_the_map(compared):
    found, result = episode_data(compared.findings), compared.episode_map
    labels = compared.findings.policies.labels
    assert found["n"] == 72
    assert [labels[i] for i in unpacked(found["policy"])] == list(result.policies)
    for name, values in (("number", result.episodes), ("kind", result.kind)):
        assert (unpacked(found[name]) == values).all()
    span = np.ptp(result.positions, axis=0).max()
    places = np.column_stack([unpacked(found[name]) for name in "xy"])
    assert np.abs(places - result.positions).max() < span / 8000
    assert unpacked(found["times"]) == pytest.approx(result.times, rel=1e-3)
    assert unpacked(found["returns"]) == pytest.approx(result.returns, nan_ok=True)
    assert (unpacked(found["length"]) == 40).all()
    assert unpacked(found["seed"]) == [""] * 72
    assert found["unusual"] == result.unusual.tolist()
    for kind, known in zip(found["kinds"], result.kinds.kinds, strict=True):
        assert (labels[kind["policy"]], kind["episode"]) == (known.policy, known.episode)
    assert found["words"] == result.words
    assert "<b>run" not in compared.report.read_text("utf-8")


def test_the_data_of_the_largest_map_is_small(compared):
    n, rng = episode_map.MAX_SHOWN, np.random.default_rng(0)
    known = compared.episode_map
    values = dict(vars(known)) | {
        "policies": tuple(np.sort(rng.choice(compared.labels, n)).tolist()),
        "episodes": rng.integers(10_000, size=n),
        "kind": rng.integers(1, 9, size=n),
        "positions": rng.normal(0.0, 20.0, (n, 2)),
        "times": np.append(rng.lognormal(size=n - 1), np.inf),
        "returns": rng.normal(size=n),
        "lengths": rng.integers(1, 1000, size=n),
        "seeds": rng.integers(2**31, size=n),
    }

    class Large:
        episodes, policies = EpisodeMap(**values), compared.findings.policies

    found = episode_data(Large)
    assert size_of(found) < 150_000
    assert list(map(int, unpacked(found["seed"]))) == values["seeds"].tolist()
    assert np.isinf(unpacked(found["times"])[-1])


def test_a_single_dataset_has_a_map(tmp_path):
    rng = np.random.default_rng(0)
    states = rng.normal(0.0, 1.0, (30, 25, 2))
    states[::2] += 5.0
    np.savez(tmp_path / "data.npz", states=states, lengths=np.full(30, 25))
    done = pivec.compare(tmp_path / "data.npz", out=tmp_path / "out", components=4)
    assert len(done.episode_map) == 30
    assert len(done.kinds) == 2
    assert len(set(done.episode_map.kind[::2])) == 1
    assert (tmp_path / "out" / "episodes.csv").exists()
    # Without regions, there is no map, and that of another method does not stay.
    other = pivec.compare(tmp_path / "data.npz", out=tmp_path / "out", method="gaussian")
    assert other.episode_map is None
    assert episode_data(other.findings) is None
    assert not (tmp_path / "out" / "episodes.csv").exists()
    own = tmp_path / "out" / "episodes.csv"
    own.write_text("mine\n", encoding="utf-8")
    other.write_report()
    assert own.read_text(encoding="utf-8") == "mine\n"


def test_what_is_not_known_is_nan(tmp_path):
    rng = np.random.default_rng(0)
    walks = {"few": places(rng, 2, 0.0), "more": places(rng, 6, 0.0, 5.0)}
    result = pivec.compare(walks, out=tmp_path, components=4).episode_map
    few = np.array([policy == "few" for policy in result.policies])
    assert np.isnan(result.times[few]).all()
    assert np.isfinite(result.times[~few]).all()
    alone = pivec.compare({"few": places(rng, 2, 0.0)}, out=tmp_path, components=4).episode_map
    assert np.isnan(alone.times).all()
    assert "not known" in alone.words


def test_supervectors_are_described_again_if_that_is_cheap(compared, tmp_path, monkeypatch):
    data = compared.stored.data
    done = pivec.compare(data, out=tmp_path, method="supervector", components=8)
    result = done.episode_map
    marked = [(result.policies[i], result.episodes[i]) for i in result.unusual]
    assert (HOSTILE, ODD) in marked
    opened = ComparisonFolder.open(Path(tmp_path))
    assert times_as_far(opened, [HOSTILE]).keys() == {HOSTILE}
    monkeypatch.setattr("pivec.explanations.unusual._MOST_STATES", 100)
    assert not times_as_far(opened, [HOSTILE])
    assert np.isnan(mapped(done).times).all()


def test_it_is_drawn(compared):
    axes = compared.episode_map.figure().axes[0]
    points = axes.collections[0].get_offsets()
    assert np.asarray(points) == pytest.approx(compared.episode_map.positions)
    rings = axes.collections[-1].get_offsets()
    assert len(rings) == len(compared.episode_map.unusual)
    assert compared.episode_map.table().shape == (72, 9)


def test_states_of_which_others_were_described_are_not_called_unusual(compared):
    opened = ComparisonFolder.open(compared)
    first, *others = opened.data.records
    data = pivec.VisitedStates([first.first(20), *others], opened.data.feature_names)
    other = ComparisonFolder(opened.folder, opened.space, data)
    result = episode_map.map_episodes(other, cluster_comparison(other))
    own = np.array([policy == first.info.label for policy in result.policies])
    assert own.sum() == 20
    assert np.isnan(result.times[own]).all()
    assert np.isfinite(result.times[~own]).all()
