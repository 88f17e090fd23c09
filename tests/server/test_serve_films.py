"""Films are made one after another, what was asked for last first; failures are sentences."""

from __future__ import annotations

import os
import threading
import time

import pytest
from endless import hang
from served_folders import client_of

import pivec
from pivec.errors import PivecError, UsageError
from pivec.options import ReplayOptions
from pivec.parallel.engine import Reply
from pivec.server import routes as filming
from pivec.server.routes import Film, Films, make_film
from pivec.server.snapshot import Current

DONE = {"state": "done", "words": "", "clips": [], "frames": []}


def wait_for(condition):
    last = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < last
        time.sleep(0.005)


@pytest.fixture
def gate(monkeypatch):
    """Let films wait until they may be done, and note their order."""

    class Gate(threading.Event):
        order = []  # noqa: RUF012
        fails = False

        def map(self, _, films, **_manner):
            self.order.append(films[0])
            self.wait(30)
            if self.fails:
                yield Reply(films[0], failure=PivecError("the screen\x1b fell off"))
            else:
                yield Reply(films[0], DONE)

    gate = Gate()
    gate.order = []
    monkeypatch.setattr(filming, "current", lambda: gate)
    yield gate
    gate.set()


def test_the_last_asked_for_is_made_first_and_too_many_are_dropped(gate):
    films = Films()
    assert films.answer("a") is None
    assert films.ask("a", "a")["state"] == "working"
    wait_for(lambda: gate.order == ["a"])
    for key in "bcdefghij":
        films.ask(key, key)
    assert films.answer("b")["state"] == "failed"
    assert "ask again" in films.answer("b")["words"]
    assert films.answer("c")["state"] == "working"
    gate.set()
    wait_for(lambda: films.answer("c")["state"] == "done")
    assert gate.order == [*"ajihgfedc"]
    assert films.ask("j", "j") == DONE  # it is there
    assert len(gate.order) == 9
    films.stop()


def test_what_failed_says_why_and_is_tried_again(gate):
    gate.fails = True
    gate.set()
    films = Films()
    films.ask("a", "a")
    wait_for(lambda: films.answer("a")["state"] == "failed")
    assert films.answer("a")["words"] == "the screen\\x1b fell off"
    gate.fails = False
    films.ask("a", "a")
    wait_for(lambda: films.answer("a")["state"] == "done")
    films.stop()


def test_films_are_asked_for_by_post_and_told_of_by_get(gate, made):
    served = client_of(made)
    pair = {"a": "run/1", "b": "run/2"}
    assert served.get("film", params=pair).status_code == 404
    assert served.post("film", params=pair).json()["state"] == "working"
    assert served.get("film", params=pair).json()["state"] == "working"
    gate.set()
    wait_for(lambda: served.get("film", params=pair).json() == DONE)
    served.answers.films.stop()


def test_what_cannot_be_played_again_says_so(made):
    pids = []
    snapshot = Current(made).snapshot
    answer = make_film(Film(made, snapshot.difference(0, 1), ReplayOptions()), pids.append)
    assert pids == [os.getpid()]
    assert answer["state"] == "failed"
    assert "run/1 was recorded elsewhere" in answer["words"]
    assert (answer["clips"], answer["frames"]) == ([], [])


def test_nothing_is_written_through_links_that_lead_elsewhere(out, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (out / "explain").symlink_to(tmp_path / "elsewhere")
    film = Film(out, Current(out).snapshot.difference(0, 1), ReplayOptions())
    with pytest.raises(UsageError, match="leads out of"):
        make_film(film, lambda _: True)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_process_of_a_film_ends_with_the_server(monkeypatch):
    monkeypatch.setattr(filming, "make_film", hang)
    films = Films()
    films.ask("a", "a")
    wait_for(lambda: films._process)
    number = films._process
    films.stop()
    wait_for(lambda: films.answer("a")["state"] == "failed")
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@pytest.mark.slow
def test_policies_are_filmed_and_pictures_shared(tmp_path):
    out = tmp_path / "out"
    pivec.compare("CartPole-v1", "random:3", out, episodes=5, components=4)
    served = client_of(out)
    for pair in ({"a": "random-0", "b": "random-1"}, {"a": "random-0", "b": "random-2"}):
        served.post("film", params=pair)
        wait_for(lambda pair=pair: served.get("film", params=pair).json()["state"] != "working")
        answer = served.get("film", params=pair).json()
        assert answer["state"] == "done", answer["words"]
        assert answer["clips"]
        for made in (*answer["clips"], *answer["frames"]):
            picture = served.get(made["src"])
            assert picture.headers["content-type"] == "image/webp"
            assert picture.content[:4] == b"RIFF"
    assert {path.parent.name for path in out.glob("explain/**/*.webp")} <= {"frames", "clips"}
    assert [path.name for path in (out / "explain").iterdir()] == ["media"]
    served.answers.films.stop()
