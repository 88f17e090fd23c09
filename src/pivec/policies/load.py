"""From what a user names (paths, globs, ``random``, ``module:object``, objects) to policies."""

from __future__ import annotations

import difflib
import glob
import os
import re
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pivec.errors import PivecError, PivecWarning, UsageError
from pivec.policies.callables import IMPORTABLE, UniformPolicy, as_policy, import_policy
from pivec.policies.formats import ASSUMED, FORMATS, is_policy_file, known_as, read_file, readable
from pivec.policies.naming import natural_key, read_paths, read_step
from pivec.policies.policy import (
    ALSO,
    NamedPolicy,
    Policy,
    PolicyInfo,
    also_called,
    fingerprint_of,
    other_names,
)

# -----------------------------------------------------------------------------
# Reads files into named policies; what cannot be read is an error, or skipped if that is asked.


def read_all(
    sources: Sequence[Path | NamedPolicy], trust: bool, without_normaliser: bool, skip: bool
) -> list[NamedPolicy | None]:
    """Read files into policies, those that are skipped into None."""
    names = iter(read_paths([source for source in sources if isinstance(source, Path)]))
    result: list[NamedPolicy | None] = []
    errors: dict[Path, PivecError] = {}
    is_read = False
    for source in sources:
        if isinstance(source, NamedPolicy):
            result.append(source)
            continue
        try:
            result.append(read_named(source, next(names), trust, without_normaliser))
            is_read = True
        except PivecError as error:
            errors[source] = error
            result.append(None)
        if errors and not skip and is_read:
            break  # that another can be read is all that there is to know
    if errors and not (skip and any(result)):
        first = next(iter(errors.values()))
        if is_read:
            _add(first, "--skip-unreadable, in Python skip_unreadable=True, leaves such files out")
        elif len(errors) > 1:
            _add(first, f"nor can the other {len(errors) - 1} files be read")
        raise first
    _say_skipped(errors)
    return result


def _add(error: PivecError, words: str) -> None:
    error.args = (f"{error} ({words})",)


def _say_skipped(errors: Mapping[Path, PivecError]) -> None:
    """Warn of files that are left out, once for all that share the reason."""
    files: dict[str, list[str]] = {}
    for path, error in errors.items():
        named = str(error).startswith(f"{path} ")
        reason = str(error).removeprefix(str(path)) if named else f": {error}"
        files.setdefault(reason, []).append(str(path))
    for reason, paths in files.items():
        warnings.warn(f"{', '.join(paths)}{reason}; skipped", PivecWarning, stacklevel=5)


def say_assumptions(policies: Sequence[NamedPolicy]) -> None:
    """Warn of what was assumed, once for all files that share it."""
    sources: dict[str, list[str]] = {}
    for named in policies:
        for what in named.info.metadata.get(ASSUMED, ()):
            sources.setdefault(what, []).append(named.info.source)
    for what, files in sources.items():
        first = files[0] if len(files) == 1 else f"{len(files)} files (first: {files[0]})"
        warnings.warn(f"{first}: {what}", PivecWarning, stacklevel=4)


def read_named(
    path: Path, names: PolicyInfo, trust: bool = False, without_normaliser: bool = False
) -> NamedPolicy:
    """Read a file; label, run and step are those of ``names``."""
    policy, metadata, fingerprint = read_file(path, trust, without_normaliser)
    step = metadata.get("step") if names.step is None else names.step
    step = step if type(step) is int else None
    info = PolicyInfo(names.label, names.group, step, str(path), metadata, fingerprint)
    return NamedPolicy(policy, info)


# -----------------------------------------------------------------------------
# Policies with the same weights and settings under several names, which count once.


_NAMED = 5  # how many copies are named in a warning


