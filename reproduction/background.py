"""Characterizations as the authors' scripts have them, where the library's defaults differ."""

from __future__ import annotations

from typing import Any

from pivec.characterizations import Supervector

# One k-means start on all states, then EM on all of them until the mean log-likelihood changes by
# less than 1e-3, 100 times at most; of more than 10 million states so many are drawn, all alike.
PAPERS_FIT: dict[str, Any] = {
    "init": "kmeans",
    "warm_start": False,
    "n_init": 1,
    "tol": 1e-3,
    "max_iter": 100,
    "max_states": 10_000_000,
    "sampling": "uniform",
}

# By the names of the characterizations.
AUTHORS: dict[str, dict[str, Any]] = {
    "supervector": PAPERS_FIT,
    "discriminator": {
        "standardise": False,
        "max_background": None,
        "max_states": None,
        "zero_diagonal": False,
    },
}


def papers_supervector(
    n_components: int, random_state: int = 0, max_states: int = 10_000_000
) -> Supervector:
    """Return supervectors with the paper's fit, on at most ``max_states`` (Appendix C.1)."""
    fit = PAPERS_FIT | {"max_states": max_states}
    return Supervector(n_components, random_state=random_state, **fit)
