"""A fitted characterization on disk, with the policies it has described and their map."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import ne
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Characterization, characterization
from pivec.characterizations.descriptions import SUMMARY, Descriptions, encode_influences
from pivec.errors import BadStore, UsageError
from pivec.files import Budget, atomic_write, broken_link, make_folder, open_regular
from pivec.policies import PolicyInfo, natural_key, unpack_npz

FORMAT = 3
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
                broken_link(folder)
                or f"{folder} holds no space: expected a folder with {_ARRAYS}, as `pivec compare` "
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
            if index["method"] == "visitation" and "of" not in index["parameters"]:
                raise BadStore(
                    f"{path} was made by an earlier version of pivec, which described states "
                    "without their steps: compare the policies again"
                )
            # The archive has a checksum of each array, but not of their names.
            if index["sha256"] != _checksum(arrays):
                raise ValueError("it does not match its checksum")
            if int(index["format"]) < 3 and (name := "described.influences") in arrays:
                floats, starts = arrays[name], arrays[name + ".starts"]
                arrays[name], arrays[name + ".scale"] = encode_influences(floats, starts)
            return cls._build(index, arrays)
        except BadStore:
            raise
        except Exception as error:  # damage to an archive raises all kinds
            raise BadStore(f"{path} is damaged ({error!r}): create it again") from error

    @classmethod
    def _build(cls, index: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Space:
        _check_index(index)

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
        _check_arrays(method, arrays, len(described))
        method.check_descriptions(described)
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


# A checksum only shows that a file is as it was written, maybe by someone else. Arrays of another
# type or shape would raise arbitrary errors, or be broadcast to wrong results.

_INDEX_TYPES = {
    "method": str,
    "parameters": dict,
    "feature_names": list,
    "policies": list,
    "collected": dict,
    "n_reference": int,
    "n_placed": int,
    "reach": float | int | None,
}
_INFO_TYPES = {
    "label": str,
    "group": str,
    "step": int | None,
    "source": str,
    "metadata": dict,
    "fingerprint": str,
}
# The arrays of every space; `Characterization.layout` has those of a method. An array has a dtype,
# what must hold for all of its values ("~": they may be NaN), and its shape. Upper-case letters
# are sizes: P policies, F features, others are the same wherever they stand; "*" is a packed array,
# see `descriptions.py`. Arrays with "?" may be missing.
_LAYOUT = {
    "summary.mean_returns": "f8~ P",
    "summary.return_stds": "f8~ P",
    "summary.n_episodes": "i8>0 P",
    "summary.n_states": "i8>0 P",
    "vectors": "?f8 P V",
    "points": "?f8 P C",
    "positions": "?f8~ P 2",
    "described.influences": "?i2 *E I",
    "described.influences.scale": "?f8>0 P",
    "described.effective_episodes": "?f8>0 P",
    "described.strata": "?i8 P E",
}
_ARRAY = re.compile(r"(\??)(U|[biuf]\d)([^ ]*)(.*)")
_CONDITIONS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "": np.isfinite,
    "~": lambda _: True,
    ">0": lambda values: np.isfinite(values) & (values > 0),
    ">=0": lambda values: np.isfinite(values) & (values >= 0),
    "=1": lambda values: (values >= 0).all() & np.isclose(values.sum(axis=-1), 1.0),
}


def _check_index(index: Mapping[str, Any]) -> None:
    def check(name: str, value: Any, kind: Any) -> None:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}")

    for name, kind in _INDEX_TYPES.items():
        check(name, index[name], kind)
    for name in index["feature_names"]:
        check("the name of a feature", name, str)
    for info in index["policies"]:
        check("a policy", info, dict)
        for name, kind in _INFO_TYPES.items():
            check(f"the {name} of a policy", info[name], kind)
    labels = [info["label"] for info in index["policies"]]
    if len(set(labels)) < len(labels):
        raise ValueError("two policies have the same label")
    n_reference, n_placed, reach = (index[key] for key in ("n_reference", "n_placed", "reach"))
    if min(n_reference, n_placed) < 0 or n_reference + n_placed > len(labels):
        raise ValueError(f"{n_reference} and {n_placed} of {len(labels)} policies were added")
    if reach is not None and not 0 <= reach < math.inf:
        raise ValueError(f"reach is {reach}")


def _check_arrays(method: Characterization, arrays: Mapping[str, NDArray[Any]], n: int) -> None:
    layout = _LAYOUT | method.layout
    sizes = method.array_sizes() | {"P": n}
    if (coordinates := arrays.get(method.traits.coordinates)) is not None:
        sizes["I"] = coordinates.shape[-1]
    starts: dict[str, NDArray[Any]] = {}  # of packed arrays, by letter

    def size(dim: str, found: int) -> int:
        def factor(name: str) -> int:
            if name.isdecimal():
                return int(name)
            return sizes[name] if name.isupper() else int(getattr(method, name))

        if dim.isupper() and len(dim) == 1:
            return sizes.setdefault(dim, found)
        return sum(math.prod(map(factor, product.split("*"))) for product in dim.split("+"))

    unknown = set(arrays) - layout.keys()
    for name, text in layout.items():
        optional, kind, condition, shape = _ARRAY.fullmatch(text).groups()  # type: ignore[union-attr]
        if name not in arrays:
            if optional:
                continue
            raise ValueError(f"{name} is missing")
        values, dims = arrays[name], shape.split()
        if kind == "U" != values.dtype.kind or (kind != "U" and values.dtype != np.dtype(kind)):
            raise ValueError(f"{name} has values of type {values.dtype}")
        if dims and dims[0][0] == "*":
            own = arrays[name + ".starts"]
            unknown.discard(name + ".starts")
            is_sound = own.dtype == np.int64 and own.shape == (n + 1,) and own[0] == 0
            if not is_sound or own[-1] != len(values) or (np.diff(own) <= 0).any():
                raise ValueError(f"{name}.starts does not fit {name}")
            if not np.array_equal(starts.setdefault(dims[0], own), own):
                raise ValueError(f"{name} has other numbers of rows than related arrays")
            dims[0] = str(len(values))
        if len(dims) != values.ndim or any(map(ne, map(size, dims, values.shape), values.shape)):
            raise ValueError(f"{name} has shape {values.shape}")
        if kind != "U" and not np.all(_CONDITIONS[condition](values)):
            raise ValueError(f"{name} has invalid values")
    if unknown:
        raise ValueError(f"unknown arrays {', '.join(sorted(unknown))}")
    if "described.influences" in arrays:
        for name in ("described.influences.scale", "described.effective_episodes"):
            if name not in arrays:
                raise ValueError(f"{name} is missing")
    if (strata := arrays.get("described.strata")) is not None:
        counts = np.diff(arrays["described.influences.starts"])
        if (strata != strata[0]).any() or (counts != strata.shape[1]).any():
            raise ValueError("strata do not fit the episodes")


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
