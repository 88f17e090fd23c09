"""Whole runs of PPO on the dangerous path, stopped by a constraint: seconds each.

Runs share nothing and have random numbers of their own, so a run comes out the same in whatever
company; the compiled code lets other threads run beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.parallel.compiled import compiler
from reproduction.published import toml
from reproduction.training.cloning import orthogonal
from reproduction.training.novelty import adam_step
from reproduction.worlds.dangerous_path import MINE, RIGHT, draw_outcomes, locations

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"


Array = NDArray[np.float64]

_EPSILON = 1e-5  # Adam's, as Stable-Baselines3 has it

_SOURCES = "../worlds/dangerous_path.py novelty.py"  # other files with compiled functions
# Sums may be taken in any order; infinities and NaN keep their meaning.
compiled = compiler("reassoc", "contract", "nsz", sources=_SOURCES)


def layer_shapes(n_inputs: int, width: int, n_actions: int) -> list[tuple[int, int]]:
    """Shapes (in, out) of the layers, in the order of the vector: those of the policy first."""
    hidden = [(n_inputs, width), (width, width)]
    return [*hidden, (width, n_actions), *hidden, (width, 1)]


def first_parameters(n_inputs: int, width: int, n_actions: int, rng: np.random.Generator) -> Array:
    """Draw first parameters as Stable-Baselines3 does: orthogonal weights, no biases."""
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
    """Hidden layers and outputs, (n_states, n_out), of the network that begins at ``at``."""
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
    """Fill in the gradient of the layer that ends at ``end``, given that of its outputs."""
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


_VARIANCE = 1e-7  # added to the variances of Gaussians
_RELEVANCE = 16.0
_PRIOR = 0.01  # of visitation
_FLOOR = 1e-6  # least variance of a component, in standardised units
_TOL, _MAX_ITER = 1e-3, 100
_LLOYD_TOL, _LLOYD_STEPS = 1e-4, 300
_FAR = -60.0  # logarithm of a share too small to count in a sum of float64


@compiled
def largest_total_variation(old, new, seen):
    """Largest ½ Σ_a |π(a|s) − π'(a|s)| of the ``seen`` states, from log probabilities."""
    largest = 0.0
    for i in seen:
        total = 0.0
        for j in range(old.shape[1]):
            total += abs(np.exp(old[i, j]) - np.exp(new[i, j]))
        largest = max(largest, 0.5 * total)
    return largest


@compiled
def _moments(states):
    """Mean and variance of every feature."""
    n, D = states.shape
    mean, variance = np.zeros(D), np.zeros(D)
    for i in range(n):
        for d in range(D):
            mean[d] += states[i, d]
    mean /= n
    for i in range(n):
        for d in range(D):
            variance[d] += (states[i, d] - mean[d]) ** 2
    return mean, variance / n


@compiled
def symmetric_kl(states, other):
    """KL divergence both ways, summed, between diagonal Gaussians of two sets of states."""
    mean, variance = _moments(states)
    other_mean, other_variance = _moments(other)
    a, b, square = variance + _VARIANCE, other_variance + _VARIANCE, (mean - other_mean) ** 2
    return (0.5 * ((a + square) / b + (b + square) / a) - 1.0).sum()


@compiled
def _square(points, i, centres, k):
    """Squared distance of a point to a centre."""
    square = 0.0
    for d in range(points.shape[1]):
        square += (points[i, d] - centres[k, d]) ** 2
    return square


@compiled
def _nearer(points, nearest, candidate):
    """Squared distances to the nearest seed, with one more point as a seed."""
    nearer = nearest.copy()
    for i in range(len(points)):
        nearer[i] = min(nearest[i], _square(points, i, points, candidate))
    return nearer


@compiled
def _seeds(points, K, rng):
    """k-means++ with a few candidates each, as `pivec.mixtures.fit.plus_plus`."""
    n = len(points)
    seeds = np.empty(K, np.int64)
    seeds[0] = int(rng.random() * n)
    nearest = _nearer(points, np.full(n, np.inf), seeds[0])
    for k in range(1, K):
        total, reduced, least = nearest.sum(), nearest, np.inf
        for _ in range(2 + int(np.log(K))):
            # With all states on seeds already, any of them is as good as another.
            left, candidate = rng.random() * total, 0
            while candidate < n - 1 and left >= nearest[candidate]:
                left -= nearest[candidate]
                candidate += 1
            nearer = _nearer(points, nearest, candidate)
            if nearer.sum() < least:
                reduced, least, seeds[k] = nearer, nearer.sum(), candidate
        nearest = reduced
    return points[seeds]


