"""Figure 3: what is said of the metrics follows from the numbers."""

from __future__ import annotations

import pytest

from pivec.paper.metrics.page import findings, tables
from pivec.paper.metrics.recipe import RECIPE, Counts, methods_of
from pivec.paper.recipes import PICTURE


def averages(environment="Walk-v0", sizes=(100, 10), **variances):
    """One row a method and size; variance grows, correlation falls with fewer trajectories."""
    return [
        {
            "environment": environment,
            "method": method,
            "trajectories": size,
            "correlation": 0.5 if method != "encoder" else 0.1,
            "correlation_std": 0.02,
            "error_percent": 100 * variance * (100 / size),
            "error_percent_std": None,
            "variance": variance * (100 / size),
            "variance_std": 0.1,
        }
        for method, variance in variances.items()
        for size in sizes
    ]


STEADY = {"supervector": 0.01, "discretization": 0.02, "gaussian": 0.05, "discriminator": 0.04}


def by_claim(summary):
    return {finding.claim: finding for finding in findings(summary)}


def steadiness(found, called):
    return next(each for claim, each in found.items() if f"(distance {called})" in claim)


def test_steadier_at_the_fewest_trajectories():
    found = by_claim(averages(**STEADY))
    one = steadiness(found, "variance")
    assert one.holds is True
    assert one.paper == PICTURE
    assert "with 10 trajectories" in one.claim
    assert one.ours.startswith("supervector 0.10, discretization 0.20, gaussian 0.50")
    assert steadiness(found, "error").holds is True


def test_one_lost_comparison_is_enough_for_no():
    one = steadiness(by_claim(averages(**STEADY | {"discriminator": 0.015})), "variance")
    assert one.holds is False
    assert "3 of 4 comparisons" in one.ours


def test_a_missing_number_tells_nothing():
    summary = averages(**STEADY)
    summary[-1]["variance"] = None
    assert steadiness(by_claim(summary), "variance").holds is None


def test_correlation_with_returns_must_be_positive_everywhere():
    summary = averages(**STEADY) + averages("Fly-v0", **STEADY)
    claim = "Gaussian and discriminator correlate with differences of returns"
    assert by_claim(summary)[claim].holds is True
    for row in summary:
        if (row["environment"], row["method"]) == ("Fly-v0", "gaussian"):
            row["correlation"] = -0.1
    assert by_claim(summary)[claim].holds is False


def test_the_encoder_is_told_to_be_last():
    claim = "The encoder performs low: it correlates least of all"
    summary = averages(**STEADY, encoder=0.3) + averages("Fly-v0", **STEADY, encoder=0.3)
    assert by_claim(summary)[claim].ours == "in 2 of 2 environments"
    summary[0]["correlation"] = 0.05  # supervector in the first, at 100
    assert by_claim(summary)[claim].ours == "in 1 of 2 environments"


def test_discretization_of_the_walker_is_told():
    found = by_claim(averages("BipedalWalker-v3", **STEADY))
    one = next(each for claim, each in found.items() if "24 dimensions" in claim)
    assert one.paper == "ran out of 64 GB"
    assert one.holds is False


def test_other_methods_alone_give_no_findings():
    assert findings(averages(mmd=0.1)) == []


def test_the_table_shows_the_ends():
    text = tables(averages(sizes=(100, 50, 10), **STEADY))
    assert "| | correlation ↑, 100 | correlation ↑, 10 | error % ↓, 100 |" in text
    assert "| gaussian | 0.50 ± 0.02 | 0.50 ± 0.02 | 5 | 50 | 0.05 ± 0.10 | 0.50 ± 0.10 |" in text
    assert ", 50 |" not in text


def test_the_papers_methods_at_the_papers_scale_have_the_papers_settings():
    counts = RECIPE.counts["paper"]
    assert (counts.sets, counts.policies, counts.episodes) == (3, 100, 200)
    assert (counts.sizes, counts.repetitions) == ((100, 50, 25, 10), 3)
    assert counts.parameters == {}
    chosen = methods_of(counts)
    assert list(chosen) == [
        "supervector", "gaussian", "discretization", "discriminator", "encoder"
    ]  # fmt: skip
    assert chosen["encoder"] == ("encoder", {"device": "auto"})
    assert chosen["gaussian"] == ("gaussian", {})


def test_other_characterizations_may_be_asked_for():
    counts = Counts(sets=1, policies=3, episodes=2, methods=("mmd",), parameters={})
    assert methods_of(counts) == {"mmd": ("mmd", {})}


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_draws_are_smaller_than_what_is_collected(scale):
    counts = RECIPE.counts[scale]
    assert max(counts.sizes) < counts.episodes
