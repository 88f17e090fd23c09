"""All methods see the same draws, finished units stay, and a failure is no one else's."""

from __future__ import annotations

import csv
import math
import os
from dataclasses import replace

import numpy as np
import pytest
from trial_methods import Mean

from pivec.characterizations import characterization, names
from pivec.errors import PivecError, UsageError
from pivec.parallel import shares_of_cores
from pivec.policies import NetworkPolicy, canonical_order, save_policy
from pivec.run_log import peak_mb
from pivec.states import VisitedStates, load
from pivec.statistics import distance_variance, mean_known, pair_errors, return_correlation
from pivec.workflows import collect, write_store
from pivec.workflows.evaluate import (
    Unit,
    candidates,
    draw,
    evaluate,
    policy_sets,
    read_outcome,
)

PLACES = (0.0, 0.4, 1.0, 1.5, 3.0)


def walks(seed=0, episodes=12, places=PLACES, environment="Walk-v0", **more):
    rng = np.random.default_rng(seed)
    return VisitedStates.from_arrays(
        [[rng.normal(place, 1.0, (15, 2)) for _ in range(episodes)] for place in places],
        returns=[list(place + rng.normal(0, 0.1, episodes)) for place in places],
        environment=environment,
        **more,
    )


def seen(path):
    return [line.split() for line in path.read_text().splitlines()]


@pytest.fixture
def here():
    """Arguments of a quick evaluation in this process."""
    return {"sizes": (6, 3), "repetitions": 3, "isolate": False}


def test_rows_hold_the_metrics_of_the_draws(tmp_path, here):
    data = in_order(walks(places=(0.0, 0.02, 0.05, 1.5, 3.0)))
    found = evaluate(data, {"mean": Mean()}, out=tmp_path, **here)
    kept = {(row.size, row.repetition): row for row in found.rows}  # one method, one store
    assert list(kept) == [(6, 1), (6, 2), (6, 3), (3, 1), (3, 2), (3, 3)]
    matrices = [read_outcome(path).distances for path in (tmp_path / "units").iterdir()]
    assert len(matrices) == 6

    def matrix_of(row):
        fits = [d for d in matrices if return_correlation(d, data.mean_returns) == row.correlation]
        assert len(fits) == 1
        return fits[0]

    anchor = matrix_of(kept[6, 1])
    assert math.isnan(kept[6, 1].error)
    halves = [
        (means[::2].mean(axis=0) - means[1::2].mean(axis=0)) ** 2
        for means in map(episode_means, draw(data, 6, (0, int(_visited(data)[:15], 16), 6, 1)))
    ]
    own = np.sum(halves, axis=1)
    upper = np.triu_indices(5, 1)
    apart = anchor[upper] > np.maximum(own[upper[0]], own[upper[1]])
    assert 0 < apart.sum() < 10
    for key in list(kept)[1:]:
        row, errors = kept[key], pair_errors(matrix_of(kept[key]), anchor)
        assert row.error == mean_known(pair_errors(matrix_of(kept[key]), anchor))
        assert row.median_error == np.median(errors)
        assert row.share_far_off == np.mean(errors > 1000)
        assert (row.share_apart, row.error_apart) == (apart.mean(), errors[apart].mean())
        assert row.card is False
    for size in (6, 3):
        same = [matrix_of(kept[size, repetition]) for repetition in (1, 2, 3)]
        assert kept[size, 2].variance == distance_variance(same)
    assert found.rows[0].seconds > 0
    assert math.isnan(found.rows[0].peak_mb)


def episode_means(policy):
    return np.array([episode.mean(axis=0) for episode in policy.episodes()])


def test_a_unit_that_becomes_the_anchor_is_computed_again(tmp_path, here):
    """It was kept without the distances of halves, which only anchors need."""
    evaluate(walks(), [Mean()], out=tmp_path, **here)
    again = evaluate(walks(), [Mean()], out=tmp_path, **here | {"sizes": (3,)})
    assert again.computed == 1
    assert not math.isnan(again.rows[1].share_apart)


