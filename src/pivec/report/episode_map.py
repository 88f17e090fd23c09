"""The map of episodes: which kind each is of, where it lies among the others, how unusual it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.explanations import (
    ClusteredEpisodes,
    ComparisonFolder,
    EpisodeKinds,
    choose_episodes,
    times_as_far,
)
from pivec.figures import (
    INK,
    axes_at,
    group_colours,
    headed_figure,
    quiet_axes,
)
from pivec.report.layout import landmark_tsne
from pivec.results import Result, Row
from pivec.text import n_policies, thousands

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
MAX_SHOWN = 5000  # episodes, as many of each policy, besides typical and unusual ones
MAX_UNUSUAL, UNUSUAL = 20, 2.0  # that are marked, and how many times as far they are at least


@dataclass(frozen=True, eq=False, repr=False)
class EpisodeMap(Result):
    """Episodes of a comparison in the plane, those of one kind next to each other.

    Attributes
    ----------
    kinds : EpisodeKinds
        The kinds of all episodes.
    policies : tuple of str
        The label of the policy of each episode shown.
    episodes, kind, lengths, seeds : (n,) int arrays
        The number of each episode within its policy, its kind (from 1), its length in states, and
        its seed, -1 if it is not known.
    positions : (n, 2) array
    times, returns : (n,) arrays
        How many times as far as its policy's median episode each is from the mean of its policy;
        and its return. NaN if not known.
    unusual : int array
        Rows of the most unusual episodes, farthest first.
    total, n_policies : int
        The number of episodes and of policies of the comparison.
    """

    kinds: EpisodeKinds
    policies: tuple[str, ...]
    episodes: NDArray[np.intp]
    kind: NDArray[np.intp]
    positions: Array
    times: Array
    returns: Array
    lengths: NDArray[np.int64]
    seeds: NDArray[np.int64]
    unusual: NDArray[np.intp]
    total: int
    n_policies: int

    def __len__(self) -> int:
        return len(self.policies)

    @property
    def words(self) -> str:
        """Which episodes are shown, and which of them are marked."""
        shown = f"All {thousands(self.total)} episodes"
        if len(self) < self.total:
            some, own = len(set(self.policies)), ""
            if some < self.n_policies:
                own = f" from {thousands(some)} of {n_policies(self.n_policies)}"
            shown = (
                f"{thousands(len(self))} of {thousands(self.total)} episodes{own}: equally many of "
                "each policy at random, the typical ones of each kind, and unusual ones"
            )
        text = f"{shown}. Those that spend their time in the same regions are close together."
        if np.isnan(self.times).all():
            return f"{text} Which of them are unusual is not known."
        if not len(self.unusual):
            return f"{text} None is {UNUSUAL:g} times as far from the mean of its policy as usual."
        return (
            f"{text} Marked: the {len(self.unusual)} farthest from the mean of their policy, at "
            f"least {UNUSUAL:g} times as far as its median episode."
        )

    def headline(self) -> str:
        """Say how many episodes are shown, and how many kinds there are."""
        shown, total = thousands(len(self)), thousands(self.total)
        return f"{shown} of {total} episodes, {self.kinds.headline()}"

    def rows(self) -> list[Row]:
        """Return one row per episode, by policy."""
        columns = {
            "policy": self.policies,
            "episode": self.episodes.tolist(),
            "seed": [seed if seed >= 0 else None for seed in self.seeds.tolist()],
            "kind": self.kind.tolist(),
            "x": self.positions[:, 0].tolist(),
            "y": self.positions[:, 1].tolist(),
            "times_as_far": self.times.tolist(),
            "return": self.returns.tolist(),
            "length": self.lengths.tolist(),
        }
        lines = zip(*columns.values(), strict=True)
        return [dict(zip(columns, line, strict=True)) for line in lines]

    def figure(self) -> Figure:
        from matplotlib.lines import Line2D

        colours = np.array(group_colours(len(self.kinds)))
        unusual: dict[str, Any] = {"facecolors": "none", "edgecolors": INK, "linewidths": 0.9}
        key = [
            Line2D([], [], ls="", marker="o", ms=4, color=colour, label=f"kind {number}")
            for number, colour in enumerate(colours, 1)
        ]
        if len(self.unusual):
            key.append(
                Line2D([], [], ls="", marker="o", ms=6, mfc="none", mec=INK, label="unusual")
            )
        figure = headed_figure(6.4, 6.0, "Map of episodes", self.headline(), key)
        axes = axes_at(figure, 0.28, 0.2, 5.84, 5.7, facecolor="#FCFCFD")
        quiet_axes(axes)
        axes.set_aspect("equal", adjustable="datalim")
        x, y = self.positions.T
        axes.scatter(x, y, s=8, linewidths=0, color=colours[self.kind - 1])
        axes.scatter(x[self.unusual], y[self.unusual], s=42, **unusual)
        return figure


def map_episodes(comparison: ComparisonFolder, clustered: ClusteredEpisodes) -> EpisodeMap:
    """Lay out at most about 5000 episodes of a comparison, and find unusual ones among them.

    Typical episodes of kinds are always shown, and the most unusual ones of the policies shown.
    """
    data, starts = clustered.data, clustered.data.policy_starts
    chosen, numbers = choose_episodes(data, MAX_SHOWN)
    number = {label: i for i, label in enumerate(data.labels)}
    played = np.diff(comparison.states.policy_starts)
    times = np.full(data.n_episodes, np.nan)
    for label, own in times_as_far(comparison, [data.labels[i] for i in chosen]).items():
        first, last = starts[number[label] : number[label] + 2]
        if len(own) == played[number[label]]:  # else these are not the states that were described
            times[first:last] = own[: last - first]
    # In an order that does not depend on that of policies, so that equal ones are ranked alike.
    own = np.concatenate([np.arange(*starts[i : i + 2]) for i in chosen])
    far = own[times[own] >= UNUSUAL]
    far = far[np.argsort(-times[far].round(6), kind="stable")][:MAX_UNUSUAL]
    typical = [starts[number[kind.policy]] + kind.episode for kind in clustered.kinds.kinds]
    some = [starts[i] + episodes for i, episodes in zip(chosen, numbers, strict=True)]
    shown = np.unique(np.concatenate([*some, far, typical]))
    policies = np.searchsorted(starts, shown, side="right") - 1
    return EpisodeMap(
        clustered.kinds,
        tuple(data.labels[i] for i in policies),
        shown - starts[policies],
        clustered.numbers[shown],
        landmark_tsne(clustered.coordinates[shown], clustered.sample),
        times[shown],
        data.returns[shown],
        data.episode_steps[shown] + 1,
        data.seeds[shown],
        np.searchsorted(shown, far),
        comparison.states.n_episodes,
        len(data),
    )
