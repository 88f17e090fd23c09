"""What is said of novelty search beside the picture: the table, the findings, the notes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reproduction.panels import Curves
from reproduction.published import Array, bootstrap_interval, markdown
from reproduction.recipes import Finding

ES, TERMINAL = "ES", "NSR-ES, terminal state"
GAUSSIAN, SUPERVECTOR = "NSR-ES, Gaussian", "NSR-ES, supervector"
VISITATION = "NSR-ES, visitation"
POCKET, BEST = 0.65, 3.7  # the paper's returns: straight up, and of its best policies
EDGE = 0.70  # where the bar begins: nothing in the pocket is worth more


def table(curves: Curves, finals: Mapping[str, Array], policies: Mapping[str, Array]) -> str:
    """Write the best mean returns of each method after all generations as Markdown."""
    heads = ["method", "best mean return of a generation", "95 % interval", "best run"]
    heads += ["runs out of the pocket", "best policy, mean of the runs", "best of all"]
    lines = [
        [
            name,
            f"{final.mean():.2f}",
            f"{curves[name]['low'][-1]:.2f} to {curves[name]['high'][-1]:.2f}",
            f"{final.max():.2f}",
            _out(final),
            f"{policies[name].mean():.2f}",
            f"{policies[name].max():.2f}",
        ]
        for name, final in finals.items()
    ]
    return markdown(heads, lines)


def _out(final: Array) -> str:
    return f"{int((final > EDGE).sum())} of {len(final)}"


def findings(
    curves: Curves,
    finals: Mapping[str, Array],
    policies: Mapping[str, Array],
    rng: np.random.Generator,
) -> list[Finding]:
    """What the paper says, beside what came out."""
    stuck, best = finals[ES], max(values.max() for values in policies.values())
    result = [
        Finding(
            "novelty-trap",
            "ES stays in the pocket",
            f"{POCKET}",
            f"{stuck.mean():.3f}, at most {stuck.max():.3f} (the bar begins at {EDGE:.2f})",
            bool(stuck.max() <= EDGE),
        ),
        Finding(
            "novelty-trap",
            "The best policy of all runs reaches the paper's optimum",
            f"{BEST}",
            f"{best:.2f}",
            bool(best >= BEST),
        ),
    ]
    for name in (TERMINAL, GAUSSIAN, SUPERVECTOR, VISITATION):
        final, low, high = finals[name], curves[name]["low"][-1], curves[name]["high"][-1]
        result.append(
            Finding(
                "novelty-overcome" if name in (GAUSSIAN, SUPERVECTOR) else "",
                f"{name} goes beyond it",
                f"above {POCKET}, at best {BEST}" if name != VISITATION else "",
                f"{final.mean():.2f} (95 %: {low:.2f} to {high:.2f}), at best {final.max():.2f}, "
                f"out in {_out(final)} runs",
                bool(low > EDGE),
            )
        )
    for name in (GAUSSIAN, SUPERVECTOR):
        # The same run begins with the same networks in both.
        gaps = (finals[TERMINAL] - finals[name])[:, None]
        mean, low, high = (
            float(x) for x in (gaps.mean(), *np.ravel(bootstrap_interval(gaps, rng)))
        )
        alike = low <= 0 <= high
        result.append(
            Finding(
                "novelty-terminal",
                f"The terminal state is better, but not significantly, than {name.split(', ')[1]}",
                "slightly better, not significantly",
                f"{mean:+.2f} (95 %: {low:+.2f} to {high:+.2f})",
                None if alike and mean <= 0 else alike,
                why="worse, but not significantly so" if alike and mean <= 0 else "",
            )
        )
    return result
