"""The words for the regions and features of what a comparison left."""

from __future__ import annotations

from dataclasses import dataclass

from pivec.explanations.folder import Findings
from pivec.explanations.regions.names import Feature
from pivec.explanations.regions.words import region_words


@dataclass(frozen=True)
class Worded:
    """Words of all regions, and names and units of the features."""

    regions: tuple[str, ...]
    features: tuple[Feature, ...]

    @classmethod
    def of(cls, findings: Findings) -> Worded:
        """Find them in the space and in how its states were collected."""
        method = findings.background
        features = findings.features
        return cls(region_words(method, features), features)
