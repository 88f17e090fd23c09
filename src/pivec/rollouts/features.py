"""``features=``: what a state is, instead of the flattened observation.

Grey cells of images, encoders in files, the last hidden layer of a policy, values of ``info`` or of
the environment, or a function of the user's. All are called with a batch of observations (and infos
and environments if they take them) and return an array (n, n_features). A store keeps their JSON
description (`features_to_json`), from which `features_from_json` finds them again.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, check_arguments
from pivec.errors import (
    BadData,
    BadPolicyFile,
    PivecError,
    PivecWarning,
    UsageError,
    did_you_mean,
)
from pivec.files import digest_of, read_regular
from pivec.options import Features
from pivec.parallel import require_torch
from pivec.policies import (
    ENCODER,
    NamedPolicy,
    NetworkPolicy,
    about,
    first_names,
    import_object,
    name_policies,
    natural_key,
    read_safetensors,
    row_by_row,
    tensor_bytes,
    user_code,
)
from pivec.rollouts import observations as spaces
from pivec.rollouts.environment import (
    callable_to_json,
    split_arguments,
)

if TYPE_CHECKING:
    from pivec.policies import ImageFeatures

Inputs = tuple[Any, ...]  # batch of observations; where known, infos and environments (lists)
FindPolicy = Callable[[str, str], NamedPolicy]  # by source and fingerprint
SUFFIXES = (".safetensors", ".onnx", ".pt", ".pt2", ".pth")  # of encoders
POLICY = "policy"
_INPUTS = ("observations", "infos", "environments")
_VERSION = "1"  # of encoder files
_MOST_PIXELS = 1 << 16  # of a side
_DIGITS = 16  # of an encoder's SHA-256
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601, as most tools


def n_inputs(features: Features | None) -> int:
    """Number of inputs that features take: observations, infos (2) and environments (3)."""
    own = getattr(features, "n_inputs", None)
    if features is None or isinstance(own, int):
        return own or 1
    try:
        parameters = inspect.signature(features).parameters.values()
    except (ValueError, TypeError):  # some functions written in C have no signature
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(p.kind in positional and p.default is p.empty for p in parameters)
    return min(max(needed, 1), len(_INPUTS))


def _call(features: Features, inputs: Inputs) -> Any:
    """Call features with the inputs they take."""
    n = n_inputs(features)
    if n > len(inputs):
        raise UsageError(
            f"features take {', '.join(_INPUTS[:n])}, but only observations are known of these "
            "states: use features of observations only, or run policies in a Gymnasium environment"
        )
    return features(*inputs[:n])


def feature_rows(features: Features, observations: Any, *more: Any) -> NDArray[np.float32]:
    """Turn a batch of observations into rows; ``more`` are infos and environments, where known."""
    n = spaces.batch_length(observations)
    name = getattr(features, "__qualname__", type(features).__qualname__)
    expected = f"expected an array of shape ({n}, n_features)"
    with user_code(f"features ({name}) fail for a batch of {n} observations, {expected}"):
        rows = np.asarray(_call(features, (observations, *more)), dtype=np.float32)
    if rows.ndim != 2 or len(rows) != n or not rows.shape[1]:
        raise BadData(f"features ({name}) returned shape {rows.shape}, {expected}")
    return rows


# ---- states far from zero, see `pivec.rollouts.observations` ----


@dataclass(frozen=True)
class OffsetFeatures:
    """Flattened observations, or other features, minus the offsets of some columns."""

    offsets: tuple[tuple[int, float], ...]
    inner: Features | None
    space: Any = field(repr=False)

    @property
    def n_inputs(self) -> int:
        return n_inputs(self.inner)

    @property
    def late_columns(self) -> list[int]:
        return list(getattr(self.inner, "late_columns", ()))

    def __call__(self, *inputs: Any) -> NDArray[np.float64]:
        """Turn a batch into rows, still in double precision."""
        rows = np.array(_wide_rows(self.space, self.inner, inputs), dtype=np.float64)
        for column, offset in self.offsets:
            rows[:, column] -= offset
        return rows

    def to_json(self) -> dict[str, Any]:
        offsets = [list(pair) for pair in self.offsets]
        return {"kind": "offset", "offsets": offsets, "of": features_to_json(self.inner)}


def with_offsets(space: Any, features: Features | None, *inputs: Any) -> Features | None:
    """Features that keep what float32 would lose, judged by a batch of one first observation."""
    if features is None and not spaces.has_wide_parts(space):
        return None
    rows = _wide_rows(space, features, inputs)
    if not spaces.is_wide(rows.dtype):
        return features
    far = np.flatnonzero(np.isfinite(rows[0]) & (np.abs(rows[0]) >= spaces.FAR))
    offsets = {int(column): float(np.float32(rows[0, column])) for column in far}
    return OffsetFeatures(tuple(offsets.items()), features, space) if offsets else features


def _wide_rows(space: Any, features: Features | None, inputs: Inputs) -> NDArray[Any]:
    if features is None:
        return spaces.flatten(space, inputs[0], np.float64)
    return np.asarray(_call(features, inputs))


# ---- values of info and of the environment ----


@dataclass(frozen=True)
class Values:
    """Numbers by name from ``info`` or from ``env``, the environment itself.

    A key is a name, with dots for what is nested (``position.0``, ``data.qpos``). Keys of the
    environment name attributes, also of its wrappers; methods are called. `bind` determines how
    many numbers each key has.

    Examples
    --------
    >>> values = Values("info", ("x", "at.goal"))
    >>> info = {"x": 1.5, "at": {"goal": [True, False]}}
    >>> values(np.zeros((1, 4)), [info], [None])
    array([[1.5, 1. , 0. ]])
    """

    kind: str
    keys: tuple[str, ...]
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    late: tuple[str, ...] = field(default=(), repr=False, compare=False)  # not in reset's info
    n_inputs = 3

    @classmethod
    def parse(cls, spec: str) -> Values:
        """Read ``info:KEY,KEY`` or ``env:KEY``."""
        kind, _, text = spec.partition(":")
        keys = tuple(filter(None, (key.strip() for key in text.split(","))))
        if not keys or len(set(keys)) < len(keys):
            raise UsageError(
                f"features {spec!r} must name distinct values separated by commas, such as "
                "info:x_position,x_velocity"
            )
        return cls(kind, keys)

    @classmethod
    def joint(cls, environment: Any) -> Values:
        """Observations of all agents of a multi-agent environment."""
        env = environment.make()
        env.close()
        return cls("env", tuple(f"joint.{agent}" for agent in env.unwrapped.agents))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers, as far as sizes are known."""
        return tuple(
            key if size == 1 else f"{key}[{i}]"
            for key, size in self.sizes.items()
            for i in range(size)
        )

    @property
    def late_columns(self) -> list[int]:
        """Columns that are missing from reset's info."""
        keys = [key for key, size in self.sizes.items() for _ in range(size)]
        return [i for i, key in enumerate(keys) if key in self.late]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "keys": list(self.keys)}

    def __call__(
        self,
        observations: Any,  # noqa: ARG002 - the signature of features with three inputs
        infos: Sequence[Any],
        environments: Sequence[Any],
    ) -> NDArray[np.float64]:
        """Return the rows of a batch; NaN for what reset's info lacks."""
        rows = []
        for lane, source in enumerate(infos if self.kind == "info" else environments):
            try:
                rows.append(np.concatenate([self._value(source, key) for key in self.keys]))
            except PivecError as error:
                error.lane = lane
                raise
        if len({len(row) for row in rows}) > 1:
            raise BadData(
                f"the number of values of {', '.join(self.keys)} in {self.kind} varies with time"
            )
        return np.stack(rows)

    def bind(self, env: Any, info: Any) -> Values:
        """Determine the sizes; for keys that ``info`` of a reset lacks, after one step."""
        if self.kind == "env":
            return replace(self, sizes={key: len(self._value(env, key)) for key in self.keys})
        late = tuple(key for key in self.keys if _in_info(info, key) is None)
        after = info
        if late:
            env.action_space.seed(0)
            after = env.step(env.action_space.sample())[-1]
        sizes = {key: len(self._value(after if key in late else info, key)) for key in self.keys}
        if late:
            warnings.warn(
                f"info has {' and '.join(late)} after a step, but not at reset: the first state of "
                "an episode gets the value after its first step",
                PivecWarning,
                stacklevel=3,
            )
        return replace(self, sizes=sizes, late=late)

    def _value(self, source: Any, key: str) -> NDArray[np.float64]:
        value = (_in_info if self.kind == "info" else _in_environment)(source, key)
        if value is None and key in self.late:
            return np.full(self.sizes[key], np.nan)
        if value is None:
            known = list(map(str, source)) if isinstance(source, Mapping) else dir(source.unwrapped)
            has = f": it has {', '.join(known) or 'nothing'}" * (self.kind == "info")
            raise UsageError(f"{self.kind} has no {key!r}{did_you_mean(key, known)}{has}")
        try:
            return np.asarray(value, dtype=np.float64).ravel()
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{key} of {self.kind} must be numbers, but is {type(value).__name__}"
            ) from error


