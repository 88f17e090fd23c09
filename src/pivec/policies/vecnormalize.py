"""Statistics of Stable-Baselines3's VecNormalize: found beside a checkpoint, read without running.

A VecNormalize is saved as a pickle. Objects in it stay names with their state; numbers and arrays
of NumPy are understood; everything else is refused by name.
"""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, PivecError, PivecWarning
from pivec.policies.beside import Beside
from pivec.policies.normaliser import Normaliser
from pivec.policies.objects import Object, as_array, read_objects

MODULES = (
    "gymnasium",
    "gym",
    "numpy",
    "stable_baselines3",
    "sb3_contrib",
    "collections",
    "copyreg",
)
MAX_WIDTH = 1 << 24
_WORDS = ("vecnormalize", "vec_normalize", "vecnorm", "vec_norm")
_NORMALISER = r"(?i).*vec_?norm.*\.pkl"
_STEPS = re.compile(r"(?P<prefix>.+)_(?P<steps>\d+)_steps")


def find_normaliser(
    beside: Beside, name: str, trained_normalised: bool | None = None
) -> tuple[Normaliser | None, str]:
    """Find and read the statistics that belong to a checkpoint.

    First those named after it (``rl_model_vecnormalize_40000_steps.pkl`` beside
    ``rl_model_40000_steps.zip``, ``best_vecnormalize.pkl`` beside ``best.zip``), then
    ``vecnormalize.pkl`` in its folder.

    Parameters
    ----------
    beside : Beside
    name : str
        What messages call the checkpoint.
    trained_normalised : bool, optional
        What the checkpoint itself tells.

    Returns
    -------
    normaliser : Normaliser or None
    file : str
        Name of the file that was applied, empty if none was found.

    Raises
    ------
    BadPolicyFile
        If statistics that belong to the checkpoint cannot be read: without them the policy would
        act wrongly.

    Warns
    -----
    UserWarning
        If the checkpoint was trained with VecNormalize, or others beside it were, and no
        statistics belong to it; or if statistics lie beside one that was trained without.
    """
    names = {each.lower(): each for each in beside.names(_NORMALISER)}
    own = [names[each] for each in _own_names(beside.stem) if each in names]
    shared = [names[f"{each}.pkl"] for each in _WORDS if f"{each}.pkl" in names]
    advice = f"name the right file {beside.stem}_vecnormalize.pkl to have it applied"
    if not own and shared and trained_normalised is False:
        _warn(
            f"{shared[0]} lies beside {name}, which was trained without VecNormalize: it is not "
            f"applied; {advice} nevertheless."
        )
        return None, ""
    if own or shared:
        file = (own or shared)[0]
        normaliser = read_normaliser(beside.read(file) or b"", f"{file} beside {name}")
        return normaliser, file if normaliser is not None else f"none ({file} is for rewards only)"
    if trained_normalised:
        _warn(
            f"{name} was trained with VecNormalize, but no statistics of it lie beside: its "
            f"observations are not normalised; {advice}."
        )
    elif names and trained_normalised is None:
        _warn(
            f"{name} has no statistics of VecNormalize beside it, but other checkpoints in its "
            f"folder have: its observations are not normalised; {advice}."
        )
    return None, ""


def _own_names(stem: str) -> list[str]:
    stem = stem.lower()
    names = [f"{stem}_{word}.pkl" for word in _WORDS]
    if match := _STEPS.fullmatch(stem):
        prefix, steps = match["prefix"], match["steps"]
        names += [f"{prefix}_{word}_{steps}_steps.pkl" for word in _WORDS]
    return names


def _warn(message: str) -> None:
    warnings.warn(message, PivecWarning, stacklevel=2)


def read_normaliser(data: bytes, name: str = "the file") -> Normaliser | None:
    """Read the statistics of a pickled VecNormalize; None if it does not touch observations.

    Parameters
    ----------
    data : bytes
        The whole file.
    name : str
        What error messages call it.
    """
    saved = read_objects(data, name, MODULES)
    if not isinstance(saved, Object) or not str(saved.kind).endswith(".VecNormalize"):
        raise BadPolicyFile(f"{name} holds no VecNormalize.")
    state = saved.state
    try:
        if not state.get("norm_obs", True):
            return None
        epsilon, limit = float(state["epsilon"]), float(state["clip_obs"])
        return _normaliser(state["obs_rms"], state.get("observation_space"), epsilon, limit)
    except BadPolicyFile:
        raise
    except KeyError as error:
        raise BadPolicyFile(f"{name} lacks {error} of a VecNormalize.") from error
    except (TypeError, ValueError, ArithmeticError, PivecError) as error:
        raise BadPolicyFile(f"{name} holds no usable statistics: {str(error)[:200]}") from error


@dataclass(frozen=True)
class _Statistics:
    mean: NDArray[Any]
    variance: NDArray[Any]


def _normaliser(statistics: Any, space: Any, epsilon: float, limit: float) -> Normaliser:
    if not isinstance(statistics, dict):
        part = _read_statistics(statistics)
        return Normaliser(
            part.mean.ravel(),
            np.sqrt(part.variance.ravel() + epsilon),
            np.full(part.mean.size, limit),
        )
    # Dictionaries are flattened in the order of the space; some of their parts stay as they are.
    inner = space.state.get("spaces") if isinstance(space, Object) else None
    if not isinstance(inner, dict):
        raise ValueError("a dictionary of statistics without the space they belong to")
    means, scales, limits = [], [], []
    for key, each in inner.items():
        if key in statistics:
            part = _read_statistics(statistics[key])
            means.append(part.mean.ravel())
            scales.append(np.sqrt(part.variance.ravel() + epsilon))
            limits.append(np.full(part.mean.size, limit))
        else:
            width = _width(each)
            means.append(np.zeros(width))
            scales.append(np.ones(width))
            limits.append(np.full(width, np.inf))
    return Normaliser(*(np.concatenate(parts) for parts in (means, scales, limits)))


def _read_statistics(value: Any) -> _Statistics:
    if not isinstance(value, Object):
        raise ValueError("no running mean and variance")
    mean, variance = as_array(value.state["mean"]), as_array(value.state["var"])
    if mean is None or variance is None or mean.shape != variance.shape:
        raise ValueError("a mean and a variance of different shapes")
    return _Statistics(mean.astype(np.float64), variance.astype(np.float64))


def _width(space: Any) -> int:
    """Number of values of a flattened part that is not normalised."""
    if isinstance(space, Object):
        kind, width = str(space.kind).rpartition(".")[2], 0
        if kind == "Discrete":
            width = int(space.state["n"])
        elif kind in ("Box", "MultiBinary"):
            width = math.prod(int(n) for n in space.state["_shape"])
        if 0 < width <= MAX_WIDTH:
            return width
    raise ValueError("a part of the observations that cannot be flattened")
