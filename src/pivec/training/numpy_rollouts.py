"""PPO and A2C of Stable-Baselines3 whose networks answer in NumPy while they play.

For so few observations at a time most of torch's time goes into its calls. Learning stays the
library's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.preprocessing import is_image_space

Float = NDArray[np.float32]


class ActorCritic:
    """A copy of the two networks of an `MlpPolicy`, with tanh between the layers."""

    def __init__(self, policy: Any) -> None:
        parts = policy.mlp_extractor
        self._actor = _layers([*parts.policy_net, policy.action_net])
        self._critic = _layers([*parts.value_net, policy.value_net])
        log_std = getattr(policy, "log_std", None)
        self._log_std = None if log_std is None else log_std.detach().numpy().copy()

    def values(self, observations: Float) -> Float:
        """Values (n,) of observations (n, inputs)."""
        return _outputs(self._critic, observations)[:, 0]

    def act(self, observations: Float, rng: np.random.Generator) -> tuple[NDArray[Any], Float]:
        """Draw actions; returns them, and the logarithms of their probabilities (n,)."""
        outputs = _outputs(self._actor, observations)
        if self._log_std is None:
            return _categorical(outputs, rng)
        noise = rng.standard_normal(outputs.shape, np.float32)
        actions = outputs + np.exp(self._log_std) * noise
        terms = (
            noise * noise * np.float32(0.5) + self._log_std + np.float32(0.5 * np.log(2 * np.pi))
        )
        return actions, -terms.sum(axis=1)


def _layers(modules: list[Any]) -> list[tuple[Float, Float]]:
    return [
        (module.weight.detach().numpy().T.copy(), module.bias.detach().numpy().copy())
        for module in modules
        if isinstance(module, torch.nn.Linear)
    ]


def _outputs(layers: list[tuple[Float, Float]], x: Float) -> Float:
    for weights, biases in layers[:-1]:
        x = x @ weights
        x += biases
        np.tanh(x, out=x)
    weights, biases = layers[-1]
    outputs: Float = x @ weights + biases
    return outputs


def _categorical(logits: Float, rng: np.random.Generator) -> tuple[NDArray[Any], Float]:
    log_p = logits - logits.max(axis=1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    # The last sum may be a little less than 1: all above it is the last action.
    below = np.cumsum(np.exp(log_p[:, :-1]), axis=1) <= rng.random((len(log_p), 1), np.float32)
    actions: NDArray[Any] = below.sum(axis=1)
    return actions, log_p[np.arange(len(log_p)), actions]


class NumpyRollouts:
    """Stands before an algorithm of Stable-Baselines3, and collects its rollouts."""

    _rng: np.random.Generator

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seed what is drawn here, beside all that the library draws."""
        super().set_random_seed(seed)  # type: ignore[misc]
        self._rng = np.random.default_rng(seed)

    def collect_rollouts(
        self: Any, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int
    ) -> bool:
        """Fill the buffer; as the library does it, but for where random numbers come from."""
        box, shown = self.action_space, self.observation_space
        vectors = isinstance(shown, Box) and not is_image_space(shown)
        if not (vectors and isinstance(box, Box | Discrete)):
            library = super().collect_rollouts  # type: ignore[misc]
            return bool(library(env, callback, rollout_buffer, n_rollout_steps))
        rollout_buffer.reset()
        callback.on_rollout_start()
        networks, n = ActorCritic(self.policy), env.num_envs
        for step in range(n_rollout_steps):
            rows = self._last_obs.reshape(n, -1).astype(np.float32, copy=False)
            actions, log_probs = networks.act(rows, self._rng)
            moves = actions
            if isinstance(box, Box):
                moves = np.clip(actions.reshape(n, *box.shape), box.low, box.high)
            seen, rewards, dones, infos = env.step(moves)
            self.num_timesteps += n
            if not callback.on_step():
                return False
            if dones.any():
                self._update_info_buffer(infos, dones)
                _add_what_was_cut_off(rewards, infos, networks, self.gamma)
            rollout_buffer.observations[step] = self._last_obs
            rollout_buffer.actions[step] = actions.reshape(n, -1)
            rollout_buffer.rewards[step] = rewards
            rollout_buffer.episode_starts[step] = self._last_episode_starts
            rollout_buffer.values[step] = networks.values(rows)
            rollout_buffer.log_probs[step] = log_probs
            self._last_obs, self._last_episode_starts = seen, dones
        rollout_buffer.pos, rollout_buffer.full = n_rollout_steps, True
        last = networks.values(seen.reshape(n, -1).astype(np.float32, copy=False))
        rollout_buffer.compute_returns_and_advantage(torch.from_numpy(last), dones)
        callback.on_rollout_end()
        return True


def _add_what_was_cut_off(
    rewards: Float, infos: list[dict[str, Any]], networks: ActorCritic, gamma: float
) -> None:
    """Add the value of the last observation where an episode ended by its time limit."""
    cut = [lane for lane, info in enumerate(infos) if info.get("TimeLimit.truncated", False)]
    if cut:
        last = np.stack([infos[lane]["terminal_observation"].reshape(-1) for lane in cut])
        rewards[cut] += gamma * networks.values(last.astype(np.float32, copy=False))


class NumpyPPO(NumpyRollouts, PPO):  # type: ignore[misc]  # the library has no types here
    """PPO that plays with networks in NumPy."""


class NumpyA2C(NumpyRollouts, A2C):  # type: ignore[misc]
    """A2C that plays with networks in NumPy."""