@compiled
def _hard_shares(points, means):
    """Give each state wholly to its nearest centre: shares (n, K)."""
    shares = np.zeros((len(points), len(means)))
    for i in range(len(points)):
        nearest, least = 0, np.inf
        for k in range(len(means)):
            square = _square(points, i, means, k)
            if square < least:
                nearest, least = k, square
        shares[i, nearest] = 1.0
    return shares


@compiled
def _soft_shares(points, weights, means, variances):
    """E-step: the responsibilities, (n, K), and the mean log-likelihood."""
    n, D = points.shape
    K = len(weights)
    shares, inverse = np.empty((n, K)), 0.5 / variances
    # A component without states has weight 0, whose logarithm -inf is right: it gets nothing.
    constants = np.log(weights) - 0.5 * np.log(2.0 * np.pi * variances).sum(axis=1)
    total = 0.0
    for i in range(n):
        largest, density = -np.inf, 0.0
        for k in range(K):
            value = constants[k]
            for d in range(D):
                value -= (points[i, d] - means[k, d]) ** 2 * inverse[k, d]
            shares[i, k] = value
            largest = max(largest, value)
        for k in range(K):
            value = shares[i, k] - largest
            if value == 0.0:  # exponentials and logarithms are what takes time here
                shares[i, k] = 1.0
            else:
                shares[i, k] = np.exp(value) if value > _FAR else 0.0
            density += shares[i, k]
        total += largest
        if density > 1.0:
            for k in range(K):
                shares[i, k] /= density
            total += np.log(density)
    return shares, total / n


@compiled
def _sums(points, shares, means):
    """Σ r, Σ r (x − μ) and Σ r (x − μ)² over the states."""
    K, D = means.shape
    counts, sums, squares = np.zeros(K), np.zeros((K, D)), np.zeros((K, D))
    for i in range(len(points)):
        for k in range(K):
            r = shares[i, k]
            if r > 0.0:
                counts[k] += r
                for d in range(D):
                    e = points[i, d] - means[k, d]
                    sums[k, d] += r * e
                    squares[k, d] += r * e * e
    return counts, sums, squares


@compiled
def _maximise(points, shares, weights, means, variances):
    """M-step in place, components without states stay; how far the means moved, squared."""
    counts, sums, squares = _sums(points, shares, means)
    moved = 0.0
    for k in range(len(means)):
        weights[k] = counts[k] / len(points)
        if counts[k] > 1e-15:
            for d in range(means.shape[1]):
                shift = sums[k, d] / counts[k]
                means[k, d] += shift
                variances[k, d] = max(squares[k, d] / counts[k] - shift * shift, _FLOOR)
                moved += shift * shift
    return moved


@compiled
def fit_background(points, K, rng):
    """Mixture of K diagonal Gaussians by k-means and EM: weights, means, variances, passes."""
    D = points.shape[1]
    weights, means, variances = np.empty(K), _seeds(points, K, rng), np.ones((K, D))
    for _ in range(_LLOYD_STEPS):
        shares = _hard_shares(points, means)
        if _maximise(points, shares, weights, means, variances) <= _LLOYD_TOL * D:
            break
    variances[:] = 1.0
    _maximise(points, _hard_shares(points, means), weights, means, variances)
    previous, passes = -np.inf, 0
    for _ in range(_MAX_ITER):
        shares, likelihood = _soft_shares(points, weights, means, variances)
        _maximise(points, shares, weights, means, variances)
        passes += 1
        if abs(likelihood - previous) < _TOL:
            break
        previous = likelihood
    return weights, means, variances, passes


