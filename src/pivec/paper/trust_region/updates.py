"""Steps, updates and checks of the trust-region experiment, compiled.

It is `TrustRegionPPO` of `pivec.training.trust_region` with the rules of the paper, for the one
environment of the experiment, whose states are few: tables over the states take the place of
networks that are asked for each observation. The loss is Stable-Baselines3's, and a test holds that
both make the same updates.

What the functions share:

- ``learner``, (3, n_parameters): the parameters and Adam's two moments, changed in place;
- ``states``, (n_states, n_dimensions): coordinates of all places;
- ``rollout``, (3, n_steps): place, action and reward of every step;
- ``rows``, ``n``: the first ``n`` of ``rows`` are the states that are meant;
- ``room``, (10, n_states, width): arrays to work in, see the names below.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pivec.paper.trust_region.checks import (
    largest_total_variation,
    supervector_distance,
    symmetric_kl,
)
from pivec.paper.trust_region.network import (
    WIDTH,
    backward,
    compiled,
    forward,
    log_softmax,
    step_of_adam,
)
from pivec.paper.trust_region.world import MINE, RIGHT

RULES = ("none", "max-tv", "gaussian", "supervector")
_NONE, _MAX_TV, _GAUSSIAN, _SUPERVECTOR = range(4)

# What lies in the room: hidden units of the policy and of the value network, log probabilities and
# values of the states, the gradients of logits and values, and two arrays to pass gradients down.
_HIDDEN, _VALUE_HIDDEN, _LOG_PROBS, _VALUES, _LOGITS_GRAD, _VALUES_GRAD, _DOWN = 0, 2, 4, 5, 6, 7, 8


class Numbers(NamedTuple):
    """Settings that the compiled code looks at; see `PathSettings`."""

    rule: int
    threshold: float
    clip: float
    max_updates: int
    batch_size: int
    learning_rate: float
    max_grad_norm: float
    value_weight: float
    trajectories: int
    old_once: bool
    noise: float
    n_components: int
    episode_steps: int


@compiled
def new_room(states, n_actions):
    """Make room for the states."""
    return np.empty((10, len(states), max(WIDTH, states.shape[1], n_actions)))


@compiled
def ask_policy(theta, states, rows, n, n_actions, room):
    """Put log probabilities of states into ``room``; where the value network begins."""
    first, second, outputs = room[_HIDDEN], room[_HIDDEN + 1], room[_LOG_PROBS]
    at = forward(theta, 0, states, rows, n, first, second, outputs, n_actions)
    log_softmax(rows, n, outputs, n_actions)
    return at


@compiled
def ask_value(theta, at, states, rows, n, room):
    """Put values of states into ``room``."""
    first, second = room[_VALUE_HIDDEN], room[_VALUE_HIDDEN + 1]
    forward(theta, at, states, rows, n, first, second, room[_VALUES], 1)


@compiled
def _distinct(places, n_states, rows):
    """Put the states among ``places`` into ``rows``; how many they are."""
    seen = np.zeros(n_states, np.bool_)
    n = 0
    for i in range(len(places)):
        place = places[i]
        if not seen[place]:
            seen[place] = True
            rows[n] = place
            n += 1
    return n


@compiled
def _gradients_of_outputs(rollout, batch, advantages, old, rows, n, numbers, room):
    """Gradients of the loss with respect to logits and values, summed over each state."""
    size, n_actions = len(batch), old.shape[1]
    log_probs, values = room[_LOG_PROBS], room[_VALUES]
    logits_grad, values_grad = room[_LOGITS_GRAD], room[_VALUES_GRAD]
    mean = square = 0.0
    for i in range(size):
        mean += advantages[batch[i]] / size
    for i in range(size):
        square += (advantages[batch[i]] - mean) ** 2
    deviation = np.sqrt(square / (size - 1)) + 1e-8
    for i in range(n):
        logits_grad[rows[i]] = 0.0
        values_grad[rows[i]] = 0.0
    weights = np.zeros(len(old))
    for i in range(size):
        step = batch[i]
        place, action = rollout[0, step], rollout[1, step]
        advantage = (advantages[step] - mean) / deviation
        ratio = np.exp(log_probs[place, action] - old[place, action])
        beyond = ratio > 1.0 + numbers.clip if advantage > 0 else ratio < 1.0 - numbers.clip
        if not beyond:
            weight = advantage * ratio / size
            weights[place] += weight
            logits_grad[place, action] -= weight
        error = values[place, 0] - rollout[2, step]
        values_grad[place, 0] += 2.0 * numbers.value_weight * error / size
    for i in range(n):  # the rest of ∂ log π(a) / ∂ logits = [a] − π
        place = rows[i]
        for j in range(n_actions):
            logits_grad[place, j] += weights[place] * np.exp(log_probs[place, j])


@compiled
def update(learner, count, states, rollout, batch, advantages, old, numbers, room):
    """Step number ``count`` (from 1) of Adam, on the loss of PPO over the steps ``batch``.

    The loss is −mean min(A r, A clip(r)) + weight · mean (V − R)², with advantages A normalised
    over the batch, the ratio r of new and ``old`` probabilities, and returns R, which are rewards
    as nothing that comes later counts.
    """
    theta, n_actions = learner[0], old.shape[1]
    rows = np.empty(len(states), np.int64)
    n = _distinct(rollout[0][batch], len(states), rows)
    value_at = ask_policy(theta, states, rows, n, n_actions, room)
    ask_value(theta, value_at, states, rows, n, room)
    _gradients_of_outputs(rollout, batch, advantages, old, rows, n, numbers, room)
    grad = np.zeros(len(theta))
    for network in range(2):
        at = value_at * network
        n_out = 1 if network else n_actions
        hidden = room[_VALUE_HIDDEN if network else _HIDDEN :]
        above = room[_VALUES_GRAD if network else _LOGITS_GRAD]
        backward(theta, grad, at, states, rows, n, hidden, above, n_out, room[_DOWN:])
    step_of_adam(learner, grad, count, numbers.learning_rate, numbers.max_grad_norm)


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
    """Where an action leads, as `pivec.paper.trust_region.world.advance`."""
    outcome = outcomes[place, action]
    if outcome == MINE:
        return 0
    return place + 1 if outcome == RIGHT else place


@compiled
def visited(outcomes, states, log_probs, numbers, rng):
    """States of some episodes, first and last ones included, with noise."""
    n, n_actions = 0, outcomes.shape[1]
    shown = np.empty((numbers.trajectories * (numbers.episode_steps + 1), states.shape[1]))
    for _ in range(numbers.trajectories):
        place = 0
        for step in range(numbers.episode_steps + 1):
            for d in range(states.shape[1]):
                shown[n, d] = states[place, d] + numbers.noise * rng.standard_normal()
            n += 1
            if place == len(outcomes) or step == numbers.episode_steps:
                break
            place = _move(outcomes, place, _choose(log_probs, place, n_actions, rng))
    return shown[:n]


@compiled
def distance(outcomes, states, rows, n, old, new, before, numbers, rng):
    """How far apart two policies are by the rule.

    ``rows`` are the states of the rollout, and ``before`` states that the old policy visited; with
    none in it, it is played anew.
    """
    if numbers.rule == _MAX_TV:
        return largest_total_variation(rows, n, old, new, outcomes.shape[1])
    if len(before) == 0:
        before = visited(outcomes, states, old, numbers, rng)
    after = visited(outcomes, states, new, numbers, rng)
    if numbers.rule == _GAUSSIAN:
        return symmetric_kl(before, after)
    return supervector_distance(before, after, numbers.n_components, rng)


@compiled
def _shuffle(order, rng):
    """Fisher and Yates, in place; the generator's own methods take seconds to compile."""
    for i in range(len(order) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]