def test_what_takes_long_comes_first(tmp_path):
    def of(method, size):
        return Unit("", "", characterization(method), size, 1, (), tmp_path)

    units = [of("gaussian", 100), of("encoder", 10), of("discriminator", 50), of("gaussian", 10)]
    units.sort(key=lambda one: one.effort, reverse=True)
    assert [(one.method.name, one.size) for one in units] == [
        ("discriminator", 50), ("encoder", 10), ("gaussian", 100), ("gaussian", 10)
    ]  # fmt: skip


def test_all_methods_see_the_same_draws(tmp_path, here):
    logs = [tmp_path / "a", tmp_path / "b"]
    methods = {log.name: Mean(log=str(log), offset=i) for i, log in enumerate(logs)}
    evaluate([walks(), walks(seed=1)], methods, **here)
    first, second = (seen(log) for log in logs)
    assert [line[:2] for line in first] == [line[:2] for line in second]
    assert len({line[1] for line in first}) == 12  # and each draw is another one
    assert {line[0] for line in first} == {"30", "15"}


def test_draws_do_not_depend_on_the_other_stores_but_on_the_seed(here):
    alone = evaluate(walks(1), [Mean()], **here)
    beside = evaluate([walks(0), walks(1)], [Mean()], **here)
    other = evaluate(walks(1), [Mean()], seed=1, **here)
    values = [row.correlation for row in alone.rows]
    assert [row.correlation for row in beside.rows[6:]] == values
    assert not set(values) & {row.correlation for row in other.rows}


def test_draws_do_not_depend_on_where_the_policies_and_the_store_lie(tmp_path, here):
    rng = np.random.default_rng(0)
    policies = {
        name: NetworkPolicy(
            [(rng.normal(size=(4, 2)).astype(np.float32), np.zeros(2, np.float32))],
            activation="tanh",
            head="categorical",
        )
        for name in ("a", "b", "c")
    }
    found = []
    for folder in (tmp_path / "here" / "runs", tmp_path / "there" / "runs"):
        folder.mkdir(parents=True)
        for name, policy in policies.items():
            save_policy(policy, folder / f"{name}.safetensors", {})
        collect("CartPole-v1", str(folder), episodes=8, store=folder / "store")
        found.append(evaluate(folder / "store", ["gaussian"], **here))
    values = [[row.variance for row in one.rows] for one in found]
    assert values[0] == values[1]


def test_a_draw_is_of_whole_trajectories_and_repeats():
    data = walks()
    a, b = (draw(data, 5, (0, 1, 5, 1)) for _ in range(2))
    assert np.array_equal(a.states, b.states)
    assert np.diff(a.policy_starts).tolist() == [5] * 5
    assert not np.array_equal(a.states, draw(data, 5, (0, 1, 5, 2)).states)


def test_the_correlation_is_with_returns_of_all_trajectories(here):
    data = in_order(walks())
    row = evaluate(data, ["gaussian"], **here).rows[0]
    drawn = draw(data, 6, (0, int(_visited(data)[:15], 16), 6, 1))
    d = characterization("gaussian").fit(drawn).distances(drawn)
    assert row.correlation == return_correlation(d, data.mean_returns)
    assert row.correlation != return_correlation(d, drawn.mean_returns)


def in_order(data):
    return data.select(canonical_order(data.policies))


@pytest.mark.parametrize("method", ["supervector", "mmd"])
def test_neither_order_nor_labels_of_the_policies_matter(here, method):
    given = {"methods": {method: (method, {"n_components": 2} if method == "supervector" else {})}}
    data = walks()
    infos = [replace(info, label=f"{9 - i}") for i, info in enumerate(data.policies)]
    other = data.select([3, 0, 4, 2, 1])
    other.policies = tuple(infos[i] for i in (3, 0, 4, 2, 1))
    one, two = (evaluate(some, **given, **here).rows for some in (data, other))
    for name in ("correlation", "error", "variance"):
        a, b = ([getattr(row, name) for row in rows] for rows in (one, two))
        assert np.array_equal(a, b, equal_nan=True)


def _visited(data):
    return policy_sets([data], 1)[0].visited