@compiled
def _background_sums(states, other, K, rng):
    """Fit a background on the states of both; return its weights and variances, `_sums` of each."""
    n = len(states)
    points = np.concatenate((states, other))
    mean, variance = _moments(points)
    for d in range(len(variance)):
        points[:, d] = (points[:, d] - mean[d]) / (np.sqrt(variance[d]) or 1.0)
    weights, means, variances, _ = fit_background(points, K, rng)
    shares, _ = _soft_shares(points, weights, means, variances)
    return (
        weights,
        variances,
        _sums(points[:n], shares[:n], means),
        _sums(points[n:], shares[n:], means),
    )


@compiled
def supervector_distance(states, other, K, rng):
    """Upper bound of the KL divergence (eq. 6) of two policies, on a background of their states."""
    weights, variances, own, others = _background_sums(states, other, K, rng)
    counts, sums, _ = own
    other_counts, other_sums, _ = others
    total = 0.0
    for k in range(K):
        a, b = counts[k] + _RELEVANCE, other_counts[k] + _RELEVANCE
        difference = sums[k] / a - other_sums[k] / b
        total += 0.5 * weights[k] * (difference * difference / variances[k]).sum()
    return total


@compiled
def _region(count, place, square, weight, n):
    """Share of time in a region, adapted, and the vector along which a policy is there."""
    share = (count / n + _PRIOR * weight) / (1.0 + _PRIOR)
    total = count + _PRIOR * n
    mean = place / total
    variance = np.maximum((square + _PRIOR * n) / total - mean * mean, _FLOOR)
    vector = np.concatenate((0.5 * mean, 0.5 * np.log(variance) / np.sqrt(2.0)))
    return share, vector, np.sqrt(1.0 + (vector * vector).sum())


@compiled
def visitation_distance(states, other, K, rng):
    """1 − Σ_k √(ω_k ω'_k) u_k·u'_k of the places of two policies, on a background of both."""
    weights, variances, own, others = _background_sums(states, other, K, rng)
    n, m, total = len(states), len(other), 1.0
    for k in range(K):
        scale, w = np.sqrt(variances[k]), variances[k]
        a, u, length = _region(own[0][k], own[1][k] / scale, own[2][k] / w, weights[k], n)
        b, v, width = _region(others[0][k], others[1][k] / scale, others[2][k] / w, weights[k], m)
        total -= np.sqrt(a * b) * (1.0 + (u * v).sum()) / (length * width)
    return total


RULES = ("none", "max-tv", "gaussian", "supervector", "visitation")
NONE, MAX_TV, GAUSSIAN, SUPERVECTOR, VISITATION = range(5)  # as the compiled code knows them


@compiled
def ask(theta, states, width, n_actions):
    """Log probabilities and values of states."""
    _, _, logits, at = forward(theta, 0, states, width, n_actions)
    _, _, values, _ = forward(theta, at, states, width, 1)
    return log_softmax(logits), values[:, 0]


@compiled
def ask_policy(theta, states, width, n_actions):
    """Log probabilities alone, in half the time."""
    return log_softmax(forward(theta, 0, states, width, n_actions)[2])


@compiled
def _distinct(places, n_states):
    """Find the states among ``places``, and for each state which of them it is."""
    states, number, n = np.empty(n_states, np.int64), np.full(n_states, -1), 0
    for place in places:
        if number[place] < 0:
            states[n], number[place] = place, n
            n += 1
    return states[:n], number


@compiled
def _gradients_of_outputs(
    rollout, batch, advantages, old, rows, number, log_probs, values, settings
):
    """Gradients of the loss with respect to logits and values, summed over each state."""
    size, chosen = len(batch), advantages[batch]
    chosen = chosen - chosen.mean()
    chosen /= np.sqrt((chosen * chosen).sum() / (size - 1)) + 1e-8
    logits_grad, values_grad = np.zeros_like(log_probs), np.zeros_like(values)
    weights = np.zeros((len(values), 1))
    for i in range(size):
        action, advantage, place = rollout[1, batch[i]], chosen[i], number[rollout[0, batch[i]]]
        ratio = np.exp(log_probs[place, action] - old[rows[place], action])
        beyond = ratio > 1.0 + settings.clip if advantage > 0 else ratio < 1.0 - settings.clip
        if not beyond:  # ∂ log π(a) / ∂ logits = [a] − π
            weight = advantage * ratio / size
            weights[place, 0] += weight
            logits_grad[place, action] -= weight
        error = values[place, 0] - rollout[2, batch[i]]
        values_grad[place, 0] += 2.0 * settings.value_weight * error / size
    return logits_grad + weights * np.exp(log_probs), values_grad


