"""Visits of regions: when in an episode they are, and the states nearest to a region's middle."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pivec.explanations.folder import ComparisonFolder
from pivec.mixtures import Mixture
from pivec.states import VisitedStates
from pivec.terminal import Progress

# -----------------------------------------------------------------------------
# The region of every state: the likeliest component of the background model.


_BLOCK = 1 << 18


@dataclass(frozen=True)
class Assigned:
    """A row a state, in the order of the data that were assigned."""

    region: NDArray[np.int32]  # the likeliest component
    distance: NDArray[
        np.float32
    ]  # from its middle: the root mean square, in deviations, over features
    log_density: NDArray[np.float32]  # of the whole background, in standardised space

    def __getitem__(self, rows: slice) -> Assigned:
        return Assigned(self.region[rows], self.distance[rows], self.log_density[rows])


def assign(data: VisitedStates, mixture: Mixture) -> Assigned:
    """Find the region of every state, how far from its middle it is, and how likely.

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.25], [0.25]], [0.0], [2.0])
    >>> data = VisitedStates.from_arrays([[[[-2.0], [3.0]]]])
    >>> assigned = assign(data, mixture)
    >>> assigned.region, assigned.distance
    (array([0, 1], dtype=int32), array([0., 1.], dtype=float32))
    """
    region = np.empty(data.n_states, dtype=np.int32)
    distance, log_density = np.empty((2, data.n_states), dtype=np.float32)
    deviations = np.sqrt(mixture.variances)
    first = 0
    for block in data.blocks(_BLOCK):
        rows = slice(first, first + len(block))
        region[rows], log_density[rows] = mixture.assign(block)
        own = region[rows]
        z = (mixture.standardise(block) - mixture.means[own]) / deviations[own]
        distance[rows] = np.sqrt(np.einsum("nd,nd->n", z, z) / mixture.n_features)
        first += len(block)
    return Assigned(region, distance, log_density)


Array = NDArray[np.float64]
TENTHS = 10  # parts of an episode


@dataclass(frozen=True)
class Visit:
    """A state that a policy really visited.

    Attributes
    ----------
    policy : str
        Its label.
    episode, step : int
        Which of its episodes, and the environment's step in it; both begin with 0.
    seed : int or None
        Of the episode; None if it is not known.
    distance : float
        From the region's middle, in deviations (the root mean square over features).
    """

    policy: str
    episode: int
    step: int
    seed: int | None
    distance: float


@dataclass(frozen=True)
class Frame:
    """A state that a policy visited, and the file of its picture or why there is none."""

    visit: Visit
    path: Path | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Near:
    """Visits near the middles of regions: a row an episode and region, the nearest state in it."""

    policy: NDArray[np.intp]  # numbers, as all of these
    episode: NDArray[np.intp]  # of the policy
    region: NDArray[np.intp]
    step: NDArray[np.int64]
    distance: NDArray[np.float32]

    def visit(self, row: int, data: VisitedStates) -> Visit:
        """Name what a row is about."""
        policy, episode = int(self.policy[row]), int(self.episode[row])
        seed = int(data.seeds[data.policy_starts[policy] + episode])
        return Visit(
            data.labels[policy],
            episode,
            int(self.step[row]),
            None if seed < 0 else seed,
            float(self.distance[row]),
        )


@dataclass(frozen=True, eq=False)
class Sightings:
    """Who was seen in regions, and when; policies count the same, and so do their episodes."""

    when: Array  # (K, 10), share of the time in each region that falls into each tenth; or NaN
    begins: Array  # (K,), share of episodes that begin there, and that end there
    ends: Array
    near: Near


def sightings(
    data: VisitedStates, mixture: Mixture, most: int = 1, progress: bool = False
) -> Sightings:
    """Go through all states, a policy after another.

    ``near`` has the ``most`` nearest episodes of each policy and region.
    """
    n_regions, n = mixture.n_components, data.n_policies
    time = np.zeros(n_regions * TENTHS)
    edges = np.zeros((2, n_regions))  # beginnings, ends
    parts: list[tuple[NDArray[np.generic], ...]] = []
    with Progress("regions of states", n, unit="policies", show=progress) as bar:
        for number in range(n):
            mine = data.select([number])
            assigned = assign(mine, mixture)
            lengths, starts = mine.lengths, mine.episode_starts
            place = np.arange(mine.n_states) - np.repeat(starts[:-1], lengths)
            long = np.repeat(lengths, lengths)
            tenths = assigned.region * TENTHS + place * TENTHS // long
            time += np.bincount(tenths, 1.0 / (len(lengths) * n * long), len(time))
            for side, rows in enumerate((starts[:-1], starts[1:] - 1)):
                counts = np.bincount(assigned.region[rows], minlength=n_regions)
                edges[side] += counts / len(lengths) / n
            every = mine.records[0].every
            # Of an episode that is thinned nobody knows at which step it ended.
            known = np.flatnonzero((every == 1) | (place < long - 1))
            episode, step = np.repeat(np.arange(len(lengths)), lengths), place * every
            rows = _nearest(assigned, episode, known, most)
            region, distance = assigned.region[rows], assigned.distance[rows]
            parts.append((np.full(len(rows), number), episode[rows], region, step[rows], distance))
            bar.advance()
    when = time.reshape(n_regions, TENTHS)
    with np.errstate(invalid="ignore"):
        when /= when.sum(axis=1, keepdims=True)
    near = Near(*map(np.concatenate, zip(*parts, strict=True)))
    return Sightings(when, edges[0], edges[1], near)


def _nearest(
    assigned: Assigned, episode: NDArray[np.intp], known: NDArray[np.intp], most: int
) -> NDArray[np.intp]:
    """Rows of the nearest state of each episode and region, of so many episodes of a region."""
    region, distance, episode = assigned.region[known], assigned.distance[known], episode[known]
    order = np.lexsort((distance, episode, region))
    order = order[_is_first(region[order], episode[order])]
    order = order[np.lexsort((distance[order], region[order]))]
    begins = np.flatnonzero(_is_first(region[order]))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff([*begins, len(order)]))
    return known[order[rank < most]]


def _is_first(*columns: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Tell which of sorted rows differ from the one before."""
    differs = np.zeros(len(columns[0]), dtype=np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def nearest_visits(
    findings: ComparisonFolder,
    labels: Sequence[str] | None = None,
    regions: Collection[int] | None = None,
) -> dict[tuple[str, int], Visit]:
    """Find the state nearest to a region's middle among those of a policy that are in the region.

    Parameters
    ----------
    findings : ComparisonFolder
        With states; of several fits of the background the first is looked at.
    labels : sequence of str, optional
        Policies; all if not given.
    regions : collection of int, optional
        Regions; all if not given.

    Returns
    -------
    dict from (label, region) to Visit
        Without those that a policy never visited.
    """
    data = findings.states
    data = data if labels is None else data.select(list(labels))
    near = sightings(data, findings.background.mixtures_[0]).near
    return {
        (data.labels[policy], region): near.visit(row, data)
        for row, (policy, region) in enumerate(
            zip(near.policy.tolist(), near.region.tolist(), strict=True)
        )
        if regions is None or region in regions
    }


def words_of_when(when: Sequence[float]) -> str:
    """Say when in an episode, of shares of its tenths.

    Examples
    --------
    >>> words_of_when((1.0, *[0.0] * 9)), words_of_when((0.1,) * 10)
    ('at the beginning', 'throughout')
    >>> words_of_when((*[0.0] * 5, *[0.2] * 5)), words_of_when((*[0.0] * 9, 1.0))
    ('in the second half', 'at the end')
    """
    shares = np.asarray(when)
    if np.isnan(shares).any():
        return ""
    for words, part, least in (
        ("at the beginning", slice(0, 2), 0.6),
        ("at the end", slice(8, 10), 0.6),
        ("in the middle", slice(3, 7), 0.7),
        ("in the first half", slice(0, 5), 0.75),
        ("in the second half", slice(5, 10), 0.75),
    ):
        if shares[part].sum() >= least:
            return words
    return "throughout"
