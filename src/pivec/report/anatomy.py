"""What the page needs to tell what differs: words of regions, and how distances come apart there.

`web/parts.js` has the same formulas as `_anatomy` of the characterizations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.background import BackgroundModel
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.gaussian import Gaussian
from pivec.characterizations.space import Space
from pivec.characterizations.supervector import Supervector
from pivec.characterizations.visitation import Visitation
from pivec.explanations.regions.names import Feature, features_of
from pivec.explanations.regions.words import region_words
from pivec.mixtures.adapt import policy_relevance
from pivec.report.packed import numbers, text
from pivec.terminal import printable

Array = NDArray[np.float64]
MOST_VALUES = 3_000_000  # of features or of shares of time
_ROWS = 4096  # policies taken apart at a time


def features_blob(space: Space | None) -> list[dict[str, Any]]:
    """Means of the features over all of each policy's time; none where they are not known."""
    means = None if space is None else feature_means(space)
    if space is None or means is None or means.size > MOST_VALUES:
        return []
    return [
        {**_named(feature), "values": numbers(column, "f4")}
        for feature, column in zip(_features(space), means.T, strict=True)
    ]


def feature_means(space: Space) -> Array | None:
    """Means of the features of the states, (n, D), as `Faces.averages`; None if not known."""
    method, described = space.method, space.descriptions
    if isinstance(method, Gaussian) and method.covariance == "diagonal":
        return described.values("means")[0]
    if not isinstance(method, BackgroundModel) or not _has_parts(space):
        return None
    blocks = range(0, len(described), _ROWS)
    return np.concatenate(
        [
            method._faces(*method._parts(_sums(method, described.select(rows)))).averages
            for rows in (range(i, min(i + _ROWS, len(described))) for i in blocks)
        ]
    )


def regions_blob(space: Space | None) -> dict[str, Any] | None:
    """What sets regions apart, in words, and what taking a distance apart needs."""
    if space is None:
        return None
    method, described = space.method, space.descriptions
    features = _features(space)
    blob: dict[str, Any] = {"features": [_named(feature) for feature in features]}
    if isinstance(method, Gaussian) and method.covariance == "diagonal":
        means, variances = described.values("means", "variances")
        if means.size > MOST_VALUES:
            return None
        packed = {"means": numbers(means.T, "f4"), "variances": numbers(variances.T, "f4")}
        return blob | packed | {"kind": "gaussian", "words": text(["all states"])}
    if not isinstance(method, BackgroundModel) or not _has_parts(space):
        return None
    deviations = np.sqrt(method.variances_)
    blob |= {
        "kind": method.name,
        "words": text(region_words(method, features)),
        "fits": method._n_fits,
        "weights": numbers(method.weights_, "f4"),
        "middles": numbers(method.center_ + method.scale_ * method.means_, "f4"),
        "widths": numbers(method.scale_ * deviations, "f4"),
    }
    if isinstance(method, Supervector):
        return blob | _adapted(method, described)
    return blob | {"prior": method.prior} if isinstance(method, Visitation) else None


def _adapted(method: Supervector, described: Descriptions) -> dict[str, Any]:
    """What supervectors need beside their points: how often policies are in each region."""
    counts = described.values("counts")[0]
    total = counts.sum(axis=1, keepdims=True)
    relevance = policy_relevance(counts, method.relevance, method.common_total)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0.0)
    against = np.divide(relevance, total, out=np.zeros_like(total), where=total > 0.0)
    blob = {
        "relevance": numbers(against, "f4"),  # in shares of the policy's states
        "scale": numbers(np.sqrt(2.0 / method.weights_), "f4"),
    }
    if shares.size <= MOST_VALUES:
        blob["shares"] = numbers(np.rint(65535.0 * np.sqrt(shares)).T, "u2")
    return blob


def _has_parts(space: Space) -> bool:
    """Whether points tell what differs."""
    method, described = space.method, space.descriptions
    known = isinstance(method, Visitation) or (
        isinstance(method, Supervector) and method.adapt == "m" and "counts" in described.arrays
    )
    return known and described.points is not None


def _sums(method: BackgroundModel, described: Descriptions) -> Array:
    """Counts and centred sums of policies, from their points."""
    points = described.values("points")[0]
    if not isinstance(method, Supervector):
        return method._sums_at(points)
    counts = described.values("counts")[0]
    relevance = policy_relevance(counts, method.relevance, method.common_total)
    # Points are √(w/2) f / (n + ρ) with the sums f and counts n.
    scale = np.sqrt(2.0 / method.weights_) * (counts + relevance)
    centred = points.reshape(len(points), *method.means_.shape) * scale[:, :, None]
    return np.concatenate([counts, centred.reshape(len(points), -1)], axis=1)


def _features(space: Space) -> tuple[Feature, ...]:
    return features_of(space.collected, space.method.feature_names_)


def _named(feature: Feature) -> dict[str, Any]:
    named = {"name": printable(feature.name), "unit": printable(feature.unit)}
    return named | ({"flag": True} if feature.is_flag else {})  # a mean is a share of time
