"""Whether two policies behave alike: same, different, or cannot tell yet.

Two questions are asked (as in Tryon 2001, "Evaluating statistical difference, equivalence, and
indeterminacy"). *Equivalence*: is the distance, with the certainty that is asked for, below a
margin? *Difference*: is it more than chance? Where neither is answered with yes there are too few
episodes. A difference that is certain but smaller than the margin is "the same": the margin says
what nobody minds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil, inf, isfinite, sqrt
from typing import Any, Literal

from scipy.stats import norm

from pivec.distances.planning import POWER, episodes_for_different, episodes_for_same

Verdict = Literal["same", "different", "cannot tell"]

# A distance of visitation with 64 regions: 20 % of the time in different places, if both go to the
# same ones a little more or less often; 6 %, if one goes to a region where the other never is.
MARGIN = 0.02
LEVEL = 0.95


@dataclass(frozen=True)
class Sameness:
    """What `pivec.same` found.

    Attributes
    ----------
    verdict : str
        "same", "different" or "cannot tell".
    labels : tuple of str
        The two policies.
    distance : float
        Between them, the noise of sampling taken off.
    low, high : float
        Bounds of the distance, each of which holds with the certainty ``level``.
    p_value : float
        How often chance alone gives such a distance to policies that behave alike.
    test : str
        "permutation", or "analytic" where the episodes of one are not kept.
    margin : float
        Below which a distance counts as none.
    level : float
    episodes : tuple of int
        Of each policy.
    episodes_needed : int or None
        Of each policy, in all, after which a verdict can be expected; None where there is one, or
        where nothing can be said.
    method : str
        The characterization.
    overlap : float or None
        Share of their time that both spend in the same places, where it is known.
    """

    verdict: Verdict
    labels: tuple[str, str]
    distance: float
    low: float
    high: float
    p_value: float
    test: str
    margin: float
    level: float
    episodes: tuple[int, int]
    episodes_needed: int | None
    method: str
    overlap: float | None = None

    @property
    def more_episodes(self) -> int | None:
        """Episodes of each policy that are still to be played until a verdict is likely."""
        return None if self.episodes_needed is None else self.episodes_needed - min(self.episodes)

    def as_json(self) -> dict[str, Any]:
        """Return plain values: what is not a number is None."""
        plain = {k: v if k != "labels" else list(v) for k, v in asdict(self).items()}
        return {
            k: None if isinstance(v, float) and not isfinite(v) else v for k, v in plain.items()
        } | {"more_episodes": self.more_episodes}


def decide(high: float, p_value: float, margin: float, level: float = LEVEL) -> Verdict:
    """Give the verdict on a distance that lies below ``high``.

    Examples
    --------
    >>> decide(high=0.01, p_value=0.4, margin=0.02)
    'same'
    >>> decide(high=0.01, p_value=0.001, margin=0.02)  # certain, but too small to matter
    'same'
    >>> decide(high=0.05, p_value=0.001, margin=0.02)
    'different'
    >>> decide(high=0.05, p_value=0.4, margin=0.02)
    'cannot tell'
    """
    if high < margin:
        return "same"
    # As a sum of floats 1 − 0.95 is a little more than 0.05.
    return "different" if p_value <= round(1 - level, 12) else "cannot tell"


def episodes_for_verdict(
    distance: float,
    first: float,
    second: float,
    p_value: float,
    episodes: int,
    margin: float,
    level: float = LEVEL,
) -> int | None:
    """Episodes of each policy after which either verdict is likely, were this the distance.

    At least a tenth more than there are, since these were not enough. The first part of the
    variance is at most what a difference of this length allows (see `episodes_to_decide`), and a
    test finds a difference no sooner than its own p-value lets expect: what it tests grows with
    the number of episodes.
    """
    away = max(distance, 0.0)
    first = min(first, 4 * away * sqrt(second / 2))
    seen = norm.isf(p_value)
    wanted = norm.ppf(level) + norm.ppf(POWER)
    by_test = episodes * wanted / seen if seen > 0 else inf
    different = float(episodes_for_different(away, first, second, episodes, level))
    needed = min(
        float(episodes_for_same(away, first, second, episodes, margin, level)),
        max(different, by_test),
    )
    if not all(map(isfinite, (first, second, needed))):
        return None
    return max(ceil(needed), episodes + ceil(episodes / 10))
