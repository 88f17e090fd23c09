"""The networks of the trust-region experiment, compiled: probabilities, gradients, Adam's step.

Policy and value each have two tanh layers of 16, as in the paper, and all their parameters lie in
one vector. An environment with few distinct states is what makes this fast: networks are asked once
for every state, and the gradient of a batch is summed over the states before it goes back through
the layers. It is the same sum as over the rows of the batch, in another order.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pivec.engines.compiled import compiler
from pivec.training.cloning import orthogonal

Array = NDArray[np.float64]

WIDTH = 16
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-5  # Adam's, as Stable-Baselines3 has it

# Sums may be taken in any order; infinities and NaN keep their meaning.
compiled = compiler("reassoc", "contract", "nsz", sources="trust_region_*.py")


def layer_shapes(n_inputs: int, n_actions: int) -> list[tuple[int, int]]:
    """Shapes (in, out) of the layers, in the order of the vector: those of the policy first."""
    hidden = [(n_inputs, WIDTH), (WIDTH, WIDTH)]
    return [*hidden, (WIDTH, n_actions), *hidden, (WIDTH, 1)]


def first_parameters(n_inputs: int, n_actions: int, rng: np.random.Generator) -> Array:
    """Draw first parameters as Stable-Baselines3 does: orthogonal weights, no biases.

    Examples
    --------
    >>> first_parameters(5, 5, np.random.default_rng(0)).shape
    (838,)
    """
    gains = (2.0**0.5, 2.0**0.5, 0.01, 2.0**0.5, 2.0**0.5, 1.0)
    shapes = layer_shapes(n_inputs, n_actions)
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
def _layer(theta, at, rows, n, inputs, n_in, outputs, n_out):
    """outputs[i] = inputs[rows[i]] W + b, of the layer whose parameters begin at ``at``."""
    bias = at + n_in * n_out
    for i in range(n):
        row = rows[i]
        for j in range(n_out):
            outputs[row, j] = theta[bias + j]
        for k in range(n_in):
            x = inputs[row, k]
            for j in range(n_out):
                outputs[row, j] += x * theta[at + k * n_out + j]
    return bias + n_out


@compiled
def _squash(rows, n, values):
    for i in range(n):
        for j in range(WIDTH):
            values[rows[i], j] = np.tanh(values[rows[i], j])


@compiled
def forward(theta, at, states, rows, n, first, second, outputs, n_out):
    """Outputs, (n_states, n_out), of the first ``n`` of ``rows``; hidden units are left behind.

    Returns where the parameters of the network end, which is where the next begins.
    """
    at = _layer(theta, at, rows, n, states, states.shape[1], first, WIDTH)
    _squash(rows, n, first)
    at = _layer(theta, at, rows, n, first, WIDTH, second, WIDTH)
    _squash(rows, n, second)
    return _layer(theta, at, rows, n, second, WIDTH, outputs, n_out)


@compiled
def log_softmax(rows, n, values, n_out):
    """Turn logits into the logarithms of probabilities, in place."""
    for i in range(n):
        row = rows[i]
        largest, total = values[row, 0], 0.0
        for j in range(1, n_out):
            largest = max(largest, values[row, j])
        for j in range(n_out):
            total += np.exp(values[row, j] - largest)
        shift = largest + np.log(total)
        for j in range(n_out):
            values[row, j] -= shift


@compiled
def _layer_back(theta, grad, at, rows, n, inputs, n_in, above, n_out, below):
    """Add a layer's gradient, given that of its outputs; ``below`` gets that of its inputs."""
    bias = at + n_in * n_out
    for i in range(n):
        row = rows[i]
        for j in range(n_out):
            grad[bias + j] += above[row, j]
        for k in range(n_in):
            x, start, total = inputs[row, k], at + k * n_out, 0.0
            for j in range(n_out):
                grad[start + j] += x * above[row, j]
                total += theta[start + j] * above[row, j]
            below[row, k] = total * (1.0 - x * x)  # through tanh; not looked at for the states


@compiled
def backward(theta, grad, at, states, rows, n, hidden, above, n_out, down):
    """Add the gradient of a network to ``grad``, given that of its outputs, ``above``.

    ``hidden`` begins with what `forward` left behind, ``down`` with two arrays to work in.
    """
    n_in = states.shape[1]
    second_at = at + (n_in + 1) * WIDTH
    last_at = second_at + (WIDTH + 1) * WIDTH
    _layer_back(theta, grad, last_at, rows, n, hidden[1], WIDTH, above, n_out, down[0])
    _layer_back(theta, grad, second_at, rows, n, hidden[0], WIDTH, down[0], WIDTH, down[1])
    _layer_back(theta, grad, at, rows, n, states, n_in, down[1], WIDTH, down[0])


@compiled
def step_of_adam(learner, grad, count, learning_rate, largest):
    """Step number ``count`` of Adam (Kingma and Ba 2015), the gradient's norm cut at ``largest``.

    ``learner``, (3, n_parameters), holds the parameters and the two running moments.
    """
    squares = 0.0
    for i in range(len(grad)):
        squares += grad[i] * grad[i]
    scale = min(1.0, largest / (np.sqrt(squares) + 1e-6))
    size = learning_rate / (1.0 - _BETA1**count)
    root = np.sqrt(1.0 - _BETA2**count)
    for i in range(len(grad)):
        g = grad[i] * scale
        learner[1, i] = _BETA1 * learner[1, i] + (1.0 - _BETA1) * g
        learner[2, i] = _BETA2 * learner[2, i] + (1.0 - _BETA2) * g * g
        learner[0, i] -= size * learner[1, i] / (np.sqrt(learner[2, i]) / root + _EPSILON)
