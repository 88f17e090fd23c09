"""The kernel for GPUs, in torch: float64 matrix products over large tiles.

The form [x², x, 1] is safe in float64, as in the NumPy kernel; in float32, let alone tf32, features
with spikes would ruin it. If Triton is installed, passes over states on a GPU use the fused kernel
of `triton_kernel` instead.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.mixtures.model import (
    FAR,
    Mixture,
    SegmentSums,
    Starts,
    StateSource,
    Statistics,
    block_at,
    check_finite,
    spans_of,
)
from pivec.mixtures.numpy_kernel import centred, coefficients
from pivec.parallel import torch_device
from pivec.states import overlapping

_ROOM = 1 << 28  # bytes that one temporary of a tile may take
_PIECE = 256  # most states of a segment that one product of a batch takes

Array = NDArray[np.float64]


class TorchKernel:
    """The kernel on one torch device, "cuda" or "cpu"; see `pivec.mixtures.passes.Kernel`.

    Blocks are arrays, or tensors that `hold` brought to the device and checked.
    """

    def __init__(self, device: str, fused: bool = True) -> None:
        self.device = torch_device(device)
        self._fused = fused and device == "cuda" and find_spec("triton") is not None

    def hold(self, source: StateSource) -> torch.Tensor | None:
        """Copy all states to the GPU, if they fit."""
        if self.device.type != "cuda" or not source.n_states:
            return None
        free, _ = torch.cuda.mem_get_info(self.device)
        held: torch.Tensor | None = None
        staging: list[tuple[torch.Tensor, torch.cuda.Event]] = []
        for i, (first, last) in enumerate(spans_of(source)):
            with block_at(source, (first, last)) as block:
                states = torch.from_numpy(_writeable(block))
            if held is None:
                n_bytes = source.n_states * source.n_features * states.element_size()
                if n_bytes > 0.7 * free:
                    return None
                shape = (source.n_states, source.n_features)
                held = torch.empty(shape, dtype=states.dtype, device=self.device)
            # Two page-locked buffers: one is filled while the other is copied.
            if len(staging) < 2:
                room = torch.empty_like(states, pin_memory=True)
                staging.append((room, torch.cuda.Event()))
            buffer, done = staging[i % 2]
            done.synchronize()
            if states.numel() > buffer.numel():
                buffer = torch.empty_like(states, pin_memory=True)
                staging[i % 2] = (buffer, done)
            page = buffer.view(-1)[: states.numel()].view(states.shape)
            page.copy_(states)
            target = held[first : first + len(states)]
            target.copy_(page, non_blocking=True)
            done.record()
        if held is not None:
            self._check(held, 0)
        return held

    def take(self, block: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Copy these rows of a block."""
        if not isinstance(block, torch.Tensor):
            return np.ascontiguousarray(block[rows])
        result: NDArray[Any] = block[self._tensor(rows)].cpu().numpy()
        return result

    def accumulate(
        self, block: Any, mixture: Mixture, hard: bool = False, first_row: int = 0
    ) -> Statistics:
        """Statistics of a block; see `pivec.mixtures.accumulate`."""
        states = self._on_device(block, first_row)
        if self._fused:
            from pivec.mixtures import triton_kernel

            if triton_kernel.fits(mixture):
                result: Statistics = triton_kernel.fused_statistics(states, mixture, hard)
                return result
        K, D = mixture.means.shape
        model = self._model(mixture)
        raw, counts, density = self._zeros(K, 2 * D), self._zeros(K), self._zeros()
        for _, tile in self._tiles(states, max(2 * D, K)):
            powers, shares, log_densities = _responsibilities(tile, *model, hard=hard)
            counts += shares.sum(dim=0)
            raw.addmm_(shares.T, powers)
            density += log_densities.sum()
        flat = torch.cat([raw.view(-1), counts, density[None]]).cpu().numpy()
        n = flat[2 * K * D : -1]
        squares, sums = centred(flat[: 2 * K * D].reshape(K, 2 * D), n, mixture)
        return Statistics(n, sums, squares, float(flat[-1]), len(states))

    def add_segments(
        self, block: Any, starts: Starts, mixture: Mixture, into: SegmentSums, first_row: int = 0
    ) -> None:
        """Add the statistics of the segments of a block; see `Kernel.add_segments`."""
        counts, sums, squares = into
        states = self._on_device(block, first_row)
        K, D = mixture.means.shape
        model = self._model(mixture)
        # Groups of segments whose sums, (S, K, 2D), stay within the room.
        group = max(1, _ROOM // (16 * K * D))
        for first, tile in self._tiles(states, 4 * max(2 * D, K)):
            powers, shares, _ = _responsibilities(tile, *model)
            last = first + len(tile)
            s0, s1 = overlapping(starts, first, last)
            for g0 in range(s0, s1, group):
                g1 = min(g0 + group, s1)
                inside = np.clip(starts[g0 : g1 + 1], first, last) - first
                n, raw = (t.cpu().numpy() for t in self._segment_sums(shares, powers, inside))
                second, first_order = centred(raw, n, mixture)
                counts[g0:g1] += n
                sums[g0:g1] += first_order
                if squares is not None:
                    squares[g0:g1] += second

    def _segment_sums(
        self, shares: torch.Tensor, x: torch.Tensor, starts: NDArray[np.int64]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Σ r (S, K) and Σ r x (S, K, D) of rows starts[s] to starts[s + 1].

        Segments are cut into pieces of equal length, padded with weight zero, so that one
        batched product does them all.
        """
        lengths = np.diff(starts)
        size = int(min(_PIECE, 1 << max(4, int(np.median(lengths)).bit_length())))
        n_pieces = -(-lengths // size)
        segment = np.repeat(np.arange(len(lengths)), n_pieces)
        within = np.arange(len(segment)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
        first = starts[segment] + within * size
        rows = first[:, None] + np.arange(size)
        inside = rows < starts[segment + 1][:, None]
        index = self._tensor(np.minimum(rows, len(x) - 1))
        to = self._tensor(segment)
        S, K, D = len(lengths), shares.shape[1], x.shape[1]
        counts, sums = self._zeros(S, K), self._zeros(S, K, D)
        step = max(1, _ROOM // (8 * size * max(K, D)))
        for p in range(0, len(segment), step):
            piece = slice(p, p + step)
            weights = shares[index[piece]] * self._tensor(inside[piece])[..., None]
            counts.index_add_(0, to[piece], weights.sum(dim=1))
            products = torch.bmm(weights.transpose(1, 2), x[index[piece]])
            sums.index_add_(0, to[piece], products)
        return counts, sums

    def moments(self, block: Any, first_row: int = 0) -> tuple[Array, Array]:
        """Mean and sum of squared deviations of every column of a block, in float64."""
        states = self._on_device(block, first_row)
        D = states.shape[1]
        mean, deviation = self._zeros(D), self._zeros(D)
        for _, tile in self._tiles(states, D):
            mean += tile.sum(dim=0, dtype=torch.float64)
        mean /= len(states)
        for _, tile in self._tiles(states, D):
            deviation += (tile.to(torch.float64) - mean).square_().sum(dim=0)
        return mean.cpu().numpy(), deviation.cpu().numpy()

    def _on_device(self, block: Any, first_row: int) -> torch.Tensor:
        """The block as a checked tensor on this device."""
        if isinstance(block, torch.Tensor):
            return block
        states = torch.from_numpy(_writeable(block)).to(self.device)
        self._check(states, first_row)
        return states

    def _check(self, states: torch.Tensor, first_row: int) -> None:
        """Check that all values are finite."""
        for first, tile in self._tiles(states, states.shape[1]):
            if not bool(torch.isfinite(tile).all()):
                check_finite(tile.cpu().numpy(), first_row + first)

    def _tiles(self, states: torch.Tensor, width: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Cut states into tiles for which ``width`` float64 columns fit into ``_ROOM``."""
        rows = max(1024, _ROOM // (8 * width))
        for first in range(0, len(states), rows):
            yield first, states[first : first + rows]

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(self.device)

    def _zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def _model(self, mixture: Mixture) -> list[torch.Tensor]:
        """The parameters that `_responsibilities` needs."""
        arrays = (mixture.center, mixture.scale, *coefficients(mixture))
        return [self._tensor(array) for array in arrays]


def _writeable(block: NDArray[Any]) -> NDArray[Any]:
    """An array that torch accepts without a warning; it is only read."""
    if block.flags.writeable and block.flags.c_contiguous:
        return block
    return np.array(block, order="C")


def _responsibilities(
    tile: torch.Tensor,
    center: torch.Tensor,
    scale: torch.Tensor,
    linear: torch.Tensor,
    constants: torch.Tensor,
    *,
    hard: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """[x², x] (n, 2D), responsibilities (n, K), log-densities (n,), as in the NumPy kernel."""
    D = tile.shape[1]
    powers = torch.empty((len(tile), 2 * D), dtype=torch.float64, device=tile.device)
    x = powers[:, D:]
    torch.sub(tile, center, out=x)
    x.div_(scale).clamp_(-FAR, FAR)
    torch.mul(x, x, out=powers[:, :D])
    logits = torch.addmm(constants.view(1, -1), powers, linear.T)
    if hard:
        top = logits.max(dim=1, keepdim=True).values
        shares = (logits == top).to(torch.float64)
        total = shares.sum(dim=1, keepdim=True)
        return powers, shares.div_(total), (top + total.log()).view(-1)
    log_shares = torch.log_softmax(logits, dim=1)
    densities = logits[:, 0] - log_shares[:, 0]
    return powers, log_shares.exp_(), densities
