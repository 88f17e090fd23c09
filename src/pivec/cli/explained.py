"""What `pivec explain` films, and where its results go."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivec.errors import PivecError
from pivec.options import ReplayOptions
from pivec.terminal import say

if TYPE_CHECKING:
    from pivec.distances import Behaviours
    from pivec.explanations.film.replay import Replayer
    from pivec.explanations.folder import Findings
    from pivec.explanations.pairs.difference import Clip, Difference

PAGE = "explain.html"
_BEHAVIOURS = 8  # that are filmed


@dataclass(frozen=True)
class Films:
    """What is filmed, and how."""

    findings: Findings
    frames: bool
    clips: int
    replaying: ReplayOptions

    def add(
        self, difference: Difference, replayer: Replayer, folder: Path, progress: bool
    ) -> Difference:
        """Add pictures and clips to a difference; what fails leaves the rest whole."""
        from pivec.explanations.pairs.films import with_films

        chosen = self.frames, self.clips
        try:
            return with_films(difference, self.findings, replayer, folder, *chosen, progress)
        except PivecError as error:
            return replace(difference, notes=(*difference.notes, f"no pictures: {error}"))

    def of_behaviours(
        self,
        classes: Behaviours | None,
        words: Sequence[str],
        replayer: Replayer,
        folder: Path,
        progress: bool,
    ) -> tuple[Clip, ...]:
        """Film the policy in the middle of each behaviour, the largest first."""
        from pivec.explanations.pairs.films import alone, shot

        if classes is None or not self.clips:
            return ()
        wanted = []
        for number, medoid in enumerate(classes.medoids[:_BEHAVIOURS], 1):
            n = classes.numbers.count(number)
            title = f"Behaviour {number}: {n} {'policy' if n == 1 else 'policies'}"
            label = self.findings.policies[medoid].label
            wanted.append(alone(self.findings, replayer, label, title, words))
        return shot(wanted, replayer, folder / "clips", progress)

    def replayer(self) -> Replayer:
        """Make what plays episodes again; before anything else, since names may be mistaken."""
        from pivec.explanations.film.replay import Replayer

        chosen = self.replaying
        policies = list(chosen.policies) or None
        return Replayer(self.findings, chosen.env, policies, chosen.collecting)


@dataclass(frozen=True)
class Showing:
    """Where results go, and what is said of them."""

    out: Path | None
    as_json: bool
    quiet: bool
    command: str

    @property
    def progress(self) -> bool:
        """Whether to draw bars."""
        return not (self.quiet or self.as_json)

    def leave(self, folder: Path, result: Any, page: Callable[[Path], None]) -> None:
        """Write explain.json, explain.html and explain.png; print the first if that is wanted."""
        from pivec.atomic import atomic_write, make_folder
        from pivec.canvas import save_png
        from pivec.report.answers import say_json

        make_folder(folder)
        content = result.to_json()
        with atomic_write(folder / "explain.json", "w") as file:
            json.dump(content, file, indent=1, allow_nan=False)
        page(folder / PAGE)
        save_png(result.figure(), folder / "explain.png")
        if self.as_json:
            say_json(content)


def say_report(folder: Path, made: Sequence[Path | None]) -> None:
    """Say how pictures that were made come to the page of the comparison, if it has one."""
    if (folder / "report.html").is_file() and any(made):
        say(f"To see pictures in report.html too: pivec report {shlex.quote(str(folder))}")
