"""Formats of policy files: which reader reads which extension, and what a reader gets.

A reader is a function from the bytes of a file and a `Beside` (what lies beside the file, and what
the user allows it) to a policy and what the file tells about it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import Budget, naming, read_regular
from pivec.policies.policy import Policy

# -----------------------------------------------------------------------------
# What no reader can read, named for what it is: signs of well-known files, and the next step.


EXPORT = "export the policy as ONNX, or pass a function that asks it as module:object"
TENSORFLOW = f"of TensorFlow, which pivec does not read: {EXPORT}"
PICKLE = r".*\.(pkl|pickle|p)|[^.]*"
OLD = (
    "a model of Stable-Baselines 2, of the days of TensorFlow 1: load it there and save its "
    "weights as .npz with a .json beside"
)
# Pattern of a file's name, pattern of what is in it, and what it is then.
SIGNS = {
    (r"saved_model\.pb|keras_metadata\.pb", ""): f"a SavedModel {TENSORFLOW}",
    (r"(tf_)?ckpt[.-]\d+(\.index)?|sentinel_checkpoint_complete.*", ""): (
        f"part of a checkpoint {TENSORFLOW} (Dopamine and Acme write such ones)"
    ),
    (r".*\.(index|meta|data-\d+-of-\d+)", ""): f"part of a checkpoint {TENSORFLOW}",
    (r".*\.keras", ""): f"a Keras model, which is {TENSORFLOW}",
    (r".*\.(h5|hdf5)", "model_weights|keras_version"): f"a Keras model, which is {TENSORFLOW}",
    (r".*\.(h5|hdf5)", ""): "no policy but an HDF5 file: `pivec import` takes recorded episodes",
    (r".*\.zip", "parameter_list"): OLD,
    (PICKLE, r"stable_baselines\.|cloudpickle.*stable_baselines/"): OLD,
    (PICKLE, r"stable_baselines3\.common\.buffers|tianshou\.data\.buffer|[a-z.]*ReplayBuffer"): (
        "a replay buffer and no policy: leave it out"
    ),
    (PICKLE, r"stable_baselines3\.common\.vec_env\.vec_normalize"): (
        "no policy but the statistics of VecNormalize, which are found beside checkpoints: leave "
        "it out"
    ),
    (rf"{PICKLE}|.*\.ckpt", "dyn/|wm/rssm"): (
        "a checkpoint of DreamerV3, whose policy acts on the state of a world model: pass a "
        "function that asks it as module:object"
    ),
    (r".*\.(pt|pth|ckpt)", r"^(?!.*\.weight).*param_groups"): (
        "the state of an optimiser and no policy: pass the file that has the weights"
    ),
}
ENDS = 1 << 20  # bytes at the beginning and at the end that are searched


def known_as(path: Path, data: bytes) -> str:
    """Say what a file is that no reader reads; empty if it is nothing that is known.

    Examples
    --------
    >>> known_as(Path("model/saved_model.pb"), b"")[:26]
    'a SavedModel of TensorFlow'
    """
    text = (data[:ENDS] + data[ENDS:][-ENDS:]).decode("latin1")
    for (name, content), what in SIGNS.items():
        if re.fullmatch(name, path.name) and re.search(content, text, re.DOTALL):
            return what
    return ""


MAX_BYTES, MAX_BYTES_BESIDE = 1 << 30, 1 << 26
_CLOCK_NS = 2_000_000_000  # coarsest resolution of file times
JSON_ITEM = 72  # bytes of an empty list and its place in another one
FOLDER_DESCRIPTION = "policies.json"
PICKLES = (".pkl", ".pickle")
ASSUMED = "assumed"  # what had to be assumed of a policy, in its metadata
AMBIGUOUS = frozenset({".npy", ".npz", *PICKLES})
"""Files that are often something else: in a folder, only those with a description count."""
TUNE = "result.json"  # Ray Tune keeps it beside params.json and params.pkl, which is no policy

FORMATS: dict[str, str] = {
    ".zip": "pivec.policies.formats.sb3:read_sb3",
    ".safetensors": "pivec.policies.formats.safetensors:read_policy",
    ".npy": "pivec.policies.formats.safetensors:read_npy",
    ".npz": "pivec.policies.formats.safetensors:read_npz",
    ".cleanrl_model": "pivec.policies.formats.cleanrl:read_cleanrl",
    ".pth": "pivec.policies.formats.cleanrl:read_cleanrl",
    ".pt": "pivec.policies.formats.torchscript:read_pt",
    ".pt2": "pivec.policies.formats.torchscript:read_pt2",
    ".onnx": "pivec.policies.formats.onnx:read_onnx",
    ".neat": "pivec.policies.formats.neat:read_genome",
    **dict.fromkeys(PICKLES, "pivec.policies.formats.pickled:read_pickle"),
    ".msgpack": "pivec.policies.formats.jax:read_flax",
    "_METADATA": "pivec.policies.formats.jax:read_orbax",
    "module_state.pkl": "pivec.policies.formats.rllib:read_rllib",
    "policy_state.pkl": "pivec.policies.formats.rllib:refuse_old_stack",
}
"""Extension, or the name of the file that makes a folder a policy, -> "module:function" that reads
it, imported when a file asks for it."""

Contents = TypeVar("Contents", bound=tuple[Policy, dict[str, Any]])


def register_format(suffix: str, reader: str) -> None:
    """Let files that end in ``suffix`` be read by ``reader``.

    Parameters
    ----------
    suffix : str
        With its dot, as ".onnx".
    reader : str
        "module:function"; the function takes a file's bytes and a `Beside` (what lies beside the
        file, and whether the user trusts it), and gives a policy and a dictionary about it, whose
        ``step`` is the training step. What it raises is told with the name of the file.

    Examples
    --------
    >>> register_format(".zip", "pivec.policies.formats.sb3:read_sb3")
    """
    if not suffix.startswith(".") or suffix != suffix.lower() or reader.count(":") != 1:
        raise UsageError(
            "a format needs an extension such as '.onnx' and a reader such as 'module:function', "
            f"not {suffix!r} and {reader!r}"
        )
    FORMATS[suffix] = reader


def is_policy_file(path: Path, *, named: bool = True) -> bool:
    """Whether the file can be read as a policy, judged by its extension.

    ``named`` tells whether the user asks for this file (or for all of its extension) by name, and
    does not just mean what policies there may be in a folder.
    """
    suffix = format_of(path)
    if suffix == path.name:  # beside modules that are made of others
        return not any(path.parent.glob(f"*/{path.name}"))
    if path.name == "params.pkl" and not named and (path.parent / TUNE).is_file():
        return False
    if named or suffix not in AMBIGUOUS or path.with_suffix(".json").is_file():
        return suffix in FORMATS
    # What describes a folder is meant for its arrays, and not for pickles of all kinds.
    return suffix not in PICKLES and (path.parent / FOLDER_DESCRIPTION).is_file()


def format_of(path: Path) -> str:
    """Give what the reader of a file is called by: its whole name if that is known, or its end."""
    return path.name if path.name in FORMATS else path.suffix.lower()


def read_file(
    path: Path, trust: bool = False, without_normaliser: bool = False
) -> tuple[Policy, dict[str, Any], str]:
    """Read a policy file of any registered format; see `Beside` for what may be allowed.

    Gives the policy, what the file tells about it, and the policy's fingerprint: that of the
    file's bytes if it has none of its own.
    """
    with readable(path):
        data = read_regular(path, MAX_BYTES)
    reader = FORMATS.get(format_of(path))
    if reader is None and data.startswith(b"\x80") and b"brax.training" in data:
        reader = FORMATS[".pkl"]  # which Brax gives no extension
    if reader is None:
        what = known_as(path, data)
        raise UsageError(
            f"{path} is {what}"
            if what
            else f"{path} has the extension {path.suffix or '(none)'}, which no reader knows: "
            f"expected one of {', '.join(sorted(FORMATS))}"
        )
    if not data:
        raise BadPolicyFile(f"{path} is empty")
    module, _, function = reader.partition(":")
    # The function itself, not the one that `reader` decorated: the file is named here.
    read = inspect.unwrap(getattr(importlib.import_module(module), function))
    beside = Beside(path, trust, without_normaliser, str(path))
    try:
        with about(str(path)):
            policy, metadata = read(data, beside)
            fingerprint = str(
                getattr(policy, "fingerprint", "") or hashlib.sha256(data).hexdigest()
            )
    except BadPolicyFile as error:
        if what := known_as(path, data):
            raise BadPolicyFile(f"{path} is {what}") from error
        raise
    if beside.assumed:
        metadata = {**metadata, ASSUMED: list(beside.assumed)}
    return policy, metadata, fingerprint


@contextlib.contextmanager
def about(name: str) -> Iterator[None]:
    """Turn whatever goes wrong inside into an error that names the file.

    Errors inside are clauses that speak of the file as "it".
    """
    with naming(name, "a policy"):
        try:
            yield
        except (BadPolicyFile, UsageError) as error:
            raise BadPolicyFile(f"{name} cannot be read: {error}") from error


def reader(read: Callable[[bytes, Beside], Contents]) -> Callable[..., Contents]:
    """Decorate a function from a file's bytes and what lies beside it to a policy and its info.

    The decorated one takes the bytes, what error messages call the file, and maybe a `Beside`.
    """

    @functools.wraps(read)
    def call(data: bytes, name: str = "the file", beside: Beside | None = None) -> Contents:
        with about(name):
            return read(data, beside or Beside(name=name))

    return call


@dataclass(frozen=True)
class Beside:
    """The neighbours of a policy file, and what the user allows it.

    Examples
    --------
    >>> Beside().names(), Beside().description()
    ([], None)
    """

    path: Path | None = None  # None if the file is in memory and nothing lies beside it
    trust: bool = False  # whether code in the file may run
    without_normaliser: bool = False  # whether to act without statistics known to be needed
    name: str = "the file"  # what messages call it
    assumed: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def stem(self) -> str:
        """Name of the policy file without its extension."""
        return "" if self.path is None else self.path.stem

    def names(self, pattern: str = ".*") -> list[str]:
        """Names in its folder that match a regular expression, sorted; folders end in a slash."""
        if self.path is None:
            return []
        folder = str(self.path.parent)
        with readable(folder):
            changed = os.stat(folder).st_mtime_ns
            # A folder of thousands of checkpoints is not listed again for each of them, unless it
            # changed so recently that another change may leave its time as it is.
            settled = time.time_ns() - changed > _CLOCK_NS
            names = (_cached_listing if settled else _listing)(folder, changed, pattern)
        return [name for name in names if name != self.path.name]

    def read(self, name: str) -> bytes | None:
        """Read a file in the same folder, or near it (``../name``); None if there is none."""
        if self.path is None:
            return None
        path = self.path.parent / name
        with readable(path):
            try:
                data = read_regular(path, MAX_BYTES_BESIDE)
            except FileNotFoundError:
                return None
        return data

    def description(self) -> dict[str, Any] | None:
        """Give what JSON files beside it say of the policy; None without any.

        ``policies.json`` describes all policies of its folder; the file of the same name that ends
        in .json has the last word, key by key.
        """
        description: dict[str, Any] | None = None
        for file in dict.fromkeys((FOLDER_DESCRIPTION, f"{self.stem}.json")):
            data = self.read(file)
            if data is not None:
                with about(f"{file} beside it"):
                    description = (description or {}) | read_json(data)
        return description

    def assume(self, what: str) -> None:
        """Note what had to be assumed: a clause without the name of the file.

        Files of which the same is assumed are named together, once.
        """
        if what not in self.assumed:
            self.assumed.append(what)

    def demand_trust(self, what: str) -> None:
        """Refuse a file that can run code unless the user trusts it."""
        if not self.trust:
            raise BadPolicyFile(
                f"it {what}, and loading it can run any code that is in it: if you trust where it "
                "comes from, allow that with --trust (in Python: trust=True)"
            )


@contextlib.contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Turn what the operating system refuses into an error that names the path."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _listing(folder: str, changed: int, pattern: str) -> tuple[str, ...]:  # noqa: ARG001
    with os.scandir(folder) as entries:
        names = sorted(entry.name + "/" * entry.is_dir() for entry in entries)
    return tuple(name for name in names if re.fullmatch(pattern, name))


_cached_listing = functools.lru_cache(maxsize=16)(_listing)


def read_json(data: bytes | bytearray, budget: Budget | None = None) -> dict[str, Any]:
    """Read a JSON object."""
    items = data.count(b",") + data.count(b"[") + data.count(b"{")
    (budget or Budget(len(data), "it")).spend(JSON_ITEM * items)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadPolicyFile(f"it is no valid JSON ({str(error)[:200]})") from error
    if not isinstance(value, dict):
        raise BadPolicyFile(f"it must hold a JSON object, not {type(value).__name__}")
    return value
