"""All that is known of two policies: their exact distance, how sure it is, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pivec.distances.pairs import LEVEL
from pivec.errors import PivecError
from pivec.results import plain
from pivec.terminal import printable

if TYPE_CHECKING:
    from pivec.server.snapshot import Snapshot


def pair_answer(snapshot: Snapshot, i: int, j: int) -> dict[str, Any]:
    """Tell of policies ``i`` and ``j`` what JSON can hold; None is what is not known.

    ``distance`` is without the noise of sampling where there is an interval, ``measured`` with it.
    ``difference`` has the shape of explain.json; where there is none, ``reason`` says why.
    """
    labels = snapshot.space.descriptions.labels
    answer = {"a": labels[i], "b": labels[j], "level": LEVEL} | sureness(snapshot, i, j)
    difference: dict[str, Any] | None
    try:
        difference, reason = snapshot.difference(i, j).to_json(), ""
    except PivecError as error:
        difference, reason = None, str(error)
    answer = plain(answer) | {"difference": difference, "reason": reason}
    return {key: shown(part) for key, part in answer.items()}


def shown(content: Any) -> Any:
    r"""Write the texts within a content as the page does, so that a label is the same in both.

    Examples
    --------
    >>> print(shown({"labels": ["a\nb"]}))
    {'labels': ['a\\nb']}
    """
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {key: shown(part) for key, part in content.items()}
    return [shown(part) for part in content] if isinstance(content, list | tuple) else content


def sureness(snapshot: Snapshot, i: int, j: int) -> dict[str, Any]:
    """Give distance, interval, p-value and overlap of two policies, as pairs.csv has them."""
    method, described = snapshot.space.method, snapshot.space.descriptions
    known = snapshot.measured.intervals
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
