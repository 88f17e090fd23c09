"""The networks of the trust-region experiment, compiled: probabilities, gradients, Adam's step.

Policy and value each have two tanh layers of a width, and all their parameters lie in one vector.
An environment with few distinct states is what makes this fast: networks are asked once for every
state, and the gradient of a batch is summed over the states before it goes back through the layers.
It is the same sum as over the rows of the batch, in another order.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pivec.parallel.hardware import compiler
from reproduction.training.cloning import orthogonal
from reproduction.training.novelty import adam_step

Array = NDArray[np.float64]

_EPSILON = 1e-5  # Adam's, as Stable-Baselines3 has it

_SOURCES = "network.py checks.py updates.py world.py ../../training/es.py"  # all that is compiled
# Sums may be taken in any order; infinities and NaN keep their meaning.
compiled = compiler("reassoc", "contract", "nsz", sources=_SOURCES)


def layer_shapes(n_inputs: int, width: int, n_actions: int) -> list[tuple[int, int]]:
    """Shapes (in, out) of the layers, in the order of the vector: those of the policy first."""
    hidden = [(n_inputs, width), (width, width)]
    return [*hidden, (width, n_actions), *hidden, (width, 1)]


def first_parameters(n_inputs: int, width: int, n_actions: int, rng: np.random.Generator) -> Array:
    """Draw first parameters as Stable-Baselines3 does: orthogonal weights, no biases.

    Examples
    --------
    >>> first_parameters(5, 16, 5, np.random.default_rng(0)).shape
    (838,)
    """
    gains = (2.0**0.5, 2.0**0.5, 0.01, 2.0**0.5, 2.0**0.5, 1.0)
    shapes = layer_shapes(n_inputs, width, n_actions)
    return flatten(
        [
            (orthogonal(rng, *shape, gain), np.zeros(shape[1]))
            for shape, gain in zip(shapes, gains, strict=True)
        ]
    )


def flatten(layers: list[tuple[Array, Array]]) -> Array:
    """Put weights (in, out) and biases of all layers into one vector."""
    return np.concatenate([part.ravel() for layer in layers for part in layer])


@compiled
def _layer(theta, at, inputs, n_out):
    """Give inputs W + b of the layer whose parameters begin at ``at``, and where they end."""
    bias = at + inputs.shape[1] * n_out
    weights = theta[at:bias].reshape(inputs.shape[1], n_out)
    return inputs @ weights + theta[bias : bias + n_out], bias + n_out


@compiled
def forward(theta, at, states, width, n_out):
    """Hidden layers and outputs, (n_states, n_out), of the network that begins at ``at``.

    Also returns where its parameters end, which is where the next begins.
    """
    first, at = _layer(theta, at, states, width)
    first = np.tanh(first)
    second, at = _layer(theta, at, first, width)
    second = np.tanh(second)
    outputs, at = _layer(theta, at, second, n_out)
    return first, second, outputs, at


@compiled
def log_softmax(logits):
    """Logarithms of probabilities."""
    log_probs = np.empty_like(logits)
    n, n_actions = logits.shape
    for i in range(n):
        largest, total = logits[i].max(), 0.0
        for j in range(n_actions):
            total += np.exp(logits[i, j] - largest)
        for j in range(n_actions):
            log_probs[i, j] = logits[i, j] - largest - np.log(total)
    return log_probs


@compiled
def _layer_back(theta, grad, end, inputs, above):
    """Fill in the gradient of the layer that ends at ``end``, given that of its outputs.

    Returns that of the inputs before their tanh, and where the layer begins.
    """
    n_in, n_out = inputs.shape[1], above.shape[1]
    bias = end - n_out
    at = bias - n_in * n_out
    grad[at:bias] = (inputs.T @ above).ravel()
    grad[bias:end] = above.sum(axis=0)
    weights = theta[at:bias].reshape(n_in, n_out)
    return (above @ weights.T) * (1.0 - inputs * inputs), at


@compiled
def backward(theta, grad, end, states, first, second, above):
    """Fill in the gradient of the network that ends at ``end``, given that of its outputs."""
    below, at = _layer_back(theta, grad, end, second, above)
    below, at = _layer_back(theta, grad, at, first, below)
    _layer_back(theta, grad, at, states, below)


_adam_step = compiled(adam_step)


@compiled
def descend(learner, grad, count, learning_rate, largest):
    """Step number ``count`` of Adam, the gradient's norm cut at ``largest``."""
    norm = np.sqrt((grad * grad).sum())
    clipped = grad * min(1.0, largest / (norm + 1e-6))
    _adam_step(learner, clipped, count, learning_rate, _EPSILON)
