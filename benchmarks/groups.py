"""Intervals about runs, the level and power of the test of groups, and behaviour classes.

    python benchmarks/groups.py [draws]

Runs are points with normal or heavy-tailed (Student's t, 4 degrees of freedom) scatter, of which
the true mean squared distances within and between two groups are known. Beside the jackknife of
`pivec.statistics.groups` stands the bootstrap of runs by percentiles. The test of groups stands
beside the classical F of Anderson (2001), with groups of unequal size and spread. Behaviour classes
are those of planted behaviours, described by visitation.
"""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from itertools import combinations, product

import numpy as np

import pivec
from measure import write_section
from pivec.statistics import (
    behaviour_classes,
    effective_number,
    mean_between,
    mean_within,
    permanova,
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


def classical(d, labels):
    """p-value of the classical pseudo-F, for all divisions into two groups."""
    n, first = len(labels), int((labels == 0).sum())
    chosen = np.array(list(combinations(range(n), first)))
    a = np.zeros((len(chosen), n))
    np.put_along_axis(a, chosen, 1.0, axis=1)  # the true division is the first
    b = 1.0 - a
    inner = np.einsum("dr,dr->d", a @ d, a) / first + np.einsum("dr,dr->d", b @ d, b) / (n - first)
    return np.mean(inner <= inner[0] + 1e-9 * inner[0])


def level_and_power(draws):
    print("\nHow often p is at most 5 % where only the spread differs, and where the mean does.\n")
    print("| runs | spread | values | scatter | level | classical F | power | classical F |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    settings = ((5, 5), (1.0, 4.0)), ((3, 6), (1.0, 2.0, 4.0)), ((4, 8), (1.0, 4.0))
    settings += (((6, 3), (2.0, 4.0)),)
    for (sizes, ratios), width, heavy in product(settings, (1, 5), (False, True)):
        labels = np.repeat([0, 1], sizes)
        for ratio in ratios:
            rng = np.random.default_rng(0)
            p = []
            for shift in (0.0, 2.0 * np.sqrt((1 + ratio**2) / 2)):
                for _ in range(draws):
                    x = runs(rng, len(labels), width, heavy)
                    x[labels == 0] *= ratio
                    x[labels == 0, 0] += shift
                    d = squares(x, x)
                    p.append((permanova(d, labels.tolist()).p_value, classical(d, labels)))
            (level, old), (power, old_power) = 100 * np.mean(
                np.reshape(p, (2, draws, 2)) <= 0.05, axis=1
            )
            cells = f"{level:.1f} % | {old:.1f} % | {power:.0f} % | {old_power:.0f} %"
            scatter = "heavy" if heavy else "normal"
            who = f"{sizes[0]} + {sizes[1]} | {ratio:g} : 1 | {width} | {scatter}"
            print(f"| {who} | {cells} |", flush=True)


def classes(draws):
    """Policies that walk in a plane, in as many ways as there are behaviours."""
    print("\n| policies | behaviours | episodes | classes, on average |\n| --- | --- | --- | --- |")
    for n, kinds in ((30, 1), (30, 6), (30, 15), (30, 30)):
        for episodes in (25, 100, 400):
            rng = np.random.default_rng(0)
            counts = []
            for _ in range(max(1, draws // 100)):
                angles = 2 * np.pi * np.arange(kinds) / kinds
                places = kinds / 6 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
                walks = [
                    list(places[i % kinds] + rng.normal(0, 0.5, (episodes, 20, 2)))
                    for i in range(n)
                ]
                data = pivec.VisitedStates.from_arrays(walks)
                method = pivec.characterization("visitation", n_components=32).fit(data)
                found = behaviour_classes(method.intervals(data).distance, data.labels)
                counts.append(len(found))
            print(f"| {n} | {kinds} | {episodes} | {np.mean(counts):.1f} |", flush=True)


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with redirect_stdout(io.StringIO()) as text:
        cover(number)
        cover_of_effective_number(number)
        level_and_power(number)
        classes(number)
    print(text.getvalue())
    write_section("groups-of-runs", text.getvalue().strip())
