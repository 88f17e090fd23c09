"""Files of recorded states: found by path, folder or glob, and read by their extension."""

from __future__ import annotations

import contextlib
import glob
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pivec.errors import BadData, BadPolicyFile, UsageError
from pivec.options import TableOptions
from pivec.policies.formats import is_policy_file
from pivec.policies.paths import natural_key
from pivec.policies.policy import PolicyInfo
from pivec.reading import digest_of, naming
from pivec.states.hdf5 import recorded_hdf5
from pivec.states.index import sum_of
from pivec.states.npz import recorded_npy, recorded_npz
from pivec.states.record import Recorded
from pivec.states.tables import TABLES, open_table, recorded_of

_ARRAYS = {
    ".npz": recorded_npz,
    ".npy": recorded_npy,
    ".hdf5": recorded_hdf5,
    ".h5": recorded_hdf5,
}  # one policy a file
SUFFIXES = frozenset(_ARRAYS) | TABLES


def is_recording(path: Path) -> bool:
    """Tell whether a file is one of recorded states, by its extension, and no policy."""
    suffix = path.suffix.lower()
    return suffix in SUFFIXES and not is_policy_file(path, named=False)


def find_files(
    where: str, options: TableOptions | None = None, suffixes: frozenset[str] = SUFFIXES
) -> list[Recorded]:
    """Find what a file, the files of a folder or a glob hold; each has one policy or more.

    A policy that its file does not name is called after the file.
    """
    home = Path(where).expanduser()
    kinds = " or ".join(sorted(suffixes))
    if home.is_dir():
        paths = [path for path in home.rglob("*") if not path.name.startswith(".")]
    elif home.exists():
        paths, suffixes = [home], suffixes | {home.suffix.lower()}
    elif glob.has_magic(str(home)):
        paths = [Path(path) for path in glob.glob(str(home), recursive=True)]
    else:
        raise UsageError(f"{home} is not a folder or file of recorded states: check the path")
    paths = [path for path in paths if path.suffix.lower() in suffixes]
    if not paths:
        raise UsageError(
            f"{home} holds no {kinds} file that may be read: expected at least one policy"
        )
    paths.sort(key=lambda path: [natural_key(part) for part in path.parts])
    return told_apart(
        [
            source
            for path in paths
            for source in _recorded(path, home if home.is_dir() else path.parent, options)
        ]
    )


def _recorded(path: Path, home: Path, options: TableOptions | None) -> list[Recorded]:
    """Find the policies of one file below the folder ``home``."""
    inner = path.relative_to(home)
    label = inner.with_suffix("").as_posix()
    group = inner.parent.as_posix() if inner.parent != Path() else home.resolve().name
    suffix, chosen = path.suffix.lower(), options or TableOptions()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"{path} has the extension {suffix or '(none)'}, which no reader of recorded states "
            f"knows: expected one of {', '.join(sorted(SUFFIXES))}"
        )
    with _about(path):
        digest = digest_of(path)
        source = f"{'npz' if suffix == '.npz' else 'table'}:{path}"
        if suffix in TABLES:
            return recorded_of(open_table(path), chosen, label, source, digest)
        fingerprint = digest if suffix == ".npz" else sum_of([digest, label, vars(chosen)])
        info = PolicyInfo(label, group, None, source, {}, fingerprint)
        return [_ARRAYS[suffix](path, info, chosen)]


@contextlib.contextmanager
def _about(path: Path) -> Iterator[None]:
    """Let errors name the file."""
    try:
        with naming(path, "recorded states", BadData):
            yield
    except (BadData, BadPolicyFile) as error:
        text = str(error)
        raise BadData(text if str(path) in text else f"{path}: {text}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def told_apart(sources: Sequence[Recorded]) -> list[Recorded]:
    """Put the name of the file, or of its folder, before labels that come twice.

    Examples
    --------
    >>> twice = [PolicyInfo("a", source=f"table:{run}/states.csv") for run in ("one", "two")]
    >>> [recorded.info.label for recorded in told_apart([Recorded(i, iter) for i in twice])]
    ['one/states/a', 'two/states/a']
    """
    result = list(sources)
    for level in range(2):
        counts = Counter(source.info.label for source in result)
        for number, source in enumerate(result):
            label = source.info.label
            path = Path(source.info.source.partition(":")[2])
            names = path.stem, path.parent.name
            if counts[label] > 1 and names[level] not in ("", label):
                info = replace(source.info, label=f"{names[level]}/{label}")
                result[number] = replace(source, info=info)
    return result
