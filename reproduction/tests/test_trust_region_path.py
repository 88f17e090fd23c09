"""Compiled runs on the dangerous path: the same updates as Stable-Baselines3, and whole runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import reproduction.worlds  # noqa: F401 - registers
from pivec.errors import UsageError
from reproduction.training.trust_region import (
    PathSettings,
    ask,
    collect_steps,
    first_parameters,
    flatten,
    layer_shapes,
    learn_path,
    update,
    visited,
)
from reproduction.worlds.dangerous_path import draw_outcomes, locations

SHORT = {"n_steps": 64, "total_steps": 2_048, "max_updates": 20}
SETTINGS = PathSettings(rule=0, max_updates=20)  # as the compiled code takes it


def slow_networks(theta, states):
    """Log probabilities and values in plain NumPy."""
    outputs, at, x = [], 0, states
    for i, (n_in, n_out) in enumerate(layer_shapes(5, 16, 5)):
        weight = theta[at : at + n_in * n_out].reshape(n_in, n_out)
        at += n_in * n_out
        x = x @ weight + theta[at : at + n_out]
        at += n_out
        if i % 3 == 2:
            outputs.append(x)
            x = states
        else:
            x = np.tanh(x)
    logits, values = outputs
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), values[:, 0]


def slow_loss(theta, states, rollout, batch, advantages, old, clip):
    log_probs, values = slow_networks(theta, states)
    places, actions, rewards = rollout[:, batch]
    chosen = advantages[batch]
    a = (chosen - chosen.mean()) / (chosen.std(ddof=1) + 1e-8)
    ratio = np.exp(log_probs[places, actions] - old[places, actions])
    gain = np.minimum(a * ratio, a * np.clip(ratio, 1 - clip, 1 + clip))
    return -gain.mean() + 0.5 * ((values[places] - rewards) ** 2).mean()


@pytest.fixture
def world():
    rng = np.random.default_rng(0)
    outcomes = draw_outcomes(5, 25, 0.5, path_seed=1)
    states = locations(outcomes).astype(np.float64)
    theta = rng.normal(0.0, 0.3, len(first_parameters(5, 16, 5, rng)))
    rollout = np.zeros((3, 512), np.int64)
    collect_steps(theta, outcomes, states, np.zeros((4, 8), np.int64), rollout, SETTINGS, rng)
    return outcomes, states, theta, rollout, rng


def test_networks_answer_as_plain_numpy(world):
    _, states, theta, _, _ = world
    found_log_probs, found_values = ask(theta, states, 16, 5)
    log_probs, values = slow_networks(theta, states)
    np.testing.assert_allclose(found_log_probs, log_probs, rtol=1e-10)
    np.testing.assert_allclose(found_values, values, rtol=1e-10)


@pytest.mark.parametrize("clip", [np.inf, 0.1])
def test_an_update_follows_the_slope_of_the_loss(world, clip):
    _, states, theta, rollout, rng = world
    old = slow_networks(theta + rng.normal(0.0, 0.05, theta.shape), states)[0]
    advantages = rng.normal(size=rollout.shape[1])
    batch = rng.choice(rollout.shape[1], 64, replace=False)
    learner = np.stack([theta, 0 * theta, 0 * theta])
    settings = SETTINGS._replace(clip=clip, max_grad_norm=1e9)
    update(learner, 1, states, rollout, batch, advantages, old, settings)
    gradient = learner[1] / 0.1  # Adam's first moment, after its first step
    for i in rng.choice(len(theta), 60, replace=False):
        ends = []
        for sign in (1, -1):
            moved = theta.copy()
            moved[i] += sign * 1e-5
            ends.append(slow_loss(moved, states, rollout, batch, advantages, old, clip))
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize(("clip", "rate"), [(np.inf, 1e-3), (0.1, 1e-2)])
def test_a_batch_makes_the_same_update_as_stable_baselines3(clip, rate):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env

    from pivec.integrations.trust_region import TrustRegionPPO

    class Watch:
        """Keeps the weights before and after every update."""

        def begin(self, old, observations):
            self.weights = [weights_of(old.policy)]
            np.random.seed(5)  # noqa: NPY002 - which Stable-Baselines3 draws its batches from

        def exceeded(self, new):
            self.weights.append(weights_of(new.policy))
            return False

    def weights_of(policy):
        parts = policy.mlp_extractor.policy_net, policy.mlp_extractor.value_net
        layers = [parts[0][0], parts[0][2], policy.action_net]
        layers += [parts[1][0], parts[1][2], policy.value_net]
        arrays = [[p.detach().numpy().astype(float).T for p in (x.weight, x.bias)] for x in layers]
        return flatten([(weight.copy(), bias) for weight, bias in arrays])

    watch = Watch()
    model = TrustRegionPPO(
        "MlpPolicy",
        make_vec_env("pivec/DangerousPath-v0", 8, env_kwargs={"path_seed": 1}),
        rule=watch,
        max_updates=12,
        clip_range=clip,
        learning_rate=rate,
        n_steps=64,
        gamma=0.0,
        gae_lambda=1.0,
        policy_kwargs={"net_arch": [16, 16]},
        seed=0,
        device="cpu",
    )
    model.learn(512)
    buffer = model.rollout_buffer
    rewards = buffer.returns.ravel()
    rollout = np.stack([buffer.observations.sum(axis=1), buffer.actions[:, 0], rewards])
    rollout = rollout.round().astype(np.int64)
    states = locations(draw_outcomes(5, 25, 0.5, path_seed=1)).astype(np.float64)
    log_probs, values = slow_networks(watch.weights[0], states)
    assert np.allclose(values[rollout[0]], buffer.values.ravel(), atol=1e-5)
    advantages = rollout[2] - values[rollout[0]]
    learner = np.stack([watch.weights[0], *np.zeros((2, len(watch.weights[0])))])
    settings = SETTINGS._replace(clip=clip, learning_rate=rate)
    draws = np.random.RandomState(5)
    for done in range(12):
        if done % 8 == 0:
            order = draws.permutation(512)
        batch = order[done % 8 * 64 :][:64]
        update(learner, done + 1, states, rollout, batch, advantages, log_probs, settings)
        np.testing.assert_allclose(learner[0], watch.weights[done + 1], rtol=0, atol=1e-5)
    assert np.abs(learner[0] - watch.weights[0]).max() > 5 * rate


def test_first_networks_are_those_of_stable_baselines3():
    theta = first_parameters(5, 16, 5, np.random.default_rng(0))
    log_probs, _ = slow_networks(theta, np.eye(5))
    assert np.allclose(np.exp(log_probs), 0.2, atol=0.02)
    first = theta[: 5 * 16].reshape(5, 16)
    assert np.allclose(first @ first.T, 2 * np.eye(5))


def test_played_states_lie_around_the_path_and_begin_at_the_start(world):
    outcomes, states, theta, _, rng = world
    log_probs = slow_networks(theta, states)[0]
    shown = visited(outcomes, states, log_probs, SETTINGS, rng)
    assert shown.shape == (5 * 26, 5)
    gaps = np.abs(shown[:, None] - states[None]).max(axis=2).min(axis=1)
    assert 0 < gaps.max() < 0.01
    assert np.allclose(shown[::26], 0, atol=0.01)  # ten deviations of the noise


def test_a_policy_that_knows_the_path_walks_it_to_the_end(world):
    outcomes, states, _, _, rng = world
    log_probs = np.where(np.vstack([outcomes, outcomes[:1]]) == 1, 0.0, -1000.0)
    shown = visited(outcomes, states, log_probs, SETTINGS, rng)
    assert np.allclose(shown[:26], states, atol=0.01)  # ten deviations of the noise


def test_end_points_are_the_last_states_before_mines_and_of_episodes():
    # Place 0 leads on by action 1, place 1 throws back by it: the places are 0, 1, 0, 1, 0.
    outcomes = np.array([[0, 1], [1, -1]])
    states = locations(outcomes).astype(np.float64)
    log_probs = np.array([[-1000.0, 0.0]] * 3)
    settings = SETTINGS._replace(trajectories=1, episode_steps=4, noise=0.0)
    for end_points, expected in ((False, [0, 1, 0, 1, 0]), (True, [1, 1, 1, 1, 0])):
        chosen = settings._replace(end_points=end_points)
        shown = visited(outcomes, states, log_probs, chosen, np.random.default_rng(0))
        assert shown.sum(axis=1).tolist() == expected


def test_a_run_follows_from_its_seeds_in_any_company():
    settings = [
        PathSettings(rule=rule, threshold=threshold, **SHORT)
        for rule, threshold in (("max-tv", 0.1), ("gaussian", 5.0), ("supervector", 0.1))
    ]
    alone = [learn_path(each, 3, [0, 3]) for each in settings]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda each: learn_path(each, 3, [0, 3]), settings))
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.returns, other.returns)
        assert np.array_equal(one.updates, other.updates)
        assert np.array_equal(one.own_distances, other.own_distances)
    other_seed = learn_path(settings[0], 3, [0, 4])
    assert not np.array_equal(alone[0].returns, other_seed.returns)


def test_constraints_stop_updates_and_none_makes_all():
    runs = {
        (rule, threshold): learn_path(PathSettings(rule=rule, threshold=threshold, **SHORT), 0, 0)
        for rule, threshold in (
            ("none", np.inf),
            ("max-tv", 1e-6),
            ("max-tv", 1.0),
            ("gaussian", 1e-6),
            ("supervector", 1e-9),
            ("supervector", 1e9),
        )
    }
    for (rule, threshold), run in runs.items():
        expected = 1 if threshold < 1e-3 else 20
        assert (run.updates == expected).all(), rule
    assert (runs["max-tv", 1.0].own_distances == 0).all()
    assert (runs["gaussian", 1e-6].own_distances > 0).all()


def test_playing_the_old_policy_once_is_another_run_with_the_same_own_distances_at_first():
    runs = [
        learn_path(PathSettings(rule="gaussian", threshold=5.0, old_once=once, **SHORT), 0, 0)
        for once in (False, True)
    ]
    assert runs[0].own_distances[0] == runs[1].own_distances[0]
    assert not np.array_equal(runs[0].updates, runs[1].updates)


def test_looking_at_checks_that_never_stop_changes_nothing():
    """Total variation draws no random numbers, so a run it never stops is one without it."""
    free = learn_path(PathSettings(**SHORT), 0, 0)
    watched = learn_path(PathSettings(rule="max-tv", threshold=1.0, **SHORT), 0, 0)
    assert np.array_equal(free.returns, watched.returns)


def test_learning_improves_the_return():
    run = learn_path(PathSettings(total_steps=80_000), 0, 0)
    assert len(run.returns) == 20
    assert run.returns[-1] > run.returns[0] + 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": "kl"}, "rule must be one of none, max-tv, gaussian, supervector, visitation"),
        ({"rule": "max-tv", "threshold": 0.0}, "threshold must be positive"),
        ({"batch_size": 100}, "batches of 100 must add up"),
    ],
)
def test_mistaken_settings_are_told(change, message):
    with pytest.raises(UsageError, match=message):
        learn_path(PathSettings(**change), 0, 0)
