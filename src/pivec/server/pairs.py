"""All that is known of two policies: their exact distance, how sure it is, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pivec.distances.pairs import LEVEL
from pivec.errors import PivecError
from pivec.results import plain

if TYPE_CHECKING:
    from pivec.server.snapshot import Snapshot


def pair_answer(snapshot: Snapshot, i: int, j: int) -> dict[str, Any]:
    """Tell of policies ``i`` and ``j`` what JSON can hold; None is what is not known.

    ``distance`` is without the noise of sampling where there is an interval, ``measured`` with it.
    ``difference`` has the shape of explain.json; where there is none, ``reason`` says why.
    """
    labels = snapshot.space.descriptions.labels
    answer = {"a": labels[i], "b": labels[j], "level": LEVEL} | sureness(snapshot, i, j)
    try:
        difference, reason = snapshot.difference(i, j).to_json(), ""
    except PivecError as error:
        difference, reason = None, str(error)
    return plain(answer) | {"difference": difference, "reason": reason}


def sureness(snapshot: Snapshot, i: int, j: int) -> dict[str, Any]:
    """Give distance, interval, p-value and overlap of two policies, as pairs.csv has them."""
    method, described, known = (
        snapshot.space.method,
        snapshot.space.descriptions,
        snapshot.measured.intervals,
    )
    a, b = described.select([i]), described.select([j])
    measured = float(method.distances(a, b)[0, 0])
    answer: dict[str, Any] = {"distance": measured, "measured": measured}
    answer |= dict.fromkeys(("low", "high", "p", "overlap"))
    at = i, j
    if known is None and ("influences" in described.arrays or method.exact):
        known, at = method.intervals(a, b, LEVEL), (0, 0)
    if known is not None:
        answer["distance"] = max(float(known.distance[at]), 0.0)
        answer |= {"low": known.low[at], "high": known.high[at], "p": known.p_value[at]}
    overlap = getattr(method, "overlap", None)  # of what has regions
    if overlap is not None:
        answer["overlap"] = float(overlap(a, b)[0, 0])
    return answer
