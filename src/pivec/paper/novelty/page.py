"""What is said of novelty search beside the picture: the table, the findings, the notes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pivec.paper.panels import Curves
from pivec.paper.recipes import Finding
from pivec.paper.rows import Array, bootstrap_interval, markdown

ES, TERMINAL = "ES", "NSR-ES, terminal state"
GAUSSIAN, SUPERVECTOR = "NSR-ES, Gaussian", "NSR-ES, supervector"
POCKET, BEST = 0.65, 3.7  # the paper's returns: straight up, and of its best policies
EDGE = 0.70  # where the bar begins: nothing in the pocket is worth more


def table(curves: Curves, finals: Mapping[str, Array]) -> str:
    """Write the best mean return of each method after all generations as Markdown."""
    heads = ["method", "best mean return", "95 % interval", "best run", "runs out of the pocket"]
    lines = [
        [
            name,
            f"{final.mean():.2f}",
            f"{curves[name]['low'][-1]:.2f} to {curves[name]['high'][-1]:.2f}",
            f"{final.max():.2f}",
            _out(final),
        ]
        for name, final in finals.items()
    ]
    return markdown(heads, lines)


def _out(final: Array) -> str:
    return f"{int((final > EDGE).sum())} of {len(final)}"


def findings(
    curves: Curves, finals: Mapping[str, Array], rng: np.random.Generator
) -> list[Finding]:
    """What the paper says, beside what came out."""
    stuck = finals[ES]
    result = [
        Finding(
            "novelty-trap",
            "ES stays in the pocket",
            f"{POCKET}",
            f"{stuck.mean():.3f}, at most {stuck.max():.3f} (the bar begins at {EDGE:.2f})",
            bool(stuck.max() <= EDGE),
        )
    ]
    for name in (TERMINAL, GAUSSIAN, SUPERVECTOR):
        final, low, high = finals[name], curves[name]["low"][-1], curves[name]["high"][-1]
        result.append(
            Finding(
                "" if name == TERMINAL else "novelty-overcome",
                f"{name} goes beyond it",
                f"above {POCKET}, at best {BEST}",
                f"{final.mean():.2f} (95 %: {low:.2f} to {high:.2f}), at best {final.max():.2f}, "
                f"out in {_out(final)} runs",
                bool(low > EDGE),
            )
        )
    for name in (GAUSSIAN, SUPERVECTOR):
        # The same run begins with the same networks in both.
        gaps = (finals[TERMINAL] - finals[name])[:, None]
        low, high = (float(bound[0]) for bound in bootstrap_interval(gaps, rng))
        result.append(
            Finding(
                "novelty-terminal",
                f"The terminal state is not significantly better than {name.split(', ')[1]}",
                "slightly better, not significantly",
                f"{float(gaps.mean()):+.2f} (95 %: {low:+.2f} to {high:+.2f})",
                bool(low <= 0),
            )
        )
    return result