def without_copies(policies: Sequence[NamedPolicy]) -> list[NamedPolicy]:
    """Keep one of those with equal fingerprints; warn, and keep the other names as metadata.

    Their episodes would be the same ones, not independent samples. The name that tells a training
    step stays, then that of a policy which knows its step, then the first in natural order.
    """
    same: dict[str, list[PolicyInfo]] = {}
    for named in policies:
        same.setdefault(named.info.identity, []).append(named.info)
    kept: dict[str, PolicyInfo] = {}
    names = []
    for infos in same.values():
        info, *others = sorted(infos, key=precedence)
        if others:
            also = {ALSO: [other.label for other in others]}
            info = replace(info, metadata={**info.metadata, **also})
            names.append(f"{info.label} ({also_called(info)})")
        kept[info.label] = info
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        warnings.warn(
            f"{len(policies) - len(kept)} of {len(policies)} policies are copies of others, with "
            f"the same weights and settings, and count once: {', '.join(names[:_NAMED])}{more}",
            PivecWarning,
            stacklevel=4,
        )
    return [
        replace(named, info=kept[named.info.label])
        for named in policies
        if named.info.label in kept
    ]


def precedence(info: PolicyInfo) -> tuple[Any, ...]:
    """Give the key by which the first of several copies is the one that stays."""
    name = info.label.rpartition("/")[2]
    return read_step(name) is None, info.step is None, natural_key(info.label)


_RANDOM = re.compile(r"random(?::(\d{1,6}))?")

Spec = str | os.PathLike[str]


class _Candidate(NamedTuple):
    """A file that still has to be read, or a policy that is there already."""

    source: Path | NamedPolicy
    label: str = ""  # what the user calls it; empty if the user does not say
    alone: bool = True  # whether that label stands for this one only


def load_policies(
    specs: Spec | Sequence[Spec],
    trust: bool = False,
    without_normaliser: bool = False,
    skip_unreadable: bool = False,
) -> list[NamedPolicy]:
    """Load policies, named after where they come from.

    Parameters
    ----------
    specs : str, path or sequence of these
        A file, a folder (all policy files below it), a glob (``**`` crosses folders), ``random``
        (``random:3`` for three of them) or ``module:object``. The order is kept; the files of a
        folder or glob are sorted so that step 9000 comes before 10000. A file that is named
        twice counts once. What else lies in a folder (logs, statistics, arrays without a
        description) is left out.
    trust : bool
        Whether code in the files may run, which some formats need: TorchScript, torch.export and
        pickles of classes that are not known.
    without_normaliser : bool
        Whether policies may act without statistics of observations that they are known to need.
    skip_unreadable : bool
        Whether files that cannot be read are left out, as long as any policy is left. A warning
        names them.

    Raises
    ------
    UsageError
        If a name matches nothing, or is of no known kind.
    BadPolicyFile
        If a file is damaged, not supported, needs ``trust``, or lacks its statistics.

    Warns
    -----
    PivecWarning
        Once for everything that had to be assumed of files: their activation, their statistics.

    Notes
    -----
    ``named.info.metadata`` holds what the file tells. Its ``normaliser``, where there is one, names
    what is applied to observations before the policy sees them; its ``assumed`` is a list of what
    had to be assumed.

    Examples
    --------
    >>> [named.info.label for named in load_policies(["random", "random:2"])]
    ['random', 'random-0', 'random-1']
    """
    if isinstance(specs, str | os.PathLike):
        specs = [specs]
    candidates = [item for spec in specs for item in find_policies(spec)]
    return _load(candidates, trust, without_normaliser, skip_unreadable)


