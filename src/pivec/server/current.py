"""The newest snapshot of a folder that others may write to meanwhile."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import numpy as np

from pivec.characterizations.space import Space
from pivec.comparison import SPACE
from pivec.errors import PivecError, UsageError
from pivec.explanations.pairs.pairs import FOLDER
from pivec.run_log import RUN
from pivec.server.snapshot import Snapshot
from pivec.terminal import say
from pivec.text import n_policies

Version = tuple[int, int, int] | None
Signature = tuple[tuple[Version, ...], tuple[Version, ...]]
_MANY = 1000  # policies, of which measuring takes a while
_EXPLAINED = 400  # pairs that are looked for


class Current:
    """Holds a snapshot, and takes another when the space of the folder was replaced.

    A space whose policies have no places yet is half made, and waited for.
    """

    def __init__(self, folder: Path, quiet: bool = False) -> None:
        self.folder = folder
        self._quiet = quiet
        self._shown = self._seen = signature_of(folder)
        self._said: set[str] = set()
        space = Space.load(folder)
        if not _is_whole(space):
            raise UsageError(
                f"the policies of {folder} have no places on a map yet: run `pivec map {folder}`, "
                "or wait for the command that writes there"
            )
        if len(space.descriptions) > _MANY and not quiet:
            say(f"Measuring the distances of {n_policies(len(space.descriptions))}")
        self.snapshot = Snapshot(folder, space)

    def look(self) -> None:
        """Take another snapshot if the files are others, and have been for a while."""
        now = signature_of(self.folder)
        rests, self._seen = now == self._seen, now
        if now == self._shown or not rests:
            return
        try:
            self._take(now)
        except Exception as error:  # what was shown before stays, and the server goes on
            reason = str(error) if isinstance(error, PivecError | OSError) else repr(error)
            if reason not in self._said:
                self._said.add(reason)
                words = f"{self.folder} has changed, but cannot be shown: {reason}"
                say(f"pivec: {words}; the page stays as it was", error=True)
        self._shown = now

    def _take(self, now: Signature) -> None:
        before = self.snapshot
        same = now[0] == self._shown[0]
        space = before.space if same else Space.load(self.folder)
        if not _is_whole(space):
            return
        self.snapshot = Snapshot(self.folder, space, before.measured if same else None)
        n, n_before = len(space.descriptions), len(before.space.descriptions)
        if n != n_before and not self._quiet:
            say(f"{n_policies(n)} now, {n_before} before")


def _is_whole(space: Space) -> bool:
    """Tell whether all policies have their places: that is written last."""
    return space.positions is not None and not np.isnan(space.positions).any()


def signature_of(folder: Path) -> Signature:
    """Tell versions of a folder apart: of its space, and of what the page shows beside it."""
    explained = islice(sorted(folder.glob(f"{FOLDER}/*/explain.json")), _EXPLAINED)
    beside = (folder / RUN, folder / "regions.json", folder / FOLDER / "explain.json", *explained)
    spaces = folder / SPACE / "space.npz", folder / "space.npz"
    return tuple(map(_version, spaces)), tuple(map(_version, beside))


def _version(file: Path) -> Version:
    """Tell versions of a file apart; None if it is not there."""
    try:
        known = os.stat(file)
    except OSError:
        return None
    return known.st_mtime_ns, known.st_size, known.st_ino
