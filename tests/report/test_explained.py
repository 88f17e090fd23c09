"""The page of a difference holds its pictures, loads nothing, and shows any text as text."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from test_page import PAYLOADS, Elements

import explained_pairs as made
from pivec.explanations import Clip, Feature, Frame, Overview
from pivec.report import overview_html, pair_html, print_pair, print_written
from pivec.report.pages import Embedder


@pytest.fixture
def frame(tmp_path):
    """A picture of a policy."""
    file = tmp_path / "frames" / "a.webp"
    file.parent.mkdir()
    file.write_bytes(b"RIFF0000WEBP")
    return file


def test_the_page_tells_parts_times_and_shifts():
    page = pair_html(made.difference_of(), "pivec explain out ppo/20000 a2c/5000")
    text = " ".join(Elements(page).text).replace("\u00a0", " ")
    assert "are 0.25 apart (0.22 to 0.29); 1 region makes up 78 % of it" in text
    assert "pole angle 0.08 to 0.15, cart velocity below −0.9" in text
    assert "2 other regions together" in text
    assert "42 % 37 to 47 %" in re.sub(r"\s+", " ", text)
    assert "−1.2 m/s" in text
    assert "The states were thinned" in text
    assert "pivec explain out ppo/20000 a2c/5000" in text


def test_names_within_a_page_are_unique_and_links_lead_somewhere():
    difference = made.difference_of()
    overview = Overview((("Near", difference), ("Far", difference)), difference.clips)
    for page in (pair_html(difference), overview_html(overview)):
        tags = Elements(page).tags
        names = [attributes["id"] for _, attributes in tags if "id" in attributes]
        assert len(set(names)) == len(names)
        targets = [a["href"] for tag, a in tags if tag == "a"]
        assert {target.removeprefix("#") for target in targets} <= set(names)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_text_is_shown_as_text(tmp_path, capsys, payload):
    clean = Elements(pair_html(made.difference_of(), "x"))
    explanation = made.explanation_of((payload, payload + "2"), (payload,) * 4, (payload,) * 2)
    difference = made.difference_of(
        explanation,
        features=(Feature(payload, payload),) * 2,
        environment=payload,
        clips=(Clip(payload, payload, None, payload),),
        notes=(payload,),
    )
    elements = Elements(pair_html(difference, payload))
    assert [tag for tag, _ in elements.tags] == [tag for tag, _ in clean.tags]
    for _, attributes in elements.tags:
        assert not any(name.startswith("on") for name in attributes)
    print_pair(difference)
    print_written(tmp_path, difference)
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.split("\n"))
    if payload == "$x$":  # a figure takes long
        difference._repr_html_()


def test_pictures_are_part_of_the_page_as_long_as_there_is_room(frame):
    difference = made.difference_of()
    a, _ = difference.labels
    visit = difference.frame(a, 0).visit
    difference = replace(difference, frames=(Frame(visit, frame),))
    images = [a for tag, a in Elements(pair_html(difference)).tags if tag == "img"]
    assert [image["src"] for image in images] == ["data:image/webp;base64,UklGRjAwMDBXRUJQ"]
    assert "rarely in this region" in pair_html(difference)
    assert Embedder(11)(frame) is None
    assert Embedder(12)(frame)


def test_what_could_not_be_filmed_says_why():
    page = pair_html(made.difference_of())
    assert page.count("it does not render") == 2
    assert "<img" not in page


@pytest.mark.parametrize(
    "changes", [{"p_value": 0.4, "low": 0.0}, {"p_value": np.nan, "low": np.nan}]
)
def test_what_is_not_sure_is_not_claimed(changes, capsys):
    explanation = made.explanation_of(**changes)
    difference = made.difference_of(explanation)
    page = pair_html(difference)
    told = "do not differ significantly" if changes["p_value"] == 0.4 else "is not known"
    assert told in page
    print_pair(difference)
    assert told in capsys.readouterr().out


def test_a_table_on_a_narrow_terminal_leaves_out_parts(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_pair(made.difference_of())
    narrow = capsys.readouterr().out
    table = narrow[narrow.index("regions") :]
    assert max(map(len, table.split("\n")[:-4])) <= 80
    assert " part " not in narrow
    monkeypatch.setenv("COLUMNS", "120")
    print_pair(made.difference_of())
    wide = capsys.readouterr().out
    assert " part " in wide
    assert "→ velocity −1.2 m/s (−1.3 to −1.1)" in wide
    assert "these make up 96 % and the other 2 regions 3.7 % of the measured distance" in wide


def test_where_all_states_are_one_region_features_are_told(capsys):
    whole = made.explanation_of()
    columns = (("where", 0), ("where", 1), ("how wide", 0), ("how wide", 1))
    one = {
        name: getattr(whole, name)[:, :1] for name in ("share", "share_low", "share_high", "means")
    }
    one |= {
        name: getattr(whole, name)[:1] for name in ("shift", "shift_low", "shift_high", "ranges")
    }
    parts = made.parts_of([[0.1, 0.02, 0.03, 0.05]], np.zeros((1, 4), dtype=bool))
    explanation = replace(
        whole, **one, regions=made.parts_of([0.2], [False]), kinds={}, finest=parts,
        features=made.parts_of([0.13, 0.07], [False, True]), columns=columns, words=("all states",),
    )  # fmt: skip
    difference = made.difference_of(explanation, frames=())
    print_pair(difference)
    printed = capsys.readouterr().out
    assert "angle (rad): where" in printed
    assert "velocity (m/s): how wide *" in printed
    page = pair_html(difference)
    assert "Where the distance comes from" not in page
    assert "Share of time spent here" not in page
    assert "Differences by feature" in page


def test_chance_is_marked(capsys):
    explanation = made.explanation_of()
    chance = replace(explanation.regions, noise=np.ones(4, dtype=bool))
    difference = made.difference_of(replace(explanation, regions=chance))
    assert pair_html(difference).count("may be chance") == 8
    print_pair(difference)
    assert "* may be chance" in capsys.readouterr().out