@compiled
def update(learner, count, states, rollout, batch, advantages, old, settings):
    """Step number ``count`` (from 1) of Adam, on the loss of PPO over the steps ``batch``.

    The loss is −mean min(A r, A clip(r)) + weight · mean (V − R)², with advantages A normalised
    over the batch, the ratio r of new and ``old`` probabilities, and returns R, which are rewards
    as nothing that comes later counts.
    """
    theta, grad = learner[0], np.zeros(learner.shape[1])
    rows, number = _distinct(rollout[0][batch], len(states))
    states = states[rows]  # networks are asked only for those in the batch
    first, second, logits, at = forward(theta, 0, states, settings.width, old.shape[1])
    value_first, value_second, values, end = forward(theta, at, states, settings.width, 1)
    logits_grad, values_grad = _gradients_of_outputs(
        rollout, batch, advantages, old, rows, number, log_softmax(logits), values, settings
    )
    backward(theta, grad, at, states, first, second, logits_grad)
    backward(theta, grad, end, states, value_first, value_second, values_grad)
    descend(learner, grad, count, settings.learning_rate, settings.max_grad_norm)


@compiled
def _choose(log_probs, place, n_actions, rng):
    """Sample an action."""
    left = rng.random()
    for j in range(n_actions - 1):
        left -= np.exp(log_probs[place, j])
        if left < 0:
            return j
    return n_actions - 1


@compiled
def _move(outcomes, place, action):
    """Where an action leads, as `reproduction.worlds.dangerous_path.advance`."""
    outcome = outcomes[place, action]
    if outcome == MINE:
        return 0
    return place + 1 if outcome == RIGHT else place


@compiled
def visited(outcomes, states, log_probs, settings, rng):
    """States of some episodes, first and last ones included, with noise."""
    n, n_actions = 0, outcomes.shape[1]
    places = np.empty(settings.trajectories * (settings.episode_steps + 1), np.int64)
    for _ in range(settings.trajectories):
        place, begin = 0, n
        for step in range(settings.episode_steps + 1):
            places[n] = place
            n += 1
            action, ends = -1, place == len(outcomes) or step == settings.episode_steps
            if not ends:
                action = _choose(log_probs, place, n_actions, rng)
            if settings.end_points and (ends or outcomes[place, action] == MINE):
                places[begin:n] = place
                begin = n
            if ends:
                break
            place = _move(outcomes, place, action)
    shown = states[places[:n]]
    for i in range(n):
        for d in range(states.shape[1]):
            shown[i, d] += settings.noise * rng.standard_normal()
    return shown


@compiled
def distance(outcomes, states, seen, old, new, before, settings, rng):
    """How far apart two policies are by the rule."""
    if settings.rule == MAX_TV:
        return largest_total_variation(old, new, seen)
    if len(before) == 0:
        before = visited(outcomes, states, old, settings, rng)
    after = visited(outcomes, states, new, settings, rng)
    if settings.rule == GAUSSIAN:
        return symmetric_kl(before, after)
    if settings.rule == SUPERVECTOR:
        return supervector_distance(before, after, settings.n_components, rng)
    return visitation_distance(before, after, settings.n_components, rng)


@compiled
def _shuffle(order, rng):
    """Fisher and Yates, in place; the generator's own methods take seconds to compile."""
    for i in range(len(order) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]


