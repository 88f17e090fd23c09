"""Names of features with their units, and names of regions made from them.

The features of the usual Gymnasium environments are in features.txt. They were checked against
Gymnasium's code, not only its documentation: the first leg of LunarLander is the right one, and its
velocities are scaled, so they have no unit.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, xlogy

from pivec.characterizations import USUAL, Characterization, Decomposition, region_ranges
from pivec.mixtures import Mixture
from pivec.terminal import shortened

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Feature:
    """The meaning of one number of a state.

    A flag is 0 or 1: ``name`` says what holds if it is 1, and ``absent`` what holds if it is 0
    (empty if that is not worth a word). Other numbers have ``absent`` None.

    Examples
    --------
    >>> Feature("pole angle", "rad").title
    'pole angle (rad)'
    """

    name: str
    unit: str = ""
    absent: str | None = None
    is_step: bool = field(default=False, repr=False)  # how much another one changes per time step

    @property
    def is_flag(self) -> bool:
        return self.absent is not None

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest possible value, as far as the name says."""
        return (-1.0, 1.0) if self.name.startswith(("cos(", "sin(")) else (-math.inf, math.inf)

    @property
    def title(self) -> str:
        """The name with the unit, for axes and columns."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def step(self) -> Feature:
        """How much it changes per time step."""
        return Feature(f"Δ{self.name}", f"{self.unit} per step".strip(), is_step=True)

    def with_unit(self, value: str) -> str:
        return f"{value} {self.unit}" if self.unit else value


def columns_of(method: Characterization, collected: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Look up the meaning of the columns that regions consist of: features, maybe their steps."""
    known = features_of(collected, method.feature_names_)
    features = tuple(known[j] for j in method.described_features)
    steps = len(method.column_names) - len(features)
    return (*features, *(feature.step for feature in features[:steps]))


def features_of(collected: Mapping[str, Any], names: Sequence[str]) -> tuple[Feature, ...]:
    """Look up the meaning of the features of a state, where it is certain.

    They come from features.txt, if the environment is in it, without wrappers or ``features=``,
    and the stored names are pivec's defaults. Otherwise the stored names are used; ``x=3``, which
    is pivec's name for one of several choices, is a flag.

    Parameters
    ----------
    collected : mapping
        How the states were collected, as in `Space.collected`.
    names : sequence of str
        Names of the features as stored.

    Examples
    --------
    >>> features_of({"environment": "CartPole-v1"}, ["x[0]", "x[1]", "x[2]", "x[3]"])[2]
    Feature(name='pole angle', unit='rad', absent=None)
    >>> features_of({"environment": "MyPole-v0"}, ["x[0]", "mode=1"])
    (Feature(name='x[0]', unit='', absent=None), Feature(name='mode=1', unit='', absent=''))
    """
    arguments = collected.get("arguments") or {}
    plain = not collected.get("wrappers") and not collected.get("features")
    if plain and isinstance(arguments, Mapping) and all(map(_HARMLESS.fullmatch, arguments)):
        environment = str(collected.get("environment", ""))
        for pattern, default_names, features in known_features():
            if re.fullmatch(pattern, environment) and tuple(names) == default_names:
                return features
    return tuple(Feature(name, absent="" if _CHOICE.search(name) else None) for name in names)


_CHOICE = re.compile(r"=-?\d+$")
# Arguments that change dynamics and rewards, but not what is observed.
_HARMLESS = re.compile(
    r"hardcore|continuous|gravity|g|enable_wind|(wind|turbulence)_power|goal_velocity|is_slippery"
    r"|success_rate|map_name|is_rainy|fickle_passenger|natural|sab|sutton_barto_reward"
    r"|(reward|control|forward|healthy|ctrl|contact)\w*_(schedule|weight|reward|range)"
    r"|terminate_when_unhealthy|reset_noise_scale|frame_skip|max_episode_steps|render_mode"
)


