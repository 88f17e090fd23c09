"""What a state is, found by its name: cells, an encoder in a file, the eyes of a policy, your own.

All of these are called with a batch of observations and give an array (n, values) of float32; they
can be sent to other processes, and a store keeps their `repr` to know what its states are.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, check_arguments
from pivec.errors import BadData, BadPolicyFile, PivecError, PivecWarning, UsageError
from pivec.files import digest_of, read_regular
from pivec.options import Features
from pivec.parallel import require_torch
from pivec.policies import (
    ENCODER,
    ImageFeatures,
    NamedPolicy,
    NetworkPolicy,
    about,
    find_features,
    first_names,
    name_policies,
    natural_key,
    read_safetensors,
    row_by_row,
    tensor_bytes,
)
from pivec.rollouts import observations as spaces
from pivec.rollouts.named_objects import named_object, split_arguments
from pivec.rollouts.observations import batch_length
from pivec.rollouts.seen import Values, look

# -----------------------------------------------------------------------------
# Images as small grey cells, as in Go-Explore.


_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601, as most tools


@dataclass(frozen=True)
class GreyCells:
    """Images shrunk to ``height`` x ``width`` grey cells of values 0 ... ``levels``.

    A cell is the mean over its area of the image, divided by 255, times ``levels``, cut down to a
    whole number (Ecoffet et al. 2021, "First return, then explore": 8 x 11 cells of 8 levels).

    Parameters
    ----------
    height, width : int
        Cells of the image.
    levels : int
        The value of a white cell; 0 leaves means between 0 and 1 as they are.
    key : str or None
        Which part of a Dict observation is the image; the only one with an image's shape if None.

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

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        """Turn a batch of images into rows of cells."""
        return row_by_row(self._cells, self._image(observations))

    def _cells(self, image: NDArray[Any]) -> NDArray[np.float32]:
        """Give the cells (1, n) of a batch of one image."""
        (grey,) = _grey(image)
        down = _area_weights(grey.shape[0], self.height)
        across = _area_weights(grey.shape[1], self.width)
        cells = down @ grey @ across.T / np.float32(255)
        if self.levels:
            # A hair above: a white cell must not fall below its level by rounding.
            cells = np.floor(cells * self.levels + 1e-4)
        return np.asarray(cells.reshape(1, -1), dtype=np.float32)

    def _image(self, observations: Any) -> NDArray[Any]:
        if not isinstance(observations, dict):
            return np.asarray(observations)
        if self.key is not None:
            if self.key not in observations:
                raise UsageError(
                    f"observations have no part {self.key!r}; they have {', '.join(observations)}"
                )
            return np.asarray(observations[self.key])
        images = [key for key, part in observations.items() if np.ndim(part) in (3, 4)]
        if len(images) != 1:
            raise UsageError(
                f"{len(images)} parts of the observations may be images: say which with "
                'cells{"key": "..."}'
            )
        return np.asarray(observations[images[0]])


def _grey(images: NDArray[Any]) -> NDArray[np.float32]:
    """Grey images (n, height, width) of any batch of images, colours last or first."""
    if images.ndim == 3:
        return images.astype(np.float32)
    if images.ndim != 4:
        raise UsageError(
            f"cells are made of images, but the observations have shape {images.shape[1:]}: "
            "choose other features"
        )
    if images.shape[-1] == 3:  # four are frames: environments show no transparency
        return np.asarray(images.astype(np.float32) @ _LUMA)
    if images.shape[1] == 3:
        return _grey(np.moveaxis(images, 1, -1))
    # Grey with an axis of its own, or frames one behind another, of which the mean is seen.
    frames = -1 if images.shape[-1] < images.shape[1] else 1
    return np.asarray(images.mean(axis=frames, dtype=np.float32))


