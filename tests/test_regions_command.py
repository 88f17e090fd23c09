"""The command `pivec regions`: its table, its files, its page; text from outside is only text."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import pivec
from pivec.characterizations import Space, Visitation
from pivec.explanations import Feature, Regions, RegionSummary, Visit
from pivec.report import regions_html
from pivec.states import Store


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    data = pivec.collect("CartPole-v1", "random:2", episodes=6, store=folder / "states")
    method = Visitation(n_components=4).fit(data)
    collected = dict(Store(folder / "states").settings)
    Space(method, method.describe(data), collected=collected).save(folder / "space")
    return folder


def test_regions_are_listed_drawn_and_kept(run, folder, tmp_path):
    done = run("regions", folder, "--frames", "--top", 3, "--out", tmp_path)
    kept = json.loads((tmp_path / "regions.json").read_text())
    assert len(kept["regions"]) == 4
    largest = max(kept["regions"], key=lambda region: region["share"])
    shown = re.search(r"^ +(\d+)  ", done.out, re.MULTILINE)
    assert int(shown[1]) == largest["number"]
    assert "1 more region" in done.out
    assert "--top 4" in done.out
    assert (tmp_path / "regions.png").stat().st_size > 10_000
    page = (tmp_path / "regions.html").read_text()
    assert "<h1>Regions of CartPole-v1</h1>" in page
    assert page.count('<div class="card"') == page.count("data:image/webp;base64,") == 4
    for region in kept["regions"]:
        assert (tmp_path / region["frame"]["path"]).exists()
        assert region["name"].replace("'", "&#x27;") in page


def test_json_alone_is_printed(run, folder, tmp_path):
    done = run("regions", folder / "space", "--json", "--out", tmp_path)
    assert json.loads(done.out)["environment"] == "CartPole-v1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["nowhere"], "nowhere holds no space"),
        (["{folder}", "--top", "0"], "Invalid value for '--top'"),
        (["{folder}", "--frames", "--policies", "gone.zip"], "gone.zip"),
    ],
)
def test_mistakes_are_sentences(run, folder, given, message):
    done = run("regions", *(text.format(folder=folder) for text in given), code=2)
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_text_from_outside_is_escaped():
    bad = "<script>alert(1)</script>\x1b[31m"
    face = RegionSummary(0, bad, 1.0, (bad, 1.0), (bad, 0.0), (0.1,) * 10, 1.0, 1.0,
                  (Visit(bad, 0, 0, 1, 2, 0.5),), ((0.0, 1.0),))  # fmt: skip
    result = Regions(bad, "visitation", (Feature(bad),), (bad,), np.ones((1, 1)), (face,), (bad,))
    page = regions_html(result)
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 5
    assert result._repr_html_().count("<script") == 0


def test_many_regions_make_no_endless_page():
    face = RegionSummary(
        0, "x", 0.002, ("a", 1.0), ("a", 0.0), (0.1,) * 10, 0.0, 0.0, (), ((0.0, 1.0),)
    )
    faces = tuple(replace(face, number=i) for i in range(500))
    result = Regions("E-v0", "visitation", (Feature("x"),), ("a",), np.ones((1, 500)), faces)
    page = regions_html(result)
    assert page.count('<div class="card"') == 300
    assert "300 regions" in page
