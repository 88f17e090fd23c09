"""Outcomes and paired episodes in `same`, `compare` and groups."""

import csv
import warnings

import numpy as np
import pytest

import pivec
from pivec.errors import PivecWarning, UsageError
from pivec.report import Findings, print_groups, print_summary


def walks(shifts, success, n=40, seed=0):
    """Policies from common starts, with their place and rate of success."""
    rng = np.random.default_rng(seed)
    starts = rng.normal(size=n)
    episodes = [[s + shift + 0.5 * rng.normal(size=(12, 1)) for s in starts] for shift in shifts]
    labels = [f"p{k}" for k in range(len(shifts))]
    outcomes = {
        "success": [(np.arange(n) < rate * n).astype(float).tolist() for rate in success],
        "start": [[f"s{e}" for e in range(n)]] * len(shifts),
    }
    return pivec.VisitedStates.from_arrays(episodes, labels=labels, outcomes=outcomes)


def test_success_is_a_view_of_its_own():
    data = walks([0.0, 0.0], [0.9, 0.3])
    answer = pivec.same(data[0], data[1], components=4)
    assert [view.name for view in answer.differing] == ["success"]
    assert "90 %" in answer.differing[0].words
    only = pivec.same(data[0], data[1], components=4, views="rates", margin={"success": 0.6})
    assert [view.name for view in only.views] == ["success"]
    assert only.verdict == "same"


def test_unknown_success_is_not_compared():
    data = walks([0.0, 0.0], [0.9, 0.3])
    outcomes = {"success": [[None, *[1.0] * 39], [1.0] * 40]}
    episodes = [list(data[k].episodes()) for k in range(2)]
    other = pivec.VisitedStates.from_arrays(episodes, labels=["a", "b"], outcomes=outcomes)
    with pytest.warns(PivecWarning, match="success is not compared"):
        answer = pivec.same(other[0], other[1], components=4)
    assert "success" not in [view.name for view in answer.views]


def test_pairs_find_what_independent_episodes_hide():
    data = walks([0.0, 0.35], [1.0, 1.0])
    free = pivec.same(data[0], data[1], components=4, views="moves", permutations=199)
    tied = pivec.same(data[0], data[1], components=4, views="moves", permutations=199, pair="start")
    assert tied.p_value <= 0.01 < free.p_value
    assert tied.high - tied.low < free.high - free.low
    assert tied.pair == "start"
    assert tied.as_json()["pair"] == "start"
    equal = pivec.same(data[0], walks([0.0, 0.0], [1, 1], seed=0)[1], components=4, pair="start")
    assert equal.verdict != "different"