@lru_cache
def known_features() -> list[tuple[str, tuple[str, ...], tuple[Feature, ...]]]:
    """List known environments: a pattern of their ids, pivec's names of features, the features."""
    known = []
    text = Path(__file__).with_name("features.txt").read_text("utf-8")
    for line in re.sub(r"\n +", " ", text).splitlines():
        if not line.startswith("#"):
            pattern, _, parts = line.partition(": ")
            texts = [one for part in parts.split("|") for one in _expand(part.strip())]
            names = tuple(f"x[{i}]" for i in range(len(texts)))
            known.append((pattern, names, tuple(map(_feature, texts))))

    def grid(rows: int, columns: int) -> list[str]:
        return [f"row {i}, column {j}" for i, j in product(range(rows), range(columns))]

    places = ("at red", "at green", "at yellow", "at blue", "in the taxi")
    taxi = product(grid(5, 5), places, ("red", "green", "yellow", "blue"))
    hands = [f"player has {i}" for i in range(32)]
    hands += ["dealer shows nothing", "dealer shows an ace"]
    hands += [f"dealer shows {i}" for i in range(2, 11)] + ["no usable ace", "usable ace"]
    for pattern, choices, sizes in (
        # Other shapes of FrozenLake come with desc=, which is not among the harmless arguments.
        (r"FrozenLake(8x8)?-v[01]", grid(4, 4), (16,)),
        (r"FrozenLake(8x8)?-v[01]", grid(8, 8), (64,)),
        (r"CliffWalking(Slippery)?-v[01]", grid(4, 12), (48,)),
        (r"Taxi-v[34]", [f"taxi at {x}, passenger {y} to {z}" for x, y, z in taxi], (500,)),
        (r"Blackjack-v[01]", hands, (32, 11, 2)),
    ):
        one = len(sizes) == 1
        names = tuple(f"{'x' if one else k}={i}" for k, n in enumerate(sizes) for i in range(n))
        known.append((pattern, names, tuple(Feature(choice, absent="") for choice in choices)))
    return known


def _expand(text: str) -> list[str]:
    """Replace lists in braces by each of their elements; the last list changes slowest."""
    head, brace, tail = text.rpartition("{")
    if not brace:
        return [text]
    options, _, rest = tail.partition("}")
    return [one for option in options.split(",") for one in _expand(head + option.strip() + rest)]


def _feature(text: str) -> Feature:
    present, flag, absent = text.partition(" ~ ")
    if flag:
        return Feature(present, absent=absent)
    name, _, unit = present.partition(" (")
    return Feature(name, unit.removesuffix(")"))


# ---- names of regions: the features that distinguish a region from all states ----

MIDDLE = "the middle of all states"
VARIOUS = "various states"  # of merged regions that have no feature in common
_TAIL = 0.05  # of all states, on either side: a region that reaches there has an open end
_CLEAR = 0.5  # nats of a feature that is named; a shift by one deviation of all states has as much
_CLEAR_FLAG = 0.2  # of a flag, whose divergence is bounded
_FEW, _MANY = 3, 8  # features per region, and at most if regions would have the same name
_GRAIN = 0.05  # deviations of all states: a narrower range is a point
# Bhattacharyya distances of features: of steps that tell regions apart, 1.7 deviations, and of
# regions in the same place, 2.4 deviations: regions that tile a path overlap by half.
_APART, _NEAR = 0.35, 0.7
_AT_ONCE = 8  # features
_LONGEST = 80  # characters of a feature's name


