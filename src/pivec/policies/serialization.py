"""How policies travel to another process: as what tells where to read them, where that is known."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivec.errors import BadPolicyFile
from pivec.parallel import offer, offered, stamp_of
from pivec.policies.callables import check_module, import_policy
from pivec.policies.formats import FORMATS, format_of, read_file
from pivec.policies.policy import NamedPolicy, Origin, PolicyInfo, origin_of


@dataclass(frozen=True)
class PackedPolicy:
    """A policy on its way: how to read it, or itself where nothing tells that."""

    info: PolicyInfo
    origin: Origin | None = None
    policy: Any = None


def packed(named: NamedPolicy) -> PackedPolicy:
    """Pack a policy for another process, which may be on a machine that does not see its file.

    To other machines one that was read from a file travels as the name of that file, unless the
    file has changed since. So does ``module:object`` by its name if it has a fingerprint, by which
    it is known again. Functions and other objects travel themselves, as pickle sends them. What was
    told the spaces of an environment by ``bind`` is another object than was read: pack it before.

    Examples
    --------
    >>> from pivec.policies.load import load_policies
    >>> [named] = load_policies("random")
    >>> unpacked(packed(named)).info.label
    'random'
    """
    origin = origin_of(named.policy)
    # Processes of this machine get what is in memory: reading it again takes 40 times as long.
    if origin is None or not offered.followers:
        return PackedPolicy(named.info, policy=named.policy)
    if not origin.reader:
        known_again = bool(getattr(named.policy, "fingerprint", ""))
        return PackedPolicy(named.info, origin, None if known_again else named.policy)
    if stamp_of(origin.path) != origin.stamp:
        return PackedPolicy(named.info, policy=named.policy)
    offer(os.path.dirname(origin.path))  # what lies beside is read as well
    if os.path.islink(origin.path):
        offer(origin.path)
    return PackedPolicy(named.info, origin)


def unpacked(packing: PackedPolicy) -> NamedPolicy:
    """Give the policy in this process; an error if another is there than was packed."""
    policy, origin = packing.policy, packing.origin
    if origin is not None and origin.reader:
        path = Path(origin.path)
        FORMATS[format_of(path)] = origin.reader  # which a user may have registered
        policy, _, fingerprint = read_file(
            path, origin.trust, origin.without_normaliser, origin.digest
        )
        _check(fingerprint, origin.fingerprint, f"{path}, with what lies beside it,")
    elif origin is not None:
        policy = policy or import_policy(origin.path)
        check_module(origin.path.partition(":")[0], origin.digest)
        _check(str(getattr(policy, "fingerprint", "")), origin.fingerprint, origin.path)
    return NamedPolicy(policy, packing.info)


def _check(here: str, there: str, what: str) -> None:
    if here != there:
        raise BadPolicyFile(
            f"{what} is not the same in this process as where the work was given out: it was "
            "changed meanwhile, or differs between machines"
        )
