"""Steps, updates and checks of the trust-region experiment, compiled.

It is `TrustRegionPPO` of `pivec.integrations.trust_region` with the rules of the paper, for the one
environment of the experiment, whose states are few: tables over the states take the place of
networks that are asked for each observation. The loss is Stable-Baselines3's, and a test holds that
both make the same updates.

What the functions share:

- ``learner``, (3, n_parameters): the parameters and Adam's two moments, changed in place;
- ``states``, (n_states, n_dimensions): coordinates of all places;
- ``rollout``, (3, n_steps): place, action and reward of every step;
- ``old`` and ``new``, (n_states, n_actions): log probabilities of two policies;
- ``settings``: `PathSettings`, the rule as its number.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from reproduction.trust_region.checks import (
    largest_total_variation,
    supervector_distance,
    symmetric_kl,
    visitation_distance,
)
from reproduction.trust_region.network import backward, compiled, descend, forward, log_softmax
from reproduction.trust_region.world import MINE, RIGHT

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
    """Gradients of the loss with respect to logits and values, summed over each state of ``rows``.

    A state's ``number`` is where it stands in them.
    """
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
    """Where an action leads, as `reproduction.trust_region.world.advance`."""
    outcome = outcomes[place, action]
    if outcome == MINE:
        return 0
    return place + 1 if outcome == RIGHT else place


@compiled
def visited(outcomes, states, log_probs, settings, rng):
    """States of some episodes, first and last ones included, with noise.

    With ``end_points``, all states from the start, or from a mine, to the end of the episode, or to
    the next mine, are the last of them.
    """
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
    """How far apart two policies are by the rule.

    ``seen`` are the states of the rollout, and ``before`` holds states that the old policy
    visited; with none in it, it is played anew.
    """
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
    """Update on the steps of a rollout until the constraint is violated.

    ``count`` updates were made before. Returns how many there were now, and the distance of the
    old policy to itself: what sampling alone does to the rule. That one has a generator of its
    own, so that looking at it changes nothing.
    """
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
    """Fill in a rollout; number of the episodes that ended, and the sum of their returns.

    ``agents``, (4, n_envs): place, farthest place, steps and return of the episode so far.
    """
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
