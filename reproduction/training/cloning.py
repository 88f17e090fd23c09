"""clone: behavioural cloning, which imitates an expert from a few of its episodes.

The network is trained to make the expert's actions likely, an entropy bonus (0 in the paper) aside:
the loss of a batch is -mean log p(a | s) - weight * mean entropy.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed, checked
from pivec.errors import MissingExtra, UsageError
from pivec.parallel import single_threaded_torch
from pivec.policies import NetworkPolicy, name_policies, save_policy
from pivec.rollouts import Environment
from pivec.terminal import Progress
from pivec.workflows import collect
from reproduction.training.evolution import spaces_of
from reproduction.training.runs import Run, TrainedRun


@checked
def clone(
    expert: Any,
    env: str | Environment | Callable[[], Any],
    out: str | Path,
    *,
    trajectories: Count = 10,
    epochs: Count = 50,
    entropy_weight: float = 0.0,
    batch_size: Count = 32,
    learning_rate: Positive = 1e-3,
    hidden: tuple[int, ...] = (64, 64),
    seed: Seed = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> TrainedRun:
    """Imitate an expert by a tanh network, and keep the policy after every epoch in ``out``.

    The ``expert`` is one policy, as `pivec.collect` takes it; its actions are sampled. A finished
    run is not repeated; one that was stopped begins again, which gives the same. The result's
    ``mean_return`` is the expert's.
    """
    settings = {
        "trajectories": trajectories,
        "epochs": epochs,
        "entropy_weight": entropy_weight,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "hidden": list(hidden),
    }
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra("behavioural cloning", "train")
    environment = Environment.of(env, env_kwargs)
    experts = name_policies(expert)
    if len(experts) != 1:
        raise UsageError(f"one expert can be cloned at a time, but {len(experts)} are given")
    data = collect(environment, experts, trajectories, seed, actions=True)
    ends = np.asarray(data.episode_starts)[1:] - 1  # terminal states, in which nothing was done
    observations = np.delete(np.asarray(data.states), ends, axis=0)
    actions = np.asarray(data.actions)
    # Of what it did: functions are experts too, and have no fingerprint.
    digest = hashlib.sha256(observations.tobytes() + actions.tobytes()).hexdigest()
    decides, training = {**settings, "expert": digest}, f"imitates {experts[0].info.label}"
    run = Run(Path(out).absolute(), "clone", environment, seed, decides, training=training)
    if (done := run.finished()) is not None:
        return done
    run.begin()
    expert_return = float(np.mean(data.returns))
    learner = _Learner(environment, observations.shape[1], settings, seed)
    bar = Progress("cloning", epochs, unit="epochs", show=progress)
    with run.claimed(), single_threaded_torch(), bar:
        for epoch in range(1, epochs + 1):
            loss = learner.epoch(observations, actions)
            about = run.about(epoch, None, expert_return=expert_return, loss=loss)
            save_policy(learner.policy(), run.path / f"epoch_{epoch}.safetensors", about)
            bar.advance(1, f"loss {loss:.4g}")
    return run.finish(len(observations), expert_return, "all epochs are done")


def orthogonal(rng: np.random.Generator, n_in: int, n_out: int, gain: float) -> NDArray[np.float64]:
    """Draw an orthogonal matrix (in, out), times ``gain``, as Stable-Baselines3 begins with."""
    flat = rng.standard_normal((max(n_in, n_out), min(n_in, n_out)))
    q, r = np.linalg.qr(flat)
    q *= np.sign(np.diag(r))
    return np.asarray(gain * (q if n_in >= n_out else q.T))


class _Learner:
    """A tanh network and its optimizer; random numbers come from a generator of its own."""

    def __init__(
        self, environment: Environment, n_inputs: int, settings: Mapping[str, Any], seed: int
    ) -> None:
        import torch
        from gymnasium.spaces import Box, Discrete

        _, space = spaces_of(environment)
        self.discrete = isinstance(space, Discrete) and space.start == 0
        if not self.discrete and not (isinstance(space, Box) and len(space.shape) == 1):
            raise UsageError(
                "cloning needs discrete actions from 0 or vectors of real ones, but "
                f"{environment.name} expects {space}"
            )
        self.space, self.settings = space, settings
        self.rng = np.random.default_rng([seed, 0xBC])
        hidden, n_outputs = settings["hidden"], int(space.n if self.discrete else space.shape[0])
        sizes, gains = (n_inputs, *hidden, n_outputs), [*[2.0**0.5] * len(hidden), 0.01]
        self.layers: list[tuple[Any, Any]] = []
        for n_in, n_out, gain in zip(sizes[:-1], sizes[1:], gains, strict=True):
            weight = torch.tensor(orthogonal(self.rng, n_in, n_out, gain), dtype=torch.float32)
            self.layers.append((weight.requires_grad_(), torch.zeros(n_out).requires_grad_()))
        self.log_std = torch.zeros(n_outputs).requires_grad_()
        parameters = [tensor for layer in self.layers for tensor in layer]
        if not self.discrete:
            parameters.append(self.log_std)
        self.optimizer = torch.optim.Adam(parameters, lr=settings["learning_rate"])

    def epoch(self, observations: NDArray[np.float32], actions: NDArray[Any]) -> float:
        """Go once over the data in a random order; the mean loss."""
        import torch

        states = torch.tensor(observations, dtype=torch.float32)
        taken = torch.tensor(actions, dtype=torch.int64 if self.discrete else torch.float32)
        order = torch.tensor(self.rng.permutation(len(observations)))
        total = 0.0
        for rows in torch.split(order, self.settings["batch_size"]):
            likely, entropy = self._likelihood(states[rows], taken[rows])
            loss = -likely.mean() - self.settings["entropy_weight"] * entropy.mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += float(loss.detach()) * len(rows)
        return total / len(observations)

    def _likelihood(self, states: Any, actions: Any) -> tuple[Any, Any]:
        """Logarithm of the probability of the actions, and the entropy."""
        import torch

        x = states
        for weight, bias in self.layers[:-1]:
            x = torch.tanh(x @ weight + bias)
        outputs = x @ self.layers[-1][0] + self.layers[-1][1]
        if self.discrete:
            chances: Any = torch.distributions.Categorical(logits=outputs)
            return chances.log_prob(actions), chances.entropy()
        chances = torch.distributions.Normal(outputs, self.log_std.exp().expand_as(outputs))
        return chances.log_prob(actions).sum(-1), chances.entropy().sum(-1)

    def policy(self) -> NetworkPolicy:
        """Give the network as it is now."""
        layers = tuple((w.detach().numpy().copy(), b.detach().numpy()) for w, b in self.layers)
        if self.discrete:
            return NetworkPolicy(layers, "tanh", "categorical")
        log_std, space = self.log_std.detach().numpy(), self.space
        return NetworkPolicy(layers, "tanh", "gaussian", log_std, space.low, space.high)
