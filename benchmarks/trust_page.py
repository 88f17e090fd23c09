"""The page of the evidence on distances: tables beside what is to be reached, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from measure import machine, table

PAGE = Path(__file__).with_name("EVIDENCE.md")
AGREEMENT = {
    "CartPole-v1": 0.97, "Acrobot-v1": 0.93, "Pendulum-v1": 0.96, "LunarLander-v3": 0.90,
    "BipedalWalker-v3": 0.90,
}  # fmt: skip
SIZES, COVERED = (5, 10, 25, 100), (10, 25, 100)
NAMES = {"visitation": "visitation", "supervector": "supervector, the paper's"}
Found = dict[str, dict[str, Any]]

HEAD = """# How far distances can be trusted: the evidence

Made by `python benchmarks/trust.py`. {policies} The space is fitted on the very samples that are \
compared, as `pivec compare` does; what is called true was played by the same policies in other \
episodes, and described in the same space. A figure that was missed says so."""


def write(found: Found, costs: dict[str, Any], chosen: str) -> None:
    """Write the page and its pictures; the set on which choices were made gets no page."""
    parts = [
        HEAD.format(policies=_POLICIES[chosen]),
        _agreement(found),
        "![Agreement and cover against the number of episodes](../docs/images/episodes.png)",
        _cover(found),
        _selves(found),
        _backgrounds(found),
        _level(found),
        _verdicts(found),
        _costs(costs) if costs else "",
        machine(),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    print(text)
    if chosen == "report":
        PAGE.write_text(text)
        _picture(found, PAGE.parent / "images" / "episodes.png")


_POLICIES = {
    "report": "Checkpoints of two runs each of PPO and A2C: in CartPole and Pendulum those that "
    "ship with pivec, elsewhere trained with seeds of their own (12 policies in BipedalWalker, 24 "
    "in Pendulum, 32 in the others). Nothing was chosen on them.",
    "choose": "Checkpoints of PPO (seeds 0 and 1), on which choices were made.",
}


def _values(found: Found, world: str, method: str, size: int, key: str) -> Any:
    return np.array([draw[key] for draw in found[world][f"precision-{method}-{size}"]])


def _verdict(reached: bool) -> str:
    return "reached" if reached else "**missed**"


def _agreement(found: Found) -> str:
    rows = []
    for world in found:
        shown = _values(found, world, "visitation", 10, "agreement")
        rows.append(
            [
                world,
                _spread(shown),
                _spread(_values(found, world, "visitation", 10, "agreement_plain")),
                _spread(_values(found, world, "supervector", 10, "agreement_plain")),
                AGREEMENT[world],
                _verdict(shown.mean() >= AGREEMENT[world]),
                _values(found, world, "visitation", 100, "return_correlation").mean(),
                _values(found, world, "supervector", 100, "return_correlation").mean(),
            ]
        )
    header = [
        "environment", "visitation", "with its noise", "supervector", "to reach", "",
        "visitation and returns", "supervector and returns",
    ]  # fmt: skip
    return (
        "## Do ten episodes say what two hundred others say?\n\n"
        "Correlation, over all pairs of policies, of the distances from 10 episodes with those "
        "from 200 other episodes (mean of the draws, least and largest): the distance that is "
        "shown, which has sampling noise taken off, the same with its noise, and the paper's. "
        "Behind them the correlation of the distance at 400 episodes with the difference of "
        f"mean returns.\n\n{table(header, rows)}"
    )


def _spread(values: Any) -> str:
    middle = f"{values.mean():.3f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({values.min():.2f} to {values.max():.2f})"


def _cover(found: Found) -> str:
    rows, every = [], {size: [] for size in COVERED}
    for world in found:
        cells = []
        for size in COVERED:
            cover = _values(found, world, "visitation", size, "cover").mean()
            every[size].append(cover)
            cells.append(f"{cover:.1%}")
        papers = [_values(found, world, "supervector", s, "cover").mean() for s in COVERED]
        good = all(0.90 <= every[size][-1] <= 0.99 for size in COVERED)
        rows.append([world, *cells, "90 to 99 %", _verdict(good), *(f"{p:.0%}" for p in papers)])
    means = [float(np.mean(every[size])) for size in COVERED]
    good = all(0.93 <= mean <= 0.97 for mean in means)
    rows.append(["all", *(f"{m:.1%}" for m in means), "93 to 97 %", _verdict(good), "", "", ""])
    alike = [
        np.mean([_values(found, w, "visitation", size, "self_cover").mean() for w in found])
        for size in COVERED
    ]
    good = all(0.90 <= value <= 0.99 for value in alike)
    cells = [f"{value:.1%}" for value in alike]
    words = _verdict(good) + (", too careful" if min(alike) > 0.99 else "")
    rows.append(["pairs of one policy", *cells, "90 to 99 %", words, "", "", ""])
    header = [
        "environment",
        *map(str, COVERED),
        "to reach",
        "",
        *(f"paper's, {s}" for s in COVERED),
    ]
    return (
        "## Do intervals cover?\n\n"
        "Share of pairs whose 95 % interval from 10, 25 and 100 episodes holds the distance at "
        "400 others. That distance has noise of its own: an exact interval would hold it in 94.8, "
        "94.3 and 92.0 % of the pairs. Two samples of one policy are 0 apart; the interval, which "
        "is never below 0, is to begin there. It nearly always does: where the measured distance "
        f"is large by chance, so is its standard error.\n\n{table(header, rows)}"
    )


def _selves(found: Found) -> str:
    rows = []
    for world in found:
        cells, good = [], True
        for size in SIZES:
            values = _values(found, world, "visitation", size, "self").ravel()
            mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
            plain = _values(found, world, "visitation", size, "self_plain").mean()
            good = good and abs(mean) <= 2 * error
            cells.append(f"{mean:.5f} ± {error:.5f} ({plain:.4f})")
        rows.append([world, *cells, _verdict(good)])
    header = ["environment", *map(str, SIZES), "within 2 standard errors of 0"]
    return (
        "## Is a policy 0 from itself?\n\n"
        "Distance of two samples of 5, 10, 25 and 100 episodes of one policy: mean over policies "
        "and draws with its standard error, and in brackets what it would be with its noise. Of "
        "twenty such means, chance alone puts one farther than two standard errors from 0."
        f"\n\n{table(header, rows)}"
    )


def _backgrounds(found: Found) -> str:
    rows = []
    for world in found:
        ours, papers = (found[world][f"backgrounds-{name}"] for name in NAMES)
        rows.append(
            [
                world,
                f"{ours['agreement']:.4f}",
                _verdict(ours["agreement"] >= 0.99),
                f"{ours['moved'][1]:.1%}",
                f"{papers['agreement']:.4f}",
                f"{papers['moved'][1]:.1%}",
            ]
        )
    header = [
        "environment", "agreement", "≥ 0.99", "moved by", "supervector", "moved by",
    ]  # fmt: skip
    return (
        "## How much is the background model's?\n\n"
        "Least correlation between the distances in spaces of three seeds, fitted on the same 100 "
        "episodes of every policy, and the median over pairs of their standard deviation over the "
        f"seeds relative to their mean.\n\n{table(header, rows)}"
    )


def _level(found: Found) -> str:
    rows, pooled = [], {"exact": [], "analytic": []}
    for world in found:
        tests = found[world]["level-visitation"]
        for kind in pooled:
            pooled[kind] += tests[kind]
        rates = [np.mean(np.array(tests[kind]) <= 0.05) for kind in pooled]
        rows.append([world, len(tests["exact"]), *(f"{rate:.1%}" for rate in rates), ""])
    rates = [np.mean(np.array(values) <= 0.05) for values in pooled.values()]
    good = 0.04 <= rates[0] <= 0.06
    total = len(pooled["exact"])
    rows.append(["all", total, *(f"{rate:.1%}" for rate in rates), _verdict(good)])
    header = ["environment", "pairs", "permutation test", "analytic p", "5 ± 1 %"]
    return (
        "## How often are two samples of one policy said to differ?\n\n"
        "At the level of 5 %, samples of 10, 25 and 100 episodes in turn, 999 permutations."
        f"\n\n{table(header, rows)}"
    )


def _verdicts(found: Found) -> str:
    rows = []
    for world in found:
        judged = found[world]["verdicts-visitation"]
        right = [np.mean([v == kind for v in judged[kind]]) for kind in ("same", "different")]
        least, middle, most = np.quantile(judged["planned"], (0, 0.5, 1))
        counts = [len(judged[kind]) for kind in ("same", "different")]
        cells = [f"{share:.0%} of {count}" for share, count in zip(right, counts, strict=True)]
        planned = f"{middle:.0f} ({least:.0f} to {most:.0f})"
        width = f"{np.median(judged['width']):.2f}"
        rows.append([world, *cells, planned, width, judged["missing"], _verdict(min(right) >= 0.9)])
    header = [
        "environment", "identical", "beyond the margin", "planned episodes", "width", "too many",
        "≥ 90 %",
    ]  # fmt: skip
    return (
        "## Is `pivec same` right at the planned number of episodes?\n\n"
        "A pilot of 20 episodes plans so many more that `pivec same` is to be right in 90 % of "
        "cases; these are then played. Identical: two samples of each policy. Beyond the margin: "
        "the pairs nearest to it whose distance from all episodes is larger. Width: half that of "
        "95 % intervals after as many episodes as are planned for it, relative to what was asked "
        "for (0.02), median. Too many: pairs for which more was planned than there is.\n\n"
        f"{table(header, rows)}"
    )


def _costs(costs: dict[str, Any]) -> str:
    many, one = costs["intervals"], costs["test"]
    ratio, more = many["intervals"] / many["describe"], many["beyond_mb"]
    times = f"{many['intervals']:.1f} s / {many['describe']:.1f} s = {ratio:.2f}"
    test = "a test, 100 + 100 episodes, 999 permutations"
    rows = [
        ["all intervals, against describing", times, "at most 3", _verdict(ratio <= 3)],
        ["memory beyond the states", f"{more:.0f} MB", "under 2 GB", _verdict(more < 2000)],
        [test, f"{1000 * one['seconds']:.0f} ms", "under 50 ms", _verdict(one["seconds"] < 0.05)],
    ]
    return (
        "## What does it cost?\n\n1 000 policies of 100 episodes of 100 states, 64 components × 24 "
        f"features.\n\n{table(['what', 'measured', 'to reach', ''], rows)}"
    )


def _picture(found: Found, path: Path) -> None:
    """Agreement and cover against episodes, the paper's distance beside ours."""
    from matplotlib.figure import Figure

    from pivec.figures import group_colours, save_png

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, key in ((left, "agreement"), (right, "cover")):
        for world, colour in zip(found, group_colours(len(found)), strict=True):
            for method, style in (("visitation", "-o"), ("supervector", ":s")):
                kind = "agreement_plain" if key + method == "agreementsupervector" else key
                values = [_values(found, world, method, size, kind).mean() for size in COVERED]
                label = world if method == "visitation" else None
                axes.plot(COVERED, values, style, color=colour, label=label, markersize=4)
        axes.set_xscale("log", base=10)
        axes.set_xticks(COVERED, list(map(str, COVERED)))
        axes.minorticks_off()
        axes.set_xlabel("episodes a policy")
        axes.spines[["top", "right"]].set_visible(False)
    left.set_title("Agreement with the distances from 200 other episodes", fontsize=10)
    right.set_title("Cover of 95 % intervals of the distance at 400 others", fontsize=10)
    right.axhspan(0.90, 0.99, color="0.92", zorder=0)
    left.plot([], [], ":s", color="0.4", label="the paper's distance", markersize=4)
    left.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_png(figure, path)
