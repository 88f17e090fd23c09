"""A fitted characterization on disk, with the policies it has described and their map."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Characterization, characterization
from pivec.characterizations.descriptions import SUMMARY, Descriptions
from pivec.errors import BadStore, UsageError
from pivec.files import Budget, atomic_write, make_folder, open_regular
from pivec.policies import PolicyInfo, natural_key, unpack_npz

FORMAT = 2
_INDEX, _ARRAYS = "space.json", "space.npz"
_LINES = 1000  # policies up to which the index is indented
_EARLIER = " (earlier)"


@dataclass(frozen=True, repr=False)
class Space:
    """A fitted characterization and the policies that it has described.

    New policies are placed in it without refitting: ``space.method.describe(data)``.
    """

    method: Characterization
    descriptions: Descriptions
    positions: NDArray[np.float64] | None = None  # (n_policies, 2) on the map; NaN if not placed
    collected: Mapping[str, Any] = field(default_factory=dict)  # how the states were collected
    n_reference: int = 0  # policies, the last ones, from an earlier space, shown for reference
    # Every policy of the fit has 99 % of its states within this distance of a region, see
    # `pivec.explanations.outside`; NaN if not known.
    reach: float = math.nan
    n_placed: int = 0  # policies, before those for reference, that were added after the fit

    def __repr__(self) -> str:
        return f"Space({len(self.descriptions)} policies by {self.method.name})"

    @property
    def is_reference(self) -> list[bool]:
        """Whether each policy comes from an earlier space."""
        n = len(self.descriptions)
        return [i >= n - self.n_reference for i in range(n)]

    @property
    def is_placed(self) -> list[bool]:
        """Whether each policy was added after the fit."""
        last = len(self.descriptions) - self.n_reference
        return [last - self.n_placed <= i < last for i in range(len(self.descriptions))]

    def save(self, folder: str | Path) -> None:
        """Write the space to a folder, replacing an older one atomically."""
        path = Path(folder)
        make_folder(path)
        described = self.descriptions
        arrays = {f"learned.{k}": v for k, v in self.method.fitted_arrays().items()}
        arrays |= {f"described.{k}": v for k, v in described.arrays.items()}
        arrays |= {f"summary.{name}": getattr(described, name) for name in SUMMARY}
        whole = {"vectors": described.vectors, "points": described.points}
        whole["positions"] = self.positions
        arrays |= {name: array for name, array in whole.items() if array is not None}
        index = {
            "format": FORMAT,
            "method": self.method.name,
            "parameters": json.loads(self.method.parameters_json()),
            "feature_names": self.method.feature_names_,
            "policies": [vars(info) for info in described.policies],
            "collected": dict(self.collected),
            "n_reference": self.n_reference,
            "n_placed": self.n_placed,
            "reach": self.reach if math.isfinite(self.reach) else None,
            "sha256": _checksum(arrays),
        }
        text = json.dumps(index)
        # Index and arrays in one file, so that they can never belong to different spaces.
        arrays["index"] = np.frombuffer(text.encode(), dtype=np.uint8)
        with atomic_write(path / _ARRAYS) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        with atomic_write(path / _INDEX, "w") as copy:
            copy.write(text if len(described) > _LINES else json.dumps(index, indent=1))

    @staticmethod
    def exists(folder: str | Path) -> bool:
        """Return whether a space was saved to ``folder``, which may be there without one."""
        return Path(folder, _ARRAYS).exists()

    @classmethod
    def load(cls, folder: str | Path) -> Space:
        """Read a space that `save` wrote, also from the output folder of `pivec compare`."""
        path = Path(folder)
        if not cls.exists(path) and cls.exists(path / "space"):
            path = path / "space"
        if not cls.exists(path):
            raise UsageError(
                f"{folder} holds no space: expected a folder with {_ARRAYS}, as `pivec compare` "
                "leaves it"
            )
        try:
            with open_regular(path / _ARRAYS) as file:
                size = os.fstat(file.fileno()).st_size
                arrays = unpack_npz(file, Budget(size, str(path)), "biufU")
            index = json.loads(arrays.pop("index").tobytes())
            if int(index["format"]) > FORMAT:
                raise BadStore(
                    f"{path} has format {index['format']}, but this version of pivec reads up to "
                    f"{FORMAT}: upgrade pivec"
                )
            # The archive has a checksum of each array, but not of their names.
            if index["sha256"] != _checksum(arrays):
                raise ValueError("it does not match its checksum")
            return cls._build(index, arrays)
        except BadStore:
            raise
        except Exception as error:  # damage to an archive raises all kinds
            raise BadStore(f"{path} is damaged ({error!r}): create it again") from error

    @classmethod
    def _build(cls, index: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Space:
        def part(prefix: str) -> dict[str, NDArray[Any]]:
            names = (name for name in arrays if name.startswith(prefix))
            return {name.removeprefix(prefix): arrays[name] for name in names}

        method = characterization(index["method"], **index["parameters"])
        method.restore(tuple(index["feature_names"]), part("learned."))
        described = Descriptions(
            method.name,
            tuple(PolicyInfo(**info) for info in index["policies"]),
            arrays.get("vectors"),
            arrays.get("points"),
            part("described."),
            *(arrays[f"summary.{name}"] for name in SUMMARY),
        )
        return cls(
            method,
            described,
            arrays.get("positions"),
            index["collected"],
            int(index["n_reference"]),
            math.nan if index["reach"] is None else float(index["reach"]),
            int(index["n_placed"]),
        )


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def grown_space(space: Space, new: Descriptions, infos: Sequence[PolicyInfo]) -> Space:
    """Add new policies to a space, without positions on the map yet.

    ``infos`` are all current policies with their current names. Rows are those of the fit, then
    added ones by name, then those for reference. A policy that no longer exists, because its file
    was overwritten, is left out; but if the space was fitted on it, it stays for reference.
    """
    both = space.descriptions + new
    current = {info.identity: info for info in infos}
    is_there = np.array([info.identity in current for info in both.policies])
    is_placed = np.array([*space.is_placed, *[True] * len(new)])
    is_reference = np.array([*space.is_reference, *[False] * len(new)])
    fitted = np.flatnonzero(~is_placed & ~is_reference & is_there)
    added = np.flatnonzero(is_placed & is_there)
    rest = np.flatnonzero(is_reference | (~is_placed & ~is_there))
    by_name = [natural_key(current[both.policies[i].identity].label) for i in added]
    added = added[sorted(range(len(added)), key=by_name.__getitem__)]
    taken = {info.label for info in infos}
    policies = [current[both.policies[i].identity] for i in (*fitted, *added)]
    for i in rest:
        info = both.policies[i]
        clash = info.label in taken
        policies.append(replace(info, label=info.label + _EARLIER) if clash else info)
    order = np.concatenate([fitted, added, rest])
    positions = None
    if space.positions is not None:
        positions = np.concatenate([space.positions, np.full((len(new), 2), np.nan)])[order]
    return replace(
        space,
        descriptions=replace(both.select(order), policies=tuple(policies)),
        positions=positions,
        n_reference=len(rest),
        n_placed=len(added),
    )


def space_beside(earlier: Space, described: Descriptions) -> Space:
    """Put new policies before those of an earlier space; of a policy in both, keep the new one."""
    new = {*described.labels, *(info.identity for info in described.policies)}
    known = [
        i
        for i, info in enumerate(earlier.descriptions.policies)
        if info.label not in new and info.identity not in new
    ]
    positions = None
    if earlier.positions is not None:
        unplaced = np.full((len(described), 2), np.nan)
        positions = np.concatenate([unplaced, earlier.positions[known]])
    both = described + earlier.descriptions.select(known)
    context = earlier.collected, len(known), earlier.reach, len(described)
    return Space(earlier.method, both, positions, *context)
