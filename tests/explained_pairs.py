"""A difference made by hand: four regions of two features, of which two differ for sure."""

from __future__ import annotations

import numpy as np

from pivec.characterizations import Decomposition
from pivec.explanations import (
    Clip,
    Feature,
    Frame,
    PairExplanation,
    Rule,
    Rules,
    Span,
    Visit,
    leading_regions,
)
from pivec.statistics import Parts

WORDS = (
    "pole angle 0.08 to 0.15, cart velocity below −0.9",
    "cart position −0.4 to 0.1",
    "pole angle below −0.12",
    "most states",
)


def parts_of(measured, noise, sure=True):
    measured = np.asarray(measured, dtype=float)
    half = 0.25 * np.abs(measured) + 0.002 if sure else np.full(measured.shape, np.nan)
    return Parts(measured, measured - 0.001, measured - half, measured + half, np.asarray(noise))


def explanation_of(
    labels=("ppo/20000", "a2c/5000"), words=WORDS, names=("angle", "velocity"), **changes
):
    """Make an explanation whose parts add up."""
    often = np.array([0.12, 0.02, 0.004, 0.001])
    where = np.array([[0.01, 0.08], [0.03, 0.0], [0.002, 0.001], [0.001, 0.001]])
    finest = np.concatenate([often[:, None], where], axis=1)
    noise = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]], dtype=bool)
    regions = finest.sum(axis=1)
    share = np.array([[0.42, 0.2, 0.1, 0.28], [0.06, 0.45, 0.14, 0.35]])
    shift = np.array([[0.01, -1.2], [0.4, 0.0], [0.02, 0.1], [0.01, np.nan]])
    means = np.stack([np.tile([0.1, -0.5], (4, 1)), np.tile([0.1, -0.5], (4, 1)) + shift])
    low = np.array([[-0.3, -2.0]] * 4)
    values = {
        "method": "visitation", "labels": labels, "level": 0.95,
        "distance": float(regions.sum()), "estimate": 0.25, "low": 0.22, "high": 0.29,
        "p_value": 1e-9,
        "regions": parts_of(regions, noise.all(axis=1)),
        "kinds": {"how often": parts_of(often, noise[:, 0]),
                  "where": parts_of(where.sum(axis=1), noise[:, 1:].all(axis=1))},
        "features": parts_of(where.sum(axis=0), [False, False]),
        "finest": parts_of(finest, noise),
        "columns": (("how often", -1), ("where", 0), ("where", 1)),
        "share": share, "share_low": np.maximum(share - 0.05, 0), "share_high": share + 0.05,
        "means": means, "shift": shift, "shift_low": shift - 0.1, "shift_high": shift + 0.1,
        "averages": np.array([[0.0, -0.4], [0.3, -0.6]]),
        "average_shift": np.array([0.3, -0.2]), "average_shift_low": np.array([0.2, -0.5]),
        "average_shift_high": np.array([0.4, 0.1]),
        "spreads": np.array([[0.2, 1.0], [0.41, 0.98]]),
        "spread_ratio": np.array([2.05, 0.98]), "spread_ratio_low": np.array([1.8, 0.8]),
        "spread_ratio_high": np.array([2.33, 1.2]),
        "ranges": np.stack([low, low + np.array([0.6, 2.5])], axis=-1),
        "feature_names": names, "words": words, "members": ((0,), (1,), (2,), (3,)),
    }  # fmt: skip
    return Decomposition(**values | changes)


def difference_of(explanation=None, **changes):
    """Make a difference of such an explanation, with a visit and a clip that were not filmed."""
    explanation = explanation or explanation_of()
    a, b = explanation.labels
    values = {
        "decomposition": explanation,
        "features": tuple(map(Feature, explanation.feature_names, ("rad", "m/s"))),
        "leading": leading_regions(explanation),
        "environment": "CartPole-v1",
        "episodes": (50, 40),
        "mean_returns": (480.0, 31.5),
        "frames": (Frame(Visit(a, 0, 3, 120, 991, 0.2)),
                   Frame(Visit(b, 0, 1, 7, 17, 0.4), None, "it does not render")),
        "clips": (Clip("Largest", "two episodes", None, "it does not render"),),
        "notes": ("the states were thinned",),
        "rules": Rules((Rule("angle above 0.12 rad", (Span(0, 0.12, np.inf),), (0.6, 0.1),
                             -0.61, -0.39, 0.001),
                        Rule("angle below 0.12 rad", (Span(0, -np.inf, 0.12),), (0.4, 0.9),
                             0.39, 0.61, 0.001)), 0.5, 0.39, 0.61, (25, 20)),
    }  # fmt: skip
    return PairExplanation(**values | changes)
