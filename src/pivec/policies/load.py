"""From what a user names (paths, globs, ``random``, ``module:object``, objects) to policies."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pivec.errors import UsageError
from pivec.policies.callables import IMPORTABLE, as_policy, import_policy
from pivec.policies.copies import without_copies
from pivec.policies.files import read_all, say_assumptions
from pivec.policies.formats import FORMATS, is_policy_file, readable
from pivec.policies.paths import natural_key
from pivec.policies.policy import NamedPolicy, Policy, PolicyInfo, fingerprint_of
from pivec.policies.uniform import UniformPolicy
from pivec.policies.unreadable import known_as

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
