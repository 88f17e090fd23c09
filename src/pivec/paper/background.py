"""Supervectors as the paper makes them: the background model that all recipes fit."""

from __future__ import annotations

from pivec.characterizations.supervector import Supervector


def papers_supervector(
    n_components: int, random_state: int = 0, max_states: int = 10_000_000
) -> Supervector:
    """Return supervectors with the paper's fit: k-means, then EM on all states, once.

    At most ``max_states`` are fitted on (Appendix C.1).
    """
    return Supervector(
        n_components,
        init="kmeans",
        warm_start=False,
        max_states=max_states,
        random_state=random_state,
    )
