"""Tables and power curves of planted differences, for the console and for docs/planted.md."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from measure import machine, table
from planted_families import families
from planted_margins import section as margins

PAGE = Path(__file__).parents[1] / "docs" / "planted.md"
PICTURE = PAGE.parent / "images" / "planted.png"
BEGIN, END = "<!-- planted:begin -->", "<!-- planted:end -->"
TYPICAL = 0.3  # the planted total variation of the table of all methods, where a family has it

ALPHA = 0.05

Found = dict[Any, dict[str, Any]]  # by cell: method, family, planted value, episodes


def summary(values: dict[str, Any]) -> dict[str, Any]:
    """Rates and means over the repetitions of a cell."""
    runs = values["runs"]
    if not runs:
        return {}
    result: dict[str, Any] = {"n": len(runs)}
    detected = [run["p"] <= ALPHA for run in runs if "p" in run]
    if detected:
        result["detected"] = round(float(np.mean(detected)), 3)
    distances = [run["distance"] for run in runs if "distance" in run]
    if distances:
        mean, deviation = np.mean(distances), np.std(distances, ddof=min(1, len(distances) - 1))
        result["distance"] = float(f"{mean:.4g}")
        result["error"] = float(f"{1.96 * deviation / np.sqrt(len(distances)):.2g}")
    verdicts = [run["verdict"] for run in runs if "verdict" in run]
    views = Counter(run["view"] for run in runs if "view" in run)
    if views:
        result["view"] = views.most_common(1)[0][0]
    if verdicts:
        result["verdicts"] = {name: verdicts.count(name) / len(verdicts) for name in set(verdicts)}
    return result


def tables(found: Found) -> str:
    """One line per cell: rates of detection and of verdicts, and distances."""
    rows, skipped = [], {}
    for cell, values in found.items():
        if "skipped" in values:
            skipped[cell.method] = values["skipped"]
        if not values["runs"]:
            continue
        rates = summary(values)
        known = families()[cell.family].total_variation is not None
        rows.append([
            cell.method,
            cell.family,
            f"{'' if known else 'size '}{cell.planted:g}",
            cell.episodes,
            rates["n"],
            percent(rates.get("detected")),
            distance(rates),
            verdicts(rates),
        ])  # fmt: skip
    head = ["method", "family", "planted", "episodes", "repetitions", "p ≤ 0.05", "distance"]
    lines = [table([*head, "verdicts"], rows)]
    return "\n".join(lines + [f"{name} was skipped: {why}" for name, why in skipped.items()])


def percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.0f} %"


def distance(rates: dict[str, Any]) -> str:
    return f"{rates['distance']:.3g} ± {rates['error']:.1g}" if "distance" in rates else ""


def verdicts(rates: dict[str, Any]) -> str:
    shares = sorted(rates.get("verdicts", {}).items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {percent(share)}" for name, share in shares)


def rows_of(found: Found) -> dict[str, dict[tuple[str, float, int], dict[str, Any]]]:
    """Summaries by method, then by family, planted value and episodes."""
    result: dict[str, dict[Any, Any]] = {}
    for cell, values in found.items():
        if values["runs"]:
            result.setdefault(cell.method, {})[cell[1:4]] = summary(values)
    return result


def verdict_table(found: Found) -> str:
    """What `same` says of every planted difference, with the most episodes measured."""
    rows = []
    names = sorted({v["verdict"] for one in found.values() for v in one["runs"] if "verdict" in v})
    names.sort(key=lambda name: (name != "same", len(name)))
    by_method = rows_of(found)
    estimates = by_method.get("marginals", {})
    for (family, planted, n), rates in by_method.get("same", {}).items():
        if planted and n == max(k for f, p, k in by_method["same"] if (f, p) == (family, planted)):
            one = families()[family]
            shares = [percent(rates["verdicts"].get(name, 0.0)) for name in names]
            size = f"{planted:g}"
            if one.total_variation is None:
                estimate = estimates.get((family, planted, n), {}).get("distance")
                about = "" if estimate is None else f" (≈ {max(estimate, 0.0):.2f})"
                size = f"size {size}{about}"
            view = f"`{rates['view']}`" if "view" in rates else ""
            rows.append([f"`{family}`", one.planted, one.view, size, n, *shares, view])
    head = ["family", "planted", "view", "total variation", "episodes"]
    return table([*head, *(f"“{name}”" for name in names), "found in"], rows)


def typical_episodes(found: Found) -> int:
    """Return the number of episodes with which most cells were measured."""
    counts = Counter(n for cells in rows_of(found).values() for _, _, n in cells)
    return max(counts, key=lambda n: (counts[n], n))


def target_table(found: Found) -> str:
    """What `same` says of identical policies, and of those that differ by 0.3 or more."""
    rows = []
    for n in sorted({cell.episodes for cell in found}):
        pairs = {"none": Counter[str](), "at least 0.3": Counter[str]()}
        for cell, values in found.items():
            if (cell.method, cell.episodes) == ("same", n):
                known = families()[cell.family].total_variation is not None
                if not cell.planted or (known and cell.planted >= TYPICAL):
                    kind = "at least 0.3" if cell.planted else "none"
                    pairs[kind].update(run["verdict"] for run in values["runs"])
        for kind, count in pairs.items():
            if total := count.total():
                told = ", ".join(f"{name} {k}" for name, k in count.most_common())
                rows.append([n, kind, f"{told} of {total}"])
    return table(["episodes", "planted total variation", "verdicts"], rows)


def method_table(found: Found, episodes: int) -> str:
    """How often every method detects a planted total variation of about 0.3, and its level."""
    by_method = {
        name: {key: rates for key, rates in cells.items() if key[2] == episodes}
        for name, cells in rows_of(found).items()
    }
    by_method = {name: cells for name, cells in by_method.items() if cells}
    rows = []
    for name, family in families().items():
        values = [step for step in family.steps() if step]
        known = family.total_variation is not None
        chosen = TYPICAL if known and TYPICAL in values else values[-1]
        cells = [by_method[m].get((name, chosen, episodes), {}) for m in by_method]
        if any(cells):
            label = f"`{name}`, {'' if known else 'size '}{chosen:g}"
            rows.append([label, *(percent(cell.get("detected")) for cell in cells)])
    level = []
    for cells in by_method.values():
        null = [r for (_, planted, _), r in cells.items() if not planted and "detected" in r]
        n = sum(rates["n"] for rates in null)
        wrong = sum(rates["n"] * rates["detected"] for rates in null)
        level.append(f"{100 * wrong / n:.1f} % of {n}" if n else "")
    rows.append(["**no difference**", *level])
    return table(["planted", *(f"`{name}`" for name in by_method)], rows)


def curves(found: Found, path: Path = PICTURE) -> None:
    """Draw one panel per synthetic family: rates of detection over total variation."""
    from matplotlib.lines import Line2D

    from pivec.figures import (
        INK,
        MUTED,
        add_panel_title,
        axes_at,
        group_colours,
        headed_figure,
        lined_axes,
        save_figure,
    )  # fmt: skip

    by_method = rows_of(found)
    most = typical_episodes(found)
    names = [
        name
        for name, family in families().items()
        if family.total_variation is not None
        and any((name, 0.0, most) in cells for cells in by_method.values())
    ]
    shown = [m for m, cells in by_method.items() if any((n, 0.0, most) in cells for n in names)]
    shown.sort(key=lambda method: method == "same")  # drawn last, on top
    across, wide, high = 4, 2.75, 2.2
    down = -(-len(names) // across)
    colours = dict(zip(shown, group_colours(len(shown)), strict=True))
    handles = [Line2D([], [], color=INK, lw=2, label="verdict “same”")] if "same" in shown else []
    handles += [Line2D([], [], color=c, lw=1.6, label=m) for m, c in colours.items()]
    figure = headed_figure(
        across * wide - 0.3,
        down * high,
        "Planted differences",
        f"Share of repetitions with p ≤ 0.05 over the planted total variation, {most} + {most} "
        "episodes; black: share of verdicts “same”; panels have the same vertical scale, and "
        "horizontal ones as far as was planted",
        handles,
    )
    for number, name in enumerate(names):
        row, column = divmod(number, across)
        place = 0.55 + column * wide, (down - 1 - row) * high + 0.35
        axes = axes_at(figure, *place, wide - 0.55, high - 0.95)
        lined_axes(axes)
        family = families()[name]
        add_panel_title(axes, name, family.planted)
        axes.axhline(ALPHA, color=MUTED, lw=0.8, ls=":")
        for method in shown:
            points = sorted(
                (planted, rates.get("detected"), rates.get("verdicts", {}).get("same", 0.0))
                for (of, planted, n), rates in by_method[method].items()
                if of == name and n == most
            )
            x, detected, same = zip(*points, strict=True) if points else ((), (), ())
            if None not in detected:
                axes.plot(x, detected, color=colours[method], lw=1.6, marker="o", ms=3)
            if method == "same":
                axes.plot(x, same, color=INK, lw=2, marker="o", ms=3)
        axes.set_ylim(-0.04, 1.04)
        axes.set_yticks(np.linspace(0, 1, 3))
    save_figure(figure, path)


def write(found: Found) -> None:
    """Replace the tables and the picture of docs/planted.md."""
    curves(found)
    by_method = rows_of(found)
    few = typical_episodes(found)
    done = [rates["n"] for cells in by_method.values() for rates in cells.values()]
    counts = f"{min(done)}" if min(done) == max(done) else f"{min(done)} to {max(done)}"
    text = "\n\n".join([
        "![Power curves](images/planted.png)",
        "### Verdicts of `pivec same`",
        verdict_table(found),
        target_table(found),
        margins(),
        f"### Detection by every method with {few} + {few} episodes",
        method_table(found, few),
        f"{counts} repetitions per cell; {machine()}.",
    ])  # fmt: skip
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
