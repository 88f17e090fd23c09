"""PPO and A2C, by Stable-Baselines3: one run, with checkpoints and a state to go on from.

Stable-Baselines3 seeds the global generators, so this runs in a process of its own. A run is cut
into parts. Each begins with environments that are reset, and with random numbers that follow from
the run's seed and the step, whether the run was stopped there or not: so a run that was stopped
goes on from its last part and gives the same policies as one that was not. The price is one episode
cut short in each environment for each part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Tuple, flatten_space
from numpy.typing import NDArray
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.vec_env import VecEnv

from pivec.errors import PivecError
from pivec.files import atomic_write
from pivec.policies import NetworkPolicy, convert_sb3, save_policy
from pivec.rollouts import Environment, Layout, make_lanes
from pivec.rollouts import observations as spaces
from reproduction.training.runs import Report, Run, TrainedRun, due_after, spread, wanted

_SOON = 64  # seeds of episodes drawn at a time for each lane


class LanesVecEnv(VecEnv):  # type: ignore[misc]  # the library has no types here
    """``n`` environments that play one episode after another, the seed of each from one stream.

    After `seed` and `reset` everything that happens follows from the seed and the actions.
    """

    def __init__(self, environment: Environment, n: int, backend: str = "gymnasium") -> None:
        self._lanes = make_lanes(environment, backend, Layout(1, n), threads=1)
        space = self._lanes.observation_space
        # As rollouts flatten them for networks.
        self._flatten = isinstance(space, Dict | Tuple)
        shown = flatten_space(space) if self._flatten else space
        super().__init__(n, shown, self._lanes.action_space)
        self._all = np.arange(n)
        self._actions: NDArray[Any] = np.zeros(0)
        self.seed(0)

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Set what the episodes from the next `reset` on follow from."""
        children = np.random.SeedSequence(0 if seed is None else seed).spawn(self.num_envs)
        self._streams = [np.random.default_rng(child) for child in children]
        self._soon: list[list[int]] = [[] for _ in range(self.num_envs)]
        return [seed] * self.num_envs

    def reset(self) -> NDArray[Any]:
        """Start an episode in every lane."""
        first = [self._next_seed(lane) for lane in range(self.num_envs)]
        self._lanes.release(0)
        self._lanes.begin([0], np.array([first]))
        for lane, seed in enumerate(first):
            self._lanes.reset(lane, seed)
        self._rewards, self._lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        return self._seen()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], list[dict[str, Any]]]:
        """Step all lanes; those that end begin again, their last observation is in the info."""
        rewards, terminated, truncated = self._lanes.step(self._all, self._actions)
        self._rewards += rewards
        self._lengths += 1
        over = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(over).tolist()
        last = self._seen() if ended else np.zeros(0)
        for lane in ended:
            length, total = int(self._lengths[lane]), float(self._rewards[lane])
            infos[lane] = {
                "terminal_observation": last[lane],
                "TimeLimit.truncated": bool(truncated[lane] and not terminated[lane]),
                "episode": {"r": total, "l": length},
            }
            self._rewards[lane], self._lengths[lane] = 0.0, 0
            self._lanes.reset(lane, self._next_seed(lane))
        return self._seen(), rewards.astype(np.float32), over, infos

    def close(self) -> None:
        """Close the environments."""
        self._lanes.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Lanes have no attributes of single environments, save that nothing is drawn."""
        if attr_name != "render_mode":
            self.env_method(attr_name)
        return [None for _ in self._get_indices(indices)]

    def env_method(self, method_name: str, *_: Any, **__: Any) -> list[Any]:
        """Refuse: lanes have no single environments."""
        raise AttributeError(f"lanes have no single environments, so no {method_name}")

    set_attr = env_method

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> Iterable[bool]:  # noqa: ARG002
        """Tell that no wrapper of single environments is there."""
        return [False for _ in self._get_indices(indices)]

    def _next_seed(self, lane: int) -> int:
        if not self._soon[lane]:
            self._soon[lane] = self._streams[lane].integers(0, 2**31, _SOON).tolist()
        return self._soon[lane].pop()

    def _seen(self) -> NDArray[Any]:
        """Copy what the lanes show now, which the next step overwrites."""
        if self._flatten:
            return spaces.flatten(self._lanes.observation_space, self._lanes.observations)
        return np.array(self._lanes.observations)


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
            log_p = outputs - outputs.max(axis=1, keepdims=True)
            log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
            # The last sum may be a little less than 1: all above it is the last action.
            sums, drawn = np.cumsum(np.exp(log_p[:, :-1]), axis=1), rng.random((len(log_p), 1), "f")
            chosen = (sums <= drawn).sum(axis=1)
            return chosen, log_p[np.arange(len(log_p)), chosen]
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
        box = self.action_space
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
                # Where the time limit ended an episode, add the value of its last observation.
                cut = [i for i, info in enumerate(infos) if info.get("TimeLimit.truncated", False)]
                if cut:
                    last = np.stack([infos[i]["terminal_observation"].reshape(-1) for i in cut])
                    values = networks.values(last.astype(np.float32, copy=False))
                    rewards[cut] += self.gamma * values
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


class NumpyPPO(NumpyRollouts, PPO):  # type: ignore[misc]  # the library has no types here
    """PPO that plays with networks in NumPy."""


class NumpyA2C(NumpyRollouts, A2C):  # type: ignore[misc]
    """A2C that plays with networks in NumPy."""


STATE_FILE = "learner.state"  # no extension of a policy file: loaders leave it alone
PARTS = 20  # of a run; one that was stopped goes on from the last of them
# Settings that are ours and not arguments of Stable-Baselines3.
OURS = ("steps", "n_envs", "decay", "hidden", "backend", "optimizer")
_RMSPROP = {"alpha": 0.99, "eps": 1e-5}  # Stable-Baselines' own, in both of its versions
_OPTIMIZERS = {
    "rmsprop-tf": (RMSpropTFLike, _RMSPROP),
    "rmsprop": (torch.optim.RMSprop, _RMSPROP),
    "adam": (torch.optim.Adam, {"eps": 1e-5, "fused": True}),  # all weights in one call
}


def schedules(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make Stable-Baselines3's arguments; what decays falls linearly to zero over training."""
    return {
        key: (lambda remaining, value=value: value * remaining) if key in values["decay"] else value
        for key, value in values.items()
        if key not in OURS
    }


