"""What `unusual` gives: episodes by how far they are from their policy's others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.explanations.pairs.difference import Clip, shown_clip
from pivec.explanations.regions.names import Feature
from pivec.explanations.unusual.episodes import RegionTime
from pivec.explanations.unusual.outside import Outside
from pivec.results import Result, Row, plain
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(frozen=True)
class UnusualEpisode:
    """An episode and how it differs from its policy's others."""

    policy: str
    episode: int  # its number among the policy's, from 0
    times: float  # as far from the policy's mean as its usual episode is, at most n − 1
    spread: float  # its share of the policy's spread, from 0 to 1: of n alike ones each has 1/n
    seed: int | None
    total: float  # the return
    length: int | None  # in states
    feature: Feature | None = None  # whose mean differs most from the others', in deviations
    mean: float = math.nan
    usual_mean: float = math.nan
    regions: tuple[RegionTime, ...] = ()  # in which it spends more or less time than the others

    @property
    def reasons(self) -> list[str]:
        """Say what is unusual about it, a sentence each."""
        lines = [str(region) for region in self.regions]
        if self.feature is None:
            return lines
        if self.feature.is_flag:
            mean, usual = f"{percent(self.mean)} of its time", percent(self.usual_mean)
        else:
            unit = f" {self.feature.unit}" * bool(self.feature.unit)
            mean, usual = f"{self.mean:.3g}{unit} on average", f"{self.usual_mean:.3g}{unit}"
        numbers = f"{mean} (others {usual})".replace("-", "−")
        return [f"{self.feature.name} {numbers}", *lines]


@dataclass(frozen=True, eq=False)
class PolicyEpisodes:
    """All episodes of a policy: how far each is from the others; a row an episode."""

    policy: str
    times: Array
    returns: Array  # NaN where they are not known, as are the lengths
    lengths: Array
    typical: int  # the episode nearest to the policy's mean

    @property
    def usual_return(self) -> float:
        """The median return."""
        return float(np.median(self.returns))

    @property
    def usual_length(self) -> float:
        """The median length, in states."""
        return float(np.median(self.lengths))


@dataclass(frozen=True, repr=False, eq=False)
class Unusual(Result):
    """Episodes by how far they lie from their own policy's others, and states outside.

    ``times`` tells how many times as far an episode is from the mean of its policy as the policy's
    usual (median) episode: lengths of what leaving it out does to the description.
    """

    environment: str
    method: str
    episodes: tuple[UnusualEpisode, ...]  # the most unusual ones, farthest first
    policies: tuple[PolicyEpisodes, ...]
    outside: Outside | None  # states where no policy has been, where the method tells
    notes: tuple[str, ...]  # what had to be left out
    clips: tuple[Clip, ...] = ()  # of the most typical and the most unusual episode of policies

    def of(self, policy: str) -> PolicyEpisodes:
        """Give all episodes of a policy."""
        return next(row for row in self.policies if row.policy == policy)

    def headline(self) -> str:
        """Say which episode is farthest off."""
        first = self.episodes[0]
        if first.times <= 1.0:
            return "The episodes of each policy are all alike"
        times = "infinitely" if math.isinf(first.times) else f"{first.times:.2g} times as"
        return f"Episode {first.episode} of {first.policy} is {times} far from the others as usual"

    def rows(self) -> list[Row]:
        """One row an unusual episode, farthest first."""
        return [
            {
                "policy": row.policy,
                "episode": row.episode,
                "times": row.times,
                "spread": row.spread,
                "return": row.total,
                "usual_return": self.of(row.policy).usual_return,
                "length": row.length,
                "usual_length": self.of(row.policy).usual_length,
                "seed": row.seed,
                "typical": self.of(row.policy).typical,
                "words": "; ".join(row.reasons),
            }
            for row in self.episodes
        ]

    def to_json(self) -> dict[str, Any]:
        """Give everything as JSON can hold it; what is not known, or infinite, is None."""
        own: dict[str, Any] = plain(vars(self))
        outside = None if self.outside is None else self.outside.to_json()
        clips = [shown_clip(clip) for clip in self.clips]
        return own | {"headline": self.headline(), "outside": outside, "clips": clips}

    def figure(self) -> Figure:
        """Draw all episodes of the policies with the most unusual ones, which have names."""
        from pivec.explanations.unusual.figure import unusual_figure

        return unusual_figure(self)
