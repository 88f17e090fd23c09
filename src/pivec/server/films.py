"""Clips and pictures of two policies, made when somebody asks for them, in a process of its own.

What plays and draws may be a stranger's: a process that crashes or hangs ends nothing here, and
ends with the server. Pictures are kept below the folder, under names that tell their content, so
that all pairs share them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pivec.characterizations.space import Space
from pivec.engines.engine import Tell, current, using
from pivec.errors import PivecError, UsageError
from pivec.explanations.folder import Findings, kept_states
from pivec.explanations.pairs.difference import Difference
from pivec.explanations.pairs.pairs import FOLDER
from pivec.options import ReplayOptions
from pivec.server.media import address_of
from pivec.server.pairs import shown
from pivec.terminal import printable

Answer = dict[str, Any]
Key = tuple[str, str]
_WAITING, _KEPT = 8, 256  # films that wait, and answers that are known
_CLIPS = 2
_WAIT, _PLAY = "waiting for another film", "playing episodes again to film them"
_PATIENCE = 2.0  # seconds for a process that was killed to be gone


@dataclass(frozen=True)
class Film:
    """What is to be filmed, and how it is played."""

    folder: Path
    difference: Difference
    replaying: ReplayOptions


class Films:
    """Makes films one after another, what was asked for last first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._waiting: OrderedDict[Key, Film] = OrderedDict()
        self._changed = threading.Condition()
        self._process = 0
        self._busy = self._stopped = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, key: Key, film: Film) -> Answer:
        """Have a film made, unless it is there or on its way; what failed is tried again."""
        with self._changed:
            known = self._answers.get(key)
            if known is None or known["state"] == "failed":
                self._waiting[key] = film
                self._set(key, _answer("working", _WAIT if self._busy else _PLAY))
                if len(self._waiting) > _WAITING:
                    oldest, _ = self._waiting.popitem(last=False)
                    self._set(oldest, _answer("failed", "others were asked for since: ask again"))
                self._changed.notify()
            return self._answers[key]

    def answer(self, key: Key) -> Answer | None:
        """Tell how far a film is; None if nobody asked for it."""
        with self._changed:
            return self._answers.get(key)

    def stop(self) -> None:
        """Make no more films, and end the process that makes one."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify()
            if self._process:
                with contextlib.suppress(OSError):
                    os.kill(self._process, getattr(signal, "SIGKILL", signal.SIGTERM))
        self._thread.join(_PATIENCE)

    def _set(self, key: Key, answer: Answer) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > _KEPT:
            self._answers.popitem(last=False)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                if self._stopped:
                    return
                key, film = self._waiting.popitem()
                self._busy = True
                self._set(key, _answer("working", _PLAY))
            try:
                answer = self._make(film)
            except Exception as error:  # the next one may be made all the same
                answer = _answer("failed", f"{type(error).__name__}: {error}")
            with self._changed:
                self._process, self._busy = 0, False
                self._set(key, answer)

    def _make(self, film: Film) -> Answer:
        (reply,) = current().map(
            make_film, [film], on_message=self._begun, name=lambda _: "the film", apart=True
        )
        failed = reply.failure is not None
        return _answer("failed", str(reply.failure)) if failed else reply.content

    def _begun(self, _film: Film, process: int) -> None:
        with self._changed:
            if self._stopped:
                raise PivecError("the server has stopped")
            self._process = process


def make_film(film: Film, tell: Tell) -> Answer:
    """Play and draw both policies, in the process that was started for it."""
    tell(os.getpid())
    from pivec.explanations.film.replay import Replayer
    from pivec.explanations.pairs.films import with_films

    labels, chosen = film.difference.labels, film.replaying
    kept = kept_states(film.folder, labels)
    findings = Findings(film.folder, Space.load(film.folder), kept)
    replayer = Replayer(findings, chosen.env, list(chosen.policies) or None, chosen.collecting)
    media = film.folder / FOLDER / "media"
    if not media.resolve().is_relative_to(film.folder.resolve()):
        raise UsageError(f"{media} is a link that leads out of {film.folder}: remove it")
    # What could not be explained is told beside the numbers, not here.
    difference = replace(film.difference, notes=())
    with using(chosen.engine, chosen.jobs):
        made = with_films(difference, findings, replayer, media, n_clips=_CLIPS)
    return film_answer(film.folder, made)


def film_answer(folder: Path, made: Difference) -> Answer:
    """Give the addresses of what was filmed; where nothing was, why."""
    clips = [
        {"src": address_of(folder, clip.picture), "title": clip.title, "words": clip.words}
        for clip in made.clips
        if clip.picture is not None
    ]
    frames = [
        {"src": address_of(folder, still.picture), "region": region, "policy": policy}
        for (policy, region), still in made.stills.items()
        if still.picture is not None
    ]
    state = "done" if clips or frames else "failed"
    more = f" (and {len(made.notes) - 1} more)" if len(made.notes) > 1 else ""
    words = f"{made.notes[0]}{more}" if made.notes else ""
    return _answer(state, words) | {"clips": shown(clips), "frames": shown(frames)}


def _answer(state: str, words: str) -> Answer:
    return {"state": state, "words": printable(words), "clips": [], "frames": []}
