"""A whole pass as one kernel on the card, in Triton: states are read once, nothing is written out.

Everything but the exponential is float64 on the card's tensor cores, so that the form [x², x, 1]
is safe. Each program takes tiles of states in turn and keeps its sums in registers; the sums of
the programs are added in a fixed order.
"""

# mypy: ignore-errors

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from pivec.mixtures.model import FAR, Mixture, Statistics
from pivec.mixtures.numpy_kernel import centred, coefficients

try:
    import triton
    import triton.language as tl
except ImportError:  # `TorchKernel` does not come here then; tools that read all modules do
    triton = tl = None

_STATES = 16
"""States of a tile. Small tiles and few warps leave room for many programs side by side."""
_PROGRAMS = 4  # programs for each multiprocessor
_LARGEST = 64 * 64  # most padded components times features whose sums fit into the registers


def fits(mixture: Mixture) -> bool:
    """Whether this kernel can do a mixture of that size."""
    return _padded(mixture.n_components) * _padded(mixture.n_features) <= _LARGEST


def _padded(n: int) -> int:
    return max(16, 1 << (n - 1).bit_length())


@cache
def _compiled() -> Any:
    return triton.jit(_pass)


def _pass(
    states, n, center, inverse, quadratic, linear, constants, sums, squares, counts, density,
    D: tl.constexpr, DP: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, LIMIT: tl.constexpr,
    HARD: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    k, d = tl.arange(0, K), tl.arange(0, DP)
    coefficients_2 = tl.load(quadratic + k[:, None] * DP + d[None, :])
    coefficients_1 = tl.load(linear + k[:, None] * DP + d[None, :])
    constant = tl.load(constants + k)
    mean, factor = tl.load(center + d), tl.load(inverse + d)
    n_k = tl.zeros([K], tl.float64)
    log_density = tl.zeros([TILE], tl.float64)
    f, s = tl.zeros([K, DP], tl.float64), tl.zeros([K, DP], tl.float64)
    for tile in range(program, tl.cdiv(n, TILE), tl.num_programs(0)):
        rows = tile.to(tl.int64) * TILE + tl.arange(0, TILE)
        live = rows < n
        inside = live[:, None] & (d < D)[None, :]
        raw = tl.load(states + rows[:, None] * D + d[None, :], mask=inside, other=0.0)
        x = (raw.to(tl.float64) - mean[None, :]) * factor[None, :]
        x = tl.minimum(tl.maximum(x, -LIMIT), LIMIT)
        x_2 = x * x
        logits = tl.dot(coefficients_2, tl.trans(x_2), out_dtype=tl.float64)
        logits = tl.dot(coefficients_1, tl.trans(x), acc=logits, out_dtype=tl.float64)
        logits += constant[:, None]
        top = tl.max(logits, 0)
        if HARD:
            shares = tl.where(logits >= top[None, :], 1.0, 0.0)
        else:
            # The difference is small where it matters: float32 is enough for its exponential.
            shares = tl.exp2(((logits - top[None, :]) * 1.4426950408889634).to(tl.float32))
        total = tl.sum(shares, 0).to(tl.float64)
        log_density += tl.where(live, top + tl.log(total), 0.0)
        shares = shares.to(tl.float64) * tl.where(live, 1.0 / total, 0.0)[None, :]
        n_k += tl.sum(shares, 1)
        f = tl.dot(shares, x, acc=f, out_dtype=tl.float64)
        s = tl.dot(shares, x_2, acc=s, out_dtype=tl.float64)
    at = program * K * DP + k[:, None] * DP + d[None, :]
    tl.store(sums + at, f)
    tl.store(squares + at, s)
    tl.store(counts + program * K + k, n_k)
    tl.store(density + program, tl.sum(log_density, 0))


def fused_statistics(states: torch.Tensor, mixture: Mixture, hard: bool = False) -> Statistics:
    """Statistics of states on the card, shape (n, D)."""
    states = states.contiguous()
    K, D = mixture.means.shape
    rows, columns = _padded(K), _padded(D)
    both, constants = coefficients(mixture)
    # One transfer for all parameters: components that are padded have no density.
    model = np.zeros(2 * rows * columns + rows + 2 * columns)
    quadratic, linear = model[: 2 * rows * columns].reshape(2, rows, columns)
    quadratic[:K, :D], linear[:K, :D] = both[:, :D], both[:, D:]
    tail = model[2 * rows * columns :]
    tail[:rows] = -1e300
    tail[:K] = np.maximum(constants[:, 0], -1e300)
    tail[rows : rows + D] = mixture.center
    tail[rows + columns : rows + columns + D] = 1 / mixture.scale
    on_card = torch.from_numpy(model).to(states.device)
    size = rows * columns
    parts = [size, size, rows, columns, columns]
    quadratic_, linear_, constants_, center_, inverse_ = on_card.split(parts)

    processors = torch.cuda.get_device_properties(states.device).multi_processor_count
    n_programs = _PROGRAMS * processors
    wide = {"dtype": torch.float64, "device": states.device}
    sums = torch.empty((2, n_programs, size), **wide)
    counts = torch.empty((n_programs, rows), **wide)
    density = torch.empty((n_programs, 1), **wide)
    with torch.cuda.device(states.device):
        _compiled()[(n_programs,)](
            states, len(states), center_, inverse_, quadratic_, linear_, constants_,
            sums[0], sums[1], counts, density,
            D=D, DP=columns, K=rows, TILE=_STATES, LIMIT=FAR, HARD=hard,
            num_warps=2 if size <= 2048 else 4, num_stages=2,
        )  # fmt: skip
    added = [sums[0].sum(dim=0), sums[1].sum(dim=0), counts.sum(dim=0), density.sum(dim=0)]
    flat = torch.cat(added).cpu().numpy()
    f, s = flat[: 2 * size].reshape(2, rows, columns)[:, :K, :D]
    n = flat[2 * size : 2 * size + K]
    squares, centred_sums = centred(np.hstack([s, f]), n, mixture)
    return Statistics(n, centred_sums, squares, float(flat[-1]), len(states))
