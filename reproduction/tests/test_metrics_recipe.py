"""Figure 3: what is said of the metrics follows from the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.statistics import Evaluation, Row
from reproduction.published import toml
from reproduction.recipes.metrics import (
    FAST,
    RECIPE,
    Counts,
    agreement,
    findings,
    methods_of,
    remarks,
    tables,
)
from reproduction.supervectors import PAPERS_FIT


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
            **dict.fromkeys(("median_error_percent", "error_apart_percent")),
            **dict.fromkeys(("share_apart", "share_far_off")),
        }
        for method, variance in variances.items()
        for size in sizes
    ]


STEADY = {"supervector": 0.01, "discretization": 0.02, "gaussian": 0.05, "discriminator": 0.04}


def judged(summary, of, place="Walk-v0", **numbers):
    found = findings({"averages": summary, **numbers})
    (one,) = (each for each in found if each.of == of and each.place == place)
    return one


def changed(summary, method, size=None, **values):
    for row in summary:
        if row["method"] == method and size in (None, row["trajectories"]):
            row.update(values)
    return summary


def test_stabler_at_the_fewest_trajectories_by_variance():
    one = judged(averages(**STEADY), "metrics-stabler")
    assert one.holds is True
    assert one.paper == "the figure, without numbers"
    assert one.claim.startswith("With 10 trajectories")
    assert one.ours == "supervector 0.10, gaussian 0.50, discriminator 0.40"
    assert judged(averages(**STEADY | {"discriminator": 0.009}), "metrics-stabler").holds is False


def test_the_error_is_a_finding_of_its_own():
    """Which the paper does not say, and which decides nothing that it does."""
    summary = changed(averages(**STEADY), "supervector", error_percent=900.0)
    assert judged(summary, "").holds is False
    assert judged(summary, "metrics-stabler").holds is True


def test_a_missing_number_tells_nothing():
    summary = changed(averages(**STEADY), "discriminator", 10, variance=None)
    for of in ("metrics-stabler", "metrics-many", "metrics-discretization"):
        assert judged(summary, of).holds is None


def test_correlation_with_returns_must_be_positive_in_each_environment():
    summary = averages(**STEADY) + changed(
        averages("Fly-v0", **STEADY), "gaussian", correlation=-0.1
    )
    assert judged(summary, "metrics-correlate").holds is True
    one = judged(summary, "metrics-correlate", "Fly-v0")
    assert (one.holds, one.ours) == (
        False, "gaussian -0.10, discriminator 0.50 with 100 trajectories"
    )  # fmt: skip


def test_many_trajectories_are_needed_where_the_variance_doubles():
    summary = averages(**STEADY)  # ten times from 100 to 10
    assert judged(summary, "metrics-many").holds is True
    assert "gaussian 0.05 to 0.50" in judged(summary, "metrics-many").ours
    changed(summary, "discriminator", 10, variance=0.079)  # 0.04 with 100
    assert judged(summary, "metrics-many").holds is False


def test_discretization_must_correlate_and_be_stable():
    summary = averages(**STEADY)
    assert judged(summary, "metrics-discretization").holds is True
    assert judged(averages(**STEADY | {"discretization": 0.045}),
                  "metrics-discretization").holds is False  # fmt: skip
    changed(summary, "discretization", correlation=-0.1)
    assert judged(summary, "metrics-discretization").holds is False


def test_the_encoder_is_told_to_be_last_of_the_papers_five():
    summary = averages(**STEADY, encoder=0.3, visitation=0.1)
    changed(summary, "visitation", correlation=0.01)
    assert judged(summary, "metrics-encoder").holds is True
    changed(summary, "supervector", 100, correlation=0.05)
    assert judged(summary, "metrics-encoder").holds is False


def test_discretization_of_the_walker_is_told():
    place = "BipedalWalker-v3"
    one = judged(averages(place, **STEADY), "metrics-memory", place)
    assert one.paper == "ran out of 64 GB"
    assert one.holds is False
    assert "sparsely" in one.why


def test_optimal_is_within_a_twentieth_of_the_range():
    def one(returns):
        numbers = {"returns": {"CartPole-v1": returns}, "steps": {"CartPole-v1": 1000}}
        return judged(averages("CartPole-v1", **STEADY), "optimal-reward", "CartPole-v1", **numbers)

    assert one([[20, 475, 90], [500.0]]).holds is True  # best, not last
    assert one([[20, 475, 90], [474.0]]).holds is False
    assert (
        one([[20, 475, 90], [474.0]]).ours == "best 475, 474; last 90, 474; 1,000 steps of training"
    )


def test_every_claim_of_the_recipe_is_judged_in_each_of_its_environments():
    for claim in toml("claims")["claims"]:
        if claim["recipe"] == "metrics":
            for place in claim["places"]:
                numbers = {"returns": {place: [[1.0]]}, "steps": {place: 1}}
                judged(averages(place, **STEADY, encoder=0.1), claim["key"], place, **numbers)


def test_other_methods_alone_give_no_findings():
    assert findings({"averages": averages(mmd=0.1)}) == []


def test_what_is_said_of_the_error_comes_from_the_numbers():
    summary = averages(**STEADY)
    changed(summary, "supervector", 10, median_error_percent=60.4, error_apart_percent=30.0,
            share_apart=0.5, share_far_off=0.071)  # fmt: skip
    fits = [
        {"environment": "Walk-v0", "trajectories": 10, "other_fit": 0.9, "other_draw": None},
        {"environment": "Walk-v0", "trajectories": 10, "other_fit": 0.8, "other_draw": 0.7},
    ]
    failed = {"card": None, "correlation": None}
    units = [{"card": True, "correlation": 0.5}, {"card": False, "correlation": 0.4}, failed]
    numbers = {"averages": summary, "units": units, "remarks": [], "methods": {}, "fits": fits}
    text = " ".join(remarks(numbers))
    for part in ("errors above 1 000 %: Walk 7.1 %", "median pair, in percent: Walk 60.",
                 "either policy: Walk 50.0 %;", "in percent: Walk 30.", "by Walk 0.850;",
                 "on two draws by Walk 0.700", "a card had a part: 1 of 2."):  # fmt: skip
        assert part in text
    assert "| Walk-v0 | 10 | 0.850 | 0.700 |" in tables(numbers)


def test_the_fits_are_compared_draw_by_draw(tmp_path, rng):
    """By the files of the units; a draw is not another one of itself."""
    rows, files = [], []
    matrices = rng.random((2, 2, 4, 4))
    for i, method in enumerate(("supervector", FAST)):
        for repetition in (1, 2):
            files.append(tmp_path / f"{i}{repetition}.npz")
            np.savez(
                files[-1], distances=matrices[i, repetition - 1], seconds=1.0, peak_mb=1.0, card=0
            )
            rows.append(Row("Walk-v0", method, "Walk-v0 0", 5, repetition))
    first, second = agreement(Evaluation(tuple(rows), files=tuple(files)))
    upper = np.triu_indices(4, 1)

    def correlation(a, b):
        return pytest.approx(np.corrcoef(a[upper], b[upper])[0, 1])

    assert first["other_fit"] == correlation(matrices[0, 0], matrices[1, 0])
    assert first["other_draw"] is None
    assert second["other_draw"] == correlation(matrices[0, 1], matrices[0, 0])


def test_the_table_shows_the_ends():
    text = tables({"averages": averages(sizes=(100, 50, 10), **STEADY), "fits": []})
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
        "supervector", FAST, "gaussian", "discretization", "discriminator", "encoder", "visitation"
    ]  # fmt: skip
    assert chosen["encoder"] == ("encoder", {"device": "auto"})
    assert chosen["supervector"] == ("supervector", {**PAPERS_FIT, "device": "auto"})
    assert chosen[FAST] == ("supervector", {"device": "auto"})
    assert chosen["discriminator"][1] == {
        "standardise": False, "max_background": None, "max_states": None, "zero_diagonal": False,
        "device": "auto",
    }  # fmt: skip
    assert chosen["gaussian"] == ("gaussian", {})


def test_other_characterizations_may_be_asked_for():
    counts = Counts(sets=1, policies=3, episodes=2, methods=("mmd",), parameters={})
    assert methods_of(counts) == {"mmd": ("mmd", {})}


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_draws_are_smaller_than_what_is_collected(scale):
    counts = RECIPE.counts[scale]
    assert max(counts.sizes) < counts.episodes