def test_each_repetition_has_its_own_seed_unless_one_is_given():
    named, fixed, ready = candidates(
        {
            "a": "supervector",
            "b": ("supervector", {"random_state": 5}),
            "c": characterization("supervector", random_state=6, progress=True),
        }
    )
    assert named.make(1).random_state == 1
    assert fixed.make(1).random_state == 5
    assert ready.make(1).random_state == 6
    assert not ready.make(1).progress


# ---- resuming ----


def test_a_finished_evaluation_computes_nothing(tmp_path, here):
    log, out = tmp_path / "log", tmp_path / "out"
    first = evaluate(walks(), [Mean(log=str(log))], out=out, **here)
    assert (first.computed, len(seen(log))) == (6, 6)
    again = evaluate(walks(), [Mean(log=str(log))], out=out, **here)
    assert (again.computed, len(seen(log))) == (0, 6)
    assert str(again.rows) == str(first.rows)  # NaN is not equal to itself


def test_only_what_is_new_is_computed(tmp_path, here):
    log, out = tmp_path / "log", tmp_path / "out"

    def computed(data=None, offset=0.0, **changes):
        arguments = here | changes
        return evaluate(
            data or walks(), [Mean(log=str(log), offset=offset)], out=out, **arguments
        ).computed

    assert computed() == 6
    assert computed(repetitions=4) == 2
    assert computed(sizes=(6, 3, 2)) == 3
    assert computed(offset=1.0) == 6
    assert computed(data=walks(1)) == 6
    assert computed(seed=1) == 6
    assert computed() == 0


def test_a_stopped_evaluation_goes_on(tmp_path, here, monkeypatch):
    write, calls = Unit.write, []

    def stopping(*given):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return write(*given)

    monkeypatch.setattr(Unit, "write", stopping)
    with pytest.raises(KeyboardInterrupt):
        evaluate(walks(), ["gaussian"], out=tmp_path, **here)
    monkeypatch.undo()
    assert len(list((tmp_path / "units").iterdir())) == 3
    assert evaluate(walks(), ["gaussian"], out=tmp_path, **here).computed == 3


def test_a_damaged_unit_is_computed_again(tmp_path, here):
    evaluate(walks(), ["gaussian"], out=tmp_path, **here)
    file = sorted((tmp_path / "units").iterdir())[0]
    file.write_bytes(file.read_bytes()[:50])
    assert evaluate(walks(), ["gaussian"], out=tmp_path, **here).computed == 1


# ---- failures ----


def test_a_failing_method_is_recorded_and_the_others_go_on(tmp_path, here):
    log = tmp_path / "log"
    methods = {
        "bad": Mean(fails="refuse", log=str(log)),
        "good": Mean(),
        "odd": Mean(fails="crash"),
    }
    found = evaluate(walks(), methods, out=tmp_path, **here)
    assert found.problems == (
        ("bad", "set 1", "mean needs what is not there"),
        ("odd", "set 1", "ZeroDivisionError: division by zero"),
    )
    assert len(seen(log)) == 1  # a refusal is not tried again on the same store
    assert all(row.done == 3 for row in found.summary() if row.method == "good")
    assert all(math.isnan(row.correlation.mean) for row in found.summary() if row.method == "bad")
    text = (tmp_path / "evaluation.md").read_text()
    assert "| bad | 6 | failed |" in text
    assert "- odd on set 1: ZeroDivisionError: division by zero" in text


def test_distances_that_are_not_finite_are_a_failure(here):
    data = walks()
    found = evaluate(data, {"good": Mean(), "bad": Mean(fails="infinite")}, **here)
    assert "must be finite" in found.problems[0][2]


def test_if_all_fail_so_does_the_evaluation(tmp_path, here):
    with pytest.raises(PivecError, match="mean on set 1: mean needs"):
        evaluate(walks(), [Mean(fails="refuse")], out=tmp_path, **here)
    assert (tmp_path / "evaluation.csv").exists()


def test_failures_are_tried_again_next_time(tmp_path, here):
    methods = {"good": Mean(), "bad": Mean(fails="refuse")}
    evaluate(walks(), methods, out=tmp_path, **here)
    assert evaluate(walks(), methods, out=tmp_path, **here).problems


