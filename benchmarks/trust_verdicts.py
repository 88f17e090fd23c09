"""Whether `pivec same` is right after as many episodes as a pilot plans for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trust_data import samples

PILOT, PRECISION = 20, 0.02
NEAREST = 60  # pairs beyond the margin, those nearest to it
TWICE = 60  # pairs of samples of one policy


def measure(data: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Verdicts on identical pairs and on pairs beyond the margin, each with a pilot of its own."""
    from pivec.characterizations import characterization
    from pivec.statistics import MARGIN

    (fitted,) = samples(data, (25,), rng)
    method = characterization("visitation").fit(fitted)
    truth = method.intervals(data).distance
    i, j = np.triu_indices(len(data), 1)
    beyond = np.flatnonzero(truth[i, j] >= MARGIN)
    nearest = beyond[np.argsort(truth[i, j][beyond])[:NEAREST]]
    result: dict[str, Any] = {"same": [], "different": [], "planned": [], "width": [], "missing": 0}
    pairs = [(k % len(data),) * 2 for k in range(TWICE)]
    pairs += zip(i[nearest].tolist(), j[nearest].tolist(), strict=True)
    for pair in pairs:
        _judge(method, data, pair, rng, result)
    return result


def _judge(
    method: Any, data: Any, pair: tuple[int, int], rng: np.random.Generator, result: dict[str, Any]
) -> None:
    from pivec.statistics import MARGIN, episodes_for_precision, episodes_to_decide
    from pivec.workflows.equivalence import PolicyInput, judge

    draw = _Draws(data, pair, rng)
    seen = method.intervals(*draw.take(PILOT))
    d, first, second = (float(x[0, 0]) for x in (seen.distance, seen.first, seen.second))
    planned = int(episodes_to_decide(d, first, second, PILOT, MARGIN))
    narrow = int(episodes_for_precision(first, second, PILOT, PRECISION))
    if max(planned, narrow) > draw.left:
        result["missing"] += 1
    if narrow <= draw.left:
        sure = method.intervals(*draw.take(narrow))
        result["width"].append(float((sure.high - sure.distance)[0, 0]) / PRECISION)
    if planned <= draw.left:
        a, b = (PolicyInput(str(k), data=part) for k, part in enumerate(draw.take(planned)))
        kind = "same" if pair[0] == pair[1] else "different"
        result[kind].append(judge(method, a, b, MARGIN, seed=planned).verdict)
        result["planned"].append(planned)


class _Draws:
    """Episodes of two policies in random order; those of one policy are parted between the two."""

    def __init__(self, data: Any, pair: tuple[int, int], rng: np.random.Generator) -> None:
        self._data, self._pair = data, pair
        orders = [rng.permutation(len(data.records[k].episodes)) for k in pair]
        if pair[0] == pair[1]:
            orders = [orders[0][0::2], orders[0][1::2]]
        self._orders = orders
        self.left = min(map(len, orders)) - PILOT

    def take(self, episodes: int) -> list[Any]:
        """Give so many of each; the pilot's are the first and are not given again."""
        from pivec.states import VisitedStates

        begin = 0 if episodes == PILOT else PILOT
        return [
            VisitedStates(
                [self._data.records[k].only(np.sort(order[begin : begin + episodes]))],
                self._data.feature_names,
            )
            for k, order in zip(self._pair, self._orders, strict=True)
        ]
