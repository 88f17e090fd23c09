"""Who acted: a policy found again by what its states' store tells of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path

from pivec.errors import PivecError, PivecWarning
from pivec.explanations.film.takes import CannotReplay
from pivec.options import CollectOptions
from pivec.policies.callables import IMPORTABLE
from pivec.policies.load import name_policies
from pivec.policies.policy import NamedPolicy, PolicyInfo
from pivec.policies.uniform import UniformPolicy
from pivec.states.record import PolicyRecord
from pivec.states.recorded import is_recorded

_NAME = "name the policy with --policy (from Python policies=)"
_KEEP = "collect with --actions, which keeps what was done"


def find_again(
    info: PolicyInfo,
    record: PolicyRecord | None,
    given: Mapping[str, NamedPolicy],
    folder: Path,
    options: CollectOptions,
) -> NamedPolicy:
    """Find the policy that ``info`` is about: kept, given by the user, or in its file.

    ``given`` has policies by their fingerprints. A folder's files are trusted as little as a
    policy's: what would import a module needs ``options.trust``.
    """
    try:
        kept = None if record is None else record.read_policy()
        if kept is not None:
            return NamedPolicy(kept, info)
        if info.fingerprint and info.fingerprint in given:
            return NamedPolicy(given[info.fingerprint].policy, info)
        if info.source == "random":
            return NamedPolicy(UniformPolicy(), info)
        if is_recorded(info.source):
            raise CannotReplay(
                f"{info.label} was recorded elsewhere ({info.source}), so how it acts is not known"
            )
        return NamedPolicy(_read(info, folder, options).policy, info)
    except CannotReplay:
        raise
    except PivecError as error:
        raise CannotReplay(f"{info.label} cannot act again: {error}") from error


def _read(info: PolicyInfo, folder: Path, options: CollectOptions) -> NamedPolicy:
    """Load a policy from where it came from; it must be the very same."""
    source, file = info.source, _file(info.source, folder)
    again = f"{info.label} cannot act again, since"
    if file is None and not IMPORTABLE.fullmatch(source):
        expected = f"its file {source} is not there" if source else "it is not known where it is"
        raise CannotReplay(f"{again} {expected}: {_NAME}, or {_KEEP}")
    if file is None and not options.trust:
        raise CannotReplay(
            f"{again} it is the Python object {source}: {_NAME}, allow importing it with --trust, "
            f"or {_KEEP}"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PivecWarning)  # said when it was collected
        named, *_ = name_policies([file or source], options.trust, options.without_normaliser)
    if named.info.fingerprint != info.fingerprint:
        raise CannotReplay(
            f"{again} {file or source} has changed since its states were collected: {_NAME} as it "
            "was then, or compare anew"
        )
    return named


def _file(source: str, folder: Path) -> Path | None:
    """Find a file, named from the current folder, or from one that the results are below."""
    here = Path(os.path.expanduser(source))
    places = [here, *(above / source for above in folder.resolve().parents)]
    # os.path, unlike a Path, copes with names that no file can have.
    return next((place for place in places if os.path.isfile(place)), None)
