"""What users see, one snapshot per table and page; numbers are masked.

After an intended change: UPDATE_SNAPSHOTS=1 pytest tests/report/test_snapshots.py, and read the
difference.
"""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest
from test_page import Elements

import explained_pairs as made
import pivec
from pivec.explanations import Overview
from pivec.report import (
    group_explanation_html,
    overview_html,
    pair_html,
    print_pair,
    regions_html,
    run_html,
    unusual_html,
)

SNAPSHOTS = Path(__file__).parent / "snapshots"
NUMBER = re.compile(r"(?<![\w/-])[+−-]?\d[\d.,\u202f]*(e[+-]?\d+)?\b")
RUNS = ["a2c-0", "a2c-1", "ppo-0", "ppo-1"]
PLACES = {"a2c-0": (0.0, 2.0), "a2c-1": (0.0, 3.0), "ppo-0": (0.0, -4.0), "ppo-1": (0.0, -5.5)}


def check(name, text):
    """Compare a text with its snapshot, without numbers, and without spaces that align columns."""
    lines = [re.sub(" +", " ", NUMBER.sub("#", line)).strip() for line in text.splitlines()]
    shown = "\n".join(line for line in lines if line) + "\n"
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


def outline(page):
    """Headings, ids and heads of tables of a page, with the numbers of rows and pictures."""
    elements = Elements(page)
    ids = [f"#{attrs['id']}" for _, attrs in elements.tags if "id" in attrs]
    heads = re.findall(r"<(h[1-4]|dt)\b[^>]*>(.*?)</\1>", page)
    tables = [
        " | ".join(re.findall(r'<th scope="col"[^>]*>(.*?)</th>', table)) + f" ({rows} rows)"
        for table in re.findall(r"<table.*?</table>", page, re.DOTALL)
        for rows in [len(re.findall("<tr", table))]
    ]
    count = {tag: sum(tag == t for t, _ in elements.tags) for tag in ("img", "canvas", "script")}
    return "\n".join([
        *(f"{tag} {re.sub('<[^>]*>', '', text)}" for tag, text in heads), *tables, *ids,
        " ".join(f"{tag}s: {n}" for tag, n in count.items()),
    ])  # fmt: skip


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two groups of two runs, which start alike and end apart."""
    rng = np.random.default_rng(0)
    walks = [
        [rng.normal([place, place, 0.0], 1.0, (50, 3)) for _ in range(8)]
        for run in RUNS
        for place in PLACES[run]
    ]
    data = pivec.VisitedStates.from_arrays(
        walks,
        labels=[f"{run}/{step}" for run in RUNS for step in ("first", "last")],
        groups=[run for run in RUNS for _ in range(2)],
        steps=[0, 100] * len(RUNS),
        returns=[[float(e) for e in range(8)] for _ in walks],
        feature_names=("x", "y", "z"),
        environment="Walk-v0",
    )
    return pivec.compare(data, out=tmp_path_factory.mktemp("snapshots") / "out", components=3)


def test_console_of_compare(run, compared):
    out = run("compare", compared.folder, "--out", "out", "--components", 3).out
    out = re.sub(r"nearest .*/\w+ .*/\w+", "nearest POLICY POLICY", out)  # some are equal
    check("compare", re.sub(r"Report: .*", "Report: PATH", out))


def test_tables_of_compare(compared):
    lines = []
    for name in ("distances.csv", "pairs.csv", "map.csv"):
        with (compared.folder / name).open(encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file)
        lines.append(f"{name}: {','.join(head)}; {'x'.join(map(str, np.shape(rows)))} cells")
    check("tables", "\n".join(lines))


def test_page_of_compare(compared):
    check("report", outline(compared.report.read_text(encoding="utf-8")))


@pytest.mark.parametrize("command", ["groups", "unusual", "regions"])
def test_console_of_a_finished_comparison(run, compared, command):
    lines = run(command, compared.folder, "--out", "out").out.splitlines()
    heads = [line for line in lines if not re.search(r"\d|^ ", line)]  # without the data
    check(command, "\n".join(re.sub(r"(Page|Figure): .*", r"\1: PATH", line) for line in heads))


def test_console_of_a_store(run, compared):
    check("store_ls", run("store", "ls", compared.folder).out)


def test_console_of_a_verdict(run, compared):
    policies = [f"{compared.folder}:{label}" for label in ("ppo-0/last", "a2c-0/last")]
    check("same", run("same", *policies, code=1).out)


def test_console_of_a_pair(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    print_pair(made.difference_of())
    check("pair", capsys.readouterr().out)


def test_pages_of_explanations(compared):
    pair = made.difference_of()
    pages = {
        "pair": pair_html(pair, "pivec explain"),
        "overview": overview_html(Overview((("Near", pair), ("Far", pair)), pair.clips)),
        "run": run_html(compared.explain_run("ppo-0"), "pivec explain"),
        "groups": group_explanation_html(compared.explain_groups(), "pivec explain"),
        "regions": regions_html(compared.regions()),
        "unusual": unusual_html(compared.unusual(), "pivec unusual"),
    }
    for name, page in pages.items():
        text = outline(page)
        if name in ("regions", "run"):  # names of regions depend on the fit
            text = re.sub(r"^(h3 |#region-|.* rows\)).*\n", "", text, flags=re.MULTILINE)
        check(f"{name}_page", text)