def _in_info(value: Any, key: str) -> Any:
    """Follow a key into mappings and sequences; None if it does not exist."""
    if isinstance(value, Mapping) and key in value:  # a name that has dots itself
        return value[key]
    for part in key.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif part.isdecimal() and isinstance(value, Sequence | np.ndarray):
            value = value[int(part)] if int(part) < len(value) else None
        else:
            return None
    return value


def _in_environment(env: Any, key: str) -> Any:
    """Follow a key into attributes, of wrappers first; methods are called."""
    first, *rest = key.split(".")
    value = env.get_wrapper_attr(first) if env.has_wrapper_attr(first) else None
    value = value() if callable(value) else value
    for part in rest:
        inner = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
        value = inner() if callable(inner) else inner
    return value


# ---- images as grey cells, as in Go-Explore ----


@dataclass(frozen=True)
class GreyCells:
    """Images reduced to ``height`` x ``width`` grey cells of values 0 ... ``levels``.

    A cell is the mean over its area of the image, divided by 255, times ``levels``, rounded down
    (Ecoffet et al. 2021, "First return, then explore": 8 x 11 cells of 8 levels).

    Parameters
    ----------
    height, width : int
        Cells of the image.
    levels : int
        The value of a white cell; 0 keeps the means between 0 and 1.
    key : str or None
        The part of a Dict observation that is the image; None if only one looks like an image.

    Examples
    --------
    >>> frames = np.zeros((2, 84, 84, 3), np.uint8)
    >>> GreyCells()(frames).shape
    (2, 88)
    """

    height: Count = 8
    width: Count = 11
    levels: Annotated[int, Range(0)] = 8
    key: str | None = None

    def __post_init__(self) -> None:
        check_arguments(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the cells, row by row from the top."""
        return tuple(f"cell[{y},{x}]" for y in range(self.height) for x in range(self.width))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "cells", **asdict(self)}

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        return row_by_row(self._cells, self._images(observations))

    def _cells(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Cells (1, n) of a batch of one image."""
        (grey,) = _grey(image)
        down = _area_weights(grey.shape[0], self.height)
        across = _area_weights(grey.shape[1], self.width)
        cells = down @ grey @ across.T / np.float32(255)
        if self.levels:
            # Slightly raised: rounding must not push a white cell below its level.
            cells = np.floor(cells * self.levels + 1e-4)
        return np.asarray(cells.reshape(1, -1), dtype=np.float32)

    def _images(self, observations: Any) -> NDArray[Any]:
        if not isinstance(observations, dict):
            return np.asarray(observations)
        images = [key for key, part in observations.items() if np.ndim(part) in (3, 4)]
        key = self.key or (images[0] if len(images) == 1 else None)
        if key not in observations:
            raise UsageError(
                f"of the observations' parts {', '.join(observations)}, "
                + (f"none is {key!r}" if key else f"{len(images)} may be images")
                + ': choose one with cells{"key": "..."}'
            )
        return np.asarray(observations[key])


def _grey(images: NDArray[Any]) -> NDArray[np.float32]:
    """Grey images (n, height, width) of any batch of images, channels last or first."""
    if images.ndim == 3:
        return images.astype(np.float32)
    if images.ndim != 4:
        raise UsageError(
            f"cells need images, but the observations have shape {images.shape[1:]}: choose other "
            "features"
        )
    if images.shape[-1] == 3:  # four channels are stacked frames: environments show no transparency
        return np.asarray(images.astype(np.float32) @ _LUMA)
    if images.shape[1] == 3:
        return _grey(np.moveaxis(images, 1, -1))
    # One grey channel, or stacked frames, which are averaged.
    frames = -1 if images.shape[-1] < images.shape[1] else 1
    return np.asarray(images.mean(axis=frames, dtype=np.float32))


@lru_cache(maxsize=32)
def _area_weights(size: int, cells: int) -> NDArray[np.float32]:
    """Shares of ``size`` pixels in ``cells`` cells of equal extent; rows sum to 1."""
    edges = np.linspace(0, size, cells + 1)
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights = np.clip(overlap, 0, None)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


# ---- encoders in files: of `pivec.fit_encoder` (.safetensors, NumPy only), ONNX or torch ----


@dataclass(frozen=True)
class FileEncoder:
    """A network in a file, from a batch of observations as float32 to rows of numbers.

    ``digest`` is that of the file, so that changes are noticed.
    """

    path: str
    digest: str

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the numbers, for encoders of `pivec.fit_encoder`."""
        from pivec.policies import ImageFeatures

        own = getattr(self._run, "__self__", None)  # the instance of a bound method
        if not isinstance(own, ImageFeatures):
            return None
        return tuple(f"code[{i}]" for i in range(own.n_outputs))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "encoder", "path": self.path, "digest": self.digest}

    @cached_property
    def _run(self) -> Callable[[NDArray[np.float32]], Any]:
        file = Path(self.path).expanduser()
        try:
            if (now := digest_of(file)[:_DIGITS]) != self.digest:
                raise BadPolicyFile(
                    f"the encoder {self.path} has changed in the meantime, or differs between "
                    f"machines (SHA-256 {now} instead of {self.digest})"
                )
            return _load_network(file)
        except PivecError:
            raise
        except Exception as error:
            raise BadPolicyFile(f"{self.path} is not a readable encoder: {error}") from error

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        batch = np.ascontiguousarray(observations, dtype=np.float32)
        run = self._run
        try:
            rows = np.asarray(run(batch), dtype=np.float32)
        except Exception as error:
            raise BadData(
                f"the encoder {self.path} does not take observations of shape {batch.shape}: "
                f"{error}"
            ) from error
        if rows.ndim < 1 or len(rows) != len(batch):
            raise BadData(
                f"the encoder {self.path} returned an array of shape {rows.shape} for "
                f"{len(batch)} observations: expected one row per observation"
            )
        return rows.reshape(len(batch), -1)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the loaded network, for processes that may have another working directory.
        return FileEncoder, (os.path.abspath(Path(self.path).expanduser()), self.digest)


def encoder_bytes(features: ImageFeatures, info: Mapping[str, Any]) -> bytes:
    """File of an encoder; ``info`` is anything worth keeping that JSON can hold."""
    network = {"shape": features.shape, "kernels": features.kernels, "scale": features.scale}
    channels, tensors = features.shape[0], dict[str, NDArray[Any]]()
    for i, ((weight, bias), (size, _)) in enumerate(
        zip(features.convolutions, features.kernels, strict=True)
    ):
        turned = weight.T.reshape(len(bias), channels, size, size)
        tensors |= {f"convolutions.{i}.weight": turned, f"convolutions.{i}.bias": bias}
        channels = len(bias)
    if features.linear is None:
        raise UsageError("an encoder needs a linear layer after its convolutions")
    tensors |= {"linear.weight": features.linear[0].T, "linear.bias": features.linear[1]}
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    texts = {"network": json.dumps(network), "info": json.dumps(dict(info))}
    return tensor_bytes(whole, {"format": ENCODER, "version": _VERSION, **texts})


def read_encoder(data: bytes) -> ImageFeatures:
    """Read what `encoder_bytes` wrote; errors speak of it as "it"."""
    from pivec.policies import find_features

    tensors, metadata = read_safetensors(data)
    if metadata.get("format") != ENCODER:
        raise BadPolicyFile("it is not an encoder: expected one written by `pivec encoder`")
    if (version := metadata.get("version")) != _VERSION:
        raise BadPolicyFile(
            f"it has version {version!r}, but this pivec reads {_VERSION}: install a newer pivec"
        )
    match json.loads(metadata["network"]):
        case {"shape": [int(), int(), int()] as shape, "kernels": list(kernels), "scale": scale}:
            sizes = [size for kernel in kernels for size in kernel]
            numbers = all(type(n) is int and 0 < n <= _MOST_PIXELS for n in [*shape, *sizes])
            if numbers and type(scale) is float and scale > 0:
                names = [f"convolutions.{i}" for i in range(len(kernels))]
                pairs = tuple((size, stride) for size, stride in kernels)
                return find_features(tensors, names, "linear", shape, pairs, scale, "identity")
    raise BadPolicyFile("it is damaged: its description is invalid")


def _load_network(path: Path) -> Callable[[NDArray[np.float32]], Any]:
    """Load an encoder of our own, ONNX (first input and output), or torch, which may run code."""
    if path.suffix == ".safetensors":
        with about(str(path)):
            return read_encoder(read_regular(path)).outputs
    if path.suffix == ".onnx":
        from pivec.policies import first_output

        return first_output(read_regular(path), str(path)).outputs
    require_torch("a torch encoder")
    import torch

    if path.suffix == ".pt2":
        module = torch.export.load(path).module()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # existing files stay
            module = torch.jit.load(str(path), map_location="cpu").eval()

    def run(batch: NDArray[np.float32]) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(batch)).numpy()

    return lambda batch: row_by_row(run, batch)


# ---- the last hidden layer of one policy, for all that are compared ----


class PolicyLatent:
    """The last hidden layer of a reference policy, as features of every policy's observations.

    Parameters
    ----------
    policy : str, path, policy or model
        One policy, as `pivec.collect` takes it.
    trust : bool
        Allow a file that can run code when it is loaded.

    Examples
    --------
    >>> import numpy as np
    >>> from pivec.policies import NetworkPolicy
    >>> layers = (np.eye(2), np.zeros(2)), (np.ones((2, 3)), np.zeros(3))
    >>> latent = PolicyLatent(NetworkPolicy(layers, "relu", "categorical"))
    >>> latent(np.array([[1.0, -1.0]])).tolist(), latent.names
    ([[1.0, 0.0]], ('latent[0]', 'latent[1]'))
    """

    n_inputs = 1

    def __init__(self, policy: Any, *, trust: bool = False) -> None:
        named = name_policies(policy, trust)
        if len(named) != 1:
            labels = first_names([member.info.label for member in named])
            raise UsageError(
                f"features need one reference policy, but {policy} are several: {labels}"
            )
        self._named, self._policy = named[0], cast(Any, named[0].policy)
        self._space: Any = None
        if not getattr(self._policy, "n_latent", 0):
            raise UsageError(
                f"{self._named.info.label} has no hidden layer that pivec knows: expected a "
                "network with one, such as a .zip of SB3"
            )

    def bind(self, env: Any, _: Any = None) -> PolicyLatent:
        """Return the same for the spaces of an environment."""
        bound = PolicyLatent(self._named)
        bound._space = env.observation_space
        policy = cast(Any, self._named.policy)
        bound._policy = policy.bind(env.observation_space, env.action_space)
        return bound

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"latent[{i}]" for i in range(self._policy.n_latent))

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        flat = isinstance(self._policy, NetworkPolicy) or not isinstance(observations, np.ndarray)
        if flat and self._space is not None:
            observations = spaces.flatten(self._space, observations)
        latent: NDArray[np.float32] = self._policy.latent(observations)
        return latent

    def to_json(self) -> dict[str, Any]:
        info = self._named.info
        return {"kind": POLICY, "source": info.source, "fingerprint": info.policy_fingerprint}


def _reference_policy(name: str, policies: Sequence[NamedPolicy], trust: bool) -> PolicyLatent:
    """Find the reference policy by label or path; by default the one trained longest."""
    if name:
        labels = {named.info.label: named for named in policies}
        return PolicyLatent(labels.get(name, name), trust=trust)
    candidates = [named for named in policies if getattr(named.policy, "n_latent", 0)]
    if not candidates:
        raise UsageError(
            "none of the policies has a hidden layer that pivec knows: name one that has, such as "
            "--features policy:runs/best.zip"
        )

    # Independent of the order in which they were given.
    ranks = [
        (-1 if named.info.step is None else named.info.step, natural_key(named.info.label))
        for named in candidates
    ]
    best = max(range(len(ranks)), key=ranks.__getitem__)
    chosen, longest = candidates[best], ranks[best][0] > min(ranks)[0]
    why = "the one trained longest" if longest else "the last by name"
    warnings.warn(
        f"states are the last hidden layer of {chosen.info.label}, {why}, for all policies: "
        "choose another with --features policy:LABEL",
        PivecWarning,
        stacklevel=3,
    )
    return PolicyLatent(chosen)


def find_reference(
    source: str, fingerprint: str, policies: Sequence[NamedPolicy], trust: bool
) -> NamedPolicy:
    """Find the reference policy of a store again, among ``policies`` or in its file."""
    for named in policies:
        if named.info.policy_fingerprint == fingerprint:
            return named
    remedy = f"the reference policy {source} of these features"
    if not trust and not os.path.isfile(source):
        raise UsageError(f"{remedy} does not exist: name it with --features policy:PATH")
    named, *_ = name_policies(source, trust)
    if named.info.fingerprint != fingerprint:
        raise BadPolicyFile(
            f"{remedy} has changed since: name the earlier one with --features policy:PATH"
        )
    return named


# ---- features by name, and as JSON objects ----


def load_features(
    spec: str, *, trust: bool = False, policies: Sequence[NamedPolicy] = ()
) -> Features:
    """Find features by name, as `pivec.options.CollectOptions` lists them.

    ``trust`` is required for torch files, which may run code; ``policies`` are those compared.

    Examples
    --------
    >>> load_features('cells{"levels": 4}')
    GreyCells(height=8, width=11, levels=4, key=None)
    """
    kind, colon, whose = spec.partition(":")
    if kind == POLICY and (whose or not colon):
        return _reference_policy(whose, policies, trust)
    name, arguments = split_arguments(spec)
    if name == "cells":
        try:
            return GreyCells(**arguments)
        except TypeError as error:
            raise UsageError(f"cells does not take {arguments}: {error}") from error
    if kind in ("info", "env"):
        return Values.parse(spec)
    if not name.endswith(SUFFIXES):
        return cast(Features, import_object(name, "features"))
    if not name.endswith((".onnx", ".safetensors")) and not trust:
        raise UsageError(
            f"{name} is a torch file, which may run code when it is loaded: add --trust "
            "(in Python trust=True) if you trust its source, or export it to .onnx"
        )
    try:
        digest = digest_of(Path(name).expanduser())
    except OSError as error:
        raise UsageError(f"the encoder {name} cannot be read: {error.strerror or error}") from error
    return FileEncoder(name, digest[:_DIGITS])


def features_to_json(features: Features | None) -> dict[str, Any] | None:
    """Describe features as a JSON object, as stores and spaces keep them."""
    return None if features is None else callable_to_json(features)


def features_from_json(content: Any, find_policy: FindPolicy | None = None) -> Features | None:
    """Find the features again that `features_to_json` described, without running foreign code.

    ``find_policy`` finds the reference policy. Offsets are determined anew.

    Examples
    --------
    >>> features_from_json({"kind": "info", "keys": ["x", "y"]})
    Values(kind='info', keys=('x', 'y'))
    """
    match content := _without_offsets(content):
        case None:
            return None
        case {"kind": "policy", "source": str(source), "fingerprint": str(fingerprint)} if (
            find_policy is not None
        ):
            return PolicyLatent(find_policy(source, fingerprint))
        case {"kind": "cells", "height": int(y), "width": int(x), "levels": levels, "key": key} if (
            y * x <= _MOST_PIXELS
        ):
            return GreyCells(y, x, levels, key)
        case {"kind": "encoder", "path": str(path)} if path.endswith((".onnx", ".safetensors")):
            return load_features(path)
        case {"kind": "info" | "env" as kind, "keys": [str(), *_] as keys}:
            # Of environments only joint states: other keys may call any method.
            if kind == "info" or all(re.fullmatch(r"joint\.[^.]+", str(key)) for key in keys):
                return Values(kind, tuple(map(str, keys)))
    name = content.get("name") if isinstance(content, Mapping) else None
    raise UsageError(
        f"the features {name or content} cannot be found from their description: give them again "
        "with --features (in Python features=)"
    )


def _without_offsets(content: Any) -> Any:
    is_offset = isinstance(content, Mapping) and content.get("kind") == "offset"
    return content.get("of") if is_offset else content


def find_features_again(
    asked: Features | str | None,
    kept: Any,
    *,
    trust: bool = False,
    policies: Sequence[NamedPolicy] = (),
    find_policy: FindPolicy | None = None,
) -> Features | None:
    """Features that the user gives, or else those that a store describes in ``kept``.

    With ``policy`` without a name a store keeps its reference policy, which ``find_policy`` finds.
    """
    inner = _without_offsets(kept)
    has_policy = isinstance(inner, Mapping) and inner.get("kind") == POLICY
    if asked is None or (asked == POLICY and has_policy):
        return features_from_json(inner, find_policy)
    return load_features(asked, trust=trust, policies=policies) if isinstance(asked, str) else asked
