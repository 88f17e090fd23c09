"""The contract of all characterizations: fit, describe, distances, in scikit-learn's manners."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from pivec.arguments import Count, Range, Seed, check_arguments, checked
from pivec.characterizations import resampling
from pivec.characterizations.decomposition import Anatomy, Explanation, explain
from pivec.characterizations.descriptions import Description, Descriptions, part_of, summarise
from pivec.characterizations.resampling import described_spread, warn_of_spread
from pivec.errors import BadData, UsageError
from pivec.policies import canonical_order
from pivec.states import VisitedStates, check_states
from pivec.statistics import (
    Intervals,
    PermutationTest,
    Spread,
    arranged,
    intervals_of,
    paired_squares,
    paired_variances,
    squared_euclidean,
)

if TYPE_CHECKING:
    pass


class Characterization(BaseEstimator):
    """A way to describe policies by the states they visit.

    The constructor stores its arguments as they are; `fit` learns attributes that end in ``_``;
    the same ``random_state`` gives the same numbers, in whatever order the policies come: each
    characterization sees them in the canonical one.
    """

    name: ClassVar[str]
    explanation: ClassVar[str]  # how to read its distances, for the report
    formula: ClassVar[str]
    learned: ClassVar[tuple[str, ...]] = ()  # what `fit` learns, without the ``_``
    exact: ClassVar[bool] = False  # whether episodes play no part, so that there is no noise
    no_intervals: ClassVar[str] = ""  # why there are none, where there are none
    no_test: ClassVar[str] = ""  # the same of `test`
    largest: ClassVar[float | None] = None  # of policies with nothing in common, if it is known
    by_state: ClassVar[bool] = True  # whether a long episode counts more than a short one
    zero_diagonal: bool = True  # whether a policy has distance 0 to itself, whatever the formula
    feature_names_: tuple[str, ...]

    @property
    def needs(self) -> frozenset[str]:
        """What the data must hold beside states: any of "actions", "policies" and "returns"."""
        return frozenset()

    def fit(self, data: VisitedStates) -> Self:
        """Learn what all descriptions share; return self."""
        check_arguments(self)
        self._check_has(data)
        self.feature_names_ = data.feature_names
        self._fit(data.select(canonical_order(data.policies)))
        return self

    @property
    def squared(self) -> bool:
        """Whether the distance is, or is like, a squared one."""
        return True

    @property
    def has_statistics(self) -> bool:
        """Whether a description is a function of sums over episodes."""
        return type(self)._statistics is not Characterization._statistics

    @property
    def has_influences(self) -> bool:
        """Whether it can say how each episode moves what the distance is measured between."""
        return type(self)._rows_of is not Characterization._rows_of

    def describe(self, data: VisitedStates, *, influences: bool = False) -> Descriptions:
        """Describe each policy of ``data``, seen in `fit` or not: one row a policy.

        With ``influences``, ``arrays["influences"]`` has a row an episode: how it moves the
        policy's points, so that `intervals` needs the states no more.
        """
        self._check_fitted()
        if influences and not self.has_influences:
            raise UsageError(
                f"{self.name} cannot say how each episode moves a description: leave influences "
                "out, intervals(data) leaves episodes out instead"
            )
        self._check_fits(data)
        order = canonical_order(data.policies)
        return self._described(data.select(order), influences).select(np.argsort(order))

    def _described(self, data: VisitedStates, influences: bool = False) -> Descriptions:
        """Describe policies that are checked and in order."""
        if influences:
            description = resampling.describe_with_influences(self, data)
        else:
            description = self._describe(data)
        return Descriptions(self.name, data.policies, *description, *summarise(data))

    def distances(
        self, a: VisitedStates | Descriptions, b: VisitedStates | Descriptions | None = None
    ) -> Array:
        """Distances of all policies of ``a`` to each other, symmetric, or to those of ``b``."""
        self._check_fitted()
        rows, left = self._ordered(a)
        if b is not None:
            columns, right = self._ordered(b)
            return arranged(self._distances(left, right), rows, columns)
        matrix = self._distances(left, left)
        if self.zero_diagonal:
            np.fill_diagonal(matrix, 0.0)
        return arranged(matrix, rows, rows)

    @checked
    def intervals(
        self,
        a: VisitedStates | Descriptions,
        b: VisitedStates | Descriptions | None = None,
        level: Annotated[float, Range(0.0, most=1.0)] = 0.95,
    ) -> Intervals:
        """Distances with the noise of sampling taken off, and how sure they are.

        Of all policies of ``a`` to each other, or to those of ``b``: states, or descriptions
        with influences. Where a characterization has no influences, episodes are left out
        one by one (the jackknife), which needs the states. The space is taken as given.

        Examples
        --------
        >>> from pivec.states import VisitedStates
        >>> from pivec.characterizations.registry import characterization
        >>> rng = np.random.default_rng(0)
        >>> walks = [[rng.normal(p, 1, (20, 2)) for _ in range(10)] for p in (0, 0, 1)]
        >>> data = VisitedStates.from_arrays(walks)
        >>> sure = characterization("visitation", n_components=4).fit(data).intervals(data)
        >>> bool(sure.low[0, 1] == 0 < sure.low[0, 2] < sure.distance[0, 2] < sure.high[0, 2])
        True
        """
        self._check_fitted()
        sides = [self._sampled(side) for side in ([a] if b is None else [a, b])]
        orders = [canonical_order(side.policies) for side in sides]
        ordered = [side.select(order) for side, order in zip(sides, orders, strict=True)]
        squares, variance, spreads, noise = resampling.measured(self, ordered)
        resampling.warn_of_spread(self, ordered, spreads, squares)
        scatter = self._scatter(ordered)
        both = spreads[0].column, spreads[-1]
        result = intervals_of(squares, variance, *both, level, scatter, noise, squared=self.squared)
        back = np.ix_(*(np.argsort(orders[side]) for side in (0, -1)))
        return result.select(back, own=b is None)

    def pair_intervals(
        self, described: Descriptions, i: Rows, j: Rows, distances: Array, level: float = 0.95
    ) -> Intervals:
        """As `intervals`, of pairs of policies by their numbers, whose distances are known."""
        self._sampled(described)
        return pair_intervals(self, described, i, j, distances, level)

    @checked
    def test(
        self, a: VisitedStates, b: VisitedStates, permutations: Count = 999, seed: Seed = 0
    ) -> PermutationTest:
        """Test whether two policies, one on each side, behave the same, by exchanging episodes.

        If they do, it does not matter whose an episode is. The p-value is exact whatever the
        distribution of episodes, and at least 1 / (permutations + 1).

        Examples
        --------
        >>> from pivec.states import VisitedStates
        >>> from pivec.characterizations.registry import characterization
        >>> rng = np.random.default_rng(0)
        >>> walks = [[rng.normal(p, 1, (20, 2)) for _ in range(10)] for p in (0, 1)]
        >>> data = VisitedStates.from_arrays(walks)
        >>> method = characterization("visitation", n_components=4).fit(data)
        >>> method.test(data[0], data[1]).p_value < 0.01
        True
        """
        return resampling.exchanged(self, a, b, permutations, seed)

    @checked
    def explain(
        self,
        a: VisitedStates | Descriptions,
        b: VisitedStates | Descriptions,
        level: Annotated[float, Range(0.0, most=1.0)] = 0.95,
    ) -> Explanation:
        """Take the distance of two policies, one on each side, apart into what differs.

        Examples
        --------
        >>> from pivec.states import VisitedStates
        >>> from pivec.characterizations.registry import characterization
        >>> rng = np.random.default_rng(0)
        >>> walks = [[rng.normal(p, 1, (20, 2)) for _ in range(10)] for p in (0, 1)]
        >>> data = VisitedStates.from_arrays(walks)
        >>> method = characterization("visitation", n_components=4).fit(data)
        >>> parts = method.explain(data[0], data[1])
        >>> bool(np.isclose(parts.regions.measured.sum(), parts.distance))
        True
        """
        self._check_fitted()
        return explain(self, a, b, level)

    def fitted_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that `fit` learned, as plain arrays."""
        self._check_fitted()
        arrays: dict[str, NDArray[Any]] = {}
        for name in self.learned:
            value = getattr(self, f"{name}_")
            if isinstance(value, Mapping):
                arrays |= {f"{name}.{part}": array for part, array in value.items()}
            else:
                arrays[name] = np.asarray(value)
        return arrays

    def restore(self, feature_names: tuple[str, ...], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take back what `fitted_arrays` gave; return self."""
        self.feature_names_ = feature_names
        for name in self.learned:
            value: Any = arrays[name] if name in arrays else part_of(arrays, f"{name}.")
            if isinstance(value, np.ndarray) and not value.ndim:
                value = value.item()
            elif not len(value):
                raise KeyError(name)
            setattr(self, f"{name}_", value)
        return self

    def parameters_json(self) -> str:
        """Return the constructor's arguments as JSON, but for the device, which decides nothing."""
        parameters = self.get_params(deep=False)
        parameters.pop("device", None)
        try:
            return json.dumps(parameters)
        except TypeError as error:
            raise UsageError(
                f"cannot save a {self.name} whose arguments are not plain numbers and text "
                f"({error}): give random_state as an int"
            ) from error

    # ---- what each characterization does ----

    def _fit(self, data: VisitedStates) -> None:
        """Learn what is named in ``learned``; by default nothing is shared between policies."""

    @abstractmethod
    def _describe(self, data: VisitedStates) -> Description:
        """Vectors, points and arrays of `Descriptions`."""

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        """Squared Euclidean distances of points, where nothing else is meant.

        ``b`` is ``a`` itself where a set is compared with itself; the result is then symmetric.
        """
        return squared_euclidean(*a.values("points"), *b.values("points"))

    def _statistics(self, data: VisitedStates) -> Any:
        """What adds up over episodes, a row an episode, (n_episodes, n_values).

        An array; or, where there are no influences, anything that ``weights @ statistics`` adds up.
        """
        raise NotImplementedError

    def _policy_sums(self, data: VisitedStates) -> Array:
        """Statistics of each policy, to the last digit as `_describe` has them."""
        return resampling.policy_sums(self, data)

    def _from_statistics(self, sums: Any) -> Description:
        """As `_describe`, of policies whose statistics sum up to these rows."""
        raise NotImplementedError

    def _rows_of(self, sums: Array) -> Array:
        """Points of policies with these sums (where not ``squared``: vectors)."""
        raise NotImplementedError

    def _anatomy(self, sums: Any) -> Anatomy:  # noqa: ARG002
        """Policies with these sums taken apart, so that `explain` can tell what differs."""
        raise UsageError(
            f"{self.name} cannot tell what differs: use visitation, supervector, gaussian or "
            "discretization"
        )

    def _sums_at(self, points: Array) -> Array:  # noqa: ARG002
        """Sums of policies with these points, where these tell them."""
        raise UsageError(f"{self.name} tells what differs from states: give these of both policies")

    def _scatter(
        self,
        sides: Sequence[VisitedStates | Descriptions],  # noqa: ARG002
        squares: Callable[[Array, Array], Array] = squared_euclidean,  # noqa: ARG002
    ) -> Array | float:
        """Variance of distances from what was fitted, where it was fitted several times."""
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
        if "actions" in self.needs and not data.has_actions:
            raise UsageError(
                f"{self.name} needs the actions that the policies took, but only their states were "
                "kept: collect with --actions (from Python actions=True)"
            )
        if "returns" in self.needs and np.isnan(data.returns).any():
            unknown = data.labels[int(np.isnan(data.mean_returns).argmax())]
            raise UsageError(
                f"{self.name} needs the return of every episode, but those of {unknown!r} are not "
                "known: collect the states with pivec, or give returns= to from_arrays"
            )
        if "policies" in self.needs:
            try:
                data.policy(0)
            except UsageError as error:
                raise UsageError(f"{self.name} looks at the policies themselves: {error}") from None

    def _sampled(self, side: VisitedStates | Descriptions) -> VisitedStates | Descriptions:
        """Give what intervals are made of: descriptions with influences, or states to draw from."""
        if isinstance(side, VisitedStates):
            self._check_fits(side)
            return self.describe(side, influences=True) if self.has_influences else side
        self._check_described(side)
        if "influences" not in side.arrays and not (self.exact or self.no_intervals):
            raise UsageError(
                "these descriptions do not say how sure they are: give the states, or describe "
                "them with influences=True"
            )
        return side

    def _ordered(self, what: VisitedStates | Descriptions) -> tuple[Rows, Descriptions]:
        """Descriptions in the canonical order, and where each policy is among them."""
        described = self.describe(what) if isinstance(what, VisitedStates) else what
        self._check_described(described)
        order = canonical_order(described.policies)
        return np.argsort(order), described.without_influences().select(order)

    def _check_described(self, described: Descriptions) -> None:
        check_states(described, Descriptions)
        if (name := described.method) != self.name:
            raise UsageError(f"these are descriptions by {name}, which {self.name} cannot compare")


# -----------------------------------------------------------------------------
# How sure the distances of listed pairs are, where all pairs are too many to look at.


Array = NDArray[np.float64]
Rows = NDArray[np.intp]


def pair_intervals(
    method: Characterization,
    described: Descriptions,
    i: Rows,
    j: Rows,
    distances: Array,
    level: float,
) -> Intervals:
    """As `Characterization.intervals`, a value a pair; the spread of each policy is found once."""
    variance, spread = _measured(method, described, i, j)
    squares = distances if method.squared else distances**2
    warn_of_spread(method, [described], [spread], squares, (i, j))
    scatter = method._scatter([described], lambda a, b: paired_squares(a, b, i, j))
    both = spread.take(i), spread.take(j)
    return intervals_of(squares, variance, *both, level, scatter, squared=method.squared)


def _measured(
    method: Characterization, described: Descriptions, i: Rows, j: Rows
) -> tuple[Array, Spread]:
    """Variances of the distances of pairs, and the spread of all policies."""
    if method.exact or method.no_intervals:
        value = 0.0 if method.exact else np.nan
        flat = np.full(len(described), value)
        return np.full(len(i), value), Spread(flat, flat, flat, np.ones_like(flat))
    [rows] = described.values("points" if method.squared else "vectors")
    influences, starts = described.values("influences", "influences.starts")
    forth = paired_variances(influences, starts, rows, i, j)
    back = paired_variances(influences, starts, rows, j, i)
    return 4.0 * (forth + back), described_spread(described, rows)
