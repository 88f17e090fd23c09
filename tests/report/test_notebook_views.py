"""What a notebook shows of results: short texts, small tables, figures; and data in hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import pivec
from pivec.characterizations import characterization
from pivec.errors import PivecWarning, UsageError
from pivec.states import RecordedStates, VisitedStates, split_recorded

NASTY = "<script>alert(1)</script>\x1b[31m"
SMALL = {"parameters": {"n_components": 4}}


@pytest.fixture(scope="module")
def walks():
    rng = np.random.default_rng(0)
    places = {f"run/{100 * i}": 0.4 * i for i in range(3)} | {NASTY: 3.0}
    return VisitedStates.from_arrays(
        [[rng.normal(place, 1, (30, 2)) for _ in range(6)] for place in places.values()],
        labels=list(places),
        groups=["run"] * 3 + [NASTY],
        steps=[0, 100, 200, None],
        returns=list(places.values()),
    )


@pytest.fixture(scope="module")
def result(walks, tmp_path_factory):
    return pivec.compare(walks, out=tmp_path_factory.mktemp("compare"), **SMALL)


def test_texts_are_short_and_tables_escaped(walks, result):
    method = characterization("visitation", n_components=4).fit(walks)
    described = method.describe(walks, influences=True)
    things = [
        walks,
        described,
        method.intervals(described),
        result,
        method.decompose(walks[0], walks[3]),
    ]
    for thing in things:
        assert len(repr(thing)) < 300
        assert "\n" not in repr(thing)
        shown = thing._repr_html_()
        assert "<table>" in shown
        assert "<script" not in shown
        assert "\x1b" not in shown + repr(result)
    for thing in (result.space, result.measured):
        assert len(repr(thing)) < 100
    assert repr(described) == "Descriptions(4 policies by visitation, 36 values each)"
    many = VisitedStates.from_arrays([[np.zeros((1, 1))]] * 30)
    assert many._repr_html_().count("<tr>") == 21
    assert "10 more rows" in many._repr_html_()


def test_a_comparison_draws_itself(result):
    for figure in (
        result.plot_map(),
        result.plot_map("group"),
        result.plot_distances(),
        result.plot_run(),
        result.plot_run("run"),
    ):
        assert isinstance(figure, Figure)
        assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match=r"no run is called 'rum' \(did you mean run\?\)"):
        result.plot_run("rum")


def test_distances_are_a_labelled_frame(result):
    frame = result.to_pandas()
    assert tuple(frame.index) == tuple(frame.columns) == result.labels
    assert np.array_equal(frame.to_numpy(), result.distances)
    assert frame.loc["run/0", "run/200"] == result.distances[0, 2]
    assert list(result.table().policy) == list(result.labels)


def test_a_comparison_is_loaded_from_its_folder(result):
    again = pivec.load_comparison(result.folder)
    assert again.labels == result.labels
    assert np.array_equal(again.distances, result.distances)
    assert again.report.exists()
    assert repr(again) == repr(result)


def test_data_in_hand_are_compared_with_no_environment(walks, tmp_path):
    alone = pivec.compare({"a": list(walks[0].episodes())}, out=tmp_path, **SMALL)
    assert np.array_equal(pivec.load(tmp_path).states, walks[0].states)
    assert alone.rows()[0]["nearest"] is None
    with pytest.raises(UsageError, match="no group has two policies"):
        alone.plot_run()
    for data in (walks, walks.to_pandas(), pl.from_pandas(walks.to_pandas())):
        acting, recorded = split_recorded(data)
        assert acting == []
        assert tuple(source.info.label for source in recorded) == walks.labels
        assert np.array_equal(RecordedStates(recorded).run().states, walks.states)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (np.zeros((3, 2)), "ndarray.*from_arrays"),
        ([1, 2], "list.*from_arrays"),
        ("states.parquet", r"str.*pivec\.load"),
    ],
)
def test_what_is_no_data_is_told_how_to_become_some(walks, thing, words):
    method = characterization("visitation", n_components=4)
    with pytest.raises(UsageError, match=words):
        method.fit(thing)
    method.fit(walks)
    for call in (method.describe, method.distances, method.intervals):
        with pytest.raises(UsageError, match=words.partition(":")[0]):
            call(thing)
    with pytest.raises(UsageError, match="from_pandas"):
        method.fit(walks.to_pandas())


def test_recorded_states_alone_on_the_command_line(walks, tmp_path, run):
    frame = walks.select([0, 1, 2]).to_pandas()
    frame.to_parquet("states.parquet")
    out = run("compare", "states.parquet", "--out", "a", "--components", 4).out
    assert "Environment: not known" in out
    run("import", "states.parquet", "--out", "store", "--env", "Walk-v0")
    assert pivec.load("store").environment == "Walk-v0"
    error = run("compare", "store", "--until", 0.1, "--out", "c", code=2).err
    assert "--until" in error
    frame.rename(columns={"episode": "ep"}).drop(columns="step").to_csv("log.csv", index=False)
    assert (
        "--feature-columns"
        in run("import", "log.csv", "--feature-columns", "x", "--out", "d", code=2).err
    )
    with_ep = ("--episode-column", "ep", "--feature-columns", "x[0]", "--feature-columns", "x[1]")
    run("import", "log.csv", *with_ep, "--out", "e")
    assert np.array_equal(pivec.load("e").states, pivec.load("store").states)
    for label in ("run/0", "run/200"):
        frame[frame.policy == label].to_feather(f"{label[4:]}.feather")
    assert "run/0 and run/200: different" in run("same", "0.feather", "200.feather", code=1).out


def test_sources_of_other_worlds_are_told(walks):
    one = VisitedStates(walks.records[:1], walks.feature_names, "Walk-v0")
    other = VisitedStates(walks.records[1:2], walks.feature_names, "Run-v0")
    with pytest.warns(PivecWarning, match="recorded with environment = 'Run-v0'"):
        RecordedStates(split_recorded([one, other])[1])