def learn(run: Run, report: Report) -> TrainedRun:
    """Train one run to its end, from where it stands."""
    state = read_state(run.state / STATE_FILE)
    model = make_model(run.environment, run.settings, run.algorithm, run.seed)
    total = run.settings["steps"]
    keeper = _Keeper(run, report, state)
    keeper.init_callback(model)
    try:
        model.num_timesteps = keeper.begun
        if keeper.begun < total:
            model.learn(total - keeper.begun, callback=keeper, reset_num_timesteps=False)
        if keeper.due:  # the last update has reached what was still wanted
            keeper.keep(model.num_timesteps)
        report(total, model.num_timesteps, keeper.mean_return)
    except ValueError as error:
        failure = f"failed: {error}"
        if "nan" in str(error):
            failure = "diverged: the network gives NaN; lower learning_rate"
        raise PivecError(f"training in {run.environment.name} {failure}") from error
    finally:
        model.env.close()
    result = run.finish(int(model.num_timesteps), keeper.mean_return, "all steps are done")
    (run.state / STATE_FILE).unlink(missing_ok=True)
    return result


class _Keeper(BaseCallback):  # type: ignore[misc]  # the library has no types here
    """Keeps the policy between updates, when it is as it will act, and the state of each part."""

    def __init__(self, run: Run, report: Report, state: Mapping[str, Any] | None) -> None:
        super().__init__()
        self._run, self._report, self._state = run, report, state
        self.begun = 0 if state is None else int(state["step"])
        values = run.settings
        self._total, batch = values["steps"], values["n_envs"] * values["n_steps"]
        ends = [batch * i for i in range(-(-self._total // batch) + 1)]
        due = due_after(ends, wanted(run.checkpoints, ends[-1]))
        self.due = [step for step in due if step >= self.begun]
        self._parts = set(due_after(ends, spread(ends[-1], PARTS + 1)))

    @property
    def mean_return(self) -> float | None:
        """Of the latest episodes."""
        latest = [episode["r"] for episode in self.model.ep_info_buffer or []]
        return float(np.mean(latest)) if latest else None

    def keep(self, step: int) -> None:
        """Write the policy as it is."""
        path = self._run.path / f"step_{step}.safetensors"
        policy = cast(NetworkPolicy, convert_sb3(self.model))
        save_policy(policy, path, self._run.about(step, self.mean_return))

    def _on_training_start(self) -> None:
        model, state = self.model, self._state
        if state is not None:
            model.policy.load_state_dict(state["policy"])
            model.policy.optimizer.load_state_dict(state["optimizer"])
            model._n_updates = int(state["updates"])
            model.ep_info_buffer.extend({"r": total, "l": n} for total, n in state["episodes"])

    def _on_rollout_start(self) -> None:
        step = self.model.num_timesteps
        if self.due and step >= self.due[0]:
            self.due.pop(0)
            self.keep(step)
        if step in self._parts:
            write_state(self._run.state / STATE_FILE, self.model, step)
            # All that is random from here on follows from the run's seed and the step.
            drawn = np.random.SeedSequence([self._run.seed, step]).generate_state(1)[0]
            self.model.set_random_seed(int(drawn >> 1))  # below 2**31; of the environments too
            self.model._last_obs = self.model.env.reset()
            self.model._last_episode_starts = np.ones(self.model.n_envs, dtype=bool)
        self._report(min(step, self._total), step, self.mean_return)

    def _on_step(self) -> bool:
        return True


def make_model(
    environment: Environment, values: Mapping[str, Any], algorithm: str, seed: int
) -> Any:
    """Make the learner of Stable-Baselines3, on one core; seeds the global generators."""
    torch.set_num_threads(1)  # the networks are small: more threads only wait for each other
    hidden = list(values["hidden"])
    optimizer, arguments = _OPTIMIZERS[values.get("optimizer", "adam")]
    return {"ppo": NumpyPPO, "a2c": NumpyA2C}[algorithm](
        "MlpPolicy",
        LanesVecEnv(environment, values["n_envs"], values["backend"]),
        seed=seed,
        device="cpu",
        policy_kwargs={
            "activation_fn": torch.nn.Tanh,
            "net_arch": {"pi": hidden, "vf": hidden},
            "optimizer_class": optimizer,
            "optimizer_kwargs": arguments,
        },
        **schedules(values),
    )


def write_state(path: Path, model: Any, step: int) -> None:
    """Keep what a run needs to go on: tensors and plain numbers, which torch reads safely."""
    episodes = [[float(ended["r"]), int(ended["l"])] for ended in model.ep_info_buffer or []]
    state = {
        "step": step,
        "policy": model.policy.state_dict(),
        "optimizer": model.policy.optimizer.state_dict(),
        "updates": int(model._n_updates),
        "episodes": episodes,
    }
    with atomic_write(path) as file:
        torch.save(state, file)


def read_state(path: Path) -> dict[str, Any] | None:
    """Read what `write_state` wrote, without running anything; None if there is nothing."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return {key: state[key] for key in ("step", "policy", "optimizer", "updates", "episodes")}
    except Exception as error:  # torch raises whatever its reader meets
        raise PivecError(
            f"{path} is damaged ({type(error).__name__}): remove the run's folder to train anew"
        ) from error
