"""Episodes are samples: what adds up over them, and how sure the distances are that come of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from behaviours import PLACES, make_behaviours
from test_contract import _cases

from pivec.characterizations import characterization
from pivec.characterizations.discretization import CellCounts
from pivec.characterizations.rows import segment_sums
from pivec.errors import BadData, PivecWarning, UsageError
from pivec.states import VisitedStates


def behaving(places, *, episodes=6, seed=0, **given):
    """Few short episodes: much noise, and little time."""
    rng = np.random.default_rng(seed)
    returns = [place + rng.normal(0, 1, episodes) for place in places]
    given = {"length": 20, "returns": returns} | given
    return make_behaviours(places, episodes=episodes, seed=seed, **given)


@pytest.fixture(scope="module")
def data():
    return behaving(PLACES)


def _sampled():
    """All but those variants in which nothing of this differs."""
    return [case for case in _cases() if not case.id.endswith(("-state-actions", "1"))]


@pytest.fixture(scope="module", params=_sampled())
def method(request, data):
    """Each characterization, fitted once for all tests here."""
    name, settings = request.param
    return characterization(name, **settings).fit(data)


def has_noise(method):
    if method.traits.exact or method.traits.no_intervals:
        pytest.skip("no noise, or none that is known")


def test_sums_of_statistics_describe_as_describing_does(method, data):
    if not method.traits.additive:
        pytest.skip("no sums suffice")
    weights = np.repeat(np.eye(len(data)), np.diff(data.policy_starts), axis=1)
    vectors, points, arrays = method._from_statistics(weights @ method._statistics(data))
    described = method._describe(data)
    for ours, expected in [(vectors, described[0]), (points, described[1])]:
        assert (ours is None) == (expected is None)
        assert ours is None or np.allclose(ours, expected, rtol=1e-5, atol=1e-5)
    assert arrays.keys() == described[2].keys()
    for name, expected in described[2].items():
        assert np.allclose(arrays[name], expected, rtol=1e-5, atol=1e-5), name


def test_influences_are_what_leaving_an_episode_out_does(method, data):
    if not method.traits.influences:
        pytest.skip("no influences")
    name = "points" if method.traits.squared else "vectors"
    some = data[:2]
    described = method.describe(some, influences=True)
    plain = getattr(method.describe(some), name)
    assert np.allclose(getattr(described, name), plain, rtol=1e-5, atol=1e-6)
    for policy, influences in enumerate(described.influences):
        rests = _rests(some[policy])
        left = np.concatenate([getattr(method.describe(rest), name) for rest in rests])
        slow = (len(left) - 1) * (left.mean(axis=0) - left)
        assert np.allclose(influences, slow, rtol=0, atol=1e-4 * np.abs(slow).max())


def _rests(policy):
    """One policy without each of its episodes."""
    record, m = policy.records[0], policy.n_episodes
    return [
        VisitedStates([record.only(np.delete(np.arange(m), e))], policy.feature_names)
        for e in range(m)
    ]


def test_elsewhere_noise_and_error_are_what_leaving_an_episode_out_does(method, data):
    has_noise(method)
    if method.traits.influences:
        pytest.skip("has influences")
    a, b = data[0], data[5]
    power = 1 if method.traits.squared else 2
    there = {a: method.describe(b), b: method.describe(a)}
    square = method.distances(a, b)[0, 0] ** power
    noise = variance = traces = 0.0
    for side, other in there.items():
        rests = [method.describe(rest) for rest in _rests(side)]
        m = len(rests)
        left = np.array([method.distances(rest, other)[0, 0] ** power for rest in rests])
        noise += (m - 1) * (left.mean() - square)
        variance += (m - 1) / m * ((left - left.mean()) ** 2).sum()
        # Σ ‖I_e‖² from the squared distances of all pairs.
        own = sum(method.distances(x, y)[0, 0] ** power for x in rests for y in rests)
        traces += (m - 1) / (2 * m**2) * own
    sure = method.intervals(a, b)
    expected = traces if method.traits.squared else max(noise, 0.0)
    assert sure.noise[0, 0] ** power == pytest.approx(expected, rel=1e-5)
    assert (sure.first + sure.second)[0, 0] == pytest.approx(
        max(variance, sure.second[0, 0]), rel=1e-5
    )


def test_intervals_do_not_depend_on_the_order(method, data):
    has_noise(method)
    sure = method.intervals(data)
    assert sure.distance.shape == (6, 6)
    for values in (sure.distance, sure.low, sure.high, sure.standard_error, sure.p_value):
        assert np.allclose(values, values.T, rtol=1e-4, atol=1e-9)
        assert np.isfinite(values).all()
    assert not sure.high.diagonal().any()
    assert (sure.low <= np.maximum(sure.distance, 0)).all()
    assert (np.maximum(sure.distance, 0) <= sure.high).all()
    order = [3, 1, 5, 0, 2, 4]
    turned = method.intervals(data.select(order))
    for name in ("low", "high", "noise"):
        expected = getattr(sure, name)[np.ix_(order, order)]
        assert np.array_equal(getattr(turned, name), expected), name


def test_wide_apart_is_sure_and_alike_is_not(method):
    has_noise(method)
    if method.name == "encoder":
        pytest.skip("the latent may stay empty")
    sure = method.intervals(behaving([0.0, 0.0, 3.0], episodes=12))
    assert sure.low[0, 1] < 0.1 * sure.high[0, 2]
    assert sure.low[0, 2] > 0
    assert sure.p_value[0, 2] < 0.05


def test_a_policy_is_zero_from_itself_on_average(method):
    has_noise(method)
    n = 12
    pairs = [behaving([0.0] * n, episodes=8, seed=seed) for seed in (1, 2)]
    sure = method.intervals(*pairs)
    noise, distances = (values.diagonal() for values in (sure.noise, method.distances(*pairs)))
    power = 1 if method.traits.squared else 2
    gaps = distances**power - noise**power
    assert gaps.mean() < 0.5 * (distances**power).mean()
    assert abs(gaps.mean()) < 3 * gaps.std(ddof=1) / np.sqrt(n)


def test_one_episode_does_not_tell(method, data):
    has_noise(method)
    few = behaving([0.0, 1.0], episodes=1)
    both = _joined(data[:2], few)
    with pytest.warns(PivecWarning, match=r"'one \d'.*single"):
        sure = method.intervals(both)
    assert np.isnan(sure.high[2:, :2]).all()
    assert np.isfinite(sure.high[:2, :2]).all()
    assert np.isfinite(sure.distance).all()


def _joined(data, few):
    """Policies of both, the second ones under other names."""
    everything = [list(part[i].episodes()) for part in (data, few) for i in range(len(part))]
    return make_behaviours(
        [0.0] * len(everything),
        states=everything,
        returns=[part[i].returns for part in (data, few) for i in range(len(part))],
        labels=[f"many {i}" for i in range(len(data))] + [f"one {i}" for i in range(len(few))],
    )


def test_equal_episodes_make_intervals_without_width(method):
    has_noise(method)
    rng = np.random.default_rng(0)
    walks = [behaving([place])[:].states[:20] for place in (0.0, 2.0)]
    moves = [rng.integers(2, size=19) for _ in walks]
    still = make_behaviours(
        [0.0, 2.0],
        states=[[walk] * 5 for walk in walks],
        actions=[[move] * 5 for move in moves],
        returns=[[0.1] * 5, [0.7] * 5],
    )
    with pytest.warns(PivecWarning, match="alike"):
        sure = method.intervals(still)
    assert sure.distance[0, 1] == pytest.approx(method.distances(still)[0, 1], rel=1e-6)
    assert sure.low[0, 1] == pytest.approx(sure.high[0, 1], rel=1e-6)
    assert sure.p_value[0, 1] == 0


def test_copies_are_not_samples(method, data):
    has_noise(method)
    if method.name == "returns":
        pytest.skip("numbers are equal now and then")
    walks, moves = list(data[0].episodes()), np.split(data[0].actions, 6)
    twice = make_behaviours(
        [0.0, 0.0],
        states=[walks, walks],
        actions=[moves, moves],
        returns=[data[0].returns, data[0].returns],
    )
    with pytest.warns(PivecWarning, match="copies are not samples"):
        method.intervals(twice)


def test_returns_that_happen_to_be_equal_are_no_copies(data):
    method = characterization("returns").fit(data)
    sure = method.intervals(behaving([0.0, 0.0], returns=[[1.0, 2, 3, 1, 2, 3], [0.0, 4] * 3]))
    assert sure.noise[0, 1] > 0


def test_without_noise_or_without_knowing_it(method, data):
    if not (method.traits.exact or method.traits.no_intervals):
        pytest.skip("there are intervals")
    reason = "width 0" if method.traits.exact else "has no intervals"
    described = method.describe(data.select([0, 5]))
    with pytest.warns(PivecWarning, match=f"{method.name} .*{reason}"):
        sure = method.intervals(described)
    assert np.allclose(sure.distance, method.distances(described))
    if method.traits.exact:
        assert np.array_equal(sure.low, sure.high)
        assert sure.p_value[0, 1] == 0
    else:
        assert np.isnan(sure.high[0, 1])


def test_the_test_tells_a_clear_difference(method):
    near, far = (behaving([place], episodes=10, seed=seed) for place, seed in ((0, 1), (2, 2)))
    if method.traits.no_test:
        with pytest.raises(UsageError, match=f"{method.name} has no test"):
            method.test(near, far)
        return
    outcome = method.test(near, far, permutations=39)
    assert outcome.distance == method.distances(near, far)[0, 0]
    if method.name != "encoder":
        assert outcome.p_value <= 0.05


def test_the_test_is_fair_to_equal_policies(method):
    if method.traits.no_test or not method.traits.additive:
        pytest.skip("no test, or a slow one")
    n = 10
    pairs = [behaving([0.0] * n, episodes=5, length=10, seed=seed) for seed in (3, 4)]
    p = [method.test(pairs[0][i], pairs[1][i], permutations=19, seed=i).p_value for i in range(n)]
    # Uniform from 0 to 1: a mean of ½ with a deviation of 0.29.
    assert abs(np.mean(p) - 0.5) < 3 * 0.29 / np.sqrt(n)
    assert np.mean(np.array(p) <= 0.25) < 0.7


def test_mismatched_features_and_unknown_returns_are_refused(method, data):
    with pytest.raises(BadData, match=r"3 .*1"):
        method.intervals(behaving([0.0, 1.0], features=1))
    if "returns" in method.traits.needs:
        with pytest.raises(UsageError, match="returns="):
            method.intervals(behaving([0.0, 1.0], returns=[[np.nan] * 6] * 2))


def test_cells_of_an_episode_are_counted_and_add_up():
    words = np.array([[7], [3], [7], [9], [3], [3]], dtype=np.uint64)
    counts = CellCounts.of_rows(words, np.array([0, 3, 3, 6]))
    cells, shares = zip(*(np.eye(3)[[0, 2]] @ counts).histograms(), strict=True)
    assert [own.ravel().tolist() for own in cells] == [[3, 7], [3, 9]]
    assert np.allclose(shares, [[1 / 3, 2 / 3], [2 / 3, 1 / 3]])
    [(cells, shares)] = (np.array([[1, 5, 1]]) @ counts).histograms()
    assert cells.ravel().tolist() == [3, 7, 9]
    assert np.allclose(shares, [0.5, 1 / 3, 1 / 6])


def test_sums_of_segments_without_rows_are_zero(rng):
    values, cuts = rng.normal(size=(9, 2)), np.array([0, 0, 4, 4, 9, 9])
    expected = [values[i:j].sum(axis=0) for i, j in pairwise(cuts)]
    assert np.allclose(segment_sums(values, cuts), expected)
