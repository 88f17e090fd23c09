"""Policies that are networks: perceptrons, stacks of them, LSTMs, and any other model.

- `NetworkPolicy`: a multilayer perceptron; `Stack`: many with one architecture, answered together
- `MaskedPolicy`: a network with a mask of valid actions, as MaskablePPO
- `RecurrentNetwork`: an LSTM and the layers after it
- `OutputPolicy`: actions from the outputs of any `Model` (ONNX, TorchScript, NEAT, CNNs, ...)
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.distributions import (
    ActionDistribution,
    Distribution,
    DistributionSpec,
    Options,
    counts,
    frozen,
    make_distribution,
)
from pivec.policies.forward import (
    ACTIVATIONS,
    Float,
    Layer,
    Normaliser,
    Perceptrons,
    evaluate,
    normalise,
)
from pivec.policies.policy import BatchPolicy, RecurrentPolicy, check_width, flat_width, unbound

if TYPE_CHECKING:
    from pivec.policies.policy import Space

OneHot = tuple[tuple[int, int], ...]  # of discrete observations: number of values, the least
MASKED_LOGIT = np.float32(-1e8)  # of invalid actions, as in SB3-contrib


class _Sampling:
    """What policies share that have an `action_distribution`."""

    action_distribution: ActionDistribution

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        return self.action_distribution.noise(rng, n)

    def _choose(self, outputs: Float, noise: Any) -> NDArray[Any]:
        """Actions for outputs (n, k), given random numbers of the right shape or None."""
        head = self.action_distribution
        if noise is not None:
            noise, expected = np.asarray(noise, np.float32), (len(outputs), head.noise_size)
            if noise.shape != expected:
                raise UsageError(
                    f"expected random numbers of shape {expected}, but got {noise.shape}"
                )
        return head.choose(outputs, noise, head.parameters())


@dataclass(frozen=True, eq=False)
class NetworkPolicy(_Sampling, BatchPolicy):
    """A policy whose action distribution is the output of a multilayer perceptron.

    The ``head`` says what the outputs are: "categorical" (logits), "multi_categorical" (logits of
    several choices), "bernoulli" (logits of binary values), "epsilon_greedy" (action values),
    "proportional" (action values, sampled in proportion to their excess over the least),
    "gaussian" (means), "state_gaussian" (means and standard deviations) or "deterministic". With
    ``state_std``, random weights with these standard deviations, redrawn at every action, are
    added to those of the last layer (generalised state-dependent exploration); this requires the
    head "state_gaussian" with plain deviations.

    Examples
    --------
    >>> import numpy as np
    >>> layer = (np.array([[1.0, -1.0]]), np.zeros(2))
    >>> policy = NetworkPolicy((layer,), "tanh", "categorical")
    >>> policy.distribution([[0.0], [2.0]]).round(2)
    array([[0.5 , 0.5 ], [0.98, 0.02]], dtype=float32)
    >>> policy.act([[3.0], [-3.0]], np.random.default_rng(0), deterministic=True)
    array([0, 1])
    """

    layers: tuple[Layer, ...]  # weights (in, out) and biases (out,), kept as read-only float32
    activation: str  # in `ACTIVATIONS`, between the layers; the last layer has none
    head: str  # in `DISTRIBUTIONS`
    log_std: Float | None = None  # (actions,), of a "gaussian" head
    low: Float | None = None  # (actions,), the bounds that real actions are clipped to,
    high: Float | None = None  # or squashed into
    options: Options = field(default_factory=Options)
    state_std: Float | None = None  # (in, actions)
    normaliser: Normaliser | None = None  # applied to observations first
    action_distribution: ActionDistribution = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise UsageError(f"activation must be one of {known}, but is {self.activation!r}")
        object.__setattr__(self, "layers", _checked_layers(self.layers))
        width = self.n_outputs
        if self.state_std is not None:
            if self.head != "state_gaussian" or self.options.deviations != "plain":
                raise UsageError("state_std needs a state_gaussian head with plain deviations")
            array, expected = frozen(self.state_std), self.layers[-1][0].shape
            if array.shape != expected or not np.isfinite(array).all() or (array < 0).any():
                raise UsageError(
                    f"state_std must hold finite numbers from 0 in the shape {expected} of the "
                    f"last layer's weights, but has shape {array.shape}"
                )
            object.__setattr__(self, "state_std", array)
            width *= 2
        arrays = {"log_std": self.log_std, "low": self.low, "high": self.high}
        made = make_distribution(self.head, width, self.options, arrays)
        for name in arrays:
            object.__setattr__(self, name, getattr(made, name))
        object.__setattr__(self, "action_distribution", made)
        if self.normaliser is not None:
            self.normaliser.check_width(self.n_inputs, "the network expects")

    @property
    def n_inputs(self) -> int:
        """Number of values of a flattened observation."""
        return int(self.layers[0][0].shape[0])

    @property
    def n_outputs(self) -> int:
        return int(self.layers[-1][0].shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths of the layers, starting with the input."""
        return (self.n_inputs, *(weight.shape[1] for weight, _ in self.layers))

    @property
    def architecture(self) -> Hashable:
        plain = ("network", self.sizes, self.activation, self.action_distribution.key)
        more = (self.state_std is not None, self.normaliser is not None)
        return (*plain, *more) if any(more) else plain

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self.architecture).encode())
        for weight, bias in self.layers:
            digest.update(weight.tobytes() + bias.tobytes())
        if self.head == "epsilon_greedy":
            digest.update(repr(self.options.epsilon).encode())
        for array in (self.log_std, self.low, self.high):
            digest.update(b"-" if array is None else array.tobytes())
        if self.state_std is not None:
            digest.update(self.state_std.tobytes())
        if self.normaliser is not None:
            digest.update(self.normaliser.tobytes())
        return digest.hexdigest()

    def respond(self, observations: Any, noise: Float | None) -> NDArray[Any]:
        return self._choose(self.outputs(observations), noise)

    def outputs(self, observations: Any) -> Float:
        """Network outputs (n, k) for observations (n, ...)."""
        rows = self._rows(observations)
        outputs: Float = Stack(1, len(rows), self).outputs(rows[None])[0]
        return outputs

    @property
    def n_latent(self) -> int:
        """Width of the last hidden layer; 0 if there is none."""
        return self.sizes[-2] if len(self.layers) > 1 else 0

    def latent(self, observations: Any) -> Float:
        """Values (n, k) of the last hidden layer."""
        rows = self._rows(observations)
        if self.normaliser is not None:
            rows = self.normaliser.apply(rows)
        return self._trunk(rows)

    @cached_property
    def _trunk(self) -> Perceptrons:
        return Perceptrons.of(self.layers[:-1], self.activation, self.activation)

    def distribution(self, observations: Any) -> Distribution:
        """Probabilities (n, actions), or means and standard deviations of (n, actions) each.

        Means and deviations are those before clipping or squashing. The probabilities of several
        choices are concatenated; binary values have the probability of 1.
        """
        return self.action_distribution.distribution(self.outputs(observations))

    def bind(self, observation_space: Space, action_space: Space) -> NetworkPolicy:
        """Check that this policy fits an environment's spaces; take missing bounds from them.

        Observations are flattened as Gymnasium does. The bounds a policy was trained with stay,
        except that those read off rounded text become exact.
        """
        check_width(self.n_inputs, observation_space)
        return self.for_actions(action_space)

    def for_actions(self, action_space: Space) -> NetworkPolicy:
        """Check that the actions fit; take their bounds from the space."""
        bound = self.action_distribution.bind(action_space)
        same = bound is self.action_distribution
        return self if same else replace(self, low=bound.low, high=bound.high)

    def _rows(self, observations: Any) -> Float:
        rows = np.asarray(observations, dtype=np.float32)
        if rows.ndim == 0 or (rows.size != len(rows) * self.n_inputs):
            raise UsageError(
                f"expected a batch of observations of {self.n_inputs} values each, "
                f"but got an array of shape {rows.shape}"
            )
        return rows.reshape(len(rows), self.n_inputs)