def test_few_pairs_are_warned_of():
    data = walks([0.0, 0.35], [1.0, 1.0], n=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pivec.same(data[0], data[1], components=4, views="moves", permutations=99, pair="start")
    data = walks([0.0, 0.35], [1.0, 1.0], n=19)
    with pytest.warns(PivecWarning, match="19 pairs"):
        pivec.same(data[0], data[1], components=4, views="moves", permutations=99, pair="start")


def test_methods_without_influences_are_refused():
    data = walks([0.0, 0.35], [1.0, 1.0])
    for method in ("supervector", "sliced-wasserstein"):
        with pytest.raises(UsageError, match=method):
            pivec.same(data[0], data[1], method=method, margin=1.0, pair="start")


def test_common_seeds_without_pairs_are_warned_of(tmp_path):
    lean = {f"lean{k}": lambda o, k=k: (o[:, 2] > 0.01 * k).astype(int) for k in range(2)}
    options = {"episodes": 8, "components": 4}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pivec.compare("CartPole-v1", lean, tmp_path / "a", same_seeds=True, **options)
    assert [w for w in seen if "--pair seed" in str(w.message)]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = pivec.compare("CartPole-v1", lean, tmp_path / "b", pair="seed", **options)
    assert not [w for w in seen if "--pair" in str(w.message)]
    seeds = pivec.load(tmp_path / "b").seeds
    np.testing.assert_array_equal(*np.split(seeds, 2))
    again = pivec.load_comparison(tmp_path / "b")
    np.testing.assert_array_equal(again.intervals.high, result.intervals.high)
    with pytest.raises(UsageError, match="until"):
        pivec.compare("CartPole-v1", lean, tmp_path / "c", pair="seed", until=0.1)
    with pytest.raises(UsageError, match="space"):
        pivec.compare("CartPole-v1", lean, tmp_path / "c", pair="seed", space=tmp_path / "b")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """Four policies: p0 and p1 differ in behaviour alone, p2 and p3 in success alone."""
    data = walks([0.0, 3.0, -3.0, -3.0], [0.5, 0.5, 1.0, 0.2], n=300)
    return pivec.compare(data, out=tmp_path_factory.mktemp("out"), components=6)


def test_outcomes_are_in_tables(comparison, capsys):
    with (comparison.folder / "map.csv").open() as file:
        rows = list(csv.DictReader(file))
    low, high = (float(x[0]) for x in map(np.atleast_1d, _wilson(60, 300)))
    assert [float(row["success"]) for row in rows] == [0.5, 0.5, 1.0, 0.2]
    assert float(rows[3]["success_low"]) == pytest.approx(low)
    assert float(rows[3]["success_high"]) == pytest.approx(high)
    assert "start" not in rows[0]
    print_summary(comparison.findings)
    shown = capsys.readouterr().out
    assert "20 % (16 % to 25 %)" in shown
    page = comparison.report.read_text()
    assert 'data-column="outcome:0"' in page
    assert [row["success"] for row in comparison.rows()] == [0.5, 0.5, 1.0, 0.2]


def _wilson(count, total):
    z, p = 1.959963984540054, count / total
    middle = (p + z**2 / (2 * total)) / (1 + z**2 / total)
    reach = z * np.sqrt(p * (1 - p) / total + z**2 / (4 * total**2)) / (1 + z**2 / total)
    return middle - reach, middle + reach


def test_contrasts_between_outcome_and_behaviour(comparison):
    same, different = comparison.findings.contrasts.items()
    assert "Same success" in same[0]
    assert len(same[1]) == 1
    assert "p0 and p1" in same[1][0]
    assert "Different success" in different[0]
    assert len(different[1]) == 1
    assert "p2 and p3" in different[1][0]
    assert same[1][0].partition(":")[0] in comparison.report.read_text()


def test_returns_take_the_place_of_outcomes(tmp_path):
    rng = np.random.default_rng(0)
    episodes = [[rng.normal(p, 1, (12, 1)) for _ in range(30)] for p in (0, 3)]
    returns = [rng.normal(size=30)] * 2
    data = pivec.VisitedStates.from_arrays(episodes, labels=["a", "b"], returns=returns)
    findings = pivec.compare(data, out=tmp_path, components=4).findings
    [heading] = findings.contrasts
    assert "return" in heading
    assert isinstance(findings, Findings)


def test_groups_have_outcomes_and_a_verdict(tmp_path, capsys):
    runs = ["ppo-0", "ppo-1", "ppo-2", "a2c-0", "a2c-1", "a2c-2"]
    rates = [0.9, 0.8, 1.0, 0.1, 0.2, 0.3]
    rng = np.random.default_rng(0)
    data = pivec.VisitedStates.from_arrays(
        [[rng.normal(run[0] == "p", 1, (12, 1)) for _ in range(20)] for run in runs],
        labels=runs,
        groups=runs,
        outcomes={"success": [[float(e < rate * 20) for e in range(20)] for rate in rates]},
    )
    result = pivec.compare(data, out=tmp_path, components=4).groups()
    ppo = result.groups[[group.name for group in result.groups].index("ppo")]
    mean, spread = np.mean(rates[:3]), np.std(rates[:3], ddof=1)
    assert ppo.outcomes["success"].value == pytest.approx(mean)
    reach = 4.302652729911275 * spread / np.sqrt(3)
    assert ppo.outcomes["success"].high == pytest.approx(mean + reach)
    assert "cannot be distinguished with 3 + 3 runs" in result.headline()
    assert "4 + 4" in result.headline()
    print_groups(result)
    shown = capsys.readouterr().out
    assert "4 + 4" in shown
    assert "Success" in shown


def test_incomplete_pairs_are_left_out_of_a_comparison(tmp_path):
    data = walks([0.0, 0.5, 1.0], [1.0, 1.0, 1.0])
    episodes = [list(data[k].episodes()) for k in range(3)]
    episodes[1] = episodes[1][3:]
    starts = [[f"s{e}" for e in range(40)] for _ in range(3)]
    starts[1] = starts[1][3:]
    less = pivec.VisitedStates.from_arrays(episodes, labels=data.labels, outcomes={"start": starts})
    with pytest.warns(PivecWarning, match="6 of 117 episodes"):
        result = pivec.compare(less, out=tmp_path / "a", components=4, pair="start")
    assert result.space.descriptions.n_episodes.tolist() == [37] * 3
    turned = less.select([2, 0, 1])
    with pytest.warns(PivecWarning):
        other = pivec.compare(turned, out=tmp_path / "b", components=4, pair="start")
    order = [other.labels.index(label) for label in result.labels]
    np.testing.assert_array_equal(other.intervals.high[np.ix_(order, order)], result.intervals.high)
    assert {e["policy"]: 1 for e in result.episode_map.rows()}.keys() == set(result.labels)
    assert result.explain("p0", "p2").different