@lru_cache(maxsize=32)
def _area_weights(size: int, cells: int) -> NDArray[np.float32]:
    """Shares of ``size`` pixels in ``cells`` cells of equal extent; a row sums to 1."""
    edges = np.linspace(0, size, cells + 1)
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights = np.clip(overlap, 0, None)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


# -----------------------------------------------------------------------------
# Encoders in files: networks that turn observations into few numbers.
#
# Those of `pivec.fit_encoder` are a ``.safetensors`` of convolutions and a linear layer, which need
# nothing but NumPy; others are ONNX or torch files.


VERSION = "1"
_MOST_PIXELS = 1 << 16  # of a side
Run = Callable[[NDArray[np.float32]], Any]
DIGITS = 16  # of an encoder's SHA-256
SUFFIXES = (".safetensors", ".onnx", ".pt", ".pt2", ".pth")


@dataclass(frozen=True)
class FileEncoder:
    """A network in a file: a batch of observations in as float32, rows of numbers out.

    ``digest`` is of the file, so that a store knows when it has changed.
    """

    path: str
    digest: str
    place: str = field(default="", repr=False, compare=False)  # the whole path, where it travels

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the numbers, where that is an encoder of our own."""
        own = getattr(self._run, "__self__", None)  # whose method it is
        if not isinstance(own, ImageFeatures):
            return None
        return tuple(f"code[{i}]" for i in range(own.n_outputs))

    @cached_property
    def _run(self) -> Run:
        load = _LOADERS.get(Path(self.path).suffix, _load_torch)
        try:
            file = Path(self.place or self.path).expanduser()
            if (now := digest_of(file)[:DIGITS]) != self.digest:
                raise BadPolicyFile(
                    f"the encoder {self.path} has changed since it was named, or differs between "
                    f"machines (SHA-256 {now} instead of {self.digest})"
                )
            return load(file, self.path)
        except PivecError:
            raise
        except Exception as error:
            raise BadPolicyFile(
                f"{self.path} is not an encoder that can be read: {error}"
            ) from error

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        """Encode a batch of observations."""
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
                f"the encoder {self.path} gave an array of shape {rows.shape} for {len(batch)} "
                "observations: expected one row for each"
            )
        return rows.reshape(len(batch), -1)

    def __getstate__(self) -> dict[str, str]:
        place = self.place or os.path.abspath(Path(self.path).expanduser())
        # What is loaded does not travel.
        return {"path": self.path, "digest": self.digest, "place": place}


def encoder_bytes(features: ImageFeatures, info: Mapping[str, Any]) -> bytes:
    """Give the file of an encoder; ``info`` is anything worth keeping that JSON can hold."""
    network = {"shape": features.shape, "kernels": features.kernels, "scale": features.scale}
    channels, tensors = features.shape[0], dict[str, NDArray[Any]]()
    for i, ((weight, bias), (size, _)) in enumerate(
        zip(features.convolutions, features.kernels, strict=True)
    ):
        turned = weight.T.reshape(len(bias), channels, size, size)
        tensors |= {f"convolutions.{i}.weight": turned, f"convolutions.{i}.bias": bias}
        channels = len(bias)
    if features.linear is None:
        raise UsageError("an encoder needs a linear layer behind its convolutions")
    tensors |= {"linear.weight": features.linear[0].T, "linear.bias": features.linear[1]}
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    texts = {"network": json.dumps(network), "info": json.dumps(dict(info))}
    return tensor_bytes(whole, {"format": ENCODER, "version": VERSION, **texts})


def read_encoder(data: bytes) -> ImageFeatures:
    """Read what `encoder_bytes` wrote; errors speak of it as "it"."""
    tensors, metadata = read_safetensors(data)
    if metadata.get("format") != ENCODER:
        raise BadPolicyFile("it is no encoder: expected one that `pivec encoder` wrote")
    if metadata.get("version") != VERSION:
        raise BadPolicyFile(
            f"it is of version {metadata.get('version')!r} and this pivec reads {VERSION}: install "
            "a newer pivec"
        )
    match json.loads(metadata["network"]):
        case {"shape": [int(), int(), int()] as shape, "kernels": list(kernels), "scale": scale}:
            sizes = [size for kernel in kernels for size in kernel]
            numbers = all(type(n) is int and 0 < n <= _MOST_PIXELS for n in [*shape, *sizes])
            if numbers and type(scale) is float and scale > 0:
                names = [f"convolutions.{i}" for i in range(len(kernels))]
                pairs = tuple((size, stride) for size, stride in kernels)
                return find_features(tensors, names, "linear", shape, pairs, scale, "identity")
    raise BadPolicyFile("it is damaged: its description makes no sense")


def _load_own(path: Path, name: str) -> Run:
    """Load an encoder of our own."""
    with about(name):
        return read_encoder(read_regular(path)).outputs


def _load_onnx(path: Path, name: str) -> Run:
    """Load an ``.onnx`` file, whose first input and output count."""
    from pivec.policies import first_output

    return first_output(read_regular(path), name).outputs


def _load_torch(path: Path, name: str) -> Run:
    """Load a TorchScript file, or with ``.pt2`` one of torch.export; it may run code."""
    require_torch("a torch encoder")
    import torch

    if name.endswith(".pt2"):
        module = torch.export.load(path).module()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # files made earlier stay
            module = torch.jit.load(str(path), map_location="cpu").eval()

    def run(batch: NDArray[np.float32]) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(batch)).numpy()

    return lambda batch: row_by_row(run, batch)


_LOADERS = {".safetensors": _load_own, ".onnx": _load_onnx}


# -----------------------------------------------------------------------------
# States as a policy sees them: the last hidden layer of one policy, for all that are compared.


NONE = "has no hidden layer that is known: expected a network with one, as a .zip of SB3 has it"


class PolicyLatent:
    """The last hidden layer of a reference policy, as features of every policy's observations.

    All policies are seen with the same eyes, and what matters to nobody's actions is left out.

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
    >>> eyes = PolicyLatent(NetworkPolicy(layers, "relu", "categorical"))
    >>> eyes(np.array([[1.0, -1.0]])).tolist(), eyes.names
    ([[1.0, 0.0]], ('latent[0]', 'latent[1]'))
    """

    sees = 1  # observations alone

    def __init__(self, policy: Any, *, trust: bool = False) -> None:
        named = name_policies(policy, trust)
        if len(named) != 1:
            labels = first_names([member.info.label for member in named])
            raise UsageError(
                f"states are seen with the eyes of one policy, but {policy} are several: {labels}"
            )
        self._named, self._policy = named[0], cast(Any, named[0].policy)
        self._world: tuple[Any, Any] | None = None
        if not has_latent(self._named):
            raise UsageError(f"{self._named.info.label} {NONE}")

    def settled(self, observation_space: Any, action_space: Any) -> PolicyLatent:
        """Give the same with the policy told the spaces of the environment, as those that act."""
        settled = PolicyLatent(self._named)
        settled._world = observation_space, action_space
        settled._policy = cast(Any, self._named.policy).bind(observation_space, action_space)
        return settled

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the units."""
        return tuple(f"latent[{i}]" for i in range(self._policy.n_latent))

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        """Give the values of the last hidden layer."""
        flat = isinstance(self._policy, NetworkPolicy) or not isinstance(observations, np.ndarray)
        if flat and self._world is not None:
            observations = spaces.flatten(self._world[0], observations)
        latent: NDArray[np.float32] = self._policy.latent(observations)
        return latent

    def __repr__(self) -> str:
        info = self._named.info
        return f"PolicyLatent({info.source!r}, fingerprint={info.fingerprint!r})"


