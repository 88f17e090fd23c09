"""What the server answers is what Python says: the page, its data, pairs, pictures."""

from __future__ import annotations

import os

import numpy as np
import pytest
from served_folders import LABELS, client_of, leave

from pivec.explanations import ComparisonFolder, explain_pair
from pivec.report import Findings, decomposition_data, measure_space, pair_spreads, run_story
from pivec.run_log import RunLog
from pivec.server.application import printable_texts, read_media
from pivec.terminal import printable

ODD = printable(LABELS[3])


def whole(folder):
    """Give what is found in the comparison."""
    space = ComparisonFolder.open(folder).space
    return Findings.of(space, measure_space(space, folder), RunLog(folder))


def test_the_page_asks_for_more(served):
    answer = served.get("")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    version = served.get("version").json()["version"]
    assert f'"live":"{version}"' in answer.text
    assert "connect-src &#x27;self&#x27;" in answer.text or "connect-src 'self'" in answer.text


@pytest.mark.parametrize(("a", "b"), [("run/1", "run/3"), (ODD, "run/2")])
def test_a_pair_is_exactly_what_python_says(served, made, a, b):
    findings = ComparisonFolder.open(made)
    names = [printable(label) for label in LABELS]
    i, j = names.index(a), names.index(b)
    measured = measure_space(findings.space, made)
    answer = served.get("pair", params={"a": a, "b": b}).json()
    known = measured.intervals
    assert (answer["a"], answer["b"]) == (a, b)
    assert answer["measured"] == pytest.approx(measured.matrix[i, j], rel=1e-12)
    for key, matrix in {"distance": np.maximum(known.distance, 0.0), "low": known.low,
                        "high": known.high, "p": known.p_value}.items():  # fmt: skip
        assert answer[key] == pytest.approx(matrix[i, j], rel=1e-12)
    overlap = findings.space.method.overlap(findings.space.descriptions)[i, j]
    assert answer["overlap"] == pytest.approx(overlap, rel=1e-9)
    found = explain_pair(findings, LABELS[i], LABELS[j])
    expected = decomposition_data(found.decomposition, found.features, found.notes, found.rules)
    assert answer["difference"] == printable_texts(expected)
    assert answer["spreads"] == printable_texts(pair_spreads(whole(made), i, j))
    assert sum(answer["spreads"]["features"][0]["b"]) == pytest.approx(1.0, abs=1e-3)
    assert served.get("pair", params={"a": a, "b": b}).json() == answer


def test_without_a_matrix_of_intervals_the_pair_is_measured_by_itself(made):
    from dataclasses import replace

    other = client_of(made)
    snapshot = other.handlers.latest.snapshot
    whole = other.get("pair", params={"a": "run/1", "b": "run/2"}).json()
    measured = replace(snapshot.findings.measured, intervals=None)
    snapshot.findings = replace(snapshot.findings, measured=measured)
    snapshot.pair.cache_clear()
    alone = other.get("pair", params={"a": "run/1", "b": "run/2"}).json()
    assert alone.keys() == whole.keys()
    for key in ("distance", "low", "high", "p", "overlap"):
        assert alone[key] == pytest.approx(whole[key], rel=1e-6), key


def test_a_run_is_what_python_says(served, made):
    answer = served.get("run", params={"run": "run"})
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert content.pop("run") == "run"
    assert content == printable_texts(run_story(whole(made), "run"))
    assert [phase["changed"] for phase in content["phases"]] == [True] * 3
    assert len(content["steps"]) == len(content["tracks"][0]["share"]) == 4
    unknown = served.get("run", params={"run": "walk"})
    assert unknown.status_code == 404
    assert "there is no run 'walk'" in unknown.json()["error"]
    assert served.get("run").status_code == 400


def test_what_cannot_be_explained_says_why(tmp_path):
    leave(tmp_path / "out", method="terminal-state")
    answer = client_of(tmp_path / "out").get("pair", params={"a": "run/1", "b": "run/2"}).json()
    assert answer["difference"] is None
    assert "decompose" in answer["reason"]
    story = client_of(tmp_path / "out").get("run", params={"run": "run"}).json()
    assert story["phases"] == []
    assert "regions" in story["note"]
    assert answer["distance"] > 0


@pytest.mark.parametrize(
    ("params", "status", "words"),
    [
        ({"a": "run/1", "b": "1"}, 404, "there is no policy '1'"),
        ({"a": "run/1", "b": LABELS[3]}, 404, "there is no policy"),
        ({"a": "run/1", "b": "run/1"}, 400, "expected two policies"),
        ({"a": "run/1"}, 400, "b= is there 0 times"),
        ({"b": ["run/1", "run/2"], "a": "run/1"}, 400, "b= is there 2 times"),
    ],
)
def test_a_mistake_is_answered_by_a_sentence(served, params, status, words):
    for path in ("pair", "clips"):
        answer = served.get(path, params=params)
        assert answer.status_code == status
        assert words in answer.json()["error"]
        assert "\x1b" not in answer.text


def test_pictures_are_served_as_what_they_are(served, made):
    answer = served.get("media/map.png")
    assert answer.content == (made / "map.png").read_bytes()
    assert answer.headers["content-type"] == "image/png"
    for name in ("run.json", "space/space.npz", "report.html", "none.png", "", "states"):
        answer = served.get(f"media/{name}")
        assert (answer.status_code, answer.content) == (404, b"")


def test_nothing_outside_of_the_folder_can_be_read(served, out):
    secret = out.parent / "secret.png"
    secret.write_bytes(b"secret")
    (out / "link.png").symlink_to(secret)
    (out / "up").symlink_to(out.parent)
    (out / "notes.txt").write_text("secret")
    (out / "dressed.png").symlink_to(out / "notes.txt")
    (out / "inside.png").symlink_to(out / "map.png")
    (out / "folder.png").mkdir()
    os.mkfifo(out / "pipe.png")
    names = ("../secret.png", "/../secret.png", "a/../../secret.png", str(secret), f"/{secret}",
             "link.png", "up/secret.png", "dressed.png", "folder.png", "pipe.png", "map.png\0.png",
             "\0", "..\\secret.png", "space/../../secret.png", "a" * 5000 + ".png")  # fmt: skip
    for name in names:
        assert read_media(out, name) is None, name
    assert read_media(out, "inside.png") == ((out / "map.png").read_bytes(), "image/png")
    for name in ("%2e%2e/secret.png", "..%2fsecret.png", "%2fetc%2fpasswd", "map.png%00",
                 "%252e%252e/secret.png", "/etc/hosts.png"):  # fmt: skip
        assert served.get(f"media/{name}").status_code == 404
