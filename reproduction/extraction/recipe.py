"""Figure 2: how three Pendulum policies become supervectors.

The states of all policies are pooled, a background model is fitted on them, and its means are
adapted to the states of each policy: the stacked means are its supervector. The policies are those
that ship with pivec, at every scale: they are real ones, nothing need be trained for a picture, and
everybody gets the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Supervector
from pivec.mixtures import Mixture
from pivec.states import VisitedStates
from pivec.workflows.collect import collect
from reproduction.background import papers_supervector
from reproduction.extraction.figure import Components, extraction_figure
from reproduction.pipeline import Workshop
from reproduction.published import Array, markdown, notes
from reproduction.recipes import PICTURE, Calculation, Finding, Need, Recipe, Result, Told

ENVIRONMENT = "Pendulum-v1"
FEATURES = ("angle", "speed")
# What they mostly do, and the file among the shipped policies; chosen for behaving differently.
POLICIES = {
    "spins": "a2c-1/step_80000",
    "swings": "a2c-1/step_2000000",
    "balances": "ppo-0/step_2015232",
}
COMPONENTS = 12  # so few that every one can be seen in the picture
PAPERS_COMPONENTS = 64
KINDS = ("distances", "distances_of_observations")  # in the numbers: ours, and the paper's


@dataclass(frozen=True)
class Counts:
    """How many episodes of each policy."""

    episodes: int


def needs(shop: Workshop, counts: Counts) -> list[Need]:  # noqa: ARG001 - as every recipe's
    """List the episodes; the fit takes a moment."""
    episodes = 2 * len(POLICIES) * counts.episodes
    return [Calculation(f"episodes of {ENVIRONMENT}", episodes, _seconds_an_episode)]


def _seconds_an_episode() -> float:
    began = time.perf_counter()
    _visited(10, 0)
    return (time.perf_counter() - began) / (10 * len(POLICIES))


def make(shop: Workshop, counts: Counts) -> Result:
    """Collect, fit, adapt and draw."""
    # Twice: how far a policy is from itself is what chance alone makes.
    observed, again = (_visited(counts.episodes, shop.seed + i) for i in range(2))
    data = in_the_plane(observed)
    space = papers_supervector(COMPONENTS, shop.seed).fit(data)
    described = space.describe(data)
    distances, noise = _distances(space, data, in_the_plane(again))
    background = in_units_of_states(space.background_)
    standardised = np.asarray(described.vectors).reshape(len(data), COMPONENTS, -1)
    means = standardised * space.scale_ + space.center_
    adaptation = described.arrays["counts"] / (described.arrays["counts"] + space.relevance)
    rows = _rows(background, means, adaptation)
    papers = papers_supervector(PAPERS_COMPONENTS, shop.seed).fit(observed)
    papers_distances, papers_noise = _distances(papers, observed, again)
    returns = dict(zip(POLICIES, data.mean_returns.tolist(), strict=True))
    pairs = (distances, noise), (papers_distances, papers_noise)
    numbers: dict[str, Any] = {"policies": POLICIES, "mean_returns": returns, "components": rows}
    for kind, (apart, itself) in zip(KINDS, pairs, strict=True):
        numbers |= {kind: apart.tolist(), f"{kind}_to_themselves": itself.tolist()}
    return Result(numbers, {"extraction": extraction_figure(data, background, means, distances)})


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    rows = numbers["components"]
    pairs = [
        (np.array(numbers[kind]), np.array(numbers[f"{kind}_to_themselves"])) for kind in KINDS
    ]
    adaptation = np.array([row["adaptation"] for row in rows])
    return Told(
        rows,
        _tables(numbers["mean_returns"], *pairs),
        _findings(*pairs[0], adaptation),
        notes("extraction"),
    )


def angle_and_speed(observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn observations (cos θ, sin θ, speed) into angle, 0 where it hangs, and speed."""
    cos, sin, speed = observations.T
    return np.stack([np.arctan2(-sin, -cos), speed], axis=1)