def name_policies(
    policies: Any,
    trust: bool = False,
    without_normaliser: bool = False,
    skip_unreadable: bool = False,
) -> list[NamedPolicy]:
    """Turn anything a Python user may pass as policies into named ones with unique labels.

    Policies with equal fingerprints are one: copies are left out with a warning, and their names
    kept in the metadata as ``also``. Of a Python function or object that has no ``fingerprint``
    nothing tells what it is but what it is called: the label in a mapping, or its module and name.

    ``policies`` are one of these, a sequence of them, or a mapping from labels to them: what
    `load_policies` takes, a policy, a callable, an object with ``act`` or ``predict``, a
    `NamedPolicy`. A label that stands for many files becomes the beginning of their labels.

    Examples
    --------
    >>> import numpy as np
    >>> def still(observations):
    ...     return np.zeros(len(observations), int)
    >>> named = name_policies({"lazy": still, "chance": "random"})
    >>> [policy.info.label for policy in named]
    ['lazy', 'chance']
    """
    candidates: list[_Candidate] = []
    if isinstance(policies, Mapping):
        for label, thing in policies.items():
            if not isinstance(label, str) or not label:
                raise UsageError(f"labels of policies must be text, but one is {label!r}")
            items = _find_any(thing, label)
            candidates += [_Candidate(item.source, label, len(items) == 1) for item in items]
    else:
        single = (
            isinstance(policies, str | os.PathLike | NamedPolicy)
            or callable(policies)
            or hasattr(policies, "act")
            or hasattr(policies, "predict")
            or not isinstance(policies, Iterable)
        )
        for i, thing in enumerate([policies] if single else policies):
            candidates += _find_any(thing, f"policy-{i}")
    return without_copies(_load(candidates, trust, without_normaliser, skip_unreadable))


def _find_any(thing: Any, fallback: str) -> list[_Candidate]:
    """As `find_policies`, and objects too, which are called ``fallback`` if they have no name."""
    if isinstance(thing, str | os.PathLike):
        return find_policies(thing)
    if isinstance(thing, NamedPolicy):
        info = thing.info
        own = info.fingerprint or str(getattr(thing.policy, "fingerprint", ""))
        return [_Candidate(replace(thing, info=replace(info, fingerprint=own)), info.label)]
    name = getattr(thing, "__name__", "")
    label = name if isinstance(name, str) and name.isidentifier() else fallback
    module = getattr(thing, "__module__", "") or type(thing).__module__
    return [_Candidate(_named(as_policy(thing, label), label, label, f"{module}:{label}"))]


def find_policies(spec: Spec) -> list[_Candidate]:
    """Find what one spec stands for, files not yet read."""
    text = os.path.expanduser(os.fspath(spec))
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError(f"expected the name of a policy, but got {spec!r}")
    if match := _RANDOM.fullmatch(text):
        count = match.group(1)
        labels = ["random"] if count is None else [f"random-{i}" for i in range(int(count))]
        if not labels:
            raise UsageError("random:0 asks for no policy: expected a number from 1")
        # Several are samples of one policy that are meant to differ: each is one of its own.
        return [
            _Candidate(_named(UniformPolicy(), label, "random", "random", label))
            for label in labels
        ]
    path = Path(text)
    with readable(text):
        if path.is_dir():
            return [_Candidate(file) for file in _files_in(path)]
        if path.exists():
            return [_Candidate(path)]
    if glob.has_magic(text):
        return [_Candidate(file) for file in _files_of_glob(text)]
    if IMPORTABLE.fullmatch(text):
        policy = import_policy(text)
        return [_Candidate(_named(policy, text, text.partition(":")[0], text, text))]
    raise UsageError(
        f"no policy is called {text!r}: expected a file, a folder, a glob, random or "
        f"module:object{_suggestion(path)}"
    )


def _named(
    policy: Policy, label: str, group: str, source: str, specification: str = ""
) -> NamedPolicy:
    """Name a policy, which ``specification`` stands for if it has no fingerprint of its own."""
    fingerprint = str(getattr(policy, "fingerprint", ""))
    if specification and not fingerprint:
        fingerprint = fingerprint_of(specification)
    return NamedPolicy(policy, PolicyInfo(label, group, None, source, {}, fingerprint))


def _files_in(folder: Path) -> list[Path]:
    """Policy files below a folder."""
    return _policy_files(_files_below(folder), f"the folder {folder}", "")


def _files_below(folder: Path) -> list[Path]:
    """All files below a folder; hidden files and folders are left out."""
    files = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(where, name) for name in names if not name.startswith(".")]
    return files


