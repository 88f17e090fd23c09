"""Reads files into named policies; what cannot be read is an error, or skipped if that is asked."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from pivec.errors import PivecError, PivecWarning
from pivec.policies.formats import ASSUMED, read_file
from pivec.policies.paths import read_paths
from pivec.policies.policy import NamedPolicy, PolicyInfo


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
