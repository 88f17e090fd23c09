"""One discriminator a policy, all trained together: its states against those of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.networks import batched_mlp as mlp
from pivec.characterizations.networks.training import device_of, one_thread_each
from pivec.engines.workers import run_tasks
from pivec.progress import Progress

# Networks that are trained together stay near the processor: their weights, gradients, the two
# averages of Adam and the layers' outputs take this many bytes or less.
_ROOM = 24 << 20
_MOST = 64
_MOST_ON_CARD = 512
_DRAWN = 64  # updates whose batches are drawn at a time

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Others:
    """The states of the policies of the fit, one policy after another, and where each begins."""

    states: Array
    starts: NDArray[np.int64]

    def without(self, policy: int | None) -> tuple[int, int]:
        """Give the part to leave out: the policy's own states, unless nothing else is there."""
        if policy is None or len(self.starts) == 2:
            return 0, 0
        return int(self.starts[policy]), int(self.starts[policy + 1])


@dataclass(frozen=True)
class Settings:
    """How discriminators are trained; see `Discriminator`."""

    sizes: tuple[int, ...]
    epochs: float
    batch_size: int
    learning_rate: float
    clip: float
    device: str = "cpu"

    def updates(self, n_states: int) -> int:
        """Updates of a network: an epoch is counted over its policy's own states."""
        return max(1, int(np.ceil(self.epochs * n_states / self.batch_size)))


class Batches:
    """Numbers of the states in the batches of one policy: its own in turn, the others' at random.

    The epochs of its own states run into each other, so that all batches are full.
    """

    def __init__(
        self, rng: np.random.Generator, n_own: int, n_others: int, without: tuple[int, int]
    ) -> None:
        self._rng, self._n_own = rng, n_own
        self._begin, self._end = without
        self._n_left = n_others - (self._end - self._begin)
        self._rest = np.empty(0, dtype=np.int64)

    def draw(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give the numbers of ``n`` own states and of ``n`` of the others."""
        parts, count = [self._rest], len(self._rest)
        while count < n:
            parts.append(self._rng.permutation(self._n_own))
            count += self._n_own
        own = np.concatenate(parts)
        self._rest = own[n:]
        others = self._rng.integers(self._n_left, size=n)
        others[others >= self._begin] += self._end - self._begin
        return own[:n], others


def slope_of_loss(outputs: torch.Tensor, clip: float) -> torch.Tensor:
    """Gradient of -E[log D] - E[log(1 - D)] by the logits, the first half of them of its own.

    Logits beyond ±clip are clipped, and so have none.
    """
    n_own = outputs.shape[1] // 2
    slope = torch.sigmoid(outputs)
    slope[:, :n_own] -= 1.0
    return slope.mul_(outputs.abs() <= clip).div_(n_own)


def train_group(
    start: Array, own: Sequence[Array], batches: Sequence[Batches], others: Array, how: Settings
) -> Array:
    """Train one discriminator for each of ``own``, most states first; one row of weights each."""
    device = device_of(how.device)
    layers = mlp.stacked(start, how.sizes, device)
    size = how.batch_size
    offsets = np.cumsum([0] + [len(states) for states in own[:-1]])
    mine = torch.from_numpy(np.concatenate(own)).to(device)
    theirs = torch.from_numpy(others).to(device)
    drawn: list[torch.Tensor] = []

    def batch(t: int, active: int) -> torch.Tensor:
        if t % _DRAWN == 0:
            pairs = [b.draw(_DRAWN * size) for b in batches[:active]]
            numbers = [[p[0] + at for p, at in zip(pairs, offsets, strict=False)]]
            numbers += [[p[1] for p in pairs]]
            drawn[:] = [
                torch.from_numpy(np.stack(some).reshape(active, _DRAWN, size)).to(device)
                for some in numbers
            ]
        a, b = (numbers[:active, t % _DRAWN].reshape(-1) for numbers in drawn)
        shape = (active, size, mine.shape[1])
        return torch.cat(
            [mine.index_select(0, a).view(shape), theirs.index_select(0, b).view(shape)], dim=1
        )

    mlp.train(
        layers,
        [how.updates(len(states)) for states in own],
        batch,
        lambda _, outputs: slope_of_loss(outputs, how.clip),
        how.learning_rate,
    )
    return mlp.unstacked(layers)


def group_size(how: Settings) -> int:
    """How many networks to train together."""
    if device_of(how.device).type != "cpu":
        return _MOST_ON_CARD
    rows = 2 * how.batch_size * 2 * sum(how.sizes)
    return int(np.clip(_ROOM // (4 * (5 * mlp.n_values(how.sizes) + rows)), 1, _MOST))


def mean_inverse_ratios(
    networks: Array,
    states: Sequence[Array],
    sizes: Sequence[int],
    clip: float,
    device: str = "cpu",
) -> NDArray[np.float64]:
    """E[exp(-log r)] of each network over each policy's states, (networks, policies).

    The paper's equation for f: r = D / (1 - D), whose logarithm is the clipped logit.
    """
    result = np.empty((len(networks), len(states)))
    where = device_of(device)
    held = [torch.from_numpy(some).to(where) for some in states]

    def work(i: int) -> None:
        layers = mlp.stacked(networks[i : i + 1], sizes, where)
        with torch.no_grad():
            logits = [mlp.forward(layers, some[None])[1].clamp_(-clip, clip) for some in held]
            means = [torch.exp(-some.double()).mean() for some in logits]
        result[i] = torch.stack(means).cpu().numpy()

    with one_thread_each():
        run_tasks(work, len(networks))
    return result


def run_groups(work: Callable[[int], None], sizes: Sequence[int], show: bool) -> None:
    """Call ``work`` with the number of every group on all cores, each with one thread of its own.

    ``sizes`` are the policies in each group.
    """
    bar = Progress("discriminators", sum(sizes), unit="policies", show=show)

    def counted(group: int) -> None:
        work(group)
        bar.advance(sizes[group])

    with bar, one_thread_each():
        run_tasks(counted, len(sizes))