def with_names(
    found: Decomposition, background: Mixture, columns: Sequence[Feature], names: Sequence[str]
) -> Decomposition:
    """Name the regions of a decomposition, and those that were merged by what they cover."""
    feature_names = tuple(column.name for column in columns)
    if (merged := found.merged) is not None:
        rest = sorted(set(range(len(names))).difference(*merged.members))
        groups = [*merged.members, *((region,) for region in rest)]
        weights = np.array([background.weights[list(group)].sum() for group in groups])
        ranges = np.concatenate([merged.ranges, found.ranges[rest]]) - background.center[:, None]
        means = ranges.mean(axis=2) / background.scale
        deviations = 0.5 * np.ptp(ranges, axis=2) / (USUAL * background.scale)
        mixture = replace(background, weights=weights, means=means, variances=deviations**2)
        n = sum(not column.is_step for column in columns)
        words = [
            VARIOUS if name.startswith(MIDDLE) and len(group) > 1 else name
            for name, group in zip(region_names(mixture, columns[:n]), merged.members, strict=False)
        ]
        merged = merged.named(tuple(words), feature_names)
    return replace(found.named(tuple(names), feature_names), merged=merged)


def region_names(background: Mixture, features: Sequence[Feature]) -> tuple[str, ...]:
    """Name each region by the features that distinguish it from all states.

    Features are ranked by the Kullback-Leibler divergence of their distribution in the region from
    that of all states, in closed form from the background model. A name has at most three, and
    only clear ones, as ranges that hold about 80 % of the region's states; more if two regions
    would have the same name. If there are other moves in the same place, the step that
    distinguishes it from them follows. No two names are equal.

    Parameters
    ----------
    background : Mixture
        The background model; its regions are numbered as its components are.
    features : sequence of Feature
        Of a state, from `features_of`.

    Examples
    --------
    >>> from pivec.characterizations import Visitation
    >>> from pivec.states import VisitedStates
    >>> states = np.repeat([[0.0, 1.0], [4.0, 0.0], [8.0, 0.0]], 20, axis=0)
    >>> states[:, 0] += np.tile(np.linspace(-0.5, 0.5, 20), 3)
    >>> data = VisitedStates.from_arrays([[states]])
    >>> method = Visitation(n_components=3, of="states").fit(data)
    >>> named = (Feature("height", "m"), Feature("on the ground", absent="in the air"))
    >>> for name in sorted(region_names(method.background_, named)):
    ...     print(name)
    height 3.6 to 4.4 m, in the air
    height above 7.6 m, in the air
    height below 0.4 m, on the ground

    Two policies that walk through the same places in opposite directions:

    >>> walk = np.linspace(0.0, 1.0, 50)[:, None]
    >>> data = VisitedStates.from_arrays([[walk], [walk[::-1]]])
    >>> method = Visitation(n_components=2).fit(data)
    >>> for name in sorted(region_names(method.background_, [Feature("height", "m")])):
    ...     print(name)
    height decreasing
    height increasing
    """
    n = len(features)
    mixture = _columns(background, slice(0, n))
    weights, means, variances = mixture.weights, mixture.means, mixture.variances
    mean = weights @ means
    deviation = np.sqrt(weights @ (variances + (means - mean) ** 2))
    # Features that are 0 or 1, for which E x² = E x in every component.
    shares = mixture.center + mixture.scale * means
    excess = np.abs(mixture.scale**2 * variances + shares**2 - shares)
    flags = np.asarray((excess <= 0.01 * mixture.scale * deviation).all(axis=0))
    shares = np.clip(shares, 0.0, 1.0)
    separation = np.where(
        flags,
        _flag_divergence(shares, weights @ shares),
        _divergence(means, variances, mean, deviation**2),
    )
    # That one of many choices does not hold says nothing; nor does a constant feature.
    silent = np.array([feature.absent == "" for feature in features]) & flags
    separation[(silent & (shares < 0.1)) | ~np.isfinite(separation)] = -1.0
    clear = separation >= np.where(flags, _CLEAR_FLAG, _CLEAR)
    n_usable = np.minimum(_MANY, (separation > 0).sum(axis=1))
    order = np.lexsort((-separation, ~clear), axis=1)
    ranges = _Ranges.of(mixture)
    steps: dict[int, tuple[int, str]] = {}
    if background.n_features > n:
        steps = _step_words(mixture, _columns(background, slice(n, None)), features, flags)

    def part(region: int, number: int) -> str:
        feature = features[number]
        name = shortened(feature.name, _LONGEST)
        if not flags[number]:
            return f"{name} {ranges.words(region, number, feature)}"
        share = float(shares[region, number])
        if share < 0.1:
            return feature.absent or f"{name} = 0"
        present = name if feature.is_flag else f"{name} = 1"
        return present if share > 0.9 else f"{present} ({100 * share:.0f} %)"

    def name_of(region: int, count: int) -> str:
        parts = {number: part(region, number) for number in order[region, :count].tolist()}
        if region in steps:
            number, words = steps[region]
            if flags[number]:
                parts[n] = words
            else:  # "height 2 to 3 m, increasing by ...", or "height increasing by ..."
                name = shortened(features[number].name, _LONGEST)
                parts[number] = f"{parts[number]}," if number in parts else name
                parts[number] += f" {words}"
        return ", ".join(parts.values()) or MIDDLE

    counts = np.minimum(_FEW, clear.sum(axis=1)).tolist()
    while True:
        names = [name_of(k, count) for k, count in enumerate(counts)]
        shared = Counter(names)
        equal = {k for k, name in enumerate(names) if shared[name] > 1}
        longer = [k for k in equal if counts[k] < n_usable[k]]
        if not longer:
            # Nothing distinguishes them: perhaps components of two fits of the background model.
            return tuple(f"{name} ({k})" if k in equal else name for k, name in enumerate(names))
        for k in longer:
            counts[k] += 1


