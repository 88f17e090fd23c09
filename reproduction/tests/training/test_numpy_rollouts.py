"""Networks in NumPy while training plays: the numbers of Stable-Baselines3's own policy."""

from __future__ import annotations

import numpy as np
import pytest
from training_worlds import Follow

from pivec.rollouts import Environment
from reproduction.training.runs import settings_for

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402

from reproduction.training.reinforcement import ActorCritic, make_model  # noqa: E402

WORLDS = [("CartPole-v1", "ppo"), ("Acrobot-v1", "a2c"), ("Pendulum-v1", "ppo"), (Follow, "a2c")]


class Quiet(BaseCallback):
    def _on_step(self):
        return True


@pytest.fixture(params=WORLDS, ids=str)
def model(request):
    env, algorithm = request.param
    environment = Environment.of(env)
    steps = {"n_envs": 3, "n_steps": 210}  # in Pendulum and Follow time limits end episodes
    if algorithm == "ppo":
        steps["batch_size"] = 630
    values = settings_for(algorithm, environment.name, steps)
    threads = torch.get_num_threads()
    with torch.random.fork_rng():
        made = make_model(environment, values, algorithm, 0)
        if hasattr(made.policy, "log_std"):
            torch.nn.init.constant_(made.policy.log_std, -0.7)
        for part in (made.policy.action_net, made.policy.value_net):
            torch.nn.init.normal_(part.weight, std=0.5)
        made._setup_learn(1000)
        yield made
    torch.set_num_threads(threads)


def collected(model):
    callback = Quiet()
    callback.init_callback(model)
    buffer = model.rollout_buffer
    assert model.collect_rollouts(model.env, callback, buffer, model.n_steps)
    return buffer


def test_a_rollout_is_as_the_library_evaluates_it(model):
    buffer = collected(model)
    assert buffer.full
    assert model.num_timesteps == model.n_steps * 3
    shape = buffer.observations.shape
    observations = torch.as_tensor(buffer.observations.reshape(-1, shape[-1]))
    actions = torch.as_tensor(buffer.actions.reshape(observations.shape[0], -1))
    if buffer.actions.dtype.kind == "i":
        actions = actions[:, 0]
    with torch.no_grad():
        values, log_probs, _ = model.policy.evaluate_actions(observations, actions)
    np.testing.assert_allclose(buffer.values.ravel(), values.numpy().ravel(), atol=2e-5, rtol=1e-4)
    np.testing.assert_allclose(buffer.log_probs.ravel(), log_probs.numpy(), atol=2e-5, rtol=1e-4)
    # The library's own loop over the same episodes sees the same rewards, with what was cut off.
    again = buffer.advantages.copy(), buffer.returns.copy()
    with torch.no_grad():
        last = model.policy.predict_values(torch.as_tensor(model._last_obs))
    buffer.compute_returns_and_advantage(last, model._last_episode_starts)
    np.testing.assert_allclose(again[0], buffer.advantages, atol=1e-3, rtol=1e-4)
    np.testing.assert_allclose(again[1], buffer.returns, atol=1e-3, rtol=1e-4)


def test_the_seed_decides_the_rollout_and_weights_are_those_of_now(model):
    rollouts = []
    for _ in range(2):
        model.set_random_seed(5)
        model._last_obs = model.env.reset()
        rollouts.append(collected(model).actions.copy())
    np.testing.assert_array_equal(*rollouts)
    with torch.no_grad():
        model.policy.value_net.bias += 100.0
    assert collected(model).values.min() > 50


@pytest.mark.parametrize("model", [("Pendulum-v1", "ppo")], indirect=True)
def test_what_a_time_limit_cuts_off_is_added(model, monkeypatch):
    plain = {}
    real = type(model.env).step_wait

    def remembered(env):
        seen, rewards, dones, infos = real(env)
        if dones.any():
            plain[model.num_timesteps] = rewards.copy(), infos
        return seen, rewards, dones, infos

    monkeypatch.setattr(type(model.env), "step_wait", remembered)
    buffer = collected(model)
    [(before, (rewards, infos))] = plain.items()
    last = torch.as_tensor(np.stack([info["terminal_observation"] for info in infos]))
    with torch.no_grad():
        values = model.policy.predict_values(last).numpy().ravel()
    expected = rewards + model.gamma * values
    np.testing.assert_allclose(buffer.rewards[before // 3], expected, rtol=1e-5)


def test_draws_follow_the_probabilities(model):
    n, rng = 20_000, np.random.default_rng(1)
    row = model._last_obs[:1]
    actions, log_probs = ActorCritic(model.policy).act(np.repeat(row, n, axis=0), rng)
    with torch.no_grad():
        expected = model.policy.get_distribution(torch.as_tensor(row)).distribution
    if actions.ndim == 1:
        p = expected.probs.numpy()[0]
        np.testing.assert_allclose(np.bincount(actions, minlength=len(p)) / n, p, atol=0.02)
    else:
        np.testing.assert_allclose(actions.mean(axis=0), expected.mean[0], atol=0.03)
        np.testing.assert_allclose(actions.std(axis=0), expected.stddev[0], rtol=0.03)
    assert log_probs.dtype == np.float32
