"""Statistics of Stable-Baselines3's VecNormalize: found beside a checkpoint, read without running.

A VecNormalize is saved as a pickle. Objects in it stay names with their state; numbers and arrays
of NumPy are understood; everything else is refused by name.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, PivecError
from pivec.policies.beside import Beside
from pivec.policies.normaliser import Normaliser
from pivec.policies.objects import Object, as_array, read_objects
from pivec.policies.zoo import ZooRun

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
    beside: Beside,
    name: str,
    trained_normalised: bool | None = None,
    run: ZooRun | None = None,
) -> tuple[Normaliser | None, str]:
    """Find and read the statistics that belong to a checkpoint.

    First those named after it (``rl_model_vecnormalize_40000_steps.pkl`` beside
    ``rl_model_40000_steps.zip``, ``best_vecnormalize.pkl`` beside ``best.zip``), then
    ``vecnormalize.pkl`` in its folder, then the one that RL Zoo keeps of the whole run.

    Parameters
    ----------
    beside : Beside
        Notes what had to be assumed: statistics that lie beside a checkpoint that was trained
        without, or none where others have some.
    name : str
        What messages call the checkpoint.
    trained_normalised : bool, optional
        What the checkpoint itself tells.
    run : ZooRun, optional
        What RL Zoo tells of its run.

    Returns
    -------
    normaliser : Normaliser or None
    file : str
        Name of the file that was applied, empty if none was found.

    Raises
    ------
    BadPolicyFile
        If statistics that belong to the checkpoint cannot be read, or are known to be missing:
        without them the policy would act wrongly.
    """
    names = {each.lower(): each for each in beside.names(_NORMALISER)}
    own = [names[each] for each in _own_names(beside.stem) if each in names]
    shared = [names[f"{each}.pkl"] for each in _WORDS if f"{each}.pkl" in names]
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
    of_run = f"{run.folder}vecnormalize.pkl" if run is not None else ""
    for file in (*own, *shared, *filter(None, [of_run])):
        data = beside.read(file)
        if data is None:
            continue
        normaliser = read_normaliser(data, f"{file} beside {name}")
        if normaliser is None:
            return None, f"none ({file} is for rewards only)"
        if run is not None and file == of_run and f"{beside.stem}/" != run.folder:
            beside.assume(
                f"normalised by {file}, the statistics of the end of the training, since none were "
                "saved with these checkpoints (RL Zoo does the same)"
            )
        return normaliser, file
    if normalised:
        expected = of_run or f"{beside.stem}_vecnormalize.pkl"
        if not beside.without_normaliser:
            raise BadPolicyFile(
                f"{name} was trained with VecNormalize, but there are no statistics of it: put "
                f"them beside as {expected}, or let it act without (right only if nothing but "
                "rewards was normalised) with --without-normaliser (in Python: "
                "without_normaliser=True)."
            )
        beside.assume(
            "trained with VecNormalize, whose statistics are missing: observations are not "
            "normalised, as you allowed"
        )
    elif names and normalised is None:
        beside.assume(
            "without statistics of VecNormalize, though other checkpoints of the folder have some: "
            "observations are not normalised; name statistics after their checkpoint, as in "
            "best_vecnormalize.pkl, to have them applied"
        )
    return None, ""


def _own_names(stem: str) -> list[str]:
    stem = stem.lower()
    names = [f"{stem}_{word}.pkl" for word in _WORDS]
    if match := _STEPS.fullmatch(stem):
        prefix, steps = match["prefix"], match["steps"]
        names += [f"{prefix}_{word}_{steps}_steps.pkl" for word in _WORDS]
    return names


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