def in_the_plane(observed: VisitedStates) -> VisitedStates:
    """Turn observations of the pendulum into angle and speed."""
    policies = [observed[i] for i in range(len(observed))]
    return VisitedStates.from_arrays(
        [[angle_and_speed(episode) for episode in policy.episodes()] for policy in policies],
        observed.labels,
        returns=[policy.returns for policy in policies],
        feature_names=FEATURES,
        environment=ENVIRONMENT,
    )


def _visited(episodes: int, seed: int) -> VisitedStates:
    shelf = files("pivec") / "demo_policies" / ENVIRONMENT
    paths = {name: f"{shelf}/{file}.safetensors" for name, file in POLICIES.items()}
    return collect(ENVIRONMENT, paths, episodes, seed, backend="gymnasium")


def _distances(
    space: Supervector, data: VisitedStates, again: VisitedStates
) -> tuple[Array, Array]:
    """Distances of all policies, (n, n), and of each to itself, collected again, (n,)."""
    return space.distances(data), np.diag(space.distances(data, again))


def in_units_of_states(mixture: Mixture) -> Components:
    """Return weights, means and deviations of a mixture, no longer standardised."""
    return Components(
        mixture.weights,
        mixture.means * mixture.scale + mixture.center,
        np.sqrt(mixture.variances) * mixture.scale,
    )


def _rows(background: Components, means: Array, adaptation: Array) -> list[dict[str, Any]]:
    rows = []
    for i, name in enumerate(POLICIES):
        for k, weight in enumerate(background.weights.tolist()):
            row: dict[str, Any] = {"policy": name, "component": k, "weight": weight}
            row["adaptation"] = float(adaptation[i, k])
            for j, feature in enumerate(FEATURES):
                row[f"background_{feature}"] = float(background.means[k, j])
                row[f"deviation_{feature}"] = float(background.deviations[k, j])
                row[f"adapted_{feature}"] = float(means[i, k, j])
            rows.append(row)
    return rows


def _tables(
    returns: dict[str, float], ours: tuple[Array, Array], papers: tuple[Array, Array]
) -> str:
    heads = [
        "distance (equation 6)",
        f"angle and speed, {COMPONENTS} components",
        f"observations, {PAPERS_COMPONENTS} components",
    ]
    names = list(POLICIES)
    lines = [
        [f"{names[i]} – {names[j]}", *(f"{apart[i, j]:.3f}" for apart, _ in (ours, papers))]
        for i, j in combinations(range(len(names)), 2)
    ]
    lines += [
        [f"{name} – itself, collected again", *(f"{noise[i]:.3f}" for _, noise in (ours, papers))]
        for i, name in enumerate(names)
    ]
    policies = [
        [name, f"`{POLICIES[name]}`", f"{mean_return:.0f}"] for name, mean_return in returns.items()
    ]
    return f"{markdown(heads, lines)}\n\n{markdown(['policy', 'file', 'mean return'], policies)}"


def _findings(distances: Array, noise: Array, adaptation: Array) -> list[Finding]:
    least = float(distances[np.triu_indices(len(distances), 1)].min())
    return [
        Finding(
            "extraction",
            "Supervectors tell the policies apart",
            PICTURE,
            f"distances from {least:.3f} on; of a policy to itself, collected again, at most "
            f"{noise.max():.4f}",
            bool(least > noise.max()),
        ),
        Finding(
            "extraction",
            "A mean moves where the policy has states, and stays where it has none (equation 5)",
            PICTURE,
            f"adaptation α from {adaptation.min():.2f} to {adaptation.max():.2f}",
            bool(adaptation.min() < 0.5 < adaptation.max()),
        ),
    ]


RECIPE = Recipe(
    name="extraction",
    shows="Figure 2: three Pendulum policies, the background model, and the adapted means",
    counts={
        "smoke": Counts(episodes=5),
        "small": Counts(episodes=50),
        "paper": Counts(episodes=100),
    },
    needs=needs,
    make=make,
    tell=tell,
    tells_at_smoke=True,
)
