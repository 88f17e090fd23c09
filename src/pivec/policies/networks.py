"""Multilayer perceptrons as policies, in float32: one, or many that answer as one batch."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.errors import UsageError
from pivec.policies.distributions import Distribution, Head, Options, frozen, make_head
from pivec.policies.forward import ACTIVATIONS, Float, Layer, NetworkStack, Normaliser, evaluate
from pivec.policies.policy import BatchPolicy, check_width

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, eq=False)
class NetworkPolicy(BatchPolicy):
    """A policy whose action distribution is the output of a multilayer perceptron.

    The ``head`` says what the outputs are: "categorical" (logits), "multi_categorical" (logits of
    several choices), "bernoulli" (logits of switches), "epsilon_greedy" (values of actions),
    "proportional" (the same, drawn in proportion to what they are above the least), "gaussian"
    (means), "state_gaussian" (means and deviations) or "deterministic". With ``state_std``, random
    weights of these deviations, redrawn at every action, are added to those of the last layer
    (generalised state-dependent exploration); its head is "state_gaussian" with plain deviations.

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
    head: str
    log_std: Float | None = None  # (actions,), of the deviations of a "gaussian" head
    low: Float | None = None  # (actions,), of the box that real actions are clipped to,
    high: Float | None = None  # or squashed into
    options: Options = field(default_factory=Options)
    state_std: Float | None = None  # (in, actions)
    normaliser: Normaliser | None = None  # applied to observations first
    rule: Head = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise UsageError(f"activation must be one of {known}, but is {self.activation!r}")
        object.__setattr__(self, "layers", _checked_layers(self.layers))
        width = self.n_outputs
        if self.state_std is not None:
            object.__setattr__(self, "state_std", self._checked_state_std(self.state_std))
            width *= 2
        arrays = {"log_std": self.log_std, "low": self.low, "high": self.high}
        rule = make_head(self.head, width, self.options, arrays)
        for name in arrays:
            object.__setattr__(self, name, getattr(rule, name))
        object.__setattr__(self, "rule", rule)
        if self.normaliser is not None:
            self.normaliser.check_width(self.n_inputs, "the network expects")

    def _checked_state_std(self, value: Any) -> Float:
        if self.head != "state_gaussian" or self.options.deviations != "plain":
            raise UsageError("state_std needs a state_gaussian head with plain deviations")
        array, expected = frozen(value), self.layers[-1][0].shape
        if array.shape != expected or not np.isfinite(array).all() or (array < 0).any():
            raise UsageError(
                f"state_std must have the shape {expected} of the last layer's weights, and hold "
                f"finite numbers from 0, but has shape {array.shape}"
            )
        return array

    @property
    def n_inputs(self) -> int:
        """Number of values of a flattened observation."""
        return int(self.layers[0][0].shape[0])

    @property
    def n_outputs(self) -> int:
        """Number of the last layer's outputs."""
        return int(self.layers[-1][0].shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths of the layers, the input's first."""
        return (self.n_inputs, *(weight.shape[1] for weight, _ in self.layers))

    @property
    def architecture(self) -> Hashable:
        """Equal for policies whose weights can be stacked."""
        plain = ("network", self.sizes, self.activation, self.rule.key)
        more = (self.state_std is not None, self.normaliser is not None)
        return (*plain, *more) if any(more) else plain

    @property
    def fingerprint(self) -> str:
        """A SHA-256 digest of everything that decides the actions."""
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

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions: uniform, or standard normal of real actions."""
        return self.rule.noise(rng, n)

    def respond(self, observations: Any, noise: NDArray[np.float32] | None) -> NDArray[Any]:
        """Actions for ``observations`` (n, ...) given their random numbers; the mode if None."""
        rows = self._rows(observations)
        batch_noise = None if noise is None else np.asarray(noise)[None]
        actions: NDArray[Any] = NetworkStack(1, len(rows), self).respond(rows[None], batch_noise)[0]
        return actions

    def outputs(self, observations: Any) -> Float:
        """Outputs (n, k) for observations (n, ...), which the head makes actions of."""
        rows = self._rows(observations)
        outputs: Float = NetworkStack(1, len(rows), self).outputs(rows[None])[0]
        return outputs

    @property
    def n_latent(self) -> int:
        """Width of the last hidden layer; 0 if there is none."""
        return self.sizes[-2] if len(self.layers) > 1 else 0

    def latent(self, observations: Any) -> Float:
        """Values (n, k) of the last hidden layer."""
        return evaluate(self.activation, self._trunk.outputs(observations))

    @cached_property
    def _trunk(self) -> NetworkPolicy:
        return replace(
            self, layers=self.layers[:-1], head="deterministic", options=Options(),
            log_std=None, low=None, high=None, state_std=None,
        )  # fmt: skip

    def distribution(self, observations: Any) -> Distribution:
        """Probabilities (n, actions), or means and standard deviations of (n, actions) each.

        Means and deviations are those before actions are clipped or squashed. Several choices have
        their probabilities one after another, switches the probability of being on.
        """
        return self.rule.distribution(self.outputs(observations))

    def bind(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> NetworkPolicy:
        """Check that this policy fits an environment's spaces; take the box of actions from it.

        Observations are expected flattened as Gymnasium flattens them. The box a policy was
        trained with stays; one that was read off rounded text is replaced by the exact one.
        """
        check_width(self.n_inputs, observation_space)
        return self.for_actions(action_space)

    def for_actions(self, action_space: gymnasium.Space[Any]) -> NetworkPolicy:
        """Check that the actions fit; take their box from the space."""
        bound = self.rule.bind(action_space)
        return self if bound is self.rule else replace(self, low=bound.low, high=bound.high)

    def _rows(self, observations: Any) -> Float:
        rows = np.asarray(observations, dtype=np.float32)
        if rows.ndim == 0 or (rows.size != len(rows) * self.n_inputs):
            raise UsageError(
                f"expected a batch of observations of {self.n_inputs} values each, "
                f"but got an array of shape {rows.shape}"
            )
        return rows.reshape(len(rows), self.n_inputs)


def _checked_layers(layers: Any) -> tuple[Layer, ...]:
    """Read-only float32 copies of layers whose shapes follow on each other."""
    checked = tuple((frozen(weight), frozen(bias)) for weight, bias in layers)
    if not checked:
        raise UsageError("a network needs at least one layer")
    width = None
    for i, (weight, bias) in enumerate(checked):
        if weight.ndim != 2 or 0 in weight.shape or bias.shape != weight.shape[1:]:
            raise UsageError(
                f"layer {i} needs weights of shape (in, out) and biases of shape (out,), "
                f"not {weight.shape} and {bias.shape}"
            )
        if width not in (None, weight.shape[0]):
            raise UsageError(
                f"layer {i} expects {weight.shape[0]} inputs, but layer {i - 1} gives {width}"
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise UsageError(f"layer {i} holds NaN or infinite weights: the training diverged")
        width = weight.shape[1]
    return checked


class Stack:
    """``slots`` policies of one architecture, each answering ``lanes`` observations at a time.

    Networks are answered with stacked weights; other `BatchPolicy` kinds one after another. A
    row's action depends neither on the number of lanes nor on the other slots, to the last bit.
    It holds buffers, so one thread at a time may use it. ``like`` gives the architecture, and
    answers in every slot until another is put there.

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

    @checked
    def __init__(self, slots: Count, lanes: Count, like: BatchPolicy) -> None:
        self.slots, self.lanes, self.architecture = slots, lanes, like.architecture
        self._networks = (
            NetworkStack(slots, lanes, like) if isinstance(like, NetworkPolicy) else None
        )
        self._others = [like] * slots

    def put(self, slot: int, policy: BatchPolicy) -> None:
        """Let ``policy`` answer in ``slot`` from now on."""
        if policy.architecture != self.architecture:
            raise UsageError(
                f"a stack of {self.architecture} cannot hold a policy of {policy.architecture}"
            )
        if self._networks is None:
            self._others[slot] = policy
        elif isinstance(policy, NetworkPolicy):
            self._networks.put(slot, policy)
        else:
            raise UsageError(f"a stack of networks cannot hold {policy!r}")

    def respond(
        self, observations: NDArray[Any], noise: NDArray[np.float32] | None
    ) -> NDArray[Any]:
        """Actions (slots, lanes, ...) for observations (slots, lanes, n_inputs).

        ``noise`` has the shape (slots, lanes, noise size); without it, actions are the mode.
        """
        if self._networks is not None:
            return self._networks.respond(observations, noise)
        return np.stack(
            [
                policy.respond(observations[slot], None if noise is None else noise[slot])
                for slot, policy in enumerate(self._others)
            ]
        )


# -----------------------------------------------------------------------------
# Networks that are told at every step which discrete actions are allowed, as MaskablePPO's are.


NEVER = np.float32(-1e8)  # the logit of what is not allowed, as SB3-contrib has it


@dataclass(frozen=True, eq=False)
class MaskedPolicy(BatchPolicy):
    """A network whose actions are drawn among those that masks (n, logits) allow.

    Examples
    --------
    >>> network = NetworkPolicy(((np.ones((1, 3)), np.arange(3.0)),), "tanh", "categorical")
    >>> MaskedPolicy(network).respond([[0.0]], None, np.array([[True, True, False]]))
    array([1])
    """

    network: NetworkPolicy

    @property
    def architecture(self) -> Hashable:
        """Never equal to that of a network without masks."""
        return ("masked", self.network.architecture)

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the actions."""
        return f"masked {self.network.fingerprint}"

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions."""
        return self.network.noise(rng, n)

    def respond(
        self,
        observations: Any,
        noise: NDArray[np.float32] | None,
        masks: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """Actions for ``observations`` (n, ...) that ``masks`` allow."""
        rule = self.network.rule
        return rule.choose(self._outputs(observations, masks), noise, rule.parameters())

    def distribution(
        self, observations: Any, masks: NDArray[np.bool_] | None = None
    ) -> Distribution:
        """Probabilities (n, actions)."""
        return self.network.rule.distribution(self._outputs(observations, masks))

    def bind(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> MaskedPolicy:
        """Make the policy for an environment with these spaces, or tell why it does not fit."""
        return replace(self, network=self.network.bind(observation_space, action_space))

    def _outputs(self, observations: Any, masks: NDArray[np.bool_] | None) -> Float:
        if masks is None:
            raise UsageError(
                "this policy is told which actions are allowed, by action_masks() of its "
                "environment: let it play there"
            )
        outputs = self.network.outputs(observations)
        if np.shape(masks) != outputs.shape:
            raise UsageError(
                f"action_masks() of the environment must give {outputs.shape[1]} values, one for "
                f"each action, but masks are of shape {np.shape(masks)[1:]}"
            )
        outputs[~np.asarray(masks, bool)] = NEVER
        return outputs