# ---- processes ----


def test_a_process_of_its_own_gives_the_same_numbers_and_its_memory(tmp_path):
    data = walks(actions=[[np.zeros(14)] * 12] * 5)
    arguments = {"sizes": [4], "repetitions": 2}
    log = tmp_path / "log"
    apart = evaluate(data, ["gaussian", Mean(log=str(log))], jobs=2, **arguments)
    here = evaluate(data, ["gaussian", Mean(log=str(log))], isolate=False, **arguments)
    for a, b in zip(apart.rows, here.rows, strict=True):
        assert (a.correlation, a.variance) == (b.correlation, b.variance)
        assert 10 < a.peak_mb < 4000
    processes = [line[2] for line in seen(log)]
    assert len(set(processes[:2])) == 2
    assert processes[2] not in processes[:2]


def test_units_that_share_a_process_give_the_same_numbers(tmp_path, here):
    log = tmp_path / "log"
    shared = evaluate(walks(), [Mean(log=str(log))], engine="processes", jobs=1, **here)
    alone = evaluate(walks(), [Mean()], **here)
    assert [row.correlation for row in shared.rows] == [row.correlation for row in alone.rows]
    assert all(math.isnan(row.peak_mb) for row in shared.rows)
    (process,) = {line[2] for line in seen(log)}
    assert process != str(os.getpid())


def test_a_cluster_gives_the_same_numbers(ray_engine, tmp_path):
    few = {"sizes": [4], "repetitions": 2}
    there = evaluate(walks(), [Mean()], out=tmp_path, engine=ray_engine, **few)
    alone = evaluate(walks(), [Mean()], isolate=False, **few)
    assert [row.correlation for row in there.rows] == [row.correlation for row in alone.rows]
    assert all(10 < row.peak_mb < 4000 for row in there.rows)
    assert len(list((tmp_path / "units").iterdir())) == 2


def test_a_process_that_dies_is_a_failure_with_a_reason():
    methods = {
        "good": Mean(),
        "killed": Mean(fails="kill"),
        "bad": Mean(fails="refuse"),
    }
    found = evaluate(walks(), methods, sizes=[3], repetitions=1)
    why = {method: reason for method, _, reason in found.problems}
    assert "killed, 3 of set 1 lost its worker 3 times" in why["killed"]
    assert "memory" in why["killed"]
    assert why["bad"] == "mean needs what is not there"
    assert found.summary()[0].done == 1


def test_the_peak_is_of_the_unit_alone():
    mine = np.ones(1_000_000_000 // 8)  # what this process holds is not the units'
    methods = {"little": Mean(), "much": Mean(holds_mb=300)}
    little, much = evaluate(walks(), methods, sizes=[3], repetitions=1).rows
    assert 250 < much.peak_mb - little.peak_mb < 350
    assert little.peak_mb < peak_mb() - 500
    assert mine[-1] == 1.0


def test_a_local_class_can_be_evaluated_in_processes():
    class Local(Mean):
        pass

    [row] = evaluate(walks(), [Local()], sizes=[3], repetitions=1).rows
    assert row.problem == ""


def test_jobs_share_the_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 4, 5}, raising=False)
    assert shares_of_cores(1) == [[]]  # all of them
    assert shares_of_cores(2) == [[0, 2, 5], [1, 4]]
    assert shares_of_cores(7) == [[0], [1], [2], [4], [5], [0], [1]]


# ---- requests ----


def test_stores_on_disk_and_in_memory_give_the_same(tmp_path, here):
    write_store(walks(), tmp_path / "s", {"environment": "Walk-v0"})
    on_disk = evaluate(tmp_path / "s", ["gaussian"], **here)
    assert on_disk.rows[0].store == str(tmp_path / "s")
    assert on_disk.environments == ("Walk-v0",)
    again = load(tmp_path / "s")
    assert again.labels == walks().labels
    assert np.array_equal(again.returns, walks().returns)
    assert np.array_equal(again.states, walks().states)


def test_all_is_every_name_there_is():
    assert [one.label for one in candidates("all")] == list(names())
    assert [one.label for one in candidates(["all"])] == list(names())