def _columns(mixture: Mixture, columns: slice) -> Mixture:
    """Return the marginal distribution of some columns."""
    arrays = mixture.means[:, columns], mixture.variances[:, columns]
    return Mixture(mixture.weights, *arrays, mixture.center[columns], mixture.scale[columns])


@dataclass(frozen=True, eq=False)
class _Ranges:
    """Ranges of features in the regions of a mixture, (K, D, 2), in the environment's units."""

    ranges: Array
    grain: Array  # (D,): a narrower range is a point
    below: NDArray[np.bool_]  # (K, D): whether a range reaches into the low tail of all states
    above: NDArray[np.bool_]

    @classmethod
    def of(cls, mixture: Mixture) -> _Ranges:
        weights, means = mixture.weights, mixture.means
        spread = np.sqrt(weights @ (mixture.variances + (means - weights @ means) ** 2))
        ranges = region_ranges(mixture)
        low_tail, middle, high_tail = (
            mixture.center + mixture.scale * _quantiles(mixture, share)
            for share in (_TAIL, 0.5, 1.0 - _TAIL)
        )
        # Both conditions: if most states are one point, ranges around it are no tails.
        below = (ranges[:, :, 0] < low_tail) & (ranges[:, :, 1] < middle)
        above = (ranges[:, :, 1] > high_tail) & (ranges[:, :, 0] > middle)
        return cls(ranges, _GRAIN * spread * mixture.scale, below, above)

    def words(self, region: int, number: int, feature: Feature) -> str:
        """Write a range as in "0.2 to 0.4 m"."""
        least, most = feature.limits
        low, high = np.clip(self.ranges[region, number], least, most).tolist()
        first, last = self._written(low, high, number)
        if first == last:
            return f"about {feature.with_unit(first)}"
        if self.below[region, number] or low == least:
            return f"below {feature.with_unit(last)}"
        if self.above[region, number] or high == most:
            return f"above {feature.with_unit(first)}"
        return f"{first} to {feature.with_unit(last)}"

    def step_words(self, region: int, number: int, feature: Feature, brief: bool) -> str:
        """Write a range of steps as in "increasing by 0.2 to 0.4 m per step", or "increasing"."""
        low, high = self.ranges[region, number].tolist()
        verb, tail = "changing", False
        if low > 0.0:
            verb, tail = "increasing", bool(self.above[region, number])
        elif high < 0.0:
            verb, tail = "decreasing", bool(self.below[region, number])
            low, high = -high, -low
        if brief and verb != "changing":
            return verb
        first, last = self._written(low, high, number)
        if first == last:
            return "constant" if first == "0" else f"{verb} by about {feature.with_unit(first)}"
        if tail:
            return f"{verb} by more than {feature.with_unit(first)}"
        if first == "0" and verb != "changing":
            return f"{verb} by up to {feature.with_unit(last)}"
        return f"{verb} by {first} to {feature.with_unit(last)}"

    def _written(self, low: float, high: float, number: int) -> tuple[str, str]:
        """Write both ends, alike if the range is a point."""
        if high - low < self.grain[number]:
            exponent = math.floor(math.log10(self.grain[number]))
            return (written((low + high) / 2, exponent),) * 2
        # Rounding moves an end by a tenth of the spread at most.
        exponent = math.floor(math.log10((high - low) / 5))
        return written(low, exponent), written(high, exponent)


