"""The background's share: how far distances move when the background model is fitted again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from pivec.characterizations.background import BackgroundModel
from pivec.characterizations.base import Characterization
from pivec.states import VisitedStates

_REFITS, _POLICIES, _EPISODES, _STATES = 2, 40, 10, 20_000
_ENOUGH = 0.99  # agreement at which the background is nobody's concern


@dataclass(frozen=True)
class BackgroundShare:
    """How distances of the same episodes agree between backgrounds from different starts."""

    moved: float  # median over pairs of standard deviation / mean
    agreement: float | None = None  # correlation over all pairs; None where it says nothing

    def __str__(self) -> str:
        text = f"Another start of the background model moves distances by {self.moved:.1%}"
        if self.agreement is None:
            return f"{text}."
        text += (
            f" (half of them by less), and they agree with a correlation of {self.agreement:.3f}"
        )
        return f"{text}." if self.agreement >= _ENOUGH else f"{text}: see --backgrounds."


def background_words(settings: Mapping[str, Any]) -> str:
    """Say how far distances depend on the background model, where ``settings`` of a run tell."""
    share = settings.get("background")
    return str(BackgroundShare(**share)) if share else ""


def background_share(method: Characterization, data: VisitedStates) -> BackgroundShare | None:
    """Fit again from two other starts, and compare the distances in their spaces.

    Cheap: fits on at most 20 000 states, distances of at most 40 policies from ten episodes. Fits
    on few states differ more than those on all do, so that this is rather too much than too little.
    None for a single policy, and where there is no background model.

    Examples
    --------
    >>> from pivec.characterizations.registry import characterization
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(place, 1, (50, 2))] for place in (0, 1, 3)]
    >>> data = VisitedStates.from_arrays(walks)
    >>> method = characterization("visitation", n_components=4).fit(data)
    >>> background_share(method, data).agreement > 0.9
    True
    """
    if len(data) < 2 or not isinstance(method, BackgroundModel):
        return None
    rng = np.random.default_rng(method.random_state)
    chosen = rng.permutation(len(data))[:_POLICIES]
    part = data.select(np.sort(chosen)).sample_episodes(_EPISODES, rng, at_most=True)
    upper = np.triu_indices(len(part), 1)
    rows = []
    for _ in range(_REFITS):
        other = clone(method).set_params(
            random_state=int(rng.integers(2**31)),
            max_states=max(_STATES, method.n_components),
            progress=False,
        )
        rows.append(other.fit(data).distances(part)[upper])
    mean, deviation = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)
    moved = np.divide(deviation, mean, out=np.zeros_like(mean), where=mean > 0)
    if len(mean) < 2 or not (np.ptp(rows, axis=1) > 0).all():
        return BackgroundShare(float(np.median(moved)))
    return BackgroundShare(float(np.median(moved)), float(np.corrcoef(rows)[0, 1]))
