"""One discriminator a policy, all trained together: its states against those of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.networks import batched_mlp as mlp
from pivec.engines.devices import single_threaded_torch, torch_device
from pivec.engines.workers import run_tasks

# Networks that are trained together stay near the processor: their weights, gradients, the two
# averages of Adam and the layers' outputs take this many bytes or less.
_ROOM = 24 << 20
_MOST = 64
_MOST_ON_CARD = 512
_DRAWN = 64  # updates whose batches are drawn at a time
_ROWS, _ROWS_ON_CARD = 8192, 1 << 18  # states that go through a network at a time

Array = NDArray[np.float32]


class Batches:
    """Numbers of the states in the batches of one policy: its own in turn, the others' at random.

    The epochs of its own states run into each other, so that all batches are full. Of ``n_others``
    states those from ``without[0]`` up to ``without[1]``, its own, are left out.
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


def left_out(starts: NDArray[np.int64], policy: int | None) -> tuple[int, int]:
    """Where a policy's own states lie among the others: nowhere if there are none but its own.

    ``starts`` tells where the states of each policy of the fit begin.
    """
    if policy is None or len(starts) == 2:
        return 0, 0
    return int(starts[policy]), int(starts[policy + 1])


def slope_of_loss(outputs: torch.Tensor, clip: float) -> torch.Tensor:
    """Gradient of -E[log D] - E[log(1 - D)] by the logits, the first half of them of its own.

    Logits beyond ±clip are clipped, and so have none.
    """
    n_own = outputs.shape[1] // 2
    slope = torch.sigmoid(outputs)
    slope[:, :n_own] -= 1.0
    return slope.mul_(outputs.abs() <= clip).div_(n_own)


@dataclass(frozen=True)
class Discriminators:
    """How discriminators are trained and asked; see the arguments of `Discriminator`."""

    sizes: Sequence[int]
    epochs: float
    batch_size: int
    learning_rate: float
    clip: float
    device: str = "cpu"

    def updates(self, n_states: int) -> int:
        """Updates of a network: an epoch is counted over its policy's own states."""
        return max(1, int(np.ceil(self.epochs * n_states / self.batch_size)))

    def group_size(self) -> int:
        """How many networks to train together."""
        if torch_device(self.device).type != "cpu":
            return _MOST_ON_CARD
        rows = 2 * self.batch_size * 2 * sum(self.sizes)
        return int(np.clip(_ROOM // (4 * (5 * mlp.n_values(self.sizes) + rows)), 1, _MOST))

    def train(
        self, start: Array, own: Sequence[Array], batches: Sequence[Batches], others: Array
    ) -> Array:
        """Train a network for each of ``own``, most states first; one row of weights each."""
        device = torch_device(self.device)
        layers = mlp.stacked(start, self.sizes, device)
        size = self.batch_size
        offsets = np.cumsum([0] + [len(states) for states in own[:-1]])
        mine = torch.from_numpy(np.concatenate(own)).to(device)
        theirs = torch.from_numpy(others).to(device)
        drawn: list[torch.Tensor] = []

        def batch(t: int, active: int) -> torch.Tensor:
            if t % _DRAWN == 0:
                pairs = [stream.draw(_DRAWN * size) for stream in batches[:active]]
                numbers = np.array(pairs).reshape(active, 2, _DRAWN, size)
                numbers[:, 0] += offsets[:active, None, None]
                drawn[:] = [torch.from_numpy(numbers).to(device)]
            a, b = drawn[0][:active, :, t % _DRAWN].transpose(0, 1).reshape(2, -1)
            shape = (active, size, mine.shape[1])
            return torch.cat(
                [mine.index_select(0, a).view(shape), theirs.index_select(0, b).view(shape)], dim=1
            )

        mlp.train(
            layers,
            [self.updates(len(states)) for states in own],
            batch,
            lambda _, outputs: slope_of_loss(outputs, self.clip),
            self.learning_rate,
        )
        return mlp.unstacked(layers)

    def mean_inverse_ratios(self, networks: Array, states: Sequence[Array]) -> NDArray[np.float64]:
        """E[exp(-log r)] of each network over each policy's states, (networks, policies).

        The paper's equation for f: r = D / (1 - D), whose logarithm is the clipped logit.
        """
        result = np.empty((len(networks), len(states)))
        device = torch_device(self.device)
        at_once = _ROWS if device.type == "cpu" else _ROWS_ON_CARD
        held = [torch.from_numpy(rows).to(device).split(at_once) for rows in states]

        def work(i: int) -> None:
            layers = mlp.stacked(networks[i : i + 1], self.sizes, device)
            with torch.no_grad():
                logits = [
                    torch.cat([mlp.forward(layers, rows[None])[1] for rows in parts], dim=1)
                    for parts in held
                ]
                ratios = [torch.exp(-x.clamp_(-self.clip, self.clip).double()) for x in logits]
            result[i] = torch.stack([x.mean() for x in ratios]).cpu().numpy()

        with single_threaded_torch():
            run_tasks(work, len(networks))
        return result
