"""The cost of characterizations: how it is measured, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations import names
from pivec.errors import PivecError
from pivec.workflows import collect
from reproduction.pipeline import Pipeline
from reproduction.published import toml
from reproduction.recipes.cost import (
    RECIPE,
    Counts,
    Measured,
    _inputs,
    at_most_policies,
    cost_figure,
    findings,
    growth,
    judge,
    measure_in_process,
    needs,
    shipped_policies,
    table,
)


def rows(**seconds):
    """Ten times the seconds for ten times the policies."""
    found = []
    for method, each in seconds.items():
        row, rating = toml("published")["cost"].get(method, ("", ""))
        found += [
            {
                "method": method,
                "row_of_the_table": row,
                "paper": rating,
                "policies": n,
                "seconds": each * n / 40,
                "peak_mb": 250.0,
                "added_mb": 50.0,
            }
            for n in (4, 40)
        ]
    return found


def test_one_process_measures_few_and_many_policies(tmp_path):
    store = tmp_path / "states"
    collect("CartPole-v1", shipped_policies(4), 2, store=store)
    found = Measured(**measure_in_process("gaussian", {"floor": 1e-6}, store, (3, 4)))
    assert found.seconds.shape == (2, 3)
    assert (found.seconds > 0).all()
    assert found.before_mb > 20
    # Memory that was given back in between may make the larger one a little smaller.
    assert np.all(np.diff([found.before_mb, *found.peak_mb]) > -1)


def test_what_goes_wrong_in_the_process_is_told(tmp_path):
    store = tmp_path / "states"
    collect("CartPole-v1", shipped_policies(3), 1, store=store)
    with pytest.raises(PivecError, match=r"actions could not be measured: .*keep_policies"):
        measure_in_process("actions", {}, store, (3,))


def test_policies_that_come_with_the_package_are_spread_over_all_runs():
    some = shipped_policies(12)
    assert len(some) == 12
    assert len({one.info.group for one in some}) == 6
    assert len(shipped_policies(48)) == 48


def test_every_characterization_is_measured_where_it_counts(tmp_path):
    for scale in ("small", "paper"):
        assert RECIPE.counts[scale].methods == names()
    assert len(needs(Pipeline(tmp_path, "smoke"), RECIPE.counts["paper"])) == len(names())


def test_the_plan_measures_what_is_asked_for(tmp_path):
    [need] = needs(
        Pipeline(tmp_path, "smoke"), Counts(policies=(2, 4), episodes=3, methods=("returns",))
    )
    assert need.amount == 18
    assert need.seconds > 0


def test_the_papers_ratings_are_of_characterizations_that_exist():
    assert set(toml("published")["cost"]) <= set(names())
    assert {rating for _, rating in toml("published")["cost"].values()} == {
        "Low",
        "High",
        "V.High",
        "N/A",
    }


def test_the_fastest_come_first_and_growth_is_a_power():
    found = rows(gaussian=2.0, returns=1.0)
    assert [row["method"] for row in at_most_policies(found)] == ["returns", "gaussian"]
    assert growth(found, "gaussian") == pytest.approx(1.0)
    assert np.isnan(growth(found[:1], "gaussian"))


def test_findings_follow_the_numbers():
    cheap = rows(supervector=1.0, gaussian=0.1, discriminator=2.0, encoder=50.0)
    found = findings(cheap)
    assert [each.of for each in found] == [
        "cost-ratings", "cost-ratings", "cost-encoder", "cost-scalable"
    ]  # fmt: skip
    assert [each.holds for each in found] == [True, True, True, True]
    assert found[2].ours == "discriminator 2 s, encoder 50 s: 25 times"
    assert "slowest Low: discriminator 2 s; fastest High: encoder 50 s" in found[0].ours
    dear = findings(rows(supervector=60.0, discriminator=2.0, encoder=19.0))
    assert [each.holds for each in dear] == [False, False, False, True]
    assert dear[2].why


def test_the_table_has_the_papers_rating_beside_ours():
    text = table(rows(supervector=3.0, mmd=1.0))
    lines = text.splitlines()
    assert lines[2] == "| mmd | – | – | 0.1 | 1 | 1.0 | 50 | 250 |"
    assert lines[3].startswith("| supervector | States + GMM (Proposed) | Low | 0.3 | 3 | 1.0 |")


@pytest.mark.parametrize(("cores", "words"), [(1, "one core"), (2, "2 cores")])
def test_the_page_says_how_many_cores_there_were(cores, words):
    told = judge({"rows": rows(supervector=3.0), "methods": {}, "cores": cores}, None)
    assert f"distances on {words} of this machine" in told.notes[0]


def test_the_figure_has_a_line_for_each_method():
    figure = cost_figure(rows(supervector=3.0, mmd=1.0), "CartPole-v1", 10)
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["mmd", "supervector"]
    assert [text.get_text() for text in left.texts] == ["1 s", "3 s"]
    assert [text.get_text() for text in right.texts] == ["50", "50"]


def test_the_plan_knows_what_was_measured(tmp_path):
    counts = RECIPE.counts["smoke"]
    pipeline = Pipeline(tmp_path, "smoke")
    first, *others = needs(pipeline, counts)
    assert not first.done
    pipeline.computed(
        "cost", _inputs(pipeline, counts, counts.methods[0]), lambda: {"seconds": 1.0}
    )
    first, *again = needs(pipeline, counts)
    assert first.done
    assert not any(need.done for need in again)
    assert len(again) == len(others)