def _step_words(
    places: Mixture, steps: Mixture, features: Sequence[Feature], flags: NDArray[np.bool_]
) -> dict[int, tuple[int, str]]:
    """Find the step that distinguishes a region from others in the same place: feature, words."""
    ranges = _Ranges.of(steps)
    moved = steps.center + steps.scale * steps.means
    usable = ~flags | (np.abs(moved) > 0.5)
    result = {}
    for k in range(places.n_components):
        others = np.arange(places.n_components)
        for first in range(0, len(features), _AT_ONCE):  # few are left after the first ones
            some = slice(first, first + _AT_ONCE)
            others = others[(_separation(places, k, others, some) < _NEAR).all(axis=1)]
        apart = _separation(steps, k, others) * usable[k]
        if not (apart >= _APART).any():
            continue
        number = int(apart.sum(axis=0).argmax())
        feature = features[number]
        if flags[number]:
            gone = feature.absent or f"no longer {feature.name}"
            words = f"then {feature.name if moved[k, number] > 0.0 else gone}"
        else:
            against = moved[others, number][apart[:, number] >= _APART] * moved[k, number] < 0.0
            words = ranges.step_words(k, number, feature.step, brief=bool(against.all()))
        result[k] = number, words
    return result


def _separation(
    mixture: Mixture, k: int, others: NDArray[np.intp], features: slice = slice(None)
) -> Array:
    """Bhattacharyya distances of features of a component from those of others, (n, D)."""
    own, variances = mixture.variances[k, features], mixture.variances[others, features]
    total = own + variances
    squares = (mixture.means[k, features] - mixture.means[others, features]) ** 2
    return np.asarray(0.25 * squares / total + 0.5 * np.log(0.5 * total / np.sqrt(own * variances)))


def written(value: float, exponent: int) -> str:
    """Write a number rounded to a power of ten, with a true minus sign."""
    rounded = round(value, -exponent)
    if rounded == 0:
        return "0"
    plain = exponent >= -5 and abs(rounded) < 1e6
    text = f"{rounded:.{max(0, -exponent)}f}" if plain else f"{rounded:.3g}"
    return text.replace("-", "−")


def _divergence(means: Array, variances: Array, mean: Array, variance: Array) -> Array:
    """Kullback-Leibler divergence of normal distributions from one, in nats."""
    ratio = variances / variance
    return np.asarray(0.5 * (ratio + (means - mean) ** 2 / variance - 1.0 - np.log(ratio)))


def _flag_divergence(shares: Array, share: Array) -> Array:
    """Kullback-Leibler divergence of flags, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        present = xlogy(shares, shares / share)
        absent = xlogy(1.0 - shares, (1.0 - shares) / (1.0 - share))
    return np.asarray(present + absent)


def _quantiles(mixture: Mixture, share: float) -> Array:
    """Quantiles of each feature over the whole mixture, by bisection, standardised."""
    deviations = np.sqrt(mixture.variances)
    low = (mixture.means - 8.0 * deviations).min(axis=0)
    high = (mixture.means + 8.0 * deviations).max(axis=0)
    for _ in range(50):
        middle = 0.5 * (low + high)
        below = mixture.weights @ ndtr((middle - mixture.means) / deviations) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))
