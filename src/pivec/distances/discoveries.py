"""Many tests at once: which differences are more than chance, with a known share of errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

RATE = 0.05  # of false discoveries: two policies with a larger q cannot be told apart


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Turn p-values into q-values: of all tests with q ≤ 0.05, at most 5 % are wrong.

    That holds on average, for tests that are independent or depend positively, as those of pairs
    that share a policy do (Benjamini & Hochberg 1995; Benjamini & Yekutieli 2001). A test without
    an answer (NaN) does not count and stays NaN. Of a symmetric matrix give each pair once.

    Parameters
    ----------
    p_values : array_like
        Of any shape.

    Returns
    -------
    ndarray
        q-values in the same shape.

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, 0.03, np.nan])
    array([0.03, 0.04, 0.04,  nan])
    """
    p = np.asarray(p_values, np.float64)
    q = np.full(p.shape, np.nan)
    known = ~np.isnan(p)
    values = p[known]
    order = np.argsort(values, kind="stable")
    scaled = values[order] * len(values) / np.arange(1, len(values) + 1)
    adjusted = np.empty_like(values)
    # A larger p-value never gets a smaller q-value.
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    q[known] = adjusted
    return q
