"""Visitation against slow, obvious formulas."""

import numpy as np
import pytest

from pivec.characterizations import characterization
from pivec.mixtures import Mixture
from pivec.states import VisitedStates


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    walks = [
        [rng.normal(place, 1, (int(rng.integers(4, 40)), 2)) for _ in range(6)]
        for place in (0, 0, 2)
    ]
    return VisitedStates.from_arrays(walks)


def responsibilities(mixture: Mixture, states):
    """Shares of each component in each state, and places in units of its deviation."""
    x = (states.astype(np.float64) - mixture.center) / mixture.scale
    places = (x[:, None] - mixture.means) / np.sqrt(mixture.variances)
    density = mixture.weights * np.exp(-0.5 * (places**2).sum(axis=2))
    density /= np.sqrt(mixture.variances.prod(axis=1))
    return density / density.sum(axis=1, keepdims=True), places


def slow_points(method, mixture, record):
    """√(ω/2) u with u along (1, m/2, ℓ/√2) of one policy, each of its episodes counting the same.

    ℓ = ½ ln v; the rows of an episode are its states, or its moves (s, s′ − s).
    """
    shares, sums, squares = [], [], []
    for episode in record.as_episodes():
        states = episode.states
        rows = (
            states if method.of == "states" else np.hstack([states[:-1], np.diff(states, axis=0)])
        )
        r, places = responsibilities(mixture, rows)
        shares.append(r.mean(axis=0))
        sums.append((r[:, :, None] * places).mean(axis=0))
        squares.append((r[:, :, None] * places**2).mean(axis=0))
    share, prior = np.mean(shares, axis=0), method.prior
    roots = np.sqrt((share + prior * mixture.weights) / (1 + prior))
    total = (share + prior)[:, None]
    means = np.mean(sums, axis=0) / total
    logs = np.log((np.mean(squares, axis=0) + prior) / total - means**2) / 2
    along = np.column_stack([np.ones(len(roots)), means / 2, logs / np.sqrt(2)])
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    return (roots[:, None] * along).ravel() / np.sqrt(2)


@pytest.mark.parametrize("of", ["moves", "states"])
def test_points_are_those_of_the_formula(data, of):
    method = characterization("visitation", n_components=5, of=of).fit(data)
    slow = [slow_points(method, method.background_, record) for record in data.records]
    np.testing.assert_allclose(method.describe(data).points, slow, rtol=1e-4, atol=1e-5)


def test_moves_see_direction_and_spread_and_places_do_not():
    """The same circle in the opposite direction: as far apart as can be; the places are equal."""
    turns = np.linspace(0, 4 * np.pi, 80) + np.random.default_rng(0).uniform(0, 6, (2, 10, 1))
    circles = [[np.column_stack([np.cos(t), np.sin(t)]) for t in own] for own in turns]
    circles[1] = [circle[::-1] for circle in circles[1]]
    both = VisitedStates.from_arrays(circles)
    apart = {
        of: characterization("visitation", n_components=16, of=of).fit(both).intervals(both)
        for of in ("moves", "states")
    }
    assert apart["moves"].low[0, 1] > 0.5
    assert apart["states"].distance[0, 1] < 0.01


def test_shares_of_time_are_such_distances(data):
    """What the docs say of the margin of `pivec same`, with 64 regions of equal weight."""
    method = characterization("visitation", n_components=64).fit(data)
    method.weights_, method.variances_ = np.full(64, 1 / 64), np.ones((64, 4))
    even = np.repeat([1 / 32, 0], 32)
    habits = even * np.tile([1.4, 0.6], 32)
    new = np.where(np.arange(64) == 40, 0.06, 0.94 * even)
    counts = np.stack([even, habits, new, even[::-1]])
    squares = np.repeat(counts, 4, axis=1)  # a variance of 1, relative to the region's
    sums = np.concatenate([counts, np.zeros((4, 256)), squares], axis=1)
    points = method._from_statistics(sums)[1]
    distances = ((points[0] - points[1:]) ** 2).sum(axis=1)
    np.testing.assert_allclose(distances, [0.021, 0.027, 0.860], atol=1e-3)


def test_distances_are_bounded_however_far_a_policy_gets(data):
    method = characterization("visitation", n_components=5).fit(data)
    rng = np.random.default_rng(1)
    far = [[rng.normal(1e4, 1e3, (20, 2)) for _ in range(4)] for _ in range(2)]
    outside = VisitedStates.from_arrays(far)
    np.testing.assert_allclose((method.describe(outside).points ** 2).sum(axis=1), 0.5)
    sure = method.intervals(outside, data)
    assert (method.distances(outside, data) < 2).all()
    assert (sure.noise < 1).all()


def test_a_long_episode_counts_as_a_short_one(data):
    method = characterization("visitation", n_components=5).fit(data)
    short, long = np.zeros((1, 2)), np.full((90, 2), 3.0)
    both = VisitedStates.from_arrays([[short, long], [short, long[:1]]])
    a, b = method.describe(both).points
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_the_distance_of_several_backgrounds_is_the_mean_of_theirs(data):
    method = characterization("visitation", n_components=4, backgrounds=3).fit(data)
    each = []
    for mixture in method.mixtures_:
        assert mixture.weights.sum() == pytest.approx(1)
        points = np.array([slow_points(method, mixture, record) for record in data.records])
        each.append(((points[:, None] - points) ** 2).sum(axis=2))
    assert np.ptp(each, axis=0)[0, 2] > 0  # the fits differ
    np.testing.assert_allclose(method.distances(data), np.mean(each, axis=0), rtol=1e-3, atol=1e-6)
    # Their scatter widens the intervals.
    sure, scatter = method.intervals(data), np.var(each, axis=0, ddof=1) / 3
    expected = sure.first + sure.second + scatter
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(sure.standard_error**2, expected, rtol=1e-3, atol=1e-9)
    overlaps = method.overlap(method.describe(data))
    assert overlaps[0, 0] == 1
    assert 0 < overlaps[0, 2] < 1


def test_the_backgrounds_share_compares_spaces_of_other_starts(data):
    from pivec.characterizations import background_share, background_words

    method = characterization("visitation", n_components=4).fit(data)
    share = background_share(method, data)
    assert share == background_share(method, data)  # the same every time
    assert 0 < share["moved"] < 1
    assert -1 <= share["agreement"] <= 1
    assert background_share(method, data[0]) is None
    assert background_share(method, data[:2])["agreement"] is None
    few = {"moved": 0.2, "agreement": 0.9}
    assert "--backgrounds" in background_words({"background": few})
    assert "2.0 %" in background_words({"background": {"moved": 0.02, "agreement": 0.999}})
    assert background_words({}) == ""


def test_a_space_of_the_earlier_definition_is_refused(data, tmp_path):
    from pivec.characterizations import Space
    from pivec.errors import BadStore

    method = characterization("visitation", n_components=3).fit(data)
    Space(method, method.describe(data)).save(tmp_path)
    with np.load(tmp_path / "space.npz") as file:
        arrays = dict(file)
    index = arrays["index"].tobytes().replace(b'"of": "moves", ', b"")
    arrays["index"] = np.frombuffer(index, np.uint8)
    np.savez(tmp_path / "space.npz", **arrays)
    with pytest.raises(BadStore, match="earlier version"):
        Space.load(tmp_path)