@compiled
def improve(learner, count, outcomes, states, rollout, numbers, rng, own_rng):
    """Update on the steps of a rollout until the constraint is violated.

    ``count`` updates were made before. Returns how many there were now, and the distance of the
    old policy to itself: what sampling alone does to the rule. That one has a generator of its
    own, so that looking at it changes nothing.
    """
    n_steps, n_states, n_actions = rollout.shape[1], len(states), outcomes.shape[1]
    room = new_room(states, n_actions)
    everywhere, rows = np.arange(n_states), np.empty(n_states, np.int64)
    n = _distinct(rollout[0], n_states, rows)
    value_at = ask_policy(learner[0], states, everywhere, n_states, n_actions, room)
    ask_value(learner[0], value_at, states, rows, n, room)
    new, old = room[_LOG_PROBS], room[_LOG_PROBS, :, :n_actions].copy()
    advantages, own, before = np.empty(n_steps), 0.0, np.empty((0, states.shape[1]))
    for i in range(n_steps):  # discount 0: what comes later does not count
        advantages[i] = rollout[2, i] - room[_VALUES, rollout[0, i], 0]
    if numbers.rule != _NONE:
        own = distance(outcomes, states, rows, n, new, new, before, numbers, own_rng)
        if numbers.old_once and numbers.rule != _MAX_TV:
            before = visited(outcomes, states, old, numbers, rng)
    order = np.arange(n_steps)
    for done in range(numbers.max_updates):
        at = (done * numbers.batch_size) % n_steps
        if at == 0:
            _shuffle(order, rng)
        batch = order[at : at + numbers.batch_size]
        update(learner, count + done + 1, states, rollout, batch, advantages, old, numbers, room)
        if numbers.rule != _NONE:
            ask_policy(learner[0], states, everywhere, n_states, n_actions, room)
            far = distance(outcomes, states, rows, n, old, new, before, numbers, rng)
            if far > numbers.threshold:
                return done + 1, own
    return numbers.max_updates, own


@compiled
def collect_steps(theta, outcomes, states, agents, rollout, numbers, rng):
    """Fill in a rollout; number of the episodes that ended, and the sum of their returns.

    ``agents``, (4, n_envs): place, farthest place, steps and return of the episode so far.
    """
    n_envs, length, n_actions = agents.shape[1], len(outcomes), outcomes.shape[1]
    room = new_room(states, n_actions)
    ask_policy(theta, states, np.arange(len(states)), len(states), n_actions, room)
    n_steps, ended, total = rollout.shape[1] // n_envs, 0, 0
    for env in range(n_envs):
        for step in range(env * n_steps, (env + 1) * n_steps):
            place = agents[0, env]
            action = _choose(room[_LOG_PROBS], place, n_actions, rng)
            after = _move(outcomes, place, action)
            reward = 1 if after > agents[1, env] else 0
            rollout[0, step], rollout[1, step], rollout[2, step] = place, action, reward
            agents[0, env] = after
            agents[1, env] = max(after, agents[1, env])
            agents[2, env] += 1
            agents[3, env] += reward
            if after == length or agents[2, env] == numbers.episode_steps:
                ended += 1
                total += agents[3, env]
                agents[:, env] = 0
    return ended, total
