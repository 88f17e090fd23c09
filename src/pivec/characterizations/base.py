"""The contract of all characterizations: fit, describe, distances, as in scikit-learn."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from pivec.arguments import Count, Range, Seed, check_arguments, checked
from pivec.characterizations import sampling
from pivec.characterizations.decomposition import Decomposable, Decomposition, decomposed
from pivec.characterizations.descriptions import Description, Descriptions, summarise
from pivec.errors import BadData, UsageError, did_you_mean
from pivec.policies import canonical_order
from pivec.states import VisitedStates, check_states
from pivec.statistics import (
    MARGIN,
    Intervals,
    PermutationTest,
    arranged,
    intervals_of,
    paired_squares,
    squared_euclidean,
)

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Side = VisitedStates | Descriptions
Level = Annotated[float, Range(0.0, most=1.0)]

# name -> "module:class", imported when it is first used
_REGISTRY = {
    "visitation": "background:Visitation",
    "supervector": "background:Supervector",
    "gaussian": "distributions:Gaussian",
    "discretization": "discretization:Discretization",
    "mmd": "distributions:MMD",
    "sliced-wasserstein": "distributions:SlicedWasserstein",
    "transitions": "discretization:Transitions",
    "trajectories": "episodes:Trajectories",
    "terminal-state": "episodes:TerminalState",
    "returns": "episodes:Returns",
    "actions": "policies:Actions",
    "parameters": "policies:Parameters",
    "discriminator": "networks:Discriminator",
    "encoder": "networks:PolicyEncoder",
    "skill-discriminator": "networks:SkillDiscriminator",
    "trajectory-encoder": "networks:TrajectoryEncoder",
    "state-actions": "networks:StateActions",
}


def names() -> tuple[str, ...]:
    """Names of all characterizations."""
    return tuple(_REGISTRY)


def characterization(name: str, **parameters: Any) -> Characterization:
    """Create a characterization by name.

    Examples
    --------
    >>> characterization("supervector", n_components=4, random_state=0)
    Supervector(n_components=4)
    """
    if name not in _REGISTRY:
        hint = did_you_mean(name, _REGISTRY)
        raise UsageError(
            f"there is no characterization {name!r}{hint}; choose one of {', '.join(_REGISTRY)}"
        )
    module, _, attribute = _REGISTRY[name].partition(":")
    cls = getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
    known = cls._get_param_names()
    for given in parameters:
        if given not in known:
            hint, takes = did_you_mean(given, known), ", ".join(known) or "none"
            raise UsageError(f"{name} has no argument {given!r}{hint}; it takes {takes}")
    made: Characterization = cls(**parameters)
    check_arguments(made)
    return made


@dataclass(frozen=True)
class Traits:
    """Facts about a characterization that the rest of the library depends on."""

    explanation: str = ""  # how to read the distances, shown in the report
    formula: str = ""
    squared: bool = True  # whether the distance is, or behaves like, a squared one
    max_distance: float | None = None  # between policies with nothing in common, if bounded
    by_state: bool = True  # whether a long episode counts more than a short one
    additive: bool = False  # whether descriptions are functions of sums over episodes
    influences: bool = False  # whether `describe` can return how each episode moves its policy
    halved: bool = False  # whether noise is estimated from halves of the episodes
    corrected: bool = False  # whether upper ends of intervals allow for the bias of points
    exact: bool = False  # whether episodes play no role, so that there is no sampling noise
    needs: frozenset[str] = frozenset()  # any of "actions", "policies" and "returns"
    no_intervals: str = ""  # the reason, if there are no intervals
    no_test: str = ""  # the reason, if there is no test
    zero_diagonal: bool = True  # whether a policy has distance 0 to itself, whatever the formula
    slow: bool = False  # whether it trains networks

    @property
    def coordinates(self) -> str:
        """What influences refer to: "points", or "vectors" if the distance is not squared."""
        return "points" if self.squared else "vectors"

    @property
    def margin(self) -> float | None:
        """Distance at which behaviour counts as different; None if distances have no scale."""
        if self.max_distance is None:
            return None
        return self.max_distance * (MARGIN if self.squared else math.sqrt(MARGIN))


class Characterization(BaseEstimator):
    """A way to describe policies by the states they visit.

    The constructor stores its arguments unchanged; `fit` learns attributes that end in ``_``; the
    same ``random_state`` gives the same numbers, whatever the order of the policies: they are
    always processed in canonical order.

    A subclass implements ``_fit``; ``_statistics``, what adds up over episodes, and
    ``_from_statistics``, from sums to a description (or ``_describe``, if no sums suffice); and
    ``_distances``. All else is derived from these.
    """

    name: ClassVar[str]
    # Types and shapes of what it learns and of the arrays of its descriptions, see `space.py`.
    layout: ClassVar[dict[str, str]] = {}
    feature_names_: tuple[str, ...]

    @property
    def traits(self) -> Traits:
        """Facts about this characterization, some of which depend on its arguments."""
        return Traits()

    @property
    def described_features(self) -> Sequence[int]:
        """Numbers of the features of a state that are described: all by default."""
        return range(len(self.feature_names_))

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the features that descriptions consist of: those of the states by default."""
        return tuple(self.feature_names_[j] for j in self.described_features)

    def view(self, data: VisitedStates) -> VisitedStates:
        """Return the rows that are described, with the same policies and episodes."""
        return data

    def fit(self, data: VisitedStates) -> Self:
        """Learn what all descriptions share; return self."""
        check_arguments(self)
        self._check_has(data)
        self.feature_names_ = data.feature_names
        self._fit(data.select(canonical_order(data.policies)))
        return self

    def describe(self, data: VisitedStates, *, influences: bool = False) -> Descriptions:
        """Describe each policy of ``data``, whether it was part of `fit` or not.

        With ``influences``, ``arrays["influences"]`` has one row per episode: how it moves the
        policy's points. `intervals` then no longer needs the states.
        """
        self._check_fitted()
        if influences and not self.traits.influences:
            raise UsageError(
                f"{self.name} has no influences of single episodes: omit influences=True, "
                "intervals(data) uses the states instead"
            )
        self._check_fits(data)
        return self._described(data, influences)

    def describe_episodes(self, data: VisitedStates) -> Array:
        """Describe single episodes as if each were all that is known of a policy: their points.

        (n_episodes, n_values), in the order of ``data``.
        """
        self._check_fitted()
        if not self.traits.influences:
            raise UsageError(f"{self.name} does not describe single episodes: use visitation")
        self._check_fits(data)
        return self._coordinates(self._statistics(data))

    def _described(self, data: VisitedStates, influences: bool = False) -> Descriptions:
        """Describe policies that are checked."""
        order = canonical_order(data.policies)
        ordered = data.select(order)
        packed: dict[str, NDArray[Any]] = {}
        if influences:
            description, packed = sampling.describe_with_influences(self, ordered, order)
        else:
            description = self._describe(ordered)
        described = Descriptions(self.name, ordered.policies, *description, *summarise(ordered))
        described = described.select(np.argsort(order))
        return replace(described, arrays={**described.arrays, **packed})

    def distances(self, a: Side, b: Side | None = None) -> Array:
        """Distances between all policies of ``a``, symmetric, or from those of ``a`` to ``b``."""
        self._check_fitted()
        rows, left = self._ordered(a)
        if b is not None:
            columns, right = self._ordered(b)
            return arranged(self._distances(left, right), rows, columns)
        matrix = self._distances(left, left)
        if self.traits.zero_diagonal:
            np.fill_diagonal(matrix, 0.0)
        return arranged(matrix, rows, rows)

    @checked
    def intervals(self, a: Side, b: Side | None = None, level: Level = 0.95) -> Intervals:
        """Distances with sampling noise removed, and confidence intervals.

        Between all policies of ``a``, or from those of ``a`` to those of ``b``: states, or
        descriptions with influences. A characterization without influences leaves out episodes one
        by one (the jackknife), which requires the states. The fitted space is taken as given.

        Examples
        --------
        >>> from pivec import VisitedStates, Visitation
        >>> rng = np.random.default_rng(0)
        >>> walks = [[rng.normal(p, 1, (20, 2)) for _ in range(10)] for p in (0, 0, 1)]
        >>> data = VisitedStates.from_arrays(walks)
        >>> sure = Visitation(n_components=4).fit(data).intervals(data)
        >>> bool(sure.low[0, 1] == 0 < sure.low[0, 2] < sure.distance[0, 2] < sure.high[0, 2])
        True
        """
        self._check_fitted()
        sides = [self._sampled(side) for side in ([a] if b is None else [a, b])]
        orders, ordered, moved = zip(*map(sampling.in_order, sides), strict=True)
        squares, variance, spreads, noise = sampling.measured(self, ordered, moved)
        sampling.warn_of_spread(self, ordered, spreads, squares)
        scatter = self._scatter(ordered, squared_euclidean)
        both = spreads[0].column, spreads[-1]
        if pairs := sampling.paired(self, ordered, moved):
            variance, both = pairs
        squared = self.traits.squared
        points = sampling.corrected_points(ordered)
        upper = squared_euclidean(points[0], points[-1]) if points else None
        result = intervals_of(
            squares, variance, *both, level, scatter, noise, upper, squared=squared
        )
        back = np.ix_(*(np.argsort(orders[side]) for side in (0, -1)))
        return self._bounded(result.select(back, own=b is None))

    def pair_intervals(
        self, described: Descriptions, i: Rows, j: Rows, distances: Array, level: float = 0.95
    ) -> Intervals:
        """Like `intervals`, for the pairs of policies i[k], j[k], whose distances are known."""
        self._sampled(described)
        squares, variance, spread = sampling.measured_pairs(self, described, i, j, distances)
        sampling.warn_of_spread(self, [described], [spread], squares, (i, j))
        scatter = self._scatter([described], lambda a, b: paired_squares(a, b, i, j))
        both = spread.take(i), spread.take(j)
        upper = None
        if points := sampling.corrected_points([described]):
            upper = paired_squares(points[0], points[0], i, j)
        return self._bounded(
            intervals_of(
                squares, variance, *both, level, scatter, upper=upper, squared=self.traits.squared
            )
        )

    def _bounded(self, found: Intervals) -> Intervals:
        """Limit intervals to the largest distance there is, which those of few episodes exceed."""
        most = self.traits.max_distance
        return found if most is None else replace(found, high=np.minimum(found.high, most))

    @checked
    def test(
        self,
        a: VisitedStates,
        b: VisitedStates,
        permutations: Count = 999,
        seed: Seed = 0,
        strata: NDArray[Any] | None = None,
    ) -> PermutationTest:
        """Test whether the policy of ``a`` and that of ``b`` behave the same.

        Under that hypothesis episodes are exchangeable. The p-value is exact for any distribution
        of episodes, and at least 1 / (permutations + 1). With ``strata``, those of the episodes of
        either policy (see `pivec.states.paired`), only episodes of the same stratum are exchanged.

        Examples
        --------
        >>> from pivec import VisitedStates, Visitation
        >>> rng = np.random.default_rng(0)
        >>> walks = [[rng.normal(p, 1, (20, 2)) for _ in range(10)] for p in (0, 1)]
        >>> data = VisitedStates.from_arrays(walks)
        >>> Visitation(n_components=4).fit(data).test(data[0], data[1]).p_value < 0.01
        True
        """
        return sampling.permutation_test(self, a, b, permutations, seed, strata)

    @checked
    def decompose(
        self, a: Side, b: Side, level: Level = 0.95, n_groups: Count | None = None
    ) -> Decomposition:
        """Decompose the distance between the policy of ``a`` and that of ``b`` into parts.

        With ``n_groups``, ``merged`` has the same parts by groups of similar regions.

        Examples
        --------
        >>> from pivec import VisitedStates, Visitation
        >>> rng = np.random.default_rng(0)
        >>> walks = [[rng.normal(p, 1, (20, 2)) for _ in range(10)] for p in (0, 1)]
        >>> data = VisitedStates.from_arrays(walks)
        >>> parts = Visitation(n_components=4).fit(data).decompose(data[0], data[1])
        >>> bool(np.isclose(parts.regions.measured.sum(), parts.distance))
        True
        """
        self._check_fitted()
        if not self.part_columns:
            raise UsageError(
                f"{self} does not decompose distances: use visitation, gaussian "
                "(covariance='diagonal'), supervector (adapt='m') or discretization"
            )
        return decomposed(self, a, b, level, n_groups)

    @property
    def part_columns(self) -> tuple[tuple[str, int], ...]:
        """Kind and feature (or -1) of each part of a region; empty if distances have no parts."""
        return ()

    def leave_one_out(self, data: VisitedStates) -> Descriptions:
        """Describe one policy without each of its episodes (or groups of them, if many)."""
        self._check_fits(data)
        statistics = self._statistics(data) if self.traits.additive else None
        return sampling.leave_out(self, data, statistics)

    def feature_means(self, described: Descriptions) -> Array | None:
        """Mean of each feature over a policy's time, (n, n_features); None if not known."""
        return described.arrays.get("feature_means")

    def fitted_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that `fit` learned as plain arrays."""
        self._check_fitted()
        arrays: dict[str, NDArray[Any]] = {}
        for attribute, value in vars(self).items():
            name = attribute.removesuffix("_")
            if name in (attribute, "feature_names"):
                continue
            if isinstance(value, Mapping):
                arrays |= {f"{name}.{part}": array for part, array in value.items()}
            else:
                arrays[name] = np.asarray(value)
        return arrays

    def restore(self, feature_names: tuple[str, ...], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Set what `fitted_arrays` returned; return self."""
        self.feature_names_ = feature_names
        for name, array in arrays.items():
            attribute, _, part = name.partition(".")
            if part:
                self.__dict__.setdefault(f"{attribute}_", {})[part] = array
            else:
                setattr(self, f"{name}_", array if array.ndim else array.item())
        return self

    def array_sizes(self) -> dict[str, int]:
        """Return the sizes that letters of ``layout`` stand for, as far as they are known."""
        return {"F": len(self.feature_names_)}

    def check_descriptions(self, described: Descriptions) -> None:
        """Raise a ValueError if restored arrays cannot be descriptions, whatever their shapes."""

    def parameters_json(self) -> str:
        """Return the constructor's arguments as JSON, except the device."""
        parameters = self.get_params(deep=False)
        parameters.pop("device", None)
        try:
            return json.dumps(parameters)
        except TypeError as error:
            raise UsageError(
                f"cannot save a {self.name} whose arguments are not plain numbers and text "
                f"({error}): give random_state as an int"
            ) from error

    # ---- implemented by each characterization, as far as its traits require ----

    def _fit(self, data: VisitedStates) -> None:
        """Learn what all policies share; nothing by default."""

    # One row of statistics per episode: an array, or, without influences, anything that
    # ``weights @ statistics`` sums.
    _statistics: Callable[[VisitedStates], Any]
    # From sums of statistics to vectors, points and arrays of `Descriptions`.
    _from_statistics: Callable[[Any], Description]
    # From sums of statistics to policies whose distances decompose.
    _decomposable: Callable[[Any], Decomposable]

    def _describe(self, data: VisitedStates) -> Description:
        """Vectors, points and arrays of `Descriptions`."""
        return self._from_statistics(self._policy_sums(data))

    def _policy_sums(self, data: VisitedStates) -> Array:
        """Statistics of each policy, summed over its episodes."""
        return sampling.policy_sums(self, data)

    def _coordinates(self, sums: Array) -> Array:
        """Points (vectors, if it has no points) of policies with these sums."""
        vectors, points, _ = self._from_statistics(sums)
        return np.asarray(vectors if points is None else points)

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        """Distances from ``a`` to ``b``; symmetric if ``b`` is ``a`` itself."""
        return squared_euclidean(*a.values("points"), *b.values("points"))

    def _sums_at(self, points: Array) -> Array:  # noqa: ARG002
        """Sums of policies with these points, where points determine them."""
        raise UsageError(f"{self.name} decomposes distances of states: give those of both policies")

    def _scatter(
        self,
        sides: Sequence[Side],  # noqa: ARG002
        squares: Callable[[Array, Array], Array],  # noqa: ARG002
    ) -> Array | float:
        """Variance of the distances between repeated fits, from a function of their points."""
        return 0.0

    # ---- checks ----

    def _check_fitted(self) -> None:
        if not hasattr(self, "feature_names_"):
            raise UsageError(f"this {self.name} is not fitted yet: call fit(data) first")

    def _check_fits(self, data: VisitedStates) -> None:
        self._check_has(data)
        if data.n_features != len(self.feature_names_):
            raise BadData(
                f"this characterization was fitted on states of {len(self.feature_names_)} "
                f"features, but these have {data.n_features}: describe policies of the same "
                "environment, with the same features"
            )

    def _check_has(self, data: VisitedStates) -> None:
        check_states(data)
        needs = self.traits.needs
        if "actions" in needs and not data.has_actions:
            raise UsageError(
                f"{self.name} needs the actions that the policies took, but only their states were "
                "stored: collect with --actions (from Python actions=True)"
            )
        if "returns" in needs and np.isnan(data.returns).any():
            unknown = data.labels[int(np.isnan(data.mean_returns).argmax())]
            raise UsageError(
                f"{self.name} needs the return of every episode, but those of {unknown!r} are not "
                "known: collect the states with pivec, or give returns= to from_arrays"
            )
        if "policies" in needs:
            try:
                data.policy(0)
            except UsageError as error:
                raise UsageError(f"{self.name} needs the policies themselves: {error}") from None

    def _check_described(self, described: Descriptions) -> None:
        check_states(described, Descriptions)
        if (name := described.method) != self.name:
            raise UsageError(f"these are descriptions by {name}, which {self.name} cannot compare")

    def _sampled(self, side: Side) -> Side:
        """What intervals are computed from: descriptions with influences, or states."""
        traits = self.traits
        if isinstance(side, VisitedStates):
            self._check_fits(side)
            return self.describe(side, influences=True) if traits.influences else side
        self._check_described(side)
        if "influences" not in side.arrays and not (traits.exact or traits.no_intervals):
            raise UsageError(
                "these descriptions have no influences, which intervals need: give the states, or "
                "describe them with influences=True"
            )
        return side

    def _ordered(self, what: Side) -> tuple[Rows, Descriptions]:
        """Descriptions in canonical order, and where each policy is among them."""
        described = self.describe(what) if isinstance(what, VisitedStates) else what
        self._check_described(described)
        order = canonical_order(described.policies)
        return np.argsort(order), described.without_influences().select(order)