@compiled
def improve(learner, count, outcomes, states, rollout, settings, rng, own_rng):
    """Update on the steps of a rollout until the constraint is violated."""
    # `own_rng` measures the old policy against itself, so that looking changes nothing.
    n_steps, n_actions = rollout.shape[1], outcomes.shape[1]
    seen, _ = _distinct(rollout[0], len(states))
    old, values = ask(learner[0], states, settings.width, n_actions)
    advantages = rollout[2] - values[rollout[0]]  # discount 0: what comes later does not count
    own, before = 0.0, np.empty((0, states.shape[1]))
    if settings.rule != NONE:
        own = distance(outcomes, states, seen, old, old, before, settings, own_rng)
        if settings.old_once and settings.rule != MAX_TV:
            before = visited(outcomes, states, old, settings, rng)
    order = np.arange(n_steps)
    for done in range(settings.max_updates):
        at = (done * settings.batch_size) % n_steps
        if at == 0:
            _shuffle(order, rng)
        batch = order[at : at + settings.batch_size]
        update(learner, count + done + 1, states, rollout, batch, advantages, old, settings)
        if settings.rule != NONE:
            new = ask_policy(learner[0], states, settings.width, n_actions)
            far = distance(outcomes, states, seen, old, new, before, settings, rng)
            if far > settings.threshold:
                return done + 1, own
    return settings.max_updates, own


@compiled
def collect_steps(theta, outcomes, states, agents, rollout, settings, rng):
    """Fill in a rollout; number of the episodes that ended, and the sum of their returns."""
    n_envs, length, n_actions = agents.shape[1], len(outcomes), outcomes.shape[1]
    log_probs = ask_policy(theta, states, settings.width, n_actions)
    n_steps, ended, total = rollout.shape[1] // n_envs, 0, 0
    for env in range(n_envs):
        for step in range(env * n_steps, (env + 1) * n_steps):
            place = agents[0, env]
            action = _choose(log_probs, place, n_actions, rng)
            after = _move(outcomes, place, action)
            reward = 1 if after > agents[1, env] else 0
            rollout[0, step], rollout[1, step], rollout[2, step] = place, action, reward
            agents[0, env] = after
            agents[1, env] = max(after, agents[1, env])
            agents[2, env] += 1
            agents[3, env] += reward
            if after == length or agents[2, env] == settings.episode_steps:
                ended += 1
                total += agents[3, env]
                agents[:, env] = 0
    return ended, total


