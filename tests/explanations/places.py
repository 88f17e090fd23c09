"""Policies that spend known shares of their time in three places of a plane."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pivec
from pivec.explanations import ComparisonFolder

MIDDLES = np.array([[0.0, 0.0], [0.0, 8.0], [10.0, 0.0]])
RIGHT = 2  # the place far to the right


def walks(shares, rng, episodes=20, length=40):
    """Episodes of a policy whose shares of time in the places scatter about these."""
    return [
        MIDDLES[rng.choice(3, length, p=rng.dirichlet(60 * np.maximum(shares, 1e-6)))]
        + rng.normal(0.0, 1.0, (length, 2))
        for _ in range(episodes)
    ]


def shifted(data, rise):
    """Raise all states of the last policy."""
    episodes = [list(data[k].episodes()) for k in range(len(data))]
    episodes[-1] = [states + np.array([0.0, rise]) for states in episodes[-1]]
    names = {"labels": data.labels, "groups": data.groups, "steps": data.steps}
    return pivec.VisitedStates.from_arrays(episodes, **names, feature_names=["x", "y"])


def with_right(share):
    """Shares of a policy that is on the right so much of its time."""
    return np.array([0.5 * (1 - share), 0.5 * (1 - share), share])


def findings(data, method="visitation", states=True, **settings):
    """Describe data as a comparison by places would have left it."""
    if method == "visitation":
        settings = {"of": "states"} | settings
    fitted = pivec.characterization(method, n_components=3, **settings).fit(data)
    space = pivec.Space(fitted, fitted.describe(data, influences=fitted.traits.influences))
    return ComparisonFolder(Path("out"), space, data if states else None)


def run_of(rights, seed=0, names=("x", "y"), run="ppo-0", **sizes):
    """Make one run of checkpoints that are on the right so much of their time."""
    rng = np.random.default_rng(seed)
    return pivec.VisitedStates.from_arrays(
        [walks(with_right(share), rng, **sizes) for share in rights],
        labels=[f"{run}/{k}" for k in range(len(rights))],
        groups=[run] * len(rights),
        steps=[10_000 * k for k in range(len(rights))],
        feature_names=names,
        environment="Places-v0",
    )


def groups_of(rights, seed=0, checkpoints=2, names=("x", "y"), episodes=10):
    """Make groups of runs: name -> mean time on the right of each of its runs."""
    rng = np.random.default_rng(seed)
    named = [
        (f"{group}-{k}", share)
        for group, shares in rights.items()
        for k, share in enumerate(shares)
        for _ in range(checkpoints)
    ]
    return pivec.VisitedStates.from_arrays(
        [walks(with_right(share), rng, episodes) for _, share in named],
        labels=[f"{run}/{number}" for number, (run, _) in enumerate(named)],
        groups=[run for run, _ in named],
        steps=[100 * (number % checkpoints) for number in range(len(named))],
        feature_names=names,
    )


def region_at(where, place):
    """Find the region in the middle of a place."""
    method = where.background
    middles = method.center_ + method.scale_ * method.means_
    return int(np.argmin(((middles - MIDDLES[place]) ** 2).sum(axis=1)))