def test_labels_tell_methods_apart():
    sweep = [characterization("supervector", n_components=k) for k in (2, 4)]
    assert [one.label for one in candidates([*sweep, "gaussian"])] == [
        "supervector n_components=2",
        "supervector n_components=4",
        "gaussian",
    ]
    one = candidates(["supervector"], {"supervector": {"n_components": 3}})[0]
    assert (one.label, one.template.n_components) == ("supervector", 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": ["supervectr"]}, "did you mean"),
        ({"methods": []}, "at least one"),
        ({"methods": ["gaussian", "gaussian"]}, "two methods are called 'gaussian'"),
        ({"methods": [3]}, "a method is a name"),
        ({"parameters": {"mmd?": {}}}, "not among the methods"),
        ({"parameters": {"gaussian": {"colour": 1}}}, "colour"),
        ({"sizes": ()}, "sizes"),
        ({"sizes": (0, 3)}, "sizes"),
        ({"repetitions": 0}, "repetitions"),
        ({"jobs": 2, "engine": "serial"}, "serial"),
        ({"sizes": (13,)}, "12 trajectories .* --episodes 26"),
        ({"stores": []}, "at least one store"),
        ({"stores": [walks(), walks()]}, "are the same"),
        ({"stores": [walks(places=(0, 1))]}, "at least 3"),
        ({"stores": ["nowhere"]}, "is not a store"),
        ({"stores": [[1, 2]]}, "a path or VisitedStates"),
    ],
)
def test_mistakes_are_named(here, changes, words):
    arguments = {"stores": walks(), "methods": ["gaussian"]} | here | changes
    with pytest.raises(UsageError, match=words):
        evaluate(**arguments)


# ---- results ----


def test_averages_are_over_sets_and_repetitions_of_one_environment(here):
    stores = {"a": walks(0), "b": walks(1), "c": walks(2, environment="Run-v0")}
    found = evaluate(stores, [Mean()], **here)
    assert found.environments == ("Walk-v0", "Run-v0")
    top = found.summary()[0]
    rows = [row for row in found.rows if row.size == 6 and row.store in "ab"]
    assert (top.environment, top.size, top.done, top.asked) == ("Walk-v0", 6, 6, 6)
    values = [row.correlation for row in rows]
    assert top.correlation.mean == pytest.approx(np.mean(values))
    assert top.correlation.std == pytest.approx(np.std(values))
    errors = [row.error for row in rows if row.repetition > 1]
    assert top.error.n == 4
    assert top.error.mean == pytest.approx(np.mean(errors))
    variances = [next(row.variance for row in rows if row.store == store) for store in "ab"]
    assert top.variance.n == 2
    assert top.variance.mean == pytest.approx(np.mean(variances))


def test_tables_hold_every_number(tmp_path, here):
    found = evaluate({"a|b": walks()}, [Mean(), "gaussian"], out=tmp_path, **here)
    with (tmp_path / "evaluation.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 12
    for line, row in zip(table, found.rows, strict=True):
        assert (line["method"], line["store"], int(line["size"])) == (row.method, "a|b", row.size)
        assert float(line["correlation"]) == row.correlation
        assert line["error"] == "" if math.isnan(row.error) else float(line["error"]) == row.error
        assert float(line["seconds"]) == row.seconds
        assert line["peak_mb"] == line["problem"] == ""
    text = (tmp_path / "evaluation.md").read_text()
    assert text == found.to_markdown()
    top = found.summary()[0]
    assert f"| mean | 6 | {top.correlation.mean:.3f} ± {top.correlation.std:.3f} |" in text
    assert "## Walk-v0" in text


def test_what_to_keep_in_mind_is_said(here):
    rng = np.random.default_rng(0)
    states = [[rng.normal(p, 1, (9, 2)) for _ in range(6)] for p in range(4)]
    notes = evaluate(VisitedStates.from_arrays(states), ["gaussian"], **here).notes
    assert any("all the trajectories" in note for note in notes)
    assert any("returns are not known" in note for note in notes)
    assert evaluate(walks(), ["gaussian"], **here).notes == ()
