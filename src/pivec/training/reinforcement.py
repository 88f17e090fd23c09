"""PPO and A2C, by Stable-Baselines3: one run, with checkpoints and a state to go on from.

Stable-Baselines3 seeds the global generators, so this runs in a process of its own. A run is cut
into parts. Each begins with environments that are reset, and with random numbers that follow from
the run's seed and the step, whether the run was stopped there or not: so a run that was stopped
goes on from its last part and gives the same policies as one that was not. The price is one episode
cut short in each environment for each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

from pivec.atomic import atomic_write
from pivec.errors import PivecError, UsageError
from pivec.policies.network import NetworkPolicy
from pivec.policies.saved import save_policy
from pivec.policies.sb3 import convert_sb3
from pivec.rollouts.environment import Environment
from pivec.training.lanes_env import LanesVecEnv
from pivec.training.numpy_rollouts import NumpyA2C, NumpyPPO
from pivec.training.runs import Report, Run, TrainedRun, due_after, spread, wanted

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
        policy = convert_sb3(self.model)
        if not isinstance(policy, NetworkPolicy):
            raise UsageError(
                f"{self._run.environment.name} shows images, but only policies of vectors are "
                "trained: train with your own code, and compare those checkpoints"
            )
        path = self._run.path / f"step_{step}.safetensors"
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
            _renew(self.model, self._run.seed, step)
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


def _renew(model: Any, seed: int, step: int) -> None:
    """Begin a part: all that is random from here on follows from the run's seed and the step."""
    own_seed = int(np.random.SeedSequence([seed, step]).generate_state(1)[0] >> 1)  # below 2**31
    model.set_random_seed(own_seed)  # of the environments too
    model._last_obs = model.env.reset()
    model._last_episode_starts = np.ones(model.n_envs, dtype=bool)
