"""Policy files that appear while one looks, as training writes them: read once they are still."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pivec.errors import PivecError, PivecWarning, UsageError
from pivec.policies.copies import precedence
from pivec.policies.files import read_named, say_assumptions
from pivec.policies.formats import ASSUMED, is_policy_file
from pivec.policies.load import Spec, find_policies
from pivec.policies.paths import natural_key, read_paths
from pivec.policies.policy import ALSO, NamedPolicy, PolicyInfo, other_names

Stamp = tuple[int, int]  # size and time of a file


class Arrivals:
    """Looks for policies again and again, and reads those that are new, or were written over.

    A file is left alone until size and time have been the same for ``settle`` seconds. One that
    cannot be read is named in a warning, and tried again when it or its folder changes. What lies
    in the folder ``but`` is none.

    Attributes
    ----------
    missing : list of str
        What the last look found no file for, as it was given.
    n_growing : int
        Files that were not still at the last look.

    Examples
    --------
    >>> arrivals = Arrivals(["random"], settle=5.0)
    >>> [named.info.label for named in arrivals.look()], arrivals.look()
    (['random'], [])
    """

    def __init__(
        self,
        specs: Spec | Sequence[Spec],
        settle: float,
        trust: bool = False,
        without_normaliser: bool = False,
        but: Path | None = None,
    ) -> None:
        self._specs = [specs] if isinstance(specs, str | os.PathLike) else list(specs)
        self._settle, self._allowed = settle, (trust, without_normaliser)
        self._but = but and Path(os.path.abspath(but))
        self._seen: dict[Path, tuple[Stamp, float]] = {}  # and since when it is the same
        self._read: dict[Path, Stamp] = {}
        self._refused: dict[Path, tuple[Stamp, int]] = {}  # and the time of the folder
        self._assumed: set[str] = set()  # of which was warned
        self.missing: list[str] = []
        self.n_growing = 0

    def look(self) -> list[NamedPolicy]:
        """Give what is new since the last look, each called as if it were alone."""
        arrived: list[NamedPolicy] = []
        files: dict[str, Path] = {}
        self.missing = []
        for spec in list(self._specs):
            try:
                sources = [candidate.source for candidate in find_policies(spec)]
            except UsageError:
                if not _may_come(os.fspath(spec)):
                    raise
                self.missing.append(os.fspath(spec))
                continue
            files |= {os.path.abspath(path): path for path in sources if isinstance(path, Path)}
            arrived += [source for source in sources if isinstance(source, NamedPolicy)]
            if sources and isinstance(sources[0], NamedPolicy):
                self._specs.remove(spec)  # it will be the same again
        arrived += self._read_still(files.values())
        new = [named for named in arrived if not self._assumed >= _assumptions(named)]
        self._assumed.update(*map(_assumptions, new))
        say_assumptions(new)
        return arrived

    def refuse(self, policy: NamedPolicy, reason: PivecError) -> None:
        """Set a policy aside that cannot act: it is tried again when its file changes."""
        path = Path(policy.info.source)
        if stamp := self._read.pop(path, None):
            self._refused[path] = stamp, _folder_time(path)
        _say_refused(reason)

    def _read_still(self, files: Iterable[Path]) -> list[NamedPolicy]:
        arrived = []
        self.n_growing = 0
        for path in files:
            stamp = _stamp(path)
            if stamp is None or self._read.get(path) == stamp:  # gone since it was found, or known
                continue
            if self._but in Path(os.path.abspath(path)).parents:
                continue
            before, beside = self._refused.get(path, (None, 0))
            if before == stamp and beside == _folder_time(path):
                continue
            if not self._is_still(path, stamp):
                self.n_growing += 1
                continue
            try:
                [names] = read_paths([path])
                arrived.append(read_named(path, names, *self._allowed))
                self._read[path] = stamp
            except PivecError as error:
                self._refused[path] = stamp, _folder_time(path)
                if before != stamp and _stamp(path) == stamp:  # not changed while it was read
                    _say_refused(error)
        return arrived

    def _is_still(self, path: Path, stamp: Stamp) -> bool:
        now = time.monotonic()
        before, since = self._seen.get(path, (None, now))
        self._seen[path] = stamp, since if before == stamp else now
        # The clock of a file system may be another one: then it is waited for.
        is_old = time.time() - stamp[1] / 1e9 >= self._settle
        return is_old or (before == stamp and now - since >= self._settle)


def named_together(infos: Sequence[PolicyInfo]) -> list[PolicyInfo]:
    """Name policies as if all their files were given at once; equal ones are one policy.

    Of two from the same file the later stays: it was written over.

    Examples
    --------
    >>> a, b = PolicyInfo("p", source="x/p.zip"), PolicyInfo("p", source="y/p.zip")
    >>> [info.label for info in named_together([a, b])]
    ['x/p', 'y/p']
    """
    latest: dict[str, PolicyInfo] = {}
    for info in infos:
        is_file = is_policy_file(Path(info.source), named=False)
        latest[os.path.abspath(info.source) if is_file else f"{info.source}\0{info.label}"] = info
    files = [path for path in latest if "\0" not in path]
    names = dict(zip(files, read_paths(files), strict=True))
    taken = {info.label for path, info in latest.items() if path not in names}
    renamed = []
    for path, info in latest.items():
        if path in names:
            label, group = names[path].label, names[path].group
            info = replace(info, label=path if label in taken else label, group=group)  # noqa: PLW2901
        renamed.append(info)
    same: dict[str, list[PolicyInfo]] = {}
    for info in renamed:
        same.setdefault(info.identity, []).append(info)
    result = []
    for copies in same.values():
        first, *others = sorted(copies, key=precedence)
        also = {name for info in others for name in (info.label, *other_names(info))}
        if also:
            names_too = sorted(also | {*other_names(first)} - {first.label}, key=natural_key)
            first = replace(first, metadata={**first.metadata, ALSO: names_too})
        result.append(first)
    return sorted(result, key=lambda info: natural_key(info.label))


def _may_come(spec: str) -> bool:
    """Tell whether there may be files later of what names none now."""
    return bool(spec) and (":" not in spec or os.sep in spec)


def _assumptions(named: NamedPolicy) -> set[str]:
    return {*named.info.metadata.get(ASSUMED, ())}


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _folder_time(path: Path) -> int:
    stamp = _stamp(path.parent)
    return stamp[1] if stamp else 0


def _say_refused(reason: PivecError) -> None:
    warnings.warn(f"{reason} (tried again when it changes)", PivecWarning, stacklevel=4)
