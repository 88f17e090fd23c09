"""What a state is, found by its name: cells, an encoder in a file, the eyes of a policy, your own.

All of these are called with a batch of observations and give an array (n, values) of float32; they
can be sent to other processes, and a store keeps their `repr` to know what its states are.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, PivecError, UsageError
from pivec.options import Features
from pivec.policies.policy import NamedPolicy
from pivec.reading import read_regular
from pivec.rollouts.cells import GreyCells
from pivec.rollouts.encoders import DIGITS, SUFFIXES, FileEncoder
from pivec.rollouts.latent import PolicyLatent, reference_policy
from pivec.rollouts.named_objects import named_object, split_arguments
from pivec.rollouts.seen import Values, look
from pivec.rollouts.spaces import batch_length

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


def find_features(
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
    >>> find_features(None, "GreyCells(height=8, width=11, levels=4, key=None)", 88)
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
