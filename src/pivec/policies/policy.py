"""Who acts: the Policy protocol, and what is known about a policy beside its actions."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError, did_you_mean
from pivec.terminal import encodable

if TYPE_CHECKING:
    import gymnasium


_NAMED = 5  # how many policies an error names
HAS_MEMORY = (
    "{} has a memory, so its actions depend on the episode so far: let it play episodes, as "
    "pivec.collect does, or pass the memory along yourself"
)
ALSO = "also"  # under which the metadata of a policy keep the names of its copies


@runtime_checkable
class Policy(Protocol):
    """Anything that answers a batch of observations with a batch of actions."""

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        """Sample one action for each row of ``observations``; the mode if ``deterministic``."""
        ...


@runtime_checkable
class BatchPolicy(Policy, Protocol):
    """A policy whose randomness comes in as numbers, one row for each action.

    Each episode then has a random stream of its own, and the outcome does not depend on which
    episodes are answered together. Policies of equal ``architecture`` can be stacked.
    """

    @property
    def architecture(self) -> Hashable:
        """Equal for policies that may be answered together by one `Stack`."""
        ...

    def noise(self, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
        """Draw the random numbers of ``n`` successive actions, shape (n, noise size)."""
        ...

    def respond(self, observations: Any, noise: NDArray[np.float32] | None) -> NDArray[Any]:
        """Actions for ``observations`` given their random numbers; the mode if None."""
        ...

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        """Sample one action for each row of ``observations``; the mode if ``deterministic``."""
        noise = None if deterministic else self.noise(rng, len(np.atleast_1d(observations)))
        return self.respond(observations, noise)


@runtime_checkable
class RecurrentPolicy(Policy, Protocol):
    """A `BatchPolicy` with a memory: what it does depends on its episode so far.

    Whoever asks it keeps a row of memory for each episode. It cannot be asked by `act`.
    """

    @property
    def architecture(self) -> Hashable:
        """Equal for policies whose memories have the same size, see `BatchPolicy`."""
        ...

    def noise(self, rng: np.random.Generator, n: int) -> NDArray[np.float32]:
        """Draw the random numbers of ``n`` successive actions, shape (n, noise size)."""
        ...

    def initial_memory(self, n: int) -> NDArray[np.float32]:
        """Give the memory with which ``n`` episodes begin, shape (n, memory size)."""
        ...

    def respond(
        self, observations: Any, noise: NDArray[np.float32] | None, memory: NDArray[np.float32]
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Actions for ``observations``, and the memory with which the next ones are answered."""
        ...

    def act(
        self,
        observations: Any,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        deterministic: bool = False,  # noqa: ARG002
    ) -> NDArray[Any]:
        """Refuse: an action without the memory of its episode would be a wrong one."""
        raise UsageError(HAS_MEMORY.format("this policy"))


@dataclass(frozen=True)
class PolicyInfo:
    """What a policy is called and where it comes from."""

    label: str  # how it is shown; unique among the policies compared
    group: str = ""  # the training run (or any other set) it belongs to
    step: int | None = None  # of training, of a checkpoint
    source: str = ""  # path, ``module:object`` or ``random``
    metadata: Mapping[str, Any] = field(default_factory=dict)  # what else JSON can hold
    fingerprint: str = ""  # a digest of what decides its actions, or of its name; empty if unknown

    def __post_init__(self) -> None:
        for name in ("label", "group", "source"):  # of files whose names are not UTF-8
            object.__setattr__(self, name, encodable(getattr(self, name)))

    @property
    def identity(self) -> str:
        """What its episodes' seeds follow from: the fingerprint, or without one the label."""
        return self.fingerprint or self.label


@dataclass(frozen=True)
class NamedPolicy:
    """A policy together with its `PolicyInfo`."""

    policy: Policy
    info: PolicyInfo


def check_width(n_inputs: int, space: gymnasium.Space[Any], flat: bool = True) -> None:
    """Refuse observations of another number of values than a policy expects.

    Without ``flat``, whole numbers may also come as they are instead of one-hot.
    """
    width = flat_width(space)
    plain = width if flat or space.shape is None else int(np.prod(space.shape))
    if n_inputs not in (width, plain):
        raise UsageError(
            f"this policy expects observations of {n_inputs} values, but the environment gives "
            f"{width} ({space}): was it trained in another environment?"
        )


def flat_width(space: gymnasium.Space[Any]) -> int:
    """Count the numbers of a flattened observation, which must have no text in it."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict) and (texts := [key for key in space if is_text(space[key])]):
        raise UsageError(
            f"this policy expects numbers, but {', '.join(texts)} of the observations is text: "
            "wrap the environment as in training (of MiniGrid, say, with --wrappers "
            "minigrid.wrappers:FlatObsWrapper or minigrid.wrappers:ImgObsWrapper)"
        )
    try:
        return spaces.flatdim(space)
    except (NotImplementedError, ValueError) as error:
        raise UsageError(f"a network needs observations of a fixed size, not {space}") from error


def is_text(space: gymnasium.Space[Any]) -> bool:
    """Whether elements of a space are text, as the missions of MiniGrid."""
    return space.dtype is not None and space.dtype.kind == "U"


def unbound(policy: str, what: str) -> UsageError:
    """Make the error of a policy that ``bind`` has not told its actions yet."""
    return UsageError(
        f"{policy} does not know {what} yet: call bind with the spaces of the environment first"
    )


def fingerprint_of(specification: str) -> str:
    """Give the fingerprint of a policy of which only a specification is known."""
    return hashlib.sha256(specification.encode("utf-8", "surrogateescape")).hexdigest()


def canonical_order(policies: Sequence[PolicyInfo]) -> NDArray[np.intp]:
    """Numbers of the policies in an order that does not depend on how they were given.

    Examples
    --------
    >>> a, b = PolicyInfo("a", fingerprint="2"), PolicyInfo("b", fingerprint="1")
    >>> canonical_order([a, b]), canonical_order([b, a])
    (array([1, 0]), array([0, 1]))
    """
    keys = [(info.identity, info.label) for info in policies]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def other_names(info: PolicyInfo) -> list[str]:
    """Give the names of the copies of a policy."""
    names = info.metadata.get(ALSO)  # which a file may hold for reasons of its own
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def find_policy(policies: Sequence[PolicyInfo], name: str, where: str) -> int:
    """Find a policy by its label, by another name it has, or by the end of its label alone.

    Examples
    --------
    >>> infos = [PolicyInfo("runs/ppo/1000"), PolicyInfo("runs/ppo/2000")]
    >>> find_policy(infos, "ppo/2000", "runs")
    1
    """
    called = [[info.label, *other_names(info)] for info in policies]
    exact = [row for row, names in enumerate(called) if name in names]
    ending = [row for row, names in enumerate(called) if names[0].endswith(f"/{name}")]
    if exact or len(ending) == 1:  # a label begins with the folder, which may have moved
        return (exact or ending)[0]
    labels = [info.label for info in policies]
    raise UsageError(
        f"{where} has no policy {name!r}{did_you_mean(name, labels)}: it has {first_names(labels)}"
    )


def first_names(labels: Sequence[str]) -> str:
    """Name the first policies of many.

    Examples
    --------
    >>> first_names(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d, e ...'
    """
    return ", ".join(labels[:_NAMED]) + (" ..." if len(labels) > _NAMED else "")


def also_called(info: PolicyInfo) -> str:
    """Say the other names of a policy, as "also run/best"; empty if it has none."""
    names = other_names(info)
    return f"also {', '.join(names)}" if names else ""
