"""Pictures beside the page: those of this comparison, within its folder, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import pivec.report.script_data as media
import pivec.report.site as site
from pivec.characterizations import Measured, Space, characterization
from pivec.errors import PivecWarning
from pivec.explanations import features_of, region_names
from pivec.report import report_html
from pivec.report.script_data import page_data, panel_media, region_pictures
from pivec.states import VisitedStates
from pivec.statistics import Pairs


def put(file, content=b"RIFF"):
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


@pytest.fixture
def out(make_report, tmp_path):
    """Give a folder, whose report knows where it is, and what explains a pair in it."""
    folder = tmp_path / "out"
    report = make_report()
    report.log.folder = folder
    for name in ("frames/f.webp", "frames/g h#.png", "clips/c.webp", "explain.html"):
        put(folder / "explain" / "a--b" / name)
    return folder, report


def explained_pairs(report, folder):
    report.log.folder = folder
    return panel_media(report)["pairs"]


def sheet(**changes):
    """Give a sheet as explain.json has it: 5 frames, of steps 0, 3, 6, 9 and 10."""
    shown = {"path": "clips/c-0.webp", "label": "policy 0", "episode": 4, "seed": 8, "first": 0}
    shown |= {"last": 10, "every": 3, "is_end": True, "frames": 5, "columns": 2, "width": 300}
    shown |= {"height": 200, "texts": ["slow", "fast"], "captions": [0, 0, 1, 1, 0]}
    return shown | changes


def told(report, i=0, j=1, **changes):
    labels = [report.policies[k].label for k in (i, j)]
    visit = {"policy": labels[0], "region": 3, "episode": 4, "step": 21}
    return {
        "decomposition": {"labels": labels, "distance": float(report.measured.matrix[i, j])},
        "frames": [{"visit": visit, "path": "frames/f.webp"}],
        "clips": [{"title": "Clip", "caption": "both", "path": "clips/c.webp"}],
    } | changes


def leave(folder, content, name="a--b"):
    return put(folder / "explain" / name / "explain.json", content)


def test_pictures_of_a_pair_that_was_explained(out):
    folder, report = out
    leave(folder, told(report))
    assert explained_pairs(report, folder) == [
        {
            "a": 0,
            "b": 1,
            "clips": [
                {
                    "src": "explain/a--b/clips/c.webp",
                    "title": "Clip",
                    "words": "both",
                    "fps": 0.0,
                    "sheets": [],
                }
            ],
            "frames": [
                {
                    "src": "explain/a--b/frames/f.webp",
                    "region": 3,
                    "policy": "policy 0",
                    "words": "policy 0, episode 4, step 21",
                }
            ],
        }
    ]
    assert page_data(report)["media"]["pairs"] == explained_pairs(report, folder)
    json.dumps(panel_media(report), allow_nan=False)


def with_sheets(report, *sheets, **changes):
    entry = {"title": "Clip", "caption": "both", "path": "clips/c.webp", "fps": 10.0}
    return told(report, clips=[entry | {"sheets": sheets} | changes])


def test_clips_have_the_sheets_beside_the_page(out):
    folder, report = out
    put(folder / "explain" / "a--b" / "clips" / "c-0.webp")
    leave(
        folder, with_sheets(report, sheet(label="\x1b[31m"), sheet(first=5, frames=3, captions=[]))
    )
    (pair,) = explained_pairs(report, folder)
    clip = pair["clips"][0]
    first, second = clip["sheets"]
    assert clip["fps"] == 10.0
    assert first["src"] == second["src"] == "explain/a--b/clips/c-0.webp"
    assert first["label"] == "\\x1b[31m"
    assert (first["isEnd"], first["texts"], first["captions"]) == (
        True,
        ["slow", "fast"],
        [0, 0, 1, 1, 0],
    )
    assert (second["first"], second["last"], second["every"], second["frames"]) == (5, 10, 3, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "clips/missing.webp"},
        {"path": "../../../secret.webp"},
        {"path": None},
        {"frames": 4},
        {"frames": 10**400},
        {"every": 0},
        {"columns": 0},
        {"columns": -2},
        {"width": 1.5},
        {"height": "200"},
        {"first": -1},
        {"first": 11},
        {"last": 1 << 40, "every": 1 << 40, "frames": 2, "captions": []},
        {"captions": [0, 0, 1, 1]},
        {"captions": [0, 0, 1, 1, 2]},
        {"captions": [0, 0, 1, 1, -1]},
        {"texts": None},
        {"seed": "x"},
        {"episode": 1.5},
    ],
)
def test_a_sheet_that_is_broken_leaves_the_animated_picture(out, changes):
    folder, report = out
    put(folder.parent / "secret.webp")
    put(folder / "explain" / "a--b" / "clips" / "c-0.webp")
    leave(folder, with_sheets(report, sheet(), sheet(**changes)))
    (pair,) = explained_pairs(report, folder)
    (clip,) = pair["clips"]
    assert (clip["src"], clip["fps"], clip["sheets"]) == ("explain/a--b/clips/c.webp", 0.0, [])


@pytest.mark.parametrize("fps", ["NaN", "Infinity", "-1", "0"])
def test_a_rate_that_is_none_leaves_the_animated_picture(out, fps):
    folder, report = out
    put(folder / "explain" / "a--b" / "clips" / "c-0.webp")
    leave(folder, json.dumps(with_sheets(report, sheet())).replace("10.0", fps))
    (pair,) = explained_pairs(report, folder)
    assert (pair["clips"][0]["fps"], pair["clips"][0]["sheets"]) == (0.0, [])
    json.dumps(panel_media(report), allow_nan=False)


def test_episodes_have_clips_of_pairs_of_classes_and_of_unusual_ones(out, monkeypatch):
    folder, report = out
    seeds = {("policy 0", 4): 8, ("policy 1", 2): 9, ("policy 2", 0): 10}
    monkeypatch.setattr(type(report), "seed", lambda _, *episode: seeds.get(episode))
    for name in ("explain/a--b/clips", "explain/clips", "clips"):
        put(folder / name / "c-0.webp")
    own = {"label": "policy 1", "episode": 2, "seed": 9}
    short = sheet(**own, last=3, frames=2, captions=[])
    # A later part of an episode, and episodes that are not stored here.
    leave(folder, with_sheets(report, short, sheet(first=1, frames=4, captions=[])))
    clip = {"title": "t", "caption": "c", "fps": 10.0}
    unusual = {"clips": [clip | {"sheets": [sheet(seed=7), sheet(**own)]}, 7, None]}
    put(folder / "unusual.json", unusual)
    behaviours = [
        clip | {"sheets": [sheet(label="policy 2", episode=0, seed=10)]},
        clip | {"sheets": [sheet(label="gone", episode=0, seed=10)]},
    ]
    put(folder / "explain" / "explain.json", {"behaviours": behaviours})
    found = panel_media(report)["episodes"]
    assert [(clip["policy"], clip["episode"]) for clip in found] == [(1, 2), (2, 0)]
    assert [clip["sheets"][0]["src"] for clip in found] == [
        "clips/c-0.webp",
        "explain/clips/c-0.webp",
    ]
    assert [clip["sheets"][0]["last"] for clip in found] == [10, 10]  # the longer one
    put(folder / "unusual.json", {"clips": 7})
    assert [clip["sheets"][0]["last"] for clip in panel_media(report)["episodes"]] == [3, 10]


def test_the_overview_counts_where_a_pair_has_no_folder_of_its_own(out):
    folder, report = out
    put(folder / "explain" / "clips" / "c.webp")
    leave(folder, told(report, 0, 1))
    pairs = [told(report, 1, 0), told(report, 2, 5), "no pair"]
    put(folder / "explain" / "explain.json", {"pairs": pairs})
    found = explained_pairs(report, folder)
    assert [(pair["a"], pair["b"]) for pair in found] == [(0, 1), (2, 5)]
    assert found[1]["clips"][0]["src"] == "explain/clips/c.webp"


def test_what_is_of_another_comparison_is_left_out(out):
    folder, report = out
    content = told(report)
    content["decomposition"]["distance"] *= 1.01
    leave(folder, content)
    assert explained_pairs(report, folder) == []
    content["decomposition"] |= {"labels": ["policy 0", "gone"]}
    leave(folder, content)
    assert explained_pairs(report, folder) == []


def test_names_are_quoted(out):
    folder, report = out
    visit = {"policy": "p", "region": 0, "episode": 0, "step": 1}
    frame = {"visit": visit, "path": "frames/g h#.png"}
    leave(folder, told(report, frames=[frame]))
    (pair,) = explained_pairs(report, folder)
    assert pair["frames"][0]["src"] == "explain/a--b/frames/g%20h%23.png"


@pytest.mark.parametrize(
    "name",
    [
        "../../../secret.webp",
        "/etc/passwd",
        "{root}/secret.webp",
        "link.webp",
        "loop.webp",
        "frames",
        "frames/missing.webp",
        "explain.json",
        "page.svg",
        "zero\0.webp",
        "x" * 5000 + ".webp",
        "http://example.org/x.webp",
        "",
        7,
        None,
        ["frames/f.webp"],
    ],
)
def test_nothing_outside_and_nothing_but_pictures(out, name):
    folder, report = out
    put(folder.parent / "secret.webp")
    put(folder / "explain" / "a--b" / "page.svg")
    (folder / "explain" / "a--b" / "link.webp").symlink_to(folder.parent / "secret.webp")
    (folder / "explain" / "a--b" / "loop.webp").symlink_to("loop.webp")
    if isinstance(name, str):
        name = name.replace("{root}", str(folder.parent))
    frame = {"visit": {"policy": "p", "region": 0}, "path": name}
    leave(folder, told(report, frames=[frame], clips=[{"path": name}]))
    (pair,) = explained_pairs(report, folder)
    assert pair["clips"] == pair["frames"] == []


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no JSON",
        "[" * 100_000,
        "[]",
        "7",
        "{}",
        '{"pairs": {"decomposition": 3}}',
        b"\xff\xfe{",
        {"decomposition": []},
        {"decomposition": {"labels": "policy 0", "distance": 1}},
        {"decomposition": {"labels": [["policy 0"], {}], "distance": 1}},
        {"decomposition": {"labels": ["policy 0", "policy 1"], "distance": True}},
        {"decomposition": {"labels": ["policy 0", "policy 1"], "distance": 10**400}},
        {"decomposition": {"labels": ["policy 0", "policy 1"], "distance": "nan"}},
        {"decomposition": {"labels": ["policy 0", "policy 0"], "distance": 0.0}},
    ],
)
def test_other_content_is_as_good_as_none(out, content):
    folder, report = out
    leave(folder, content)
    put(folder / "explain" / "explain.json", content)
    put(folder / "regions.json", content)
    found = panel_media(report)
    assert found["pairs"] == found["regions"] == []


def test_wrong_kinds_within_leave_the_rest(out):
    folder, report = out
    good = told(report)["clips"][0]
    frames = [{"path": "frames/f.webp", "visit": 5}, 7, None]
    leave(folder, told(report, clips=[7, {}, good | {"title": 5}], frames=frames))
    (pair,) = explained_pairs(report, folder)
    (clip,) = pair["clips"]
    assert clip["src"] == "explain/a--b/clips/c.webp"
    assert (clip["title"], clip["words"]) == ("", "both")
    assert pair["frames"] == []


def test_folders_that_lead_away_are_not_followed(out):
    folder, report = out
    elsewhere = folder.parent / "elsewhere"
    put(elsewhere / "clips" / "c.webp")
    put(elsewhere / "explain.json", told(report))
    (folder / "explain" / "away").symlink_to(elsewhere)
    assert explained_pairs(report, folder) == []


def test_a_pipe_is_no_file_and_much_is_said(out, monkeypatch):
    folder, report = out
    os.mkfifo(folder / "explain" / "a--b" / "explain.json")
    assert explained_pairs(report, folder) == []
    leave(folder, told(report), "large")
    monkeypatch.setattr(site, "_BYTES", 100)
    with pytest.warns(PivecWarning, match="no pictures on the page: .* more than 100"):
        assert explained_pairs(report, folder) == []


def test_so_many_and_no_more(out, monkeypatch):
    folder, report = out
    for j in range(1, 6):
        put(leave(folder, told(report, 0, j), f"p{j}").with_name("explain.html"))
    monkeypatch.setattr(media, "_PAIRS", 3)
    assert len(explained_pairs(report, folder)) == 3
    monkeypatch.setattr(site, "_ALL_BYTES", 1)
    assert len(explained_pairs(report, folder)) == 1


@pytest.fixture(scope="module")
def space():
    rng = np.random.default_rng(0)
    data = VisitedStates.from_arrays(
        [[rng.normal(k, 1, (30, 2))] for k in range(3)],
        feature_names=("height", "speed"),
        labels=["p0", "p1", "p2"],
    )
    method = characterization("visitation", n_components=3).fit(data)
    return Space(method, method.describe(data), np.zeros((3, 2)), {})


def test_pictures_of_regions_that_are_still_the_same(space, make_report, rows_of, tmp_path):
    none = np.zeros((3, 0))
    report = make_report(
        policies=rows_of(3), measured=Measured(None, none.astype(int), none), space=space
    )
    words = region_names(space.method.background_, features_of({}, space.method.feature_names_))
    put(tmp_path / "frames" / "f.webp")
    visit = {"policy": "p0", "episode": 0, "step": 5}
    frame = {"visit": visit, "path": "frames/f.webp"}
    regions = [{"number": k, "name": words[k], "frame": frame} for k in range(3)]
    regions[1]["name"], regions[2]["frame"] = "of another fit", None
    put(tmp_path / "regions.json", {"regions": regions})
    assert region_pictures(report, tmp_path) == [
        {"region": 0, "src": "frames/f.webp", "words": "p0, episode 0, step 5"}
    ]
    assert region_pictures(make_report(), tmp_path) == []  # no space tells


def test_without_a_matrix_the_space_tells_the_distance(space, make_report, rows_of, tmp_path):
    none = np.zeros((3, 0))
    report = make_report(
        policies=rows_of(3), measured=Measured(None, none.astype(int), none), space=space
    )
    d = space.method.distances(space.descriptions)[0, 1]
    put(tmp_path / "explain" / "x" / "explain.html")
    content = {"decomposition": {"labels": ["p0", "p1"], "distance": float(d)}}
    leave(tmp_path, content, "x")
    assert [(pair["a"], pair["b"]) for pair in explained_pairs(report, tmp_path)] == [(0, 1)]


def test_pairs_to_begin_with(make_report):
    pairs = Pairs.of(
        [0, 0, 4, 2], [1, 4, 5, 9], [0.0, 0.1, 0.2, 3.0], low=[0, 0, 0.1, 2], q=[0.5, 0.4, 0, 0]
    )
    report = make_report()
    none = np.zeros((11, 0))
    measured = Measured(None, none.astype(int), none, farthest=pairs.take([3]), pairs=pairs)
    assert make_report(measured=measured).notable_pairs == {
        "The nearest pair that can be distinguished": (4, 5),
        "The farthest pair": (2, 9),
        "A pair that cannot be distinguished": (0, 4),  # of two runs
    }
    report = make_report(measured=Measured(None, none.astype(int), none))
    assert report.notable_pairs == {}


def test_where_it_was_made_is_not_told(make_report, tmp_path):
    report = make_report()
    assert 'data-folder="nowhere"' in report_html(report)
    report.log.folder = Path(tmp_path / "out")
    assert 'data-folder="out"' in report_html(report)
    assert str(tmp_path) not in report_html(report)
