"""PPO and A2C, by Stable-Baselines3: one run, with checkpoints and a state to go on from.

Stable-Baselines3 seeds the global generators, so this runs in a process of its own (`processes`).
A run is cut into parts. Each begins with environments that are reset, and with random numbers that
follow from the run's seed and the step, whether the run was stopped there or not: so a run that was
stopped goes on from its last part and gives the same policies as one that was not. The price is one
episode cut short in each environment for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pivec.atomic import atomic_write
from pivec.errors import PivecError, UsageError
from pivec.policies.network import NetworkPolicy
from pivec.policies.saved import save_policy
from pivec.policies.sb3 import convert_sb3
from pivec.rollouts.environment import Environment
from pivec.training.checkpoints import Maker, due_after, spread, wanted
from pivec.training.runs import Report, RunFolder

STATE_FILE = "learner.state"  # no extension of a policy file: loaders leave it alone
PARTS = 20  # of a run; one that was stopped goes on from the last of them
# Settings that are ours and not arguments of Stable-Baselines3.
OURS = ("steps", "n_envs", "decay", "hidden", "backend")


def linear_decay(value: float) -> Callable[[float], float]:
    """Fall linearly to zero over training.

    Examples
    --------
    >>> linear_decay(0.2)(0.5)
    0.1
    """
    return lambda remaining: value * remaining


def schedules(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make Stable-Baselines3's arguments: a schedule for each value that decays.

    Examples
    --------
    >>> made = schedules({"learning_rate": 0.1, "gamma": 0.9, "steps": 5, "decay": ["gamma"]})
    >>> made["learning_rate"], made["gamma"](0.5)
    (0.1, 0.45)
    """
    return {
        key: linear_decay(value) if key in values["decay"] else value
        for key, value in values.items()
        if key not in OURS
    }


def learn(
    environment: Environment,
    values: Mapping[str, Any],
    checkpoints: int | Sequence[int],
    folder: RunFolder,
    maker: Maker,
    report: Report,
) -> None:
    """Train one run to its end, from where it stands."""
    from stable_baselines3.common.callbacks import BaseCallback

    earlier = read_state(folder.state / STATE_FILE)
    begun = 0 if earlier is None else int(earlier["step"])
    model = make_model(environment, values, maker.algorithm, maker.seed)
    batch = values["n_envs"] * values["n_steps"]
    total = values["steps"]
    ends = [batch * i for i in range(-(-total // batch) + 1)]
    due = [step for step in due_after(ends, wanted(checkpoints, ends[-1])) if step >= begun]
    parts = set(due_after(ends, spread(ends[-1], PARTS + 1)))

    def recent() -> float | None:
        latest = [each["r"] for each in model.ep_info_buffer or []]
        return float(np.mean(latest)) if latest else None

    class Keep(BaseCallback):  # type: ignore[misc]  # the library has no types here
        """Keeps the policy between updates, when it is as it will act."""

        def _on_training_start(self) -> None:
            if earlier is not None:
                _restore(model, earlier)

        def _on_rollout_start(self) -> None:
            step = model.num_timesteps
            if due and step >= due[0]:
                due.pop(0)
                self.keep(step)
            if step in parts:
                write_state(folder.state / STATE_FILE, model, step)
                _renew(model, _seed_at(maker.seed, step))
            report(min(step, total), step, recent())

        def keep(self, step: int) -> None:
            path = folder.path / f"step_{step}.safetensors"
            policy = convert_sb3(model)
            if not isinstance(policy, NetworkPolicy):
                raise UsageError(
                    f"{environment.name} shows images, but only policies of vectors are trained: "
                    "train with your own code, and compare those checkpoints"
                )
            save_policy(policy, path, maker.about(step, recent()))

        def _on_step(self) -> bool:
            return True

    callback = Keep()
    try:
        model.num_timesteps = begun
        if begun < total:
            model.learn(total - begun, callback=callback, reset_num_timesteps=False)
        if due:  # the last update has reached what was still wanted
            callback.keep(model.num_timesteps)
        report(total, model.num_timesteps, recent())
    except ValueError as error:
        raise _diverged(error, environment) from error
    finally:
        model.env.close()
    folder.finish(int(model.num_timesteps), recent(), "all steps are done")
    (folder.state / STATE_FILE).unlink(missing_ok=True)


def make_model(
    environment: Environment, values: Mapping[str, Any], algorithm: str, seed: int
) -> Any:
    """Make the learner of Stable-Baselines3, on one core; seeds the global generators."""
    import torch
    from stable_baselines3 import A2C, PPO

    from pivec.training.lanes_env import LanesVecEnv

    torch.set_num_threads(1)  # the networks are small: more threads only wait for each other
    hidden = list(values["hidden"])
    return {"ppo": PPO, "a2c": A2C}[algorithm](
        "MlpPolicy",
        LanesVecEnv(environment, values["n_envs"], values["backend"]),
        seed=seed,
        device="cpu",
        policy_kwargs={
            "activation_fn": torch.nn.Tanh,
            "net_arch": {"pi": hidden, "vf": hidden},
        },
        **schedules(values),
    )


def write_state(path: Path, model: Any, step: int) -> None:
    """Keep what a run needs to go on: tensors and plain numbers, which torch reads safely."""
    import torch

    state = {
        "step": step,
        "policy": model.policy.state_dict(),
        "optimizer": model.policy.optimizer.state_dict(),
        "updates": int(model._n_updates),
        "episodes": [[float(each["r"]), int(each["l"])] for each in model.ep_info_buffer or []],
    }
    with atomic_write(path) as file:
        torch.save(state, file)


def read_state(path: Path) -> dict[str, Any] | None:
    """Read what `write_state` wrote, without running anything; None if there is nothing."""
    import torch

    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return {key: state[key] for key in ("step", "policy", "optimizer", "updates", "episodes")}
    except Exception as error:  # torch raises whatever its reader meets
        raise PivecError(
            f"{path} is damaged ({type(error).__name__}): remove the run's folder to train anew"
        ) from error


def _restore(model: Any, state: Mapping[str, Any]) -> None:
    model.policy.load_state_dict(state["policy"])
    model.policy.optimizer.load_state_dict(state["optimizer"])
    model._n_updates = int(state["updates"])
    model.ep_info_buffer.extend({"r": reward, "l": length} for reward, length in state["episodes"])


def _renew(model: Any, seed: int) -> None:
    """Begin a part: all that is random from here on follows from ``seed``."""
    model.set_random_seed(seed)  # of the environments too
    model._last_obs = model.env.reset()
    model._last_episode_starts = np.ones(model.n_envs, dtype=bool)


def _seed_at(seed: int, step: int) -> int:
    """Another seed for each part, below 2**31."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0] >> 1)


def _diverged(error: ValueError, environment: Environment) -> PivecError:
    if "nan" not in str(error):
        return PivecError(f"training in {environment.name} failed: {error}")
    return PivecError(
        f"training in {environment.name} diverged: the network gives NaN; lower learning_rate"
    )
