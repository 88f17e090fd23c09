"""Clips are made one after another, what was asked for last first; failures are sentences."""

from __future__ import annotations

import os
import threading
import time

import pytest
from endless import hang
from served_folders import LABELS, client_of, opened

import pivec
from pivec.errors import PivecError, UsageError
from pivec.options import ReplayOptions
from pivec.parallel import Reply, using
from pivec.server import application
from pivec.server.application import ClipMaker, ClipRequest, make_clips
from pivec.states import Store
from pivec.terminal import printable

DONE = {"state": "done", "words": "", "clips": [], "frames": []}


def wait_for(condition):
    last = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < last
        time.sleep(0.005)


@pytest.fixture
def gate(monkeypatch):
    """Let requests wait until they may be done, and note their order."""

    class Gate(threading.Event):
        order = []  # noqa: RUF012
        fails = False

        def map(self, _, requests, **_manner):
            self.order.append(requests[0])
            self.wait(30)
            if self.fails:
                yield Reply(requests[0], failure=PivecError("the screen\x1b fell off"))
            else:
                yield Reply(requests[0], DONE)

    gate = Gate()
    gate.order = []
    monkeypatch.setattr(application, "current", lambda: gate)
    yield gate
    gate.set()


def test_the_last_asked_for_is_made_first_and_too_many_are_dropped(gate):
    clips = ClipMaker()
    assert clips.answer("a") is None
    assert clips.submit("a", "a")["state"] == "working"
    wait_for(lambda: gate.order == ["a"])
    for key in "bcdefghij":
        clips.submit(key, key)
    assert clips.answer("b")["state"] == "failed"
    assert "request them again" in clips.answer("b")["words"]
    assert clips.answer("c")["state"] == "working"
    gate.set()
    wait_for(lambda: clips.answer("c")["state"] == "done")
    assert gate.order == [*"ajihgfedc"]
    assert clips.submit("j", "j") == DONE  # it is there
    assert len(gate.order) == 9
    clips.stop()


def test_what_failed_says_why_and_is_tried_again(gate):
    gate.fails = True
    gate.set()
    clips = ClipMaker()
    clips.submit("a", "a")
    wait_for(lambda: clips.answer("a")["state"] == "failed")
    assert clips.answer("a")["words"] == "the screen\\x1b fell off"
    gate.fails = False
    clips.submit("a", "a")
    wait_for(lambda: clips.answer("a")["state"] == "done")
    clips.stop()


def test_clips_are_asked_for_by_post_and_told_of_by_get(gate, made):
    served = client_of(made)
    pair = {"a": "run/1", "b": "run/2"}
    assert served.get("clips", params=pair).status_code == 404
    assert served.post("clips", params=pair).json()["state"] == "working"
    assert served.get("clips", params=pair).json()["state"] == "working"
    gate.set()
    wait_for(lambda: served.get("clips", params=pair).json() == DONE)
    served.handlers.clip_maker.stop()


def test_what_cannot_be_played_again_says_so(made):
    pids = []
    explanation = opened(made).snapshot.explanation(0, 1)
    answer = make_clips(ClipRequest(made, explanation, ReplayOptions()), pids.append)
    assert pids == [os.getpid()]
    assert answer["state"] == "failed"
    assert "run/1 was recorded elsewhere" in answer["words"]
    assert (answer["clips"], answer["frames"]) == ([], [])


def test_an_episode_that_cannot_be_played_again_says_so(made):
    answer = make_clips(ClipRequest(made, ("run/1", 3), ReplayOptions()), lambda _: True)
    assert answer["state"] == "failed"
    assert "run/1 was recorded elsewhere" in answer["words"]


def test_clips_of_an_episode_are_asked_for_by_its_number(gate, made):
    served = client_of(made)
    asked = {"policy": printable(LABELS[3]), "episode": "5"}
    assert served.get("clips", params=asked).status_code == 404
    assert served.post("clips", params=asked).json()["state"] == "working"
    others = served.post("clips", params=asked | {"episode": "4"}).json()
    assert others["state"] == "working"
    gate.set()
    wait_for(lambda: served.get("clips", params=asked).json() == DONE)
    wait_for(lambda: len(gate.order) == 2)
    assert [request.wanted for request in gate.order] == [
        (printable(LABELS[3]), 5),
        (printable(LABELS[3]), 4),
    ]
    served.handlers.clip_maker.stop()


