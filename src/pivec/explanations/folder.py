"""What a comparison folder holds, as explanations take it: the space and the states."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import BackgroundModel, Space
from pivec.errors import PivecWarning, UsageError
from pivec.explanations.names import Feature, columns_of, region_names
from pivec.mixtures import Mixture
from pivec.policies import PolicyInfo, environment_names, find_policy
from pivec.states import Store, VisitedStates, paired

FOLDER = "explain"  # of explanations, within that of a comparison


@dataclass(frozen=True)
class ComparisonFolder:
    """The space of a comparison, and the states of its policies if they are next to it."""

    folder: Path
    space: Space
    # In the order of the space, without policies of an earlier space, whose states are elsewhere.
    data: VisitedStates | None

    @classmethod
    def open(cls, comparison: Any) -> ComparisonFolder:
        """Open a folder of `pivec.compare`, its result, or a space within such a folder."""
        if isinstance(comparison, ComparisonFolder):
            return comparison
        path = Path(getattr(comparison, "folder", comparison))
        space = getattr(comparison, "space", None) or Space.load(path)
        folder = comparison_folder(path)
        return cls(folder, space, stored_states(folder, space))

    @property
    def policies(self) -> Sequence[PolicyInfo]:
        """All policies of the space."""
        return self.space.descriptions.policies

    @property
    def environment(self) -> str:
        """Names of the environments; empty if they are not known."""
        return environment_names(self.space.collected.get("environment"), self.policies)

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Names and units of the features of a state."""
        return self.columns[: len(self.space.method.described_features)]

    @cached_property
    def columns(self) -> tuple[Feature, ...]:
        """Names and units of what regions consist of: features of a state, maybe their steps."""
        return columns_of(self.space.method, self.space.collected)

    @cached_property
    def region_names(self) -> tuple[str, ...]:
        """Names of the regions; none for a characterization without a background model."""
        if not self.has_regions:
            return ()
        return region_names(self.background.background_, self.features)

    @property
    def has_regions(self) -> bool:
        """Whether the characterization has a background model."""
        return isinstance(self.space.method, BackgroundModel)

    @property
    def background(self) -> BackgroundModel:
        """The characterization, which must have regions."""
        method = self.space.method
        if not isinstance(method, BackgroundModel):
            raise UsageError(
                f"{self.folder} was described by {method.name}, which has no regions: compare with "
                "--method visitation (or supervector)"
            )
        return method

    @property
    def mixture(self) -> Mixture:
        """The background model; of several fits, the first."""
        return self.background.mixtures_[0]

    @property
    def n_fits(self) -> int:
        """Number of background models fitted side by side."""
        return self.background.n_fits

    def regions_along(self, states: NDArray[np.float32]) -> list[int]:
        """Return the region of each state of an episode; the last one makes no move of its own."""
        rows = self.background.view(VisitedStates.from_arrays([[states]])).states
        regions: list[int] = self.mixture.assign(rows)[0].tolist()
        return regions + regions[-1:] * (len(states) - len(regions))

    def fit_notes(self) -> list[str]:
        """Say which regions are shown if there are several fits."""
        n = self.n_fits
        return [f"the regions are those of the first of {n} fits"] if n > 1 else []

    @property
    def states(self) -> VisitedStates:
        """The states, which must be there."""
        if self.data is None:
            raise UsageError(
                f"{self.folder} holds no states: expected a folder of `pivec compare` with states/"
            )
        return self.data

    def has_states(self, labels: Sequence[str]) -> bool:
        """Whether the states of all these policies are there."""
        return self.data is not None and set(labels) <= set(self.data.labels)

    def states_of(self, labels: Sequence[str]) -> VisitedStates:
        """Select the states of policies, which must be there."""
        for label in labels:
            if label not in self.states.labels:
                raise UsageError(
                    f"{self.folder} holds no states of {label!r}, which comes from an earlier "
                    "space: expected the folder that it was compared in"
                )
        return self.states.select(list(dict.fromkeys(labels)))

    def find(self, name: str) -> PolicyInfo:
        """Find a policy by its label, or by the end of it."""
        return self.policies[find_policy(self.policies, name, str(self.folder))]


def comparison_folder(path: Path) -> Path:
    """Return the folder of a comparison, also for the space within it."""
    within = path.name == "space" and not (path / "space").exists()
    return path.parent if within else path


def stored_states(
    folder: Path, space: Space, labels: Sequence[str] | None = None
) -> VisitedStates | None:
    """Load the states stored of some policies of a comparison, or of all; None if there are none.

    If it paired episodes, without those that it left out.
    """
    if not Store.exists(folder / "states"):
        return None
    store = Store(folder / "states")
    pair, every = space.collected.get("pair"), space.descriptions.labels
    there = [label for label in (every if pair or labels is None else labels) if label in store]
    if not there or not pair:
        return store.load(there) if there else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PivecWarning)  # the comparison has warned
        data, _ = paired(store.load(there), pair)
    return data if labels is None else data.select([x for x in labels if x in there])
