"""The policy protocols, and what is known about a policy: names, origin, fingerprint."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError, did_you_mean
from pivec.terminal import encodable, printable

if TYPE_CHECKING:
    import gymnasium

    Space = gymnasium.Space[Any]


_NAMED = 5  # number of policies in an error message
HAS_MEMORY = (
    "{} has a memory, so its actions depend on the episode so far: use pivec.collect to run "
    "episodes, or pass the memory yourself"
)
ALSO = "also"  # key of the names of a policy's copies in its metadata
# Key of the environment that a policy runs in if it has one of its own (``POLICY@ENV``): what
# `Environment.to_json` gives, the backend, and the fingerprint of the policy alone.
RUNS_IN = "runs_in"


@runtime_checkable
class Policy(Protocol):
    """Anything that maps a batch of observations to a batch of actions."""

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        """Sample one action per row of ``observations``; the mode if ``deterministic``."""
        ...


class _SeededPolicy(Policy, Protocol):
    @property
    def architecture(self) -> Hashable:
        """Equal for policies that may be evaluated together, with memories of the same size."""
        ...

    def noise(self, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
        """Draw the random numbers for ``n`` successive actions, shape (n, noise size)."""
        ...


@runtime_checkable
class BatchPolicy(_SeededPolicy, Protocol):
    """A policy that takes its random numbers as an argument, one row per action.

    Each episode then has its own random stream, and its outcome does not depend on the other
    episodes of a batch. Networks of equal ``architecture`` can be stacked.
    """

    def respond(self, observations: Any, noise: NDArray[np.float32] | None) -> NDArray[Any]:
        """Actions for ``observations`` given random numbers; the mode if None."""
        ...

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        noise = None if deterministic else self.noise(rng, len(np.atleast_1d(observations)))
        return self.respond(observations, noise)


@runtime_checkable
class RecurrentPolicy(_SeededPolicy, Protocol):
    """A `BatchPolicy` with a memory: its actions depend on the episode so far.

    The caller keeps one row of memory per episode; `act` raises a UsageError.
    """

    def initial_memory(self, n: int) -> NDArray[np.float32]:
        """Memory at the beginning of ``n`` episodes, shape (n, memory size)."""
        ...

    def respond(
        self, observations: Any, noise: NDArray[np.float32] | None, memory: NDArray[np.float32]
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Actions for ``observations``, and the memory for the next ones."""
        ...

    def act(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise UsageError(HAS_MEMORY.format("this policy"))


@dataclass(frozen=True)
class PolicyInfo:
    """The name and origin of a policy."""

    label: str  # unique among the policies compared
    group: str = ""  # the training run (or any other set) it belongs to
    step: int | None = None  # training step of a checkpoint
    source: str = ""  # path, ``module:object`` or ``random``
    metadata: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    fingerprint: str = ""  # digest of what decides its actions, or of its name; empty if unknown

    def __post_init__(self) -> None:
        # Names reach terminals, tables and pages: control characters are escaped here, once.
        for name in ("label", "group"):
            object.__setattr__(self, name, printable(getattr(self, name)))
        object.__setattr__(self, "source", encodable(self.source))  # a path, maybe not UTF-8

    @property
    def identity(self) -> str:
        """What its episodes' seeds derive from: the fingerprint, or else the label."""
        return self.fingerprint or self.label

    @property
    def own_environment(self) -> Mapping[str, Any]:
        """How the environment differs in which this policy runs, see `RUNS_IN`; maybe empty."""
        own = self.metadata.get(RUNS_IN)
        return own if isinstance(own, Mapping) else {}

    @property
    def policy_fingerprint(self) -> str:
        """The fingerprint of the policy alone, without that of an environment of its own."""
        return str(self.own_environment.get("fingerprint", self.fingerprint))


@dataclass(frozen=True)
class NamedPolicy:
    """A policy together with its `PolicyInfo`."""

    policy: Policy
    info: PolicyInfo
    environment: Any = None  # of its own: as the user gave it, or an `Environment`


def check_width(n_inputs: int, space: Space, flat: bool = True) -> None:
    """Reject observations of another size than a policy expects.

    Unless ``flat``, discrete values need not be one-hot encoded.
    """
    width = flat_width(space)
    plain = width if flat or space.shape is None else int(np.prod(space.shape))
    if n_inputs not in (width, plain):
        raise UsageError(
            f"this policy expects observations of {n_inputs} values, but the environment gives "
            f"{width} ({space}): was it trained in another environment?"
        )


def flat_width(space: Space) -> int:
    """Number of values of a flattened observation, which must not contain text."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict) and (texts := [key for key in space if is_text(space[key])]):
        raise UsageError(
            f"this policy expects numbers, but {', '.join(texts)} of the observations is text: "
            "wrap the environment as in training (MiniGrid, for example, with --wrappers "
            "minigrid.wrappers:FlatObsWrapper or minigrid.wrappers:ImgObsWrapper)"
        )
    try:
        return spaces.flatdim(space)
    except (NotImplementedError, ValueError) as error:
        raise UsageError(f"a network needs observations of a fixed size, not {space}") from error


def is_text(space: Space) -> bool:
    """Whether elements of a space are text, such as the missions of MiniGrid."""
    return space.dtype is not None and space.dtype.kind == "U"


def unbound(policy: str, what: str) -> UsageError:
    """Make the error for a policy that has not been bound to an environment yet."""
    return UsageError(
        f"{what} of {policy} are not known yet: call bind with the spaces of the environment first"
    )


def fingerprint_of(specification: str) -> str:
    """Fingerprint of a policy of which only a specification is known."""
    return hashlib.sha256(specification.encode("utf-8", "surrogateescape")).hexdigest()


def canonical_order(policies: Sequence[PolicyInfo]) -> NDArray[np.intp]:
    """Indices of the policies in an order that does not depend on the order of the arguments.

    Examples
    --------
    >>> a, b = PolicyInfo("a", fingerprint="2"), PolicyInfo("b", fingerprint="1")
    >>> canonical_order([a, b]), canonical_order([b, a])
    (array([1, 0]), array([0, 1]))
    """
    keys = [(info.identity, info.label) for info in policies]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def other_names(info: PolicyInfo) -> list[str]:
    """Names of the copies of a policy."""
    names = info.metadata.get(ALSO)  # a file may use the key otherwise
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def find_policy(policies: Sequence[PolicyInfo], name: str, where: str) -> int:
    """Find a policy by its label, by another of its names, or by the end of its label.

    Examples
    --------
    >>> infos = [PolicyInfo("runs/ppo/1000"), PolicyInfo("runs/ppo/2000")]
    >>> find_policy(infos, "ppo/2000", "runs")
    1
    """
    name = printable(name)  # as labels are
    called = [[info.label, *other_names(info)] for info in policies]
    exact = [row for row, names in enumerate(called) if name in names]
    ending = [row for row, names in enumerate(called) if names[0].endswith(f"/{name}")]
    if exact or len(ending) == 1:  # the folder may have moved
        return (exact or ending)[0]
    labels = [info.label for info in policies]
    if ending:
        found = first_names([labels[row] for row in ending])
        raise UsageError(f"{len(ending)} policies of {where} end in {name!r}: choose from {found}")
    raise UsageError(
        f"{where} has no policy {name!r}{did_you_mean(name, labels)}: it has {first_names(labels)}"
    )


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sorting key under which step_9000 comes before step_10000."""
    pieces = re.split(r"(\d{1,18})", text)
    return tuple((0, int(p), p) if i % 2 else (1, 0, p) for i, p in enumerate(pieces) if p)


def first_names(labels: Sequence[str]) -> str:
    """Names of the first policies of many.

    Examples
    --------
    >>> first_names(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d, e ...'
    """
    return ", ".join(labels[:_NAMED]) + (" ..." if len(labels) > _NAMED else "")


def environment_names(default: object, policies: Sequence[PolicyInfo]) -> str:
    """Names of the environments that policies run in; ``default`` for those without their own.

    Examples
    --------
    >>> own = PolicyInfo("b", metadata={RUNS_IN: {"environment": "CartPole-v0"}})
    >>> environment_names("CartPole-v1", [PolicyInfo("a"), own])
    'CartPole-v1, CartPole-v0'
    """
    names = [str(info.own_environment.get("environment", default or "")) for info in policies]
    return ", ".join(dict.fromkeys(names or [str(default or "")]))


def also_called(info: PolicyInfo) -> str:
    """Other names of a policy, as "also run/best"; empty if it has none."""
    names = other_names(info)
    return f"also {', '.join(names)}" if names else ""