def has_latent(named: NamedPolicy) -> bool:
    """Whether a policy has a hidden layer that is known."""
    return bool(getattr(named.policy, "n_latent", 0))


def reference_policy(name: str, policies: Sequence[NamedPolicy], trust: bool) -> PolicyLatent:
    """Find the policy whose eyes are taken: by label, by path, or without a name a default.

    That is the one trained longest; who was taken is said.
    """
    if name:
        labels = {named.info.label: named for named in policies}
        return PolicyLatent(labels.get(name, name), trust=trust)
    seeing = [named for named in policies if has_latent(named)]
    if not seeing:
        raise UsageError(
            "none of the policies that act has a hidden layer that is known: name one that has, as "
            "in --features policy:runs/best.zip"
        )
    # Whatever the order in which they were given.
    chosen = max(seeing, key=lambda named: (_steps(named), natural_key(named.info.label)))
    longest = _steps(chosen) > min(map(_steps, seeing))
    why = "the one trained longest" if longest else "the last by name"
    warnings.warn(
        f"a state is the last hidden layer of {chosen.info.label}, {why}, for all policies: "
        "--features policy:LABEL takes another",
        PivecWarning,
        stacklevel=3,
    )
    return PolicyLatent(chosen)


def _steps(named: NamedPolicy) -> int:
    return -1 if named.info.step is None else named.info.step


