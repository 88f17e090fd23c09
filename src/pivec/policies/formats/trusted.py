"""What only Stable-Baselines3 itself can read, with the user's trust: it loads, pivec samples.

The library's policy is asked for the distribution of actions, one observation at a time, and
actions are drawn from that by pivec's own heads: they follow from the seed as all others do.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import os
import random
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, MissingExtra, PivecError, UsageError
from pivec.policies.distributions import (
    HeadDescription,
    Model,
    Options,
    OutputPolicy,
    counts,
    row_by_row,
)
from pivec.policies.formats import Beside
from pivec.policies.formats.sb3 import SB3Settings
from pivec.policies.forward import Float
from pivec.policies.policy import check_width
from pivec.policies.tensors import Tensors

if TYPE_CHECKING:
    import gymnasium

LIBRARY, CONTRIB = "stable_baselines3", "sb3_contrib"
# By which of its settings an algorithm is known, those first that have others' settings too.
MARKS = {
    "top_quantiles_to_drop_per_net": (CONTRIB, "TQC"),
    "quantile_net": (CONTRIB, "QRDQN"),
    "policy_delay": (LIBRARY, "TD3"),
    "target_entropy": (LIBRARY, "SAC"),
    "exploration_fraction": (LIBRARY, "DQN"),
    "clip_range": (LIBRARY, "PPO"),
    "cg_max_steps": (CONTRIB, "TRPO"),
    "n_delta": (CONTRIB, "ARS"),
    "gae_lambda": (LIBRARY, "A2C"),
}
# Modules of policies of algorithms that have the settings of another one.
MODULES = {"crossq": "CrossQ", "maskable": "MaskablePPO"}


def read_by_library(
    data: bytes, settings: SB3Settings, tensors: Tensors, beside: Beside, reason: PivecError
) -> tuple[OutputPolicy, dict[str, Any]]:
    """Let the library read a checkpoint that was refused for ``reason``, if the user trusts it."""
    if any(name.startswith("lstm_actor.") for name in tensors):
        raise BadPolicyFile(
            f"{reason}; since it has a memory, load it in a module of your own and pass the model "
            "as module:object"
        ) from reason
    if not beside.trust:
        raise BadPolicyFile(
            f"{reason}; if you trust where it comes from, --trust (in Python: trust=True) lets "
            "Stable-Baselines3 itself read it, which can run any code that is in it"
        ) from reason
    package, algorithm = _algorithm(settings, tensors, reason)
    digest = hashlib.sha256(algorithm.encode())
    for key in ("policy_class", "policy_kwargs"):
        digest.update(repr(sorted(settings.mapping(key).items())).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tensor.shape}".encode() + tensor.tobytes())
    model = LibraryModel(data, package, algorithm, digest.hexdigest())
    head = model.described()
    info: dict[str, Any] = {"algorithm": algorithm}
    if head.name == "epsilon_greedy":
        info["epsilon"] = head.options.epsilon
    return OutputPolicy(model, head), info


def _algorithm(settings: SB3Settings, tensors: Tensors, reason: PivecError) -> tuple[str, str]:
    """Find the package and the class that wrote a checkpoint."""
    for part, algorithm in MODULES.items():
        if part in settings.policy_module:
            return CONTRIB, algorithm
    if any(name.startswith("quantile_net") for name in tensors):
        return MARKS["quantile_net"]
    for mark, kind in MARKS.items():
        if mark in settings.values:
            return kind
    raise BadPolicyFile(f"{reason}; nor do its settings tell which algorithm wrote it") from reason


@dataclass(frozen=True, eq=False)
class LibraryModel(Model):
    """A policy of Stable-Baselines3 as a `Model`; it survives pickling by being loaded again."""

    data: bytes = field(repr=False)  # the whole file
    package: str
    algorithm: str
    fingerprint: str = ""
    space: Any = field(default=None, repr=False)  # of the observations that it will be shown
    policy: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", _load(self.data, self.package, self.algorithm))

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.data, self.package, self.algorithm, self.fingerprint, self.space)
        return LibraryModel, given

    @property
    def n_inputs(self) -> int | None:
        """Of whole numbers how many there are: the library makes them one-hot itself."""
        from gymnasium import spaces

        space = self.policy.observation_space
        whole = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
        return int(np.prod(space.shape)) if whole else None

    def bind(self, observation_space: gymnasium.Space[Any]) -> Self:
        """Check that the observations are as many numbers as in the training."""
        from gymnasium import spaces

        check_width(spaces.flatdim(self.policy.observation_space), observation_space)
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__, space=observation_space)
        return bound

    def described(self) -> HeadDescription:
        """Tell what the outputs are."""
        from stable_baselines3.common import distributions

        policy, shape = self.policy, self.policy.action_space.shape
        options = Options(shape=shape if shape and len(shape) > 1 else None)
        if hasattr(policy, "q_net") or hasattr(policy, "quantile_net"):
            epsilon = float(getattr(policy, "exploration_rate", 0.0))
            return HeadDescription("epsilon_greedy", replace(options, epsilon=epsilon))
        kind = getattr(policy, "action_dist", None) or getattr(
            getattr(policy, "actor", None), "action_dist", None
        )
        squash = bool(policy.squash_output)
        match kind:
            case distributions.CategoricalDistribution():
                return HeadDescription("categorical")
            case distributions.MultiCategoricalDistribution():
                choices = tuple(policy.action_space.nvec.ravel().tolist())
                return HeadDescription("multi_categorical", replace(options, choices=choices))
            case distributions.BernoulliDistribution():
                return HeadDescription("bernoulli", options)
            case (
                distributions.DiagGaussianDistribution()
                | distributions.StateDependentNoiseDistribution()
            ):
                options = replace(options, squash=squash, deviations="plain")
                return HeadDescription("state_gaussian", options)
            case None if self.algorithm in ("TD3", "DDPG", "ARS"):
                whole = policy.action_space.shape == ()
                return HeadDescription("actions" if whole else "deterministic", options)
        raise BadPolicyFile(
            f"its policy is a {type(policy).__name__}, of which it is not known how actions are "
            "drawn (of MaskablePPO only MLPs are read): pass it as module:object"
        )

    def outputs(self, observations: Float) -> NDArray[Any]:
        return row_by_row(self._answer, np.asarray(observations))

    def _answer(self, rows: NDArray[Any]) -> NDArray[Any]:
        import torch

        try:
            with torch.inference_mode(), _generators_kept():
                return self._numbers(self._observation(rows)).reshape(len(rows), -1)
        except Exception as error:  # whatever the user's network raises
            raise UsageError(
                f"{self.algorithm} failed on observations of shape {rows.shape[1:]} "
                f"({type(error).__name__}: {str(error)[:300]})"
            ) from error

    def _observation(self, rows: NDArray[Any]) -> Any:
        """Give the library a batch of one as the environment has it."""
        from gymnasium import spaces

        space = self.space or self.policy.observation_space
        if not isinstance(space, spaces.Dict):
            return _typed(rows, space)
        sizes = [spaces.flatdim(part) for part in space.spaces.values()]
        pieces = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
        return {key: _unflat(space[key], rows) for key, rows in zip(space, pieces, strict=True)}

    def _numbers(self, observation: Any) -> NDArray[Any]:
        policy = self.policy
        if self.algorithm in ("TD3", "DDPG", "ARS"):
            return np.asarray(policy.predict(observation, deterministic=True)[0])
        seen, _ = policy.obs_to_tensor(observation)
        if hasattr(policy, "q_net"):
            return np.asarray(policy.q_net(seen))
        if hasattr(policy, "quantile_net"):
            return np.asarray(policy.quantile_net(seen).mean(dim=1))
        if hasattr(policy, "actor"):
            mean, log_std, more = policy.actor.get_action_dist_params(seen)
            given = policy.actor.action_dist.proba_distribution(mean, log_std, **more).distribution
        else:
            given = policy.get_distribution(seen).distribution
        if isinstance(given, list | tuple):  # of several choices
            return np.concatenate([np.asarray(part.logits) for part in given], axis=1)
        if hasattr(given, "logits"):
            return np.asarray(given.logits)
        return np.concatenate([np.asarray(given.mean), np.asarray(given.stddev)], axis=1)


def _unflat(space: gymnasium.Space[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Undo Gymnasium's flattening; of whole numbers, which then are one-hot, zeros alone are 0."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        parts = np.split(rows, np.cumsum(counts(space))[:-1], axis=1)
        rows = np.stack([part.argmax(axis=1) for part in parts], axis=1) + np.ravel(space.start)
    return _typed(rows.reshape(len(rows), *(space.shape or ())), space)


def _typed(rows: NDArray[Any], space: gymnasium.Space[Any]) -> NDArray[Any]:
    """Give numbers the type that the space has, unless statistics made others of them."""
    with np.errstate(invalid="ignore"):
        typed = rows.astype(space.dtype)
    return typed if np.array_equal(typed, rows) else rows


def _load(data: bytes, package: str, algorithm: str) -> Any:
    """Give the library's policy, ready to be asked."""
    try:
        library = importlib.import_module(package)
    except ImportError as error:
        what = f"reading what only {algorithm} of {package} can read"
        if package == LIBRARY:
            raise MissingExtra(what, "sb3") from error
        raise BadPolicyFile(f"{what} needs that package: pip install sb3-contrib") from error
    here, failure = os.getcwd(), ""
    sys.path.insert(0, here)  # where the classes of the user's may be
    try:
        with warnings.catch_warnings(record=True) as said, _generators_kept():
            warnings.simplefilter("always")
            model = getattr(library, algorithm).load(io.BytesIO(data), device="cpu")
    except Exception as error:  # whatever the code in the file raises
        failure = f"{type(error).__name__}: {error}"
    finally:
        if here in sys.path:
            sys.path.remove(here)
    # Without what it could not unpickle the library goes on, with another network.
    texts = [str(warning.message) for warning in said]
    failure = next((text for text in texts if "deserialize object policy" in text), failure)
    if failure:
        raise BadPolicyFile(f"{algorithm}.load failed: {' '.join(failure.split())[:400]}")
    policy = model.policy
    policy.set_training_mode(False)
    policy.exploration_rate = getattr(model, "exploration_rate", 0.0)
    return policy


@contextlib.contextmanager
def _generators_kept() -> Iterator[None]:
    """Leave the global random generators as they are, which the library seeds and draws from."""
    import torch

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
