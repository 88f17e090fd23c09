"""Verdicts of `pivec same` on two samples of one policy, at 100 and at the planned episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from trust_data import samples

EPISODES, PILOT = 100, 20
PAIRS = 40  # of samples, in each environment


def measure(data: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Verdicts, and the numbers of episodes that a pilot planned."""
    import pivec
    from pivec.states import joined

    found: dict[str, Any] = {"fixed": [], "planned": [], "episodes": [], "worst": []}
    for number in range(PAIRS):
        one = data.select([number % len(data)])
        found["fixed"].append(_verdict(one, EPISODES, rng, found["worst"]))
        pilot = [_named(part, k) for k, part in enumerate(samples(one, (PILOT, PILOT), rng))]
        planned = int(pivec.plan(None, joined(pilot), episodes=PILOT).to_decide[0, 1])
        found["episodes"].append(planned)
        enough = 2 * planned <= one.n_episodes
        found["planned"].append(_verdict(one, planned, rng) if enough else None)
    return found


def _verdict(
    one: Any, episodes: int, rng: np.random.Generator, worst: list[str] | None = None
) -> str:
    import pivec

    a, b = (_named(part, k) for k, part in enumerate(samples(one, (episodes, episodes), rng)))
    answer = pivec.same(a, b, seed=int(rng.integers(2**31)))
    if worst is not None:
        worst.append(max(answer.views, key=lambda view: view.high / view.margin).name)
    return answer.verdict


def _named(data: Any, number: int) -> Any:
    """The same states under a label of their own."""
    from dataclasses import replace

    from pivec.states import VisitedStates

    records = [
        replace(record, info=replace(record.info, label=f"{record.info.label}, sample {number}"))
        for record in data.records
    ]
    return VisitedStates(records, data.feature_names, data.environment)
