"""The contract of all characterizations: fit, describe, distances, in scikit-learn's manners."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from pivec.arguments import check_arguments
from pivec.characterizations.descriptions import Descriptions, summarise
from pivec.errors import BadData, UsageError
from pivec.policies.policy import canonical_order
from pivec.states.visited import VisitedStates


class Characterization(BaseEstimator):
    """A way to describe policies by the states they visit.

    The constructor stores its arguments as they are; `fit` learns attributes that end in ``_``;
    the same ``random_state`` gives the same numbers, in whatever order the policies come: each
    characterization sees them in the canonical one.
    """

    name: ClassVar[str]
    explanation: ClassVar[str]  # how to read its distances, for the report
    formula: ClassVar[str]
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

    def describe(self, data: VisitedStates) -> Descriptions:
        """Describe each policy of ``data``, seen in `fit` or not: one row a policy."""
        self._check_fitted()
        if data.n_features != len(self.feature_names_):
            raise BadData(
                f"this characterization was fitted on states of {len(self.feature_names_)} "
                f"features, but these have {data.n_features}: describe policies of the same "
                "environment, with the same features"
            )
        self._check_has(data)
        order = canonical_order(data.policies)
        data = data.select(order)
        vectors, points, arrays = self._describe(data)
        described = Descriptions(
            self.name, data.policies, vectors, points, arrays, **summarise(data)
        )
        return described.select(np.argsort(order))

    def distances(
        self, a: VisitedStates | Descriptions, b: VisitedStates | Descriptions | None = None
    ) -> NDArray[np.float64]:
        """Distances of all policies of ``a`` to each other, or to those of ``b``.

        Symmetric with a zero diagonal without ``b``.
        """
        self._check_fitted()
        rows, left = self._ordered(a)
        if b is not None:
            columns, right = self._ordered(b)
            return self._distances(left, right)[np.ix_(rows, columns)]
        matrix = self._distances(left, None)
        np.fill_diagonal(matrix, 0.0)
        return matrix[np.ix_(rows, rows)]

    def fitted_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that `fit` learned, as plain arrays."""
        self._check_fitted()
        return self._learned()

    def restore(self, feature_names: tuple[str, ...], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take back what `fitted_arrays` gave; return self."""
        self.feature_names_ = feature_names
        self._restore(arrays)
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

    @abstractmethod
    def _fit(self, data: VisitedStates) -> None: ...

    @abstractmethod
    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        """Vectors, points and arrays of `Descriptions`."""

    @abstractmethod
    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]: ...

    @abstractmethod
    def _learned(self) -> dict[str, NDArray[Any]]: ...

    @abstractmethod
    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None: ...

    # ---- checks ----

    def _check_fitted(self) -> None:
        if not hasattr(self, "feature_names_"):
            raise UsageError(f"this {self.name} is not fitted yet: call fit(data) first")

    def _check_has(self, data: VisitedStates) -> None:
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

    def _ordered(self, what: VisitedStates | Descriptions) -> tuple[NDArray[np.intp], Descriptions]:
        """Descriptions in the canonical order, and where each policy is among them."""
        described = self._described(what)
        order = canonical_order(described.policies)
        return np.argsort(order), described.select(order)

    def _described(self, what: VisitedStates | Descriptions) -> Descriptions:
        if isinstance(what, VisitedStates):
            return self.describe(what)
        if not isinstance(what, Descriptions):
            raise UsageError(
                f"expected VisitedStates or Descriptions, but got {type(what).__name__}"
            )
        if what.method != self.name:
            raise UsageError(
                f"these are descriptions by {what.method}, which a {self.name} cannot compare"
            )
        return what
