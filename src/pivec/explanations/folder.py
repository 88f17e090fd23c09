"""What a comparison left in its folder: the space, the states, and the environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivec.characterizations import BackgroundModel, Space
from pivec.errors import UsageError
from pivec.explanations.names import Feature, features_of, region_names
from pivec.options import CollectOptions
from pivec.policies import PolicyInfo, find_policy
from pivec.rollouts import Environment, environment_of
from pivec.states import Store, VisitedStates


@dataclass(frozen=True)
class ComparisonFolder:
    """A space, and the states of its policies where they are kept beside it.

    ``data`` has the policies of the space in its order, but for those of an earlier space, whose
    states are elsewhere; None if there are no states at all.
    """

    folder: Path
    space: Space
    data: VisitedStates | None

    @classmethod
    def open(cls, where: Any) -> ComparisonFolder:
        """Open a folder of `pivec.compare` (or what it returned, or a space within it)."""
        if isinstance(where, ComparisonFolder):
            return where
        folder = Path(getattr(where, "folder", where))
        space, folder = Space.load(folder), comparison_folder(folder)
        return cls(folder, space, stored_states(folder, space.descriptions.labels))

    @property
    def policies(self) -> Sequence[PolicyInfo]:
        """All policies of the space."""
        return self.space.descriptions.policies

    @property
    def features(self) -> tuple[Feature, ...]:
        """Names and units of the features of a state."""
        return features_of(self.space.collected, self.space.method.feature_names_)

    def find(self, name: str) -> PolicyInfo:
        """Find a policy by its name, or by the end of it."""
        return self.policies[find_policy(self.policies, name, str(self.folder))]

    @property
    def states(self) -> VisitedStates:
        """The states, which must be there."""
        if self.data is None:
            raise UsageError(
                f"{self.folder} holds no states: expected a folder of `pivec compare` with states/ "
                "in it"
            )
        return self.data

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

    def environment(self, env: Any = None, options: CollectOptions | None = None) -> Environment:
        """Make known the environment that the states were collected in.

        A folder is trusted as little as a policy's file: what would import a module needs
        ``options.trust``, or ``env``.
        """
        telling = PolicyInfo("", source=str(self.folder), metadata=dict(self.space.collected))
        return environment_of(env, [telling], options)


def comparison_folder(space: Path) -> Path:
    """Give the folder of a comparison, also for the space within it."""
    within = space.name == "space" and not (space / "space").exists()
    return space.parent if within else space


def stored_states(folder: Path, labels: Sequence[str]) -> VisitedStates | None:
    """Load the states of those policies that a comparison kept; None if of none."""
    if not Store.exists(folder / "states"):
        return None
    kept = Store(folder / "states")
    there = [label for label in labels if label in kept]
    return kept.load(there) if there else None


# -----------------------------------------------------------------------------
# The words for the regions and features of what a comparison left.


@dataclass(frozen=True)
class Worded:
    """Words of all regions, and names and units of the features."""

    regions: tuple[str, ...]
    features: tuple[Feature, ...]

    @classmethod
    def of(cls, findings: ComparisonFolder) -> Worded:
        """Find them in the space and in how its states were collected."""
        method = findings.background
        features = findings.features
        return cls(region_names(method, features), features)
