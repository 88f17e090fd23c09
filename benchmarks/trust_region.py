"""What the compiled checks of the trust-region recipe buy, beside the library's own way.

A check compares two policies by five episodes each. Both ways do the same on the same states, in
one and the same run.
"""

from __future__ import annotations

import argparse
import time

from measure import in_process, serve, table, write_section

CHECKS = 200
UPDATES = 100 * 245  # of a run of the paper: as many checks, at most


def check() -> dict[str, list[float]]:
    """Seconds of a check: compiled, and by the characterization."""
    import numpy as np

    from pivec.characterizations import characterization
    from pivec.states import VisitedStates
    from reproduction.training.trust_region import supervector_distance, symmetric_kl

    rng = np.random.default_rng(0)
    walks = rng.integers(0, 2, (2, 130, 5)).cumsum(axis=1) / 26 + rng.normal(0, 1e-3, (2, 130, 5))
    settings = {"n_components": 4, "init": "kmeans", "warm_start": False}
    supervector = characterization("supervector", **settings)

    def library(method):
        data = VisitedStates.from_arrays([[walk] for walk in walks])
        return method.fit(data).distances(data)[0, 1]

    ways = {
        "gaussian": (lambda: symmetric_kl(*walks), lambda: library(characterization("gaussian"))),
        "supervector": (
            lambda: supervector_distance(*walks, 4, rng),
            lambda: library(supervector),
        ),
    }
    seconds = {}
    for name, both in ways.items():
        seconds[name] = []
        for way in both:
            way()  # compiles
            start = time.perf_counter()
            for _ in range(CHECKS):
                way()
            seconds[name].append((time.perf_counter() - start) / CHECKS)
    return {"seconds": seconds}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = [
        [name, 1e6 * fast, 1e6 * slow, f"{slow / fast:.0f}", UPDATES * slow / 60]
        for name, (fast, slow) in in_process(__file__, "check")["seconds"].items()
    ]
    header = ["check", "compiled, µs", "library, µs", "ratio", "a run by the library, minutes"]
    text = "Two policies compared by 130 states each, as after every update of the recipe:"
    write_section("trust-region", f"{text}\n\n{table(header, rows)}")


if __name__ == "__main__" and not serve({"check": check}):
    main()
