"""The mixture section of RESULTS.md: tables and plots from what mixture.py measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import machine
from measure import table
from mixture_data import COMPONENTS

FIGURES = Path(__file__).parent / "figures"


def report(kept: dict[str, Any], plots: bool = True) -> str:
    """Write all sections that were measured, and draw the plots."""
    writers = {
        "pass": pass_text,
        "fit": fit_text,
        "memory": memory_text,
        "adapt": adapt_text,
        "scaling": scaling_text,
    }
    wanted = [name for name in writers if name in kept and (plots or name != "scaling")]
    parts = [writers[name](kept[name]) for name in wanted]
    return "\n\n".join([f"{machine.versions()}.", *parts])


def pass_text(rows: list[dict[str, Any]]) -> str:
    targets = {24: (16, 8, 0.65), 4: (45, 20, 0.60)}
    lines = []
    for row in rows:
        n, D, runs = row["n"], row["n_features"], row["runs"]
        ours = runs["pivec, Numba"]["seconds"]
        wide, narrow, share = targets[D]
        roof = machine.roofline(row["speed"], n, COMPONENTS, D)
        for name, run in runs.items():
            ratio = run["seconds"] / ours
            least = {"scikit-learn float64": wide, "scikit-learn float32": narrow}.get(name)
            note = "" if least is None else verdict(ratio, least)
            lines.append([D, name, run["seconds"], f"{ratio:.1f}", note, run["beyond_mb"]])
        lines.append(
            [
                D,
                "roofline",
                roof,
                f"{roof / ours:.0%} of Numba's time",
                verdict(roof / ours, share),
                "",
            ]
        )
    speed = rows[0]["speed"]
    return (
        f"### One pass of EM\n\n{rows[0]['n']:,} states, {COMPONENTS} components. The roofline is "
        f"4·N·K·D multiply-adds and N·K exponentials at the speed measured beside it "
        f"({speed['multiply_adds'] / 1e9:.0f} G multiply-adds, "
        f"{speed['exponentials'] / 1e9:.1f} G exponentials, {speed['bytes'] / 1e9:.0f} GB read "
        f"a second).\n\n"
        + table(
            ["features", "engine", "seconds", "times Numba's", "to reach", "MB beyond the data"],
            lines,
        )
    )


def fit_text(rows: list[dict[str, Any]]) -> str:
    seeds = len(rows[0]["our_fit"])
    theirs = "; ".join(f"{row['name']} {len(row['peer_fit'])}" for row in rows)
    return (
        f"### Whole fits\n\n{COMPONENTS} components, to scikit-learn's stopping rule, mean of "
        f"{seeds} seeds of ours and as many of scikit-learn's as said here: {theirs}. The gain is "
        "in held-out log-likelihood, nats a state.\n\n"
        + table(
            [
                "states",
                "pivec s",
                "scikit-learn s",
                "times",
                "to reach",
                "gain",
                "to reach",
                "pivec MB",
                "scikit-learn MB",
            ],
            [fit_row(row) for row in rows],
        )
    )


def memory_text(result: dict[str, Any]) -> str:
    lines = [
        [
            f"{fit['n']:,} × 24 in memory",
            fit["seconds"],
            fit["beyond_mb"],
            "beyond the data",
            "< 200" if fit["beyond_mb"] < 200 else "**< 200, missed**",
        ]
        for fit in result["fits"]
    ]
    disk = result["file"]
    lines.append(
        [
            f"{disk['n']:,} × 24 from a file",
            disk["seconds"],
            disk["peak_mb"],
            "in all",
            "< 600" if disk["peak_mb"] < 600 else "**< 600, missed**",
        ]
    )
    return "### Memory of a fit\n\n" + table(["states", "seconds", "MB", "", "to reach"], lines)


def adapt_text(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        share = row["kernel_seconds"] / row["seconds"]
        lines.append(
            [
                row["n_features"],
                f"{row['n'] // row['n_states']:,}",
                row["n_states"],
                row["seconds"],
                row["n"] / row["seconds"] / 1000000.0,
                f"{share:.0%}",
                verdict(share, 0.7) if row["n_states"] == 1000 else "",
            ]
        )
    return "### Adaptation\n\nAll policies in one pass.\n\n" + table(
        [
            "features",
            "policies",
            "states of each",
            "seconds",
            "M states a second",
            "of the kernel's",
            "to reach",
        ],
        lines,
    )


def scaling_text(sweeps: dict[str, list[dict[str, Any]]]) -> str:
    from matplotlib.lines import Line2D

    from pivec.figures import (
        axes_at,
        group_colours,
        headed_figure,
        lined_axes,
        name_axes,
        save_figure,
    )

    FIGURES.mkdir(exist_ok=True)
    titles = {
        "N": "states", "K": "components", "D": "features", "policies": "policies",
    }  # fmt: skip
    links = []
    for name, rows in sweeps.items():
        lines = [key for key in rows[0] if key != "value"]
        colours = dict(zip(lines, group_colours(len(lines)), strict=True))
        key = [Line2D([], [], color=c, marker="o", label=line) for line, c in colours.items()]
        heading = "Adaptation" if name == "policies" else "One pass of EM"
        figure = headed_figure(5.0, 2.9, heading, "", key)
        axes = axes_at(figure, 0.85, 0.55, 3.9, 2.25)
        lined_axes(axes)
        for line, colour in colours.items():
            values = [[row["value"] for row in rows], [row[line] for row in rows]]
            axes.loglog(*values, "o-", color=colour)
        name_axes(axes, titles[name], "seconds")
        save_figure(figure, FIGURES / f"mixture_{name}.png")
        links.append(f"![time against {titles[name]}](figures/mixture_{name}.png)")
    return "### How the time grows\n\n" + "\n".join(links)


def fit_row(row: dict[str, Any]) -> list[Any]:
    ours, peer = row["our_fit"], row["peer_fit"]

    def mean(runs: list[dict[str, Any]], key: str) -> float:
        return float(np.mean([run[key] for run in runs]))

    gain = mean(ours, "score") - mean(peer, "score")
    ratio = mean(peer, "seconds") / mean(ours, "seconds")
    target = 80 if row["name"].startswith("synthetic") else 25
    return [
        row["name"], mean(ours, "seconds"), mean(peer, "seconds"), f"{ratio:.0f}",
        verdict(ratio, target), f"{gain:+.3f}", verdict(gain, -0.01),
        max(run["beyond_mb"] for run in ours), max(run["beyond_mb"] for run in peer),
    ]  # fmt: skip


def verdict(value: float, least: float) -> str:
    return f"≥ {least:g}" if value >= least else f"**≥ {least:g}, missed**"