def _files_of_glob(pattern: str) -> list[Path]:
    paths = list(map(Path, glob.glob(pattern, recursive=True)))
    files = [path for path in paths if path.is_file()]
    if not files:  # but maybe checkpoints that are folders
        files = [file for path in paths for file in _files_below(path)]
    if not files:
        fixed = Path(pattern)
        while glob.has_magic(str(fixed)):
            fixed = fixed.parent
        hint = _suggestion(fixed / "any") or f" ({fixed} does not exist)" * (not fixed.exists())
        raise UsageError(
            f"the pattern {pattern!r} matches no file{hint}: check it, and quote it so that the "
            "shell leaves it alone"
        )
    return _policy_files(files, f"the pattern {pattern!r}", Path(pattern).suffix.lower())


def _policy_files(files: list[Path], what: str, suffix: str) -> list[Path]:
    """Those that a reader knows, in natural order; whatever else lies beside them is no policy.

    ``suffix`` is the extension that the user asks for, if any.
    """
    known = [path for path in files if is_policy_file(path, named=path.suffix.lower() == suffix)]
    if not known:
        for path in files:
            if sign := known_as(path, b""):
                raise UsageError(f"{what} holds no policy file: {path.name} in it is {sign}")
        kinds = ", ".join(sorted(FORMATS))
        raise UsageError(
            f"{what} holds no policy file that may be read: expected some that end in {kinds}"
        )
    return sorted(known, key=lambda path: [natural_key(part) for part in path.parts])


def _suggestion(path: Path) -> str:
    """Name a few policy files near a path that does not exist, as the end of a sentence."""
    folder = path.parent
    if not folder.is_dir():
        return f" ({folder} does not exist)"
    names = [file.name for file in folder.iterdir() if is_policy_file(file) or file.is_dir()]
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    near = near or sorted((n for n in names if is_policy_file(Path(n))), key=natural_key)[:3]
    return f"; {folder} holds {', '.join(near)}" if near else ""


def _load(
    candidates: list[_Candidate], trust: bool, without_normaliser: bool, skip_unreadable: bool
) -> list[NamedPolicy]:
    """Read the files and give every policy its label."""
    if not candidates:
        raise UsageError("expected at least one policy: a path, a glob, random or module:object")
    unique: dict[tuple[str, object], _Candidate] = {}
    for item in candidates:  # the same file counts once, and so does the same random policy
        key: object = id(item)
        if isinstance(item.source, Path):
            key = item.source.resolve()
        elif item.source.info.source == "random":
            key = item.source.info.label
        unique.setdefault((item.label, key), item)
    sources = [item.source for item in unique.values()]
    policies = []
    taken: dict[str, bool] = {}
    objects: dict[str, bool] = {}
    read = read_all(sources, trust, without_normaliser, skip_unreadable)
    for named, (_, given, alone) in zip(read, unique.values(), strict=True):
        if named is None:
            continue
        info = named.info
        label = given if given and alone else f"{given}/{info.label}" if given else info.label
        label = _free_label(label, taken, bool(given))
        # Functions of one name may differ: one that has no label of its own gets a number.
        fingerprint = info.fingerprint or fingerprint_of(
            f"called {label}" if given else _free_label(info.source, objects, False)
        )
        policies.append(replace(named, info=replace(info, label=label, fingerprint=fingerprint)))
    say_assumptions(policies)
    return policies


def _free_label(label: str, taken: dict[str, bool], given: bool) -> str:
    """``label``, with a number if it is taken; but labels that a user gave must not clash."""
    if label in taken and given and taken[label]:
        raise UsageError(f"two policies are labelled {label!r}: labels must be unique")
    free, count = label, 1
    while free in taken:
        count += 1
        free = f"{label}-{count}"
    taken[free] = given
    return free


# -----------------------------------------------------------------------------
# Policy files that appear while one looks, as training writes them: read once they are still.


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