def same_policy(
    source: str, fingerprint: str, policies: Sequence[NamedPolicy], trust: bool
) -> NamedPolicy:
    """Find a policy again, among those that are there or in its file; it must be the very same."""
    for named in policies:
        if named.info.fingerprint == fingerprint:
            return named
    if not trust and not os.path.isfile(source):
        raise UsageError(
            f"the states were seen with the eyes of {source}, which is not there: name the policy "
            "with --features policy:PATH"
        )
    named, *_ = name_policies(source, trust)
    if named.info.fingerprint != fingerprint:
        raise BadPolicyFile(
            f"the states were seen with the eyes of {source}, which has changed since: name the "
            "policy as it was then with --features policy:PATH"
        )
    return named


POLICY = "policy"
Seek = Callable[[str, str], NamedPolicy]  # finds a policy by its source and fingerprint


def load_features(
    spec: str, *, trust: bool = False, policies: Sequence[NamedPolicy] = ()
) -> Features:
    """Find features by name.

    Parameters
    ----------
    spec : str
        ``policy``, or ``policy:LABEL-OR-PATH``, for the last hidden layer of a policy; the path of
        a ``.safetensors`` of `pivec.fit_encoder` or of an ``.onnx`` file; the path of a TorchScript
        ``.pt`` or a ``.pt2`` of torch.export; ``cells``, with arguments
        ``cells{"height": 8, "width": 11, "levels": 8}``; ``info:KEY,KEY`` or ``env:KEY``, see
        `Values`; or ``module:function``.
    trust : bool
        Needed for torch files, which may run code when they are loaded.
    policies : sequence of NamedPolicy
        Those that are compared.

    Examples
    --------
    >>> load_features('cells{"levels": 4}')
    GreyCells(height=8, width=11, levels=4, key=None)
    """
    kind, colon, whose = spec.partition(":")
    if kind == POLICY and (whose or not colon):
        return reference_policy(whose, policies, trust)
    name, arguments = split_arguments(spec)
    if name == "cells":
        try:
            return GreyCells(**arguments)
        except TypeError as error:
            raise UsageError(f"cells does not take {arguments}: {error}") from error
    if name.startswith(("info:", "env:")):
        return Values.named(spec)
    if not name.endswith(SUFFIXES):
        features: Features = named_object(name, "features")
        return features
    if not name.endswith((".onnx", ".safetensors")) and not trust:
        raise UsageError(
            f"{name} is a torch file, which may run code when it is loaded: add --trust "
            "(from Python trust=True) if you know where it comes from, or export it to .onnx"
        )
    try:
        content = read_regular(Path(name).expanduser())
    except OSError as error:
        raise UsageError(f"the encoder {name} cannot be read: {error.strerror or error}") from error
    return FileEncoder(name, hashlib.sha256(content).hexdigest()[:DIGITS])


