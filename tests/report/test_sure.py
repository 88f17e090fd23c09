"""What is shown of a distance says how sure it is, in words too and not by colour alone."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from packed import unpacked
from pivec.report import (
    PairRow,
    map_figure,
    matrix_figure,
    print_summary,
    report_html,
    write_pairs_csv,
)
from pivec.report.distance_figures import travel_figure
from pivec.statistics import Pairs, Travel

# Two clusters: 0, 1, 2 are near each other, and so are 3 and 4.
PLACES = np.array([0.0, 0.1, 0.2, 3.0, 3.1])
DISTANCES = np.subtract.outer(PLACES, PLACES) ** 2
LABELS = list("abcde")


@pytest.fixture
def measured(measured_of, intervals_of):
    """Measure five policies in two clusters that are told apart from each other only."""
    intervals = intervals_of(DISTANCES, 0.3)
    i, j = np.triu_indices(5, 1)
    at = i, j
    pairs = Pairs.of(
        i,
        j,
        DISTANCES[at],
        low=intervals.low[at],
        high=intervals.high[at],
        overlap=np.exp(-DISTANCES[at]),
        p=intervals.p_value[at],
        q=intervals.p_value[at],
    ).take(np.argsort(DISTANCES[at], kind="stable"))
    run = Travel("r", (0, 1), (1, 2), np.array([0.25]), np.array([0.0, 0.2]))
    return replace(
        measured_of(5, DISTANCES, intervals=intervals, travels=[run]),
        pairs=pairs,
        nearest=pairs.take([0, 1]),
        farthest=pairs.take([9]),
    )


@pytest.fixture
def page(make_report, rows_of, measured):
    return report_html(make_report(policies=rows_of(5, label=LABELS), measured=measured))


def test_pairs_round_trip(tmp_path, measured, make_report, rows_of):
    findings = make_report(policies=rows_of(5, label=LABELS), measured=measured)
    write_pairs_csv(tmp_path / "pairs.csv", findings.pair_rows)
    with (tmp_path / "pairs.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["policy", "other", "distance", "low", "high", "overlap", "p", "q"]
    assert len(lines) == 10
    for line, k in zip(lines, range(10), strict=True):
        i, j = measured.pairs.i[k], measured.pairs.j[k]
        assert (line["policy"], line["other"]) == (LABELS[i], LABELS[j])
        for name in ("distance", "low", "high", "overlap", "p", "q"):
            assert float(line[name]) == getattr(measured.pairs, name)[k]


def test_what_is_not_known_is_an_empty_cell(tmp_path, make_report):
    [row] = make_report({"label": [*"abcdefghijk"]}).rows_of(Pairs.of([0], [1], [0.5]))
    write_pairs_csv(tmp_path / "pairs.csv", [row])
    assert (tmp_path / "pairs.csv").read_text().splitlines()[1] == "a,b,0.5,,,,,"
    assert not row.alike
    assert PairRow("a", "b", 0.1, 0.0, 0.3, 1.0, 0.5, 0.5).alike


def test_pairs_that_cannot_be_told_apart_are_counted(measured, measured_of):
    assert [*zip(measured.alike.i, measured.alike.j, strict=True)] == [
        (0, 1),
        (0, 2),
        (1, 2),
        (3, 4),
    ]
    assert measured.n_known == 10
    listed_only = replace(measured, intervals=None)
    assert len(listed_only.alike) == 4
    assert listed_only.n_known == 10
    assert listed_only.certain is None
    assert measured_of(5, DISTANCES).n_known == 0


def test_a_distance_without_an_interval_is_that_measured(measured_of, intervals_of):
    intervals = intervals_of(DISTANCES - 0.2, 0.1)
    intervals.distance[0] = DISTANCES[0]  # of a policy with one episode
    intervals.low[0] = intervals.high[0] = intervals.p_value[0] = np.nan
    measured = measured_of(5, DISTANCES, intervals=intervals)
    assert np.array_equal(measured.estimates[0], DISTANCES[0])
    assert np.array_equal(measured.estimates[1, 2:], np.maximum(DISTANCES[1, 2:] - 0.2, 0))
    assert measured.n_known == 6
    assert not measured.certain[0, 1:].any()
    assert 0 not in measured.alike.i


def test_the_map_joins_a_cluster_by_its_nearest_pairs(
    measured, measured_of, rows_of, make_report, monkeypatch
):
    from matplotlib.collections import LineCollection

    rows = rows_of(5)
    links = make_report(policies=rows, measured=measured).links
    assert links == [[0, 1], [1, 2], [3, 4]]
    [lines] = map_figure(rows, links=links, colour="return").findobj(LineCollection)
    expected = [[(rows[i].x, rows[i].y), (rows[j].x, rows[j].y)] for i, j in links]
    assert np.allclose(lines.get_segments(), expected)
    assert make_report(policies=rows, measured=measured_of(5, DISTANCES)).links == []
    monkeypatch.setattr("pivec.report.findings.MAX_LINKS", 2)
    assert make_report(policies=rows, measured=measured).links == []


def test_the_heatmap_hatches_what_is_not_certain(measured, rows_of):
    figure = matrix_figure(DISTANCES, rows_of(5), np.arange(5), certain=measured.certain)
    shown = figure.axes[0].images[0].get_array()
    assert shown.mask.sum() == 8  # both ways, without the diagonal
    assert np.allclose(np.sort(shown.compressed()), np.sort(DISTANCES[measured.certain]))
    texts = [text.get_text() for text in figure.texts]
    assert "hatched: cannot be distinguished (q > 0.05)" in texts


def joins_of(page):
    blob = json.loads(re.search('id="data">([^<]*)<', page)[1])
    return unpacked(blob["joins"]).tolist()


def test_the_page_tells_how_sure_it_is(page, measured):
    text = re.sub(r"<[^>]*>", " ", page)
    for words in (
        "4 of 10 pairs cannot be distinguished", "7.5–8.1", "In different places",
        "How certain a distance is", "0.25 ± 0.2", "95 % interval",
    ):  # fmt: skip
        assert words in " ".join(text.split()), words
    listed = re.findall(r'data-pair="(.) (.)"', page)
    alike = {(str(i), str(j)) for i, j in zip(measured.alike.i, measured.alike.j, strict=True)}
    assert len(listed) == 5  # the nearest that differ and the farthest
    assert not alike & set(listed)
    assert joins_of(page) == [0, 1, 1, 2, 3, 4]


def test_a_page_without_intervals_says_that_they_are_not_known(report):
    page = report_html(report)
    assert "uncertainty is not known" in page
    assert 'id="certain"' not in page
    assert joins_of(page) == []


def test_the_console_tells_how_sure_it_is(measured, measured_of, make_report, rows_of, capsys):
    policies = rows_of(5, label=LABELS)
    print_summary(make_report(policies=policies, measured=measured))
    text = capsys.readouterr().out
    for words in ("distance (95 % interval)", "(7.54 to 8.14)", "apart: share", "0.25 ± 0.2",
                  "4 of 10 pairs cannot be distinguished"):  # fmt: skip
        assert words in text
    assert "*" not in text  # the nearest that are listed differ
    alike = measured.pairs.take(np.flatnonzero(measured.pairs.alike))
    few = replace(measured, pairs=alike, nearest=alike, farthest=alike.take([3]))
    print_summary(make_report(policies=policies, measured=few))
    text = capsys.readouterr().out
    for words in ("(0 to 0.31) *", "* cannot be distinguished: 4 of 10 pairs"):
        assert words in text
    bare = measured_of(5, DISTANCES, nearest=[(0, 1, 0.5)])
    print_summary(make_report(policies=policies, measured=bare))
    text = capsys.readouterr().out
    assert "0.5" in text
    assert "interval" not in text
    assert "apart" not in text


def test_the_band_of_a_run_stays_in_the_picture():
    run = Travel("r", (0, 1), (0, 1), np.array([1.0]), np.array([0.0, 2.0]))
    [axes] = travel_figure([run], {}).axes
    low, high = axes.get_ylim()
    assert low == 0
    assert high >= 3
