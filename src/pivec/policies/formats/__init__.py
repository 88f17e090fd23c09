"""Formats of policy files: the registry of readers, and what a reader gets.

A reader is a function from the bytes of a file and its `CheckpointFiles` (the files next to it, and
what the user allows) to a policy and a dictionary about it. One module per library: `sb3` (with
`rl_zoo`), `torch` (CleanRL, PufferLib, rl_games, rsl_rl, skrl, Tianshou, TorchScript), `torchrl`,
`d3rlpy`, `jax` (Flax, Brax, Orbax), `rllib`, `onnx`, `neat`; `described`: networks described by a
JSON file.
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
from typing import Any

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import Budget, naming, read_regular
from pivec.policies.policy import Policy
from pivec.terminal import printable

MAX_BYTES, MAX_SIBLING_BYTES = 1 << 30, 1 << 26
MAX_MESSAGE = 2000  # characters of an error
JSON_ITEM = 72  # bytes of an empty list and its place in another one
FOLDER_DESCRIPTION = "policies.json"
PICKLES = (".pkl", ".pickle")
ASSUMED = "assumed"  # key of the assumptions in a policy's metadata
AMBIGUOUS = frozenset({".npy", ".npz", *PICKLES})
"""Files that are often something else: in a folder, only those with a description count."""
TUNE = "result.json"  # Ray Tune keeps it next to params.pkl, which is not a policy
BESIDE = ("trainer_state.pt", "train_eval_metrics.zip")  # policies of PufferLib and RL Zoo
_CLOCK_NS = 2_000_000_000  # coarsest resolution of file times

FORMATS: dict[str, str] = {
    ".zip": "pivec.policies.formats.sb3:read_sb3",
    ".safetensors": "pivec.policies.formats.described:read_policy",
    ".npy": "pivec.policies.formats.described:read_npy",
    ".npz": "pivec.policies.formats.described:read_npz",
    ".cleanrl_model": "pivec.policies.formats.torch:read_state_dict",
    ".pth": "pivec.policies.formats.torch:read_state_dict",
    ".pt": "pivec.policies.formats.torch:read_pt",
    ".d3": "pivec.policies.formats.d3rlpy:read_d3rlpy",
    ".pt2": "pivec.policies.formats.torch:read_pt2",
    ".onnx": "pivec.policies.formats.onnx:read_onnx",
    ".neat": "pivec.policies.formats.neat:read_genome",
    **dict.fromkeys(PICKLES, "pivec.policies.formats.neat:read_pickled_genome"),
    ".msgpack": "pivec.policies.formats.jax:read_flax",
    "manifest.json": "pivec.policies.formats.torchrl:read_folder",
    "_METADATA": "pivec.policies.formats.jax:read_orbax",
    "module_state.pkl": "pivec.policies.formats.rllib:read_rllib",
    "policy_state.pkl": "pivec.policies.formats.rllib:reject_old_stack",
}
"""Extension, or name of the file that makes a folder a policy -> "module:function"."""
# Pickles with any or no extension: text in them, and the reader of the first one that has it.
PICKLED = {
    b"brax.training": "pivec.policies.formats.jax:read_brax",
    b"neat.": FORMATS[".pkl"],
    **dict.fromkeys((b"jax", b"flax", b"numpy"), "pivec.policies.formats.jax:read_pickled_arrays"),
}

TORCHRL = b"components/0000-"  # beginning of the first name in an archive

# Well-known files without a reader: pattern of the name, pattern of the content, what they are.
# Contents are hostile: a pattern with `.*` must start with ^, or its time is quadratic.
EXPORT = "export the policy as ONNX, or pass a function that calls it as module:object"
TENSORFLOW = f"of TensorFlow, which pivec does not read: {EXPORT}"
PICKLE = r".*\.(pkl|pickle|p)|[^.]*"
OLD_BASELINES = (
    "a model of Stable-Baselines 2 (TensorFlow 1): load it there and save its weights as .npz with "
    "a .json next to it"
)
UNREADABLE = {
    (r"saved_model\.pb|keras_metadata\.pb", ""): f"a SavedModel {TENSORFLOW}",
    (r"(tf_)?ckpt[.-]\d+(\.index)?|sentinel_checkpoint_complete.*", ""): (
        f"part of a checkpoint {TENSORFLOW} (as Dopamine and Acme write)"
    ),
    (r".*\.(index|meta|data-\d+-of-\d+)", ""): f"part of a checkpoint {TENSORFLOW}",
    (r".*\.keras", ""): f"a Keras model {TENSORFLOW}",
    (r".*\.(h5|hdf5)", "model_weights|keras_version"): f"a Keras model {TENSORFLOW}",
    (r".*\.(h5|hdf5)", ""): "an HDF5 file, not a policy: `pivec import` reads recorded episodes",
    (r".*\.zip", "parameter_list"): OLD_BASELINES,
    (PICKLE, r"stable_baselines\.|^(?=.*cloudpickle).*stable_baselines/"): OLD_BASELINES,
    (PICKLE, r"stable_baselines3\.common\.buffers|tianshou\.data\.buffer|ReplayBuffer"): (
        "a replay buffer, not a policy: leave it out"
    ),
    (PICKLE, r"stable_baselines3\.common\.vec_env\.vec_normalize"): (
        "the statistics of VecNormalize, which are found next to checkpoints, not a policy: leave "
        "it out"
    ),
    (rf"{PICKLE}|.*\.ckpt", "dyn/|wm/rssm"): (
        "a checkpoint of DreamerV3, whose policy acts on the state of a world model: pass a "
        "function that calls it as module:object"
    ),
    (PICKLE, r"^PK\x03\x04.*/data\.pkl"): "a file of torch.save: rename it, so that it ends in .pt",
    (PICKLE, r"torch\.storage|torch\._utils"): (
        "a pickle of tensors or modules of torch: save model.state_dict() with torch.save as .pt"
    ),
    (r".*\.(pt|pth|ckpt)", r"^(?!.*\.weight).*param_groups"): (
        "the state of an optimiser, not a policy: pass the file that has the weights"
    ),
}
SEARCHED_BYTES = 1 << 20  # at the beginning and at the end

Read = tuple[Policy, dict[str, Any]]  # what a reader returns: a policy, and facts about it


def register_format(suffix: str, reader: str) -> None:
    """Register the reader of files that end in ``suffix``.

    Parameters
    ----------
    suffix : str
        With its dot, as ".onnx".
    reader : str
        "module:function"; the function takes a file's bytes and its `CheckpointFiles`, and returns
        a policy and a dictionary about it, whose ``step`` is the training step. Its errors are
        reported with the name of the file.

    Examples
    --------
    >>> register_format(".zip", "pivec.policies.formats.sb3:read_sb3")
    """
    if not suffix.startswith(".") or suffix != suffix.lower() or reader.count(":") != 1:
        raise UsageError(f"expected '.extension' and 'module:function', not {suffix!r}, {reader!r}")
    FORMATS[suffix] = reader


def is_policy_file(path: Path, *, named: bool = True) -> bool:
    """Whether a file can be read as a policy, judged by its name.

    ``named`` says whether the user asks for this file (or its extension) by name, or for whatever
    policies a folder holds.
    """
    suffix = format_of(path)
    if path.name == "manifest.json":
        return (path.parent / "components").is_dir()
    if suffix == path.name:  # a module that is made of others is not a policy itself
        return not any(path.parent.glob(f"*/{path.name}"))
    if not named and _belongs_to_another(path):
        return False
    if named or suffix not in AMBIGUOUS or path.with_suffix(".json").is_file():
        return suffix in FORMATS
    # A folder's description applies to its arrays, not to pickles of all kinds.
    return suffix not in PICKLES and (path.parent / FOLDER_DESCRIPTION).is_file()


def _belongs_to_another(path: Path) -> bool:
    """Whether a file is part of a run or a checkpoint, and not a policy itself."""
    folder = path.parent
    return (
        path.name in BESIDE
        or re.match(r"policy_(pre|post)processor", path.name) is not None
        or (path.name == "params.pkl" and (folder / TUNE).is_file())
        or (path.suffix == ".pth" and (folder / "_stable_baselines3_version").is_file())  # unpacked
        or (folder.parent.name == "components" and (folder.parents[1] / "manifest.json").is_file())
    )


def format_of(path: Path) -> str:
    """Key of a file in `FORMATS`: its name, or its extension."""
    return path.name if path.name in FORMATS else path.suffix.lower()


def read_file(
    path: Path, trust: bool = False, without_normaliser: bool = False
) -> tuple[Policy, dict[str, Any], str]:
    """Read a policy file of any registered format.

    Returns the policy, its metadata and its fingerprint: the digest of the file if the policy has
    none of its own.
    """
    with readable(path):
        data = read_regular(path, MAX_BYTES)
    name = FORMATS.get(format_of(path))
    if (name is None or format_of(path) in PICKLES) and data.startswith(b"\x80"):
        name = next((read for text, read in PICKLED.items() if text in data), name)
    if data.startswith(b"PK") and data[30:].startswith(TORCHRL):
        name = "pivec.policies.formats.torchrl:read_archive"
    if name is None:
        other = f"of no known format: expected one of {', '.join(sorted(FORMATS))}"
        raise UsageError(f"{path} is {well_known(path, data) or other}")
    if not data:
        raise BadPolicyFile(f"{path} is empty")
    module, _, function = name.partition(":")
    # Without the decorator `reader`: the file is named here.
    read = inspect.unwrap(getattr(importlib.import_module(module), function))
    files = CheckpointFiles(path, trust, without_normaliser, str(path))
    try:
        with about(str(path)):
            policy, metadata = read(data, files)
            own = getattr(policy, "fingerprint", "")
            fingerprint = str(own or hashlib.sha256(data).hexdigest())
    except BadPolicyFile as error:
        if what := well_known(path, data):
            raise BadPolicyFile(f"{path} is {what}") from error
        raise
    if files.assumed:
        metadata = {**metadata, ASSUMED: list(files.assumed)}
    return policy, metadata, fingerprint


def well_known(path: Path, data: bytes) -> str:
    """What a file without a reader is; empty if unknown."""
    text = (data[:SEARCHED_BYTES] + data[SEARCHED_BYTES:][-SEARCHED_BYTES:]).decode("latin1")
    for (name, content), what in UNREADABLE.items():
        if re.fullmatch(name, path.name) and re.search(content, text, re.DOTALL):
            return what
    return ""


@contextlib.contextmanager
def about(name: str) -> Iterator[None]:
    """Turn any error inside into a BadPolicyFile that names the file.

    Errors inside are clauses that refer to the file as "it".
    """
    with naming(name, "a policy"):
        try:
            yield
        except (BadPolicyFile, UsageError) as error:
            # Text of the file in it may be long, and hold control characters.
            what = printable(str(error)[:MAX_MESSAGE])
            raise BadPolicyFile(f"{name} cannot be read: {what}") from error


@contextlib.contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Turn errors of the operating system into a UsageError that names the path."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def reader(read: Callable[[bytes, CheckpointFiles], Read]) -> Callable[..., Any]:
    """Decorate a reader, so that it can also be called without a file on disk, by name."""

    @functools.wraps(read)
    def call(data: bytes, name: str = "the file", files: CheckpointFiles | None = None) -> Read:
        with about(name):
            return read(data, files or CheckpointFiles(name=name))

    return call


@dataclass(frozen=True)
class CheckpointFiles:
    """The files next to a policy file, and what the user allows."""

    path: Path | None = None  # None if the file is in memory
    trust: bool = False  # whether code in the file may run
    without_normaliser: bool = False  # whether required statistics may be missing
    name: str = "the file"  # for messages
    assumed: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def stem(self) -> str:
        """Name of the policy file without its extension."""
        return "" if self.path is None else self.path.stem

    def names(self, pattern: str = ".*") -> list[str]:
        """Sorted names in the folder that match a regular expression; folders end in a slash."""
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
                return read_regular(path, MAX_SIBLING_BYTES)
            except FileNotFoundError:
                return None

    def description(self) -> dict[str, Any] | None:
        """Read the JSON description of the policy; None if there is none.

        ``policies.json`` describes all policies of its folder; the .json file of the same name
        overrides it, key by key.
        """
        description: dict[str, Any] | None = None
        for file in dict.fromkeys((FOLDER_DESCRIPTION, f"{self.stem}.json")):
            data = self.read(file) if self.path and file != self.path.name else None
            if data is not None:
                with about(f"{file} next to it"):
                    description = (description or {}) | read_json(data)
        return description

    def assume(self, what: str, key: str = "") -> None:
        """Note an assumption, a clause without the name of the file, and the ``key`` to change it.

        Files with the same assumption are reported together.
        """
        what += f"; set {key} in a .json next to it to change this" if key else ""
        if what not in self.assumed:
            self.assumed.append(what)

    def demand_trust(self, what: str) -> None:
        """Reject a file that can run code unless the user trusts it."""
        if not self.trust:
            raise BadPolicyFile(
                f"it {what}, and loading it can run any code in it: if you trust its source, allow "
                "that with --trust (in Python: trust=True)"
            )


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
        raise BadPolicyFile(f"it is not valid JSON ({str(error)[:200]})") from error
    if not isinstance(value, dict):
        raise BadPolicyFile(f"it must hold a JSON object, not {type(value).__name__}")
    return value
