"""Statistics of Stable-Baselines3's VecNormalize: found beside a checkpoint, read without running.

A VecNormalize is saved as a pickle. Objects in it stay names with their state; numbers and arrays
of NumPy are understood; everything else is refused by name.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.formats import Beside, about
from pivec.policies.normaliser import Normaliser
from pivec.policies.pickles import Object, as_array, read_objects
from pivec.policies.zoo import ZooRun

SB3 = ("stable_baselines3", "sb3_contrib")
MODULES = ("gymnasium", "gym", "numpy", *SB3, "collections", "copyreg")
MAX_WIDTH = 1 << 24
_WORDS = ("vecnormalize", "vec_normalize", "vecnorm", "vec_norm")
_NORMALISER = r"(?i).*vec_?norm.*\.pkl"
_STEPS = re.compile(r"(?P<prefix>.+)_(?P<steps>\d+)_steps")


def find_normaliser(
    beside: Beside, trained_normalised: bool | None, run: ZooRun | None
) -> tuple[Normaliser | None, str]:
    """Find and read the statistics that belong to a checkpoint, and the name of their file.

    First those named after it (``rl_model_vecnormalize_40000_steps.pkl`` beside
    ``rl_model_40000_steps.zip``, ``best_vecnormalize.pkl`` beside ``best.zip``), then
    ``vecnormalize.pkl`` in its folder, then the one that RL Zoo keeps of the whole ``run``.
    ``trained_normalised`` is what the checkpoint itself tells.

    What had to be assumed is noted: statistics that lie beside a checkpoint that was trained
    without, or none where others have some. Statistics that belong to it and cannot be read, or are
    known to be missing, are a BadPolicyFile: without them the policy would act wrongly.
    """
    names = {name.lower(): name for name in beside.names(_NORMALISER)}
    own = [names[name] for name in _own_names(beside.stem) if name in names]
    shared = [names[f"{word}.pkl"] for word in _WORDS if f"{word}.pkl" in names]
    normalised = trained_normalised
    if run is not None and run.normalised is not None:
        normalised = run.normalised
    if not own and normalised is False:
        if shared:
            beside.assume(
                f"trained without VecNormalize, so that {shared[0]} beside is not applied; name it "
                "after the checkpoint, as in best_vecnormalize.pkl, to have it applied nevertheless"
            )
        return None, ""
    of_run = [f"{run.folder}vecnormalize.pkl"] if run is not None else []
    for file in (*own, *shared, *of_run):
        data = beside.read(file)
        if data is None:
            continue
        normaliser = read_normaliser(data, f"{file} beside it")
        if normaliser is None:
            return None, f"none ({file} is for rewards only)"
        if run is not None and file in of_run and f"{beside.stem}/" != run.folder:
            beside.assume(
                f"normalised by {file}, the statistics of the end of the training, since none were "
                "saved with these checkpoints (RL Zoo does the same)"
            )
        return normaliser, file
    if normalised:
        _allow_without(beside, (of_run or [f"{beside.stem}_vecnormalize.pkl"])[0])
    elif names and normalised is None:
        beside.assume(
            "without statistics of VecNormalize, though other checkpoints of the folder have some: "
            "observations are not normalised; name statistics after their checkpoint, as in "
            "best_vecnormalize.pkl, to have them applied"
        )
    return None, ""


def _allow_without(beside: Beside, expected: str) -> None:
    """Refuse a policy whose statistics are missing, unless the user allows that."""
    if not beside.without_normaliser:
        raise BadPolicyFile(
            "it was trained with VecNormalize, but there are no statistics of it: put them beside "
            f"as {expected}, or let it act without (right only if nothing but rewards was "
            "normalised) with --without-normaliser (in Python: without_normaliser=True)"
        )
    beside.assume(
        "trained with VecNormalize, whose statistics are missing: observations are not "
        "normalised, as you allowed"
    )


def _own_names(stem: str) -> list[str]:
    stem = stem.lower()
    names = [f"{stem}_{word}.pkl" for word in _WORDS]
    if match := _STEPS.fullmatch(stem):
        prefix, steps = match["prefix"], match["steps"]
        names += [f"{prefix}_{word}_{steps}_steps.pkl" for word in _WORDS]
    return names


def read_normaliser(data: bytes, name: str = "the file") -> Normaliser | None:
    """Read the statistics of a pickled VecNormalize; None if it does not touch observations."""
    with about(name):
        saved = read_objects(data, MODULES)
        if not isinstance(saved, Object) or not str(saved.kind).endswith(".VecNormalize"):
            raise BadPolicyFile("it holds no VecNormalize")
        state = saved.state
        if not state.get("norm_obs", True):
            return None
        for key in ("obs_rms", "epsilon", "clip_obs"):
            if key not in state:
                raise BadPolicyFile(f"it lacks {key!r} of a VecNormalize")
        statistics, space = state["obs_rms"], state.get("observation_space")
        settings = float(state["epsilon"]), float(state["clip_obs"])
        if not isinstance(statistics, dict):
            return _normaliser(statistics, *settings)
        # Dictionaries are flattened in the order of the space; some parts stay as they are.
        inner = space.state.get("spaces") if isinstance(space, Object) else None
        if not isinstance(inner, dict):
            raise UsageError("it has a dictionary of statistics without the space they belong to")
        parts = [
            _normaliser(statistics[key], *settings) if key in statistics else _nothing(part)
            for key, part in inner.items()
        ]
        arrays = zip(*(part.arrays for part in parts), strict=True)
        return Normaliser(*map(np.concatenate, arrays))


def _normaliser(moments: Any, epsilon: float, limit: float) -> Normaliser:
    """Make the normaliser of a running mean and variance."""
    if not isinstance(moments, Object):
        raise UsageError("it has no running mean and variance")
    mean, variance = (as_array(moments.state.get(key)) for key in ("mean", "var"))
    if mean is None or variance is None or mean.shape != variance.shape:
        raise UsageError("it has a mean and a variance of different shapes")
    doubles = mean.astype(np.float64), variance.astype(np.float64)
    return Normaliser.of_variance(*doubles, epsilon, limit)


def _nothing(space: Any) -> Normaliser:
    """Leave a part of the observations as it is."""
    if isinstance(space, Object):
        kind, width = str(space.kind).rpartition(".")[2], 0
        if kind == "Discrete":
            width = int(space.state["n"])
        elif kind in ("Box", "MultiBinary"):
            width = math.prod(int(n) for n in space.state["_shape"])
        if 0 < width <= MAX_WIDTH:
            return Normaliser(np.zeros(width), np.ones(width), np.full(width, np.inf))
    raise UsageError("a part of its observations cannot be flattened")