def _checked_layers(layers: Any) -> tuple[Layer, ...]:
    """Read-only float32 copies of layers with matching shapes."""
    result = tuple((frozen(weight), frozen(bias)) for weight, bias in layers)
    if not result:
        raise UsageError("a network needs at least one layer")
    width = None
    for i, (weight, bias) in enumerate(result):
        if weight.ndim != 2 or 0 in weight.shape or bias.shape != weight.shape[1:]:
            raise UsageError(
                f"layer {i} needs weights of shape (in, out) and biases of shape (out,), "
                f"not {weight.shape} and {bias.shape}"
            )
        if width not in (None, weight.shape[0]):
            raise UsageError(
                f"layer {i} expects {weight.shape[0]} inputs, but layer {i - 1} has {width} outputs"
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise UsageError(f"layer {i} holds NaN or infinite weights: the training diverged")
        width = weight.shape[1]
    return result


class Stack:
    """``slots`` networks of one architecture, each answering ``lanes`` observations at a time.

    A row's action depends neither on the number of lanes nor on the other slots, to the last bit.
    A stack holds buffers, so only one thread at a time may use it. ``like`` gives the
    architecture, and fills every slot until another network is put there.

    Examples
    --------
    >>> import numpy as np
    >>> right = NetworkPolicy(((np.array([[-1.0, 1.0]]), np.zeros(2)),), "tanh", "categorical")
    >>> left = NetworkPolicy(((np.array([[1.0, -1.0]]), np.zeros(2)),), "tanh", "categorical")
    >>> stack = Stack(slots=2, lanes=3, like=right)
    >>> stack.put(1, left)
    >>> stack.respond(np.ones((2, 3, 1)), None)
    array([[1, 1, 1], [0, 0, 0]])
    """

    def __init__(self, slots: int, lanes: int, like: NetworkPolicy) -> None:
        if slots < 1 or lanes < 0:
            raise UsageError(f"a stack needs slots, but was asked for {slots} of {lanes} lanes")
        self.architecture, self._rule = like.architecture, like.action_distribution
        sizes = like.sizes
        self._shape = (slots, lanes, sizes[0])
        self._layers = Perceptrons(sizes, like.activation, slots=slots)
        self._values = self._layers.buffers(lanes)
        # The variances of outputs, given the squares of the last layer's inputs.
        self._variances = None
        if like.state_std is not None:
            self._variances = Perceptrons(sizes[-2:], "identity", slots=slots)
        # One row per slot, and an axis of length one that repeats it over the lanes.
        self._parameters = tuple(
            np.zeros((slots, 1, len(array)), np.float32) for array in self._rule.parameters()
        )
        self._statistics = tuple(
            np.ones((slots, 1, sizes[0])) for _ in range(3 * (like.normaliser is not None))
        )
        for slot in range(slots):
            self.put(slot, like)

    def put(self, slot: int, policy: NetworkPolicy) -> None:
        """Let ``policy`` answer in ``slot`` from now on."""
        if policy.architecture != self.architecture:
            raise UsageError(
                f"a stack of {self.architecture} cannot hold a policy of {policy.architecture}"
            )
        self._layers.put(slot, policy.layers)
        if self._variances is not None and policy.state_std is not None:
            none = np.zeros(policy.n_outputs, np.float32)
            self._variances.put(slot, [(np.square(policy.state_std), none)])
        parameters = policy.action_distribution.parameters()
        for own, values in zip(self._parameters, parameters, strict=True):
            own[slot, 0] = values
        if policy.normaliser is not None:
            for doubles, statistics in zip(self._statistics, policy.normaliser.arrays, strict=True):
                doubles[slot, 0] = statistics

    def outputs(self, observations: NDArray[Any]) -> Float:
        """Outputs (slots, lanes, out) for observations (slots, lanes, in).

        With ``state_std`` s and inputs h of the last layer, they are followed by the standard
        deviations sqrt(sum over i of h_i^2 s_i^2).
        """
        if np.shape(observations) != self._shape:
            raise UsageError(
                f"expected observations of shape {self._shape}, but got {np.shape(observations)}"
            )
        if self._statistics:
            observations = normalise(observations, *self._statistics)
        outputs = self._layers.forward(observations, self._values)
        if self._variances is None:
            return outputs.copy()
        # Buffers are padded: only the values of the last hidden layer count.
        hidden = self._values[-2][:, : self._shape[1], : self._layers.sizes[-2]]
        buffers = self._variances.buffers(self._shape[1])
        spread = np.sqrt(self._variances.forward(np.square(hidden), buffers))
        return np.concatenate([outputs, spread], axis=-1)

    def respond(self, observations: NDArray[Any], noise: Float | None) -> NDArray[Any]:
        """Actions (slots, lanes, ...) for observations (slots, lanes, n_inputs).

        ``noise`` has the shape (slots, lanes, noise size); without it, actions are the mode.
        """
        expected = (*self._shape[:2], self._rule.noise_size)
        if noise is not None and np.shape(noise) != expected:
            raise UsageError(
                f"expected random numbers of shape {expected}, but got {np.shape(noise)}"
            )
        return self._rule.choose(self.outputs(observations), noise, self._parameters)


@dataclass(frozen=True, eq=False)
class MaskedPolicy(_Sampling, BatchPolicy):
    """A network whose actions are sampled among those that masks (n, logits) allow.

    Examples
    --------
    >>> network = NetworkPolicy(((np.ones((1, 3)), np.arange(3.0)),), "tanh", "categorical")
    >>> MaskedPolicy(network).respond([[0.0]], None, np.array([[True, True, False]]))
    array([1])
    """

    network: NetworkPolicy

    @property
    def action_distribution(self) -> ActionDistribution:  # type: ignore[override]
        return self.network.action_distribution

    @property
    def architecture(self) -> Hashable:
        """Never equal to that of a network without masks."""
        return ("masked", self.network.architecture)

    @property
    def fingerprint(self) -> str:
        return f"masked {self.network.fingerprint}"

    def respond(
        self,
        observations: Any,
        noise: Float | None,
        masks: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """Actions for ``observations`` (n, ...) that ``masks`` allow."""
        return self._choose(self._outputs(observations, masks), noise)

    def distribution(
        self, observations: Any, masks: NDArray[np.bool_] | None = None
    ) -> Distribution:
        """Probabilities (n, actions)."""
        return self.action_distribution.distribution(self._outputs(observations, masks))

    def bind(self, observation_space: Space, action_space: Space) -> MaskedPolicy:
        return replace(self, network=self.network.bind(observation_space, action_space))

    def _outputs(self, observations: Any, masks: NDArray[np.bool_] | None) -> Float:
        outputs = self.network.outputs(observations)
        if masks is None or np.shape(masks) != outputs.shape:
            given = "there are none" if masks is None else f"they have shape {np.shape(masks)[1:]}"
            raise UsageError(
                f"this policy needs masks of {outputs.shape[1]} values, one per action, from "
                f"action_masks() of its environment, but {given}"
            )
        outputs[~np.asarray(masks, bool)] = MASKED_LOGIT
        return outputs


class Model(ABC):
    """A function from observations to outputs.

    The outputs of a row depend on nothing but the row, to the last bit. Subclasses set
    ``fingerprint``, and the other attributes where they are known.
    """

    fingerprint: str  # digest of everything that decides the outputs
    n_inputs: int | None = None  # number of values of an observation
    n_latent: int = 0  # width of the last hidden layer

    def set(self, **facts: Any) -> None:
        """Set attributes, in ``__post_init__`` of a frozen dataclass."""
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def outputs(self, observations: Float) -> NDArray[Any]:
        """Outputs (n, k) for observations (n, ...)."""

    def latent(self, observations: Float) -> Float:  # noqa: ARG002
        """Values (n, k) of the last hidden layer, if its width is known."""
        raise UsageError(f"the hidden layers of {type(self).__name__} are not known")

    def bind(self, observation_space: Space) -> Self:
        """Check that the model fits; may return another one for these observations."""
        if self.n_inputs is not None:
            check_width(self.n_inputs, observation_space, flat=False)
        return self


class Features(Model):
    """A model that replaces the observations a network receives, as convolutions do."""

    n_outputs: int
    about: tuple[Any, ...]  # what decides the features besides the weights
    weights: tuple[Layer, ...]

    def digest(self, *more: Any) -> str:
        """Digest of these features and of whatever follows them."""
        return _digest((*self.about, *more), self.weights)

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        return self.digest()


def _digest(about: Any, layers: Iterable[Layer] = (), normaliser: Normaliser | None = None) -> str:
    digest = hashlib.sha256(repr(about).encode())
    for weight, bias in layers:
        digest.update(weight.tobytes() + bias.tobytes())
    if normaliser is not None:
        digest.update(normaliser.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class OutputPolicy(_Sampling, BatchPolicy):
    """A policy that takes its actions from the outputs of a model."""

    model: Model
    description: DistributionSpec = field(default_factory=DistributionSpec)
    normaliser: Normaliser | None = None  # applied to flattened observations first
    head: ActionDistribution | None = None  # set by `bind` unless the description decides it
    one_hot: OneHot = ()

    @property
    def action_distribution(self) -> ActionDistribution:  # type: ignore[override]
        if self.head is None:
            raise unbound("this policy", "the actions")
        return self.head

    @property
    def architecture(self) -> Hashable:
        head = self.head
        return ("outputs", *((head.key, head.n_outputs, head.noise_size) if head else (None,)))

    @property
    def fingerprint(self) -> str:
        spec = self.description
        arrays = sorted((key, np.asarray(v).tolist()) for key, v in spec.arrays.items())
        about = self.model.fingerprint, (spec.name, spec.options, spec.discrete), arrays
        return _digest(about, normaliser=self.normaliser)

    @property
    def n_latent(self) -> int:
        return self.model.n_latent

    def respond(self, observations: Any, noise: Float | None) -> NDArray[Any]:
        return self._choose(self._outputs(observations), noise)

    def distribution(self, observations: Any) -> Distribution:
        return self.action_distribution.distribution(self._outputs(observations))

    def latent(self, observations: Any) -> Float:
        return self.model.latent(_prepared(observations, self.one_hot, self.normaliser))

    def bind(self, observation_space: Space, action_space: Space) -> OutputPolicy:
        one_hot = _one_hot(observation_space, self.model.n_inputs)
        model = self.model.bind(observation_space)
        shape = observation_space.shape
        if one_hot or shape is None:
            shape = (flat_width(observation_space),)
        if self.normaliser is not None:
            self.normaliser.check_width(int(np.prod(shape)), "the environment gives")
        sample = np.asarray(model.outputs(np.zeros((1, *shape), np.float32)))
        head = self.description.make(sample, action_space).bind(action_space)
        return replace(self, model=model, head=head, one_hot=one_hot)

    def _outputs(self, observations: Any) -> Float:
        rows = _prepared(observations, self.one_hot, self.normaliser)
        return _finite(np.asarray(self.model.outputs(rows), np.float32))


def _finite(outputs: Float) -> Float:
    if not np.isfinite(outputs).all():
        raise UsageError("a policy gave NaN or infinite outputs: its training diverged")
    return outputs


def _one_hot(space: Space, n_inputs: int | None) -> OneHot:
    """How discrete observations are one-hot encoded; empty if a model takes integers."""
    from gymnasium import spaces

    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return ()
    sizes, start = counts(space), np.ravel(space.start).tolist()
    return () if n_inputs == len(sizes) else tuple(zip(sizes, start, strict=True))


def _prepared(observations: Any, one_hot: OneHot, normaliser: Normaliser | None) -> Float:
    """One-hot encode, convert and normalise observations (n, ...) for a model."""
    rows = np.asarray(observations)
    if rows.ndim == 0:
        raise UsageError("expected a batch of observations, but got a single number")
    if one_hot and rows[:1].size == len(one_hot):
        # As Gymnasium flattens Discrete and MultiDiscrete.
        columns = rows.reshape(len(rows), -1).astype(np.intp).T
        parts = [
            np.eye(size, dtype=np.float32)[column - first]
            for column, (size, first) in zip(columns, one_hot, strict=True)
        ]
        rows = np.concatenate(parts, axis=1)
    rows = rows.astype(np.float32)
    if normaliser is not None:
        rows = normaliser.apply(rows.reshape(len(rows), -1)).reshape(rows.shape)
    return rows


def row_by_row(call: Callable[[Float], NDArray[Any]], rows: Float, batch: int = 1) -> NDArray[Any]:
    """Call a foreign function for each row alone, so that no row depends on others.

    A function that takes batches of one size only gets the row followed by zeros.
    """
    given = np.zeros((batch, *rows.shape[1:]), np.float32)
    results = []
    for row in rows:
        given[0] = row
        results.append(call(given)[:1].copy())
    return np.concatenate(results) if results else call(given)[:0]


@dataclass(frozen=True, eq=False)
class RecurrentNetwork(_Sampling, RecurrentPolicy):
    """A policy whose network has an LSTM (Hochreiter and Schmidhuber 1997) or a GRU in it.

    The memory holds hidden state and, of an LSTM, cell state of each layer in turn; episodes begin
    with zeros. A GRU (Cho et al. 2014) has as many sums as an LSTM: its gates r and z, and the
    terms of its candidate tanh(x-term + r h-term).

    Examples
    --------
    >>> import numpy as np
    >>> cell = np.ones((2, 4)), np.zeros(4)  # one input and one hidden value in, four gates out
    >>> rest = NetworkPolicy(((np.array([[-1.0, 1.0]]), np.zeros(2)),), "tanh", "categorical")
    >>> policy = RecurrentNetwork((cell,), rest)
    >>> actions, memory = policy.respond([[1.0]], None, policy.initial_memory(1))
    >>> actions, memory.round(2)
    (array([1]), array([[0.37, 0.56]], dtype=float32))
    >>> policy.respond([[0.0]], None, memory)[1].round(2)
    array([[0.29, 0.54]], dtype=float32)
    """

    # Weights (in + hidden, 4 hidden) and biases (4 hidden,): i, f, g, o, or r, z, x-term, h-term.
    cells: tuple[Layer, ...]
    rest: NetworkPolicy  # the layers after the LSTM
    normaliser: Normaliser | None = None  # applied to observations first
    features: Features | None = None  # before the LSTM
    one_hot: OneHot = ()
    gru: bool = False

    def __post_init__(self) -> None:
        cells = tuple((frozen(weight), frozen(bias)) for weight, bias in self.cells)
        object.__setattr__(self, "cells", cells)
        if not cells:
            raise UsageError("an LSTM needs at least one layer")
        size = self.rest.n_inputs
        for i, (weight, bias) in enumerate(cells):
            n_in = size if i else len(weight) - size
            if n_in < 1 or weight.shape != (n_in + size, 4 * size) or bias.shape != (4 * size,):
                raise UsageError(
                    f"an LSTM of {size} values needs weights of shape (in + {size}, {4 * size}) "
                    f"and biases of shape ({4 * size},), not {weight.shape} and {bias.shape}"
                )
            if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
                raise UsageError("its LSTM holds NaN or infinite weights: the training diverged")
        if self.features is not None and self.features.n_outputs != self._width:
            raise UsageError("its features do not fit the LSTM after them")
        if self.normaliser is not None:
            self.normaliser.check_width(self.n_inputs, "the network expects")

    @property
    def _width(self) -> int:  # inputs of the LSTM
        return len(self.cells[0][0]) - self.rest.n_inputs

    @property
    def n_inputs(self) -> int:
        return (self.features and self.features.n_inputs) or self._width

    @property
    def architecture(self) -> Hashable:
        return ("recurrent", *self._kind, self.rest.architecture)

    @property
    def fingerprint(self) -> str:
        before = self.features.fingerprint if self.features is not None else ""
        about = *self._kind, self.rest.fingerprint, before
        return _digest(about, self.cells, self.normaliser)

    @property
    def _kind(self) -> tuple[int | str, ...]:
        return (len(self.cells), *["gru"] * self.gru)

    @property
    def action_distribution(self) -> ActionDistribution:  # type: ignore[override]
        return self.rest.action_distribution

    def initial_memory(self, n: int) -> Float:
        n_states = len(self.cells) * (1 if self.gru else 2)
        return np.zeros((n, n_states * self.rest.n_inputs), np.float32)

    def respond(
        self, observations: Any, noise: Float | None, memory: Float
    ) -> tuple[NDArray[Any], Float]:
        outputs, memory = self.outputs(observations, memory)
        return self._choose(outputs, noise), memory

    def distribution(self, observations: Any, memory: Float) -> Distribution:
        return self.action_distribution.distribution(self.outputs(observations, memory)[0])

    def outputs(self, observations: Any, memory: Float) -> tuple[Float, Float]:
        x = _prepared(observations, self.one_hot, self.normaliser)
        x = x if self.features is None else self.features.outputs(x)
        x, before = x.reshape(len(x), -1), np.asarray(memory, np.float32)
        expected = (len(x), self._width), self.initial_memory(len(x)).shape
        if (x.shape, before.shape) != expected:
            raise UsageError(
                f"expected observations of shape {expected[0]} and a memory of shape "
                f"{expected[1]}, but got {x.shape} and {before.shape}"
            )
        after = []
        for gates, states in zip(
            self._gates, np.split(before, len(self.cells), axis=1), strict=True
        ):
            hidden, cell = states[:, : self.rest.n_inputs], states[:, self.rest.n_inputs :]
            i, f, g, o = np.split(gates(np.concatenate([x, hidden], axis=1)), 4, axis=1)
            first, second = evaluate("sigmoid", i), evaluate("sigmoid", f)
            if self.gru:  # resets, and keeps a share of the state
                x = (np.float32(1) - second) * evaluate("tanh", g + first * o) + second * hidden
                after.append(x)
            else:
                state = second * cell + first * evaluate("tanh", g)
                x = evaluate("sigmoid", o) * evaluate("tanh", state)
                after += [x, state]
        return _finite(self.rest.outputs(x)), np.concatenate(after, axis=1)

    @cached_property
    def _gates(self) -> list[Perceptrons]:
        return [Perceptrons.of([cell], "identity", "identity") for cell in self.cells]

    def bind(self, observation_space: Space, action_space: Space) -> RecurrentNetwork:
        check_width(self.n_inputs, observation_space, flat=False)
        features = None if self.features is None else self.features.bind(observation_space)
        one_hot = _one_hot(observation_space, self.n_inputs)
        rest = self.rest.for_actions(action_space)
        return replace(self, rest=rest, features=features, one_hot=one_hot)
