"""How often intervals about runs hold the truth, and how many classes equal policies give.

    python benchmarks/groups.py [draws]

Runs are points with normal or heavy-tailed (Student's t, 4 degrees of freedom) scatter, of which
the true mean squared distances within and between two groups are known. Beside the jackknife of
`pivec.statistics.groups` stands the bootstrap of runs by percentiles.
"""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from itertools import product

import numpy as np
from scipy.stats import norm

from measure import write_section
from pivec.statistics import (
    behaviour_classes,
    effective_number,
    mean_between,
    mean_within,
    shares_of,
)

SCALES = np.array([1.0, 0.7, 0.5, 0.3, 0.2])
OFFSET = 1.5


def squares(a, b):
    return ((a[:, None] - b[None]) ** 2).sum(axis=-1)


def runs(rng, n, width, heavy):
    points = rng.normal(size=(n, width)) * SCALES[:width]
    return points / np.sqrt(rng.chisquare(4, size=(n, 1)) / 4) if heavy else points


def bootstrap(rng, d, own, times=200):
    """Interval of the mean by percentiles; a run that is drawn twice is no pair with itself."""
    n, m = d.shape
    rows = rng.multinomial(n, np.full(n, 1 / n), size=times).astype(float)
    columns = rows if own else rng.multinomial(m, np.full(m, 1 / m), size=times).astype(float)
    weights = rows[:, :, None] * columns[:, None, :]
    if own:
        weights *= 1 - np.eye(n)
    total = weights.sum(axis=(1, 2))
    values = (weights * d).sum(axis=(1, 2))[total > 0] / total[total > 0]
    return np.percentile(values, [2.5, 97.5])


def cover(draws):
    print("| scatter | values | runs | within | bootstrap | between | bootstrap |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for heavy, width, n in product((False, True), (1, 5), (3, 5, 10)):
        rng = np.random.default_rng(0)
        within = 2 * (SCALES[:width] ** 2).sum() * (2 if heavy else 1)
        truth = np.array([within, within, within + OFFSET**2, within + OFFSET**2])
        ends = []
        for _ in range(draws):
            a, b = runs(rng, n, width, heavy), runs(rng, n, width, heavy)
            b[:, 0] += OFFSET
            aa, ab = squares(a, a), squares(a, b)
            own, other = mean_within(aa, 0 * aa), mean_between(ab, 0 * ab)
            ends.append(
                [
                    (own.low, own.high),
                    bootstrap(rng, aa, True),
                    (other.low, other.high),
                    bootstrap(rng, ab, False),
                ]
            )
        low, high = np.moveaxis(np.array(ends), 2, 0)
        held = 100 * ((low <= truth) & (truth <= high)).mean(axis=0)
        cells = " | ".join(f"{value:.0f} %" for value in held)
        print(f"| {'heavy' if heavy else 'normal'} | {width} | {n} | {cells} |", flush=True)


def cover_of_effective_number(draws):
    print("\n| runs | checkpoints | effective number | held |\n| --- | --- | --- | --- |")
    for checkpoints, n in product((1, 6), (3, 5, 10)):
        rng = np.random.default_rng(0)
        shares = shares_of(np.repeat(np.arange(n), checkpoints))
        made = []
        for _ in range(draws):
            # A way that all runs share, scatter of runs and of checkpoints, and two modes.
            x = rng.normal(size=(n, 1, 3)) * 0.4 + rng.normal(size=(n, checkpoints, 3)) * 0.1
            x[:, :, 0] += np.linspace(0, 1, checkpoints)
            x[rng.random(n) < 0.5, :, 1] += 0.8
            x = x.reshape(-1, 3)
            made.append(effective_number(np.exp(-squares(x, x)), shares))
        mean = np.mean([estimate.value for estimate in made])
        held = 100 * np.mean([estimate.low <= mean <= estimate.high for estimate in made])
        print(f"| {n} | {checkpoints} | {mean:.2f} | {held:.0f} % |", flush=True)


def classes(draws):
    print("\n| policies | behaviours | classes, on average |\n| --- | --- | --- |")
    for n, kinds in ((48, 1), (48, 8), (48, 16), (48, 48)):
        rng = np.random.default_rng(0)
        counts = []
        for _ in range(draws // 5):
            x = np.arange(n) % kinds * 100.0 + rng.normal(size=n)
            apart = np.abs(x[:, None] - x)
            p = 2 * norm.sf(apart / np.sqrt(2))
            counts.append(len(behaviour_classes(p, apart**2, [str(i) for i in range(n)])))
        print(f"| {n} | {kinds} | {np.mean(counts):.1f} |", flush=True)


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with redirect_stdout(io.StringIO()) as text:
        cover(number)
        cover_of_effective_number(number)
        classes(number)
    print(text.getvalue())
    write_section("groups-of-runs", text.getvalue().strip())