class PathSettings(NamedTuple):
    """How a run learns; the defaults are the paper's."""

    rule: str = "none"  # what stops the updates of an iteration: one of `RULES`
    threshold: float = np.inf  # above which it does
    clip: float = np.inf  # of the probability ratio; infinite for none
    max_updates: int = 100  # of an iteration
    # The iteration in which these are reached is the last; steps for checks do not count.
    total_steps: int = 1_000_000
    n_envs: int = 8
    n_steps: int = 512  # in each environment before the updates
    batch_size: int = 64
    learning_rate: float = 1e-3
    max_grad_norm: float = 0.5
    value_weight: float = 0.5
    trajectories: int = 5  # episodes of either policy that a check of states looks at
    old_once: bool = True  # play the old policy's once an iteration, not anew for every check
    end_points: bool = False  # repeat the last state up to a mine, or the end, see `visited`
    noise: float = 1e-3  # standard deviation of what is added to their states
    n_components: int = 4  # of the background model
    width: int = 16  # of the two layers of networks
    n_dimensions: int = 5  # of the path, see `draw_outcomes`
    length: int = 25
    mines: float = 0.5
    episode_steps: int = 25

    @property
    def iterations(self) -> int:
        """Collections of a run, each followed by updates."""
        return -(-self.total_steps // (self.n_envs * self.n_steps))


class PathRun(NamedTuple):
    """What came out of a run, a value for each iteration."""

    returns: NDArray[np.float64]  # mean of the episodes that ended while data were collected
    updates: NDArray[np.float64]  # made before the constraint, or their number, ended them
    # Of the old policy to itself by the rule: what sampling alone does to a check.
    own_distances: NDArray[np.float64]


def learn_path(settings: PathSettings, path_seed: int, seed: int | list[int]) -> PathRun:
    """Learn one path, from first networks to the last step."""
    n_rollout = settings.n_envs * settings.n_steps
    if settings.rule not in RULES:
        raise UsageError(f"rule must be one of {', '.join(RULES)}, but is {settings.rule!r}")
    if settings.rule != "none" and not settings.threshold > 0:
        raise UsageError(f"threshold must be positive, but is {settings.threshold!r}")
    if n_rollout % settings.batch_size:
        raise UsageError(
            f"batches of {settings.batch_size} must add up to the {n_rollout} steps of an "
            "iteration: change batch_size or n_steps"
        )
    rng, own_rng = np.random.default_rng(seed).spawn(2)
    n_dimensions = settings.n_dimensions
    outcomes = draw_outcomes(n_dimensions, settings.length, settings.mines, path_seed)
    states = locations(outcomes).astype(np.float64)
    parameters = first_parameters(n_dimensions, settings.width, n_dimensions, rng)
    learner = np.stack([parameters, np.zeros_like(parameters), np.zeros_like(parameters)])
    agents = np.zeros((4, settings.n_envs), np.int64)
    rollout = np.zeros((3, n_rollout), np.int64)
    # The compiled code compares numbers: texts take seconds to compile.
    numbers: Any = settings._replace(rule=RULES.index(settings.rule))  # type: ignore[arg-type]
    run = PathRun(*np.full((3, settings.iterations), np.nan))
    count = 0
    for i in range(settings.iterations):
        ended, total = collect_steps(learner[0], outcomes, states, agents, rollout, numbers, rng)
        if ended:
            run.returns[i] = total / ended
        updates, run.own_distances[i] = improve(
            learner, count, outcomes, states, rollout, numbers, rng, own_rng
        )
        run.updates[i] = updates
        count += updates
    return run


# By rule: ``first``, the paper's range, and what is tried while the best lies at its edge, nearest
# first: ``lower`` and ``higher``.
RANGES: Mapping[str, Mapping[str, list[float]]] = toml("recipes")["thresholds"]

# What the paper compares, with all repetitions: constraints, whose thresholds are searched, and PPO
# without one.
CONSTRAINTS = ("max-tv", "gaussian", "supervector")
OTHERS: Mapping[str, PathSettings] = {
    "none": PathSettings(),
    "clipped": PathSettings(clip=0.2, max_updates=640),  # ten passes over the data
}
# Variants have the repetitions of the search. Some are searched themselves, others have the
# thresholds of those that they are named after.
SEARCHED_VARIANTS = ("visitation", "gaussian-ends", "supervector-ends")
OTHER_VARIANTS = (
    *("gaussian-anew", "supervector-anew"),
    *("none-64", "max-tv-64", "gaussian-64", "supervector-64"),
)
_CHANGES: Mapping[str, Mapping[str, Any]] = {
    "ends": {"end_points": True},
    "anew": {"old_once": False},
    "64": {"width": 64},
}


def base_of(name: str) -> str:
    """Return the method that a variant is named after; its own name if it is none."""
    base, _, suffix = name.rpartition("-")
    return base if suffix in _CHANGES else name


def settings_of(name: str, threshold: float = np.inf) -> PathSettings:
    """Return the settings of a method or variant."""
    base = base_of(name)
    made = OTHERS[base] if base in OTHERS else PathSettings(base, threshold)
    return made._replace(**_CHANGES.get(name.rpartition("-")[2], {}))


def next_threshold(
    areas: Mapping[float, float], thresholds: Mapping[str, Sequence[float]]
) -> float | None:
    """What to try after these, by their mean areas: beyond the edge at which the best lies."""
    best = max(areas, key=areas.__getitem__)
    further: Sequence[float] = ()
    if best == max(areas):
        further = thresholds["higher"]
    elif best == min(areas):
        further = thresholds["lower"]
    return next((value for value in further if value not in areas), None)


def area(runs: Sequence[PathRun]) -> float:
    """Area under the mean learning curve over its length: the mean return of all of training."""
    return float(np.mean([run.returns for run in runs]))


def tenths(run: PathRun) -> Array:
    """Mean return in each tenth of training."""
    edges = np.arange(11) * len(run.returns) // 10
    parts = pairwise(edges)
    return np.array([run.returns[begin : max(end, begin + 1)].mean() for begin, end in parts])


def stopped(runs: Sequence[PathRun], settings: PathSettings) -> float:
    """Share of the iterations whose updates the constraint ended."""
    return float(np.mean([run.updates < settings.max_updates for run in runs]))


def self_stops(runs: Sequence[PathRun], settings: PathSettings) -> float:
    """Share of the iterations in which a policy exceeds the threshold against itself."""
    return float(np.mean([run.own_distances > settings.threshold for run in runs]))