@pytest.mark.parametrize(
    ("params", "status", "words"),
    [
        ({"policy": "run/9", "episode": "0"}, 404, "no policy 'run/9'"),
        ({"policy": "run/1", "episode": "6"}, 404, "expected 0 to 5"),
        ({"policy": "run/1", "episode": "-1"}, 404, "expected 0 to 5"),
        ({"policy": "run/1", "episode": "1e0"}, 404, "expected 0 to 5"),
        ({"policy": "run/1", "episode": "٣"}, 404, "expected 0 to 5"),
        ({"policy": "run/1", "episode": "9" * 5000}, 404, "expected 0 to 5"),
        ({"policy": "run/1", "episode": ""}, 404, "expected 0 to 5"),
        ({"episode": "1"}, 400, "policy= is there 0 times"),
        ({"policy": "run/1", "episode": ["1", "2"]}, 400, "episode= is there 2 times"),
        ({"policy": "run/1"}, 400, "a= is there 0 times"),
    ],
)
def test_an_episode_that_does_not_exist_is_answered_by_a_sentence(served, params, status, words):
    for method in (served.get, served.post):
        answer = method("clips", params=params)
        assert answer.status_code == status
        assert words in answer.json()["error"]


def test_first_frames_and_progress_are_there_before_the_clip(tmp_path):
    out, told = tmp_path / "out", []
    pivec.compare("CartPole-v1", "random:2", out, episodes=3, components=2)
    request = ClipRequest(out, ("random-1", 2), ReplayOptions())

    def tell(message, seldom=False):
        told.append(message)
        return True

    with using("serial"):
        answer = make_clips(request, tell)
    assert answer["state"] == "done", answer["words"]
    pid, *begun = told
    assert pid == os.getpid()
    assert {message["state"] for message in begun} == {"working"}
    shares = [message["share"] for message in begun]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    (clip,), (first,) = answer["clips"], begun[0]["clips"]
    assert first["title"] == clip["title"]
    assert (first["words"], len(first["sheets"]), len(clip["sheets"])) == (clip["words"], 1, 1)
    (start,), (sheet,) = first["sheets"], clip["sheets"]
    assert start["src"].startswith("data:image/webp;base64,UklGR")
    assert (start["frames"], start["last"], start["label"]) == (1, 0, "random-1")
    assert start["texts"] == [sheet["texts"][sheet["captions"][0]]]
    length = Store(out / "states").load(["random-1"]).lengths[2]
    assert (sheet["first"], sheet["last"], sheet["frames"]) == (0, length - 1, length)
    assert (sheet["episode"], sheet["isEnd"]) == (2, True)
    media = [clip["src"], sheet["src"]]
    assert all((out / src.removeprefix("media/")).is_file() for src in media)
    assert told[-1]["clips"] == begun[0]["clips"]


def test_nothing_is_written_through_links_that_lead_elsewhere(out, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (out / "explain").symlink_to(tmp_path / "elsewhere")
    explanation = opened(out).snapshot.explanation(0, 1)
    request = ClipRequest(out, explanation, ReplayOptions())
    with pytest.raises(UsageError, match="link to a place outside"):
        make_clips(request, lambda _: True)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_process_of_a_clip_ends_with_the_server(monkeypatch):
    monkeypatch.setattr(application, "make_clips", hang)
    clips = ClipMaker()
    clips.submit("a", "a")
    wait_for(lambda: clips._process)
    number = clips._process
    clips.stop()
    wait_for(lambda: clips.answer("a")["state"] == "failed")
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@pytest.mark.slow
def test_clips_are_made_and_pictures_shared(tmp_path):
    out = tmp_path / "out"
    pivec.compare("CartPole-v1", "random:3", out, episodes=5, components=4)
    served = client_of(out)
    for pair in ({"a": "random-0", "b": "random-1"}, {"a": "random-0", "b": "random-2"}):
        served.post("clips", params=pair)
        wait_for(lambda pair=pair: served.get("clips", params=pair).json()["state"] != "working")
        answer = served.get("clips", params=pair).json()
        assert answer["state"] == "done", answer["words"]
        assert answer["clips"]
        sheets = [sheet for clip in answer["clips"] for sheet in clip["sheets"]]
        assert [len(clip["sheets"]) for clip in answer["clips"]] == [2] * len(answer["clips"])
        for made in (*answer["clips"], *sheets, *answer["frames"]):
            picture = served.get(made["src"])
            assert picture.headers["content-type"] == "image/webp"
            assert picture.content[:4] == b"RIFF"
    assert {path.parent.name for path in out.glob("explain/**/*.webp")} <= {"frames", "clips"}
    assert [path.name for path in (out / "explain").iterdir()] == ["media"]
    served.handlers.clip_maker.stop()