def name_of(features: Features | None) -> str | None:
    """Say by what a store knows what its states are.

    Examples
    --------
    >>> import math
    >>> name_of(math.sqrt), name_of(None)
    ('sqrt', None)
    """
    return None if features is None else getattr(features, "__qualname__", repr(features))


def find_features_features(
    asked: Features | str | None,
    kept: str | None,
    width: int,
    *,
    trust: bool = False,
    policies: Sequence[NamedPolicy] = (),
    seek: Seek | None = None,
) -> Features | None:
    """Find the features again of which a store keeps the name, if the user does not give them.

    ``width`` is how many values a state has. What is found may be another by now: see `name_of`.
    Who asks for the eyes of a policy without naming it means those that the store began with,
    which ``seek`` finds; without a store those that `load_features` chooses among ``policies``.

    Examples
    --------
    >>> find_features_features(None, "GreyCells(height=8, width=11, levels=4, key=None)", 88)
    GreyCells(height=8, width=11, levels=4, key=None)
    """
    kept = kept or ""
    eyes = _LATENT.fullmatch(kept)
    if asked is not None and not (asked == POLICY and eyes):
        if isinstance(asked, str):
            return load_features(asked, trust=trust, policies=policies)
        return asked
    if not kept or _ONLY_MOVED.fullmatch(kept):
        return None
    if eyes and seek is not None:
        return PolicyLatent(seek(eyes["source"], eyes["fingerprint"]))
    if (cells := _CELLS.fullmatch(kept)) and math.prod(map(int, cells.groups()[:2])) == width:
        height, across, levels = map(int, cells.groups()[:3])
        return GreyCells(height, across, levels, cells["key"])
    if file := _ENCODER.fullmatch(kept):
        return load_features(file["path"])
    if values := Values.kept(kept):
        return values
    raise UsageError(
        f"the states were made by features = {kept}, of which only the name is kept: give them "
        "again with --features (from Python features=)"
    )


# How `repr` writes what can be found again without running code of a stranger.
_ONLY_MOVED = re.compile(r"Centred\(offsets=[^a-z]*, inner=None\)")
_CELLS = re.compile(
    r"GreyCells\(height=(\d{1,4}), width=(\d{1,4}), levels=(\d{1,9}), "
    r"key=(?:None|'(?P<key>[^'\\]*)')\)"
)
_ENCODER = re.compile(r"FileEncoder\(path='(?P<path>[^'\\]*\.(onnx|safetensors))', digest='\w*'\)")
_LATENT = re.compile(r"PolicyLatent\('(?P<source>[^'\\]*)', fingerprint='(?P<fingerprint>\w*)'\)")


def feature_rows(features: Features, observations: Any, *more: Any) -> NDArray[np.float32]:
    """Turn a batch of observations into rows with a function of the user's.

    ``more`` are infos and environments, where they are known, see `pivec.rollouts.seen`.

    Examples
    --------
    >>> import math
    >>> feature_rows(math.sqrt, np.zeros((2, 3)))
    Traceback (most recent call last):
    pivec.errors.UsageError: features (sqrt) raised TypeError for a batch of 2 observations, but \
must turn it into an array of shape (2, n_features): only 0-dimensional arrays can be ...
    """
    n = batch_length(observations)
    name = getattr(features, "__qualname__", type(features).__qualname__)
    try:
        rows = np.asarray(look(features, (observations, *more)), dtype=np.float32)
    except PivecError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"features ({name}) raised {type(error).__name__} for a batch of {n} observations, but "
            f"must turn it into an array of shape ({n}, n_features): {error}"
        ) from error
    if rows.ndim != 2 or len(rows) != n or not rows.shape[1]:
        raise BadData(
            f"features= must turn a batch of {n} observations into an array of shape "
            f"({n}, n_features), but gave shape {rows.shape}"
        )
    return rows
