"""Table 1's column of required compute, measured: seconds and memory of every characterization.

Each describes and compares the same policies, a few and then several times as many, in a process
of its own, so that its peak of memory can be told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from pivec.characterizations import characterization, names
from pivec.figures import HAIRLINE, INK, MUTED, add_heading, axes_at, literal, new_figure
from pivec.parallel import Tell, ask, usable_cores
from pivec.policies import NamedPolicy, load_policies
from pivec.run_log import peak_mb
from pivec.states import load
from reproduction.figures import add_labels, add_legend, patch
from reproduction.pipeline import Pipeline, spread_evenly
from reproduction.planning import method_seconds
from reproduction.published import notes, toml
from reproduction.recipes import Account, Calculation, Finding, Need, Recipe, Result, finding
from reproduction.supervectors import AUTHORS
from reproduction.tables import Rows, column, different, markdown, where

MAGNITUDE = 10.0
BATCHED = "trajectories are encoded together here, and not one at a time"
ARRAYS = (
    "whole trajectories and transitions are compared as arrays here; a discriminator is a network "
    "of its own for every policy"
)
RATINGS = ("Low", "High", "V.High", "N/A", "")


def at_most_policies(rows: Rows) -> list[dict[str, Any]]:
    """Return the rows with the most policies, the fastest first."""
    most = max(different(rows, "policies"))
    return sorted(where(rows, policies=most), key=lambda row: row["seconds"])


def of_method(rows: Rows, method: str) -> list[dict[str, Any]]:
    """Return the rows of a characterization, from few policies to many."""
    return sorted(where(rows, method=method), key=lambda row: row["policies"])


def growth(rows: Rows, method: str) -> float:
    """Return the power of the number of policies with which the seconds grow."""
    mine = of_method(rows, method)
    few, many = mine[0], mine[-1]
    if few["policies"] == many["policies"]:
        return math.nan
    ratio = many["policies"] / few["policies"]
    return math.log(many["seconds"] / few["seconds"]) / math.log(ratio)


def rounded(seconds: float) -> str:
    """Write three digits, and thousands without an exponent."""
    return f"{float(f'{seconds:.3g}'):g}"


def table(rows: Rows) -> str:
    """Write seconds and memory beside the paper's rating, the fastest first."""
    counts = sorted(different(rows, "policies"))
    heads = ["characterization", "row of Table 1", "paper", *(f"s, {n} policies" for n in counts)]
    heads += ["grows as policies to the", f"added MB, {counts[-1]} policies", "peak MB"]
    lines = []
    for last in at_most_policies(rows):
        power = growth(rows, last["method"])
        lines.append(
            [
                last["method"],
                last["row_of_the_table"] or "–",
                last["paper"] or "–",
                *map(rounded, column(of_method(rows, last["method"]), "seconds")),
                "–" if math.isnan(power) else f"{power:.1f}",
                f"{last['added_mb']:.0f}",
                f"{last['peak_mb']:.0f}",
            ]
        )
    return markdown(heads, lines, left=3)


def findings(rows: Rows) -> list[Finding]:
    """What the table says, beside what came out."""
    last = at_most_policies(rows)
    cheap = where(last, paper="Low")
    costly = [row for row in last if row["paper"] in ("High", "V.High")]
    own = where(last, method="supervector")
    neural = [row for row in last if row["method"] in ("discriminator", "encoder")]
    result = []
    if cheap and costly:
        slowest, fastest = cheap[-1], costly[0]
        holds = slowest["seconds"] < fastest["seconds"]
        result.append(
            finding(
                "cost-ratings",
                f"slowest Low: {_seconds(slowest)}; fastest High: {_seconds(fastest)}",
                holds,
                why="" if holds else ARRAYS,
            )
        )
    if own and neural:
        cheaper = all(own[0]["seconds"] < row["seconds"] for row in neural)
        spoken = ", ".join(_seconds(row) for row in [*own, *neural])
        result.append(finding("cost-supervectors", spoken, cheaper))
    at = {row["method"]: row["seconds"] for row in neural}
    if len(at) == 2:
        ratio = at["encoder"] / at["discriminator"]
        result.append(
            finding(
                "cost-encoder",
                ", ".join(_seconds(row) for row in neural) + f": {ratio:.2g} times",
                ratio >= MAGNITUDE,
                why="" if ratio >= MAGNITUDE else BATCHED,
            )
        )
    if own:
        power = growth(rows, "supervector")
        result.append(
            finding(
                "cost-scalable",
                f"seconds grow as the policies to the power of {power:.1f}; "
                f"{own[0]['added_mb']:.0f} MB for {own[0]['policies']}",
                None if math.isnan(power) else power < 1.5,
            )
        )
    return result


def _seconds(row: dict[str, Any]) -> str:
    return f"{row['method']} {rounded(row['seconds'])} s"


COLOURS = dict(zip(RATINGS, ("#0072B2", "#E69F00", "#D55E00", "#8C959F", "#57606A"), strict=True))
# Inches.
LINE, LEFT, TOP, BOTTOM, SECONDS, MEMORY, GAP = 0.33, 1.75, 1.2, 0.66, 4.8, 2.3, 0.4


def cost_figure(rows: Rows, environment: str, episodes: int) -> Figure:
    """Draw seconds as a line from few to many policies, and memory as bars, fastest on top."""
    last = at_most_policies(rows)
    counts = sorted(different(rows, "policies"))
    tall = LINE * len(last)
    figure = new_figure(LEFT + SECONDS + GAP + MEMORY + 0.5, TOP + tall + BOTTOM)
    policies = " to ".join(str(n) for n in counts)
    add_heading(
        figure,
        "What does it cost to compare policies?",
        f"{environment}, {policies} policies, {episodes} episodes each; colour: the paper's rating",
    )
    left = axes_at(figure, LEFT, BOTTOM, SECONDS, tall)
    right = axes_at(figure, LEFT + SECONDS + GAP, BOTTOM, MEMORY, tall)
    for place, row in enumerate(last):
        colour, added = COLOURS[row["paper"]], max(row["added_mb"], 0.0)
        seconds = column(of_method(rows, row["method"]), "seconds")
        first, slowest = seconds[0], seconds[-1]
        line: Any = {"color": colour, "linewidth": 2.2, "solid_capstyle": "round"}
        left.plot(seconds, [place] * len(seconds), **line)
        left.plot(first, place, "o", color=colour, markerfacecolor="white", markersize=7)
        left.plot(slowest, place, "o", color=colour, markersize=7)
        _say(left, slowest, place, f"{slowest:.2g} s" if slowest < 10 else f"{slowest:,.0f} s")
        right.barh(place, added, height=0.62, color=colour)
        _say(right, added, place, f"{added:.0f}")
    left.set_xscale("log")
    left.set_xlim(right=6 * left.get_xlim()[1])  # room for the numbers
    left.set_yticks(range(len(last)), [literal(row["method"], 24) for row in last])
    _dress(left, len(last), f"seconds, ○ {counts[0]} and ● {counts[-1]} policies")
    right.set_yticks([])
    right.set_xlim(0, 1.2 * max(1.0, *(row["added_mb"] for row in last)))
    _dress(right, len(last), f"memory added, MB, {counts[-1]} policies")
    _add_legend(figure, {row["paper"] for row in last})
    return figure


def _say(axes: Axes, x: float, place: int, text: str) -> None:
    axes.annotate(text, (x, place), (8, 0), textcoords="offset points", va="center", fontsize=9,
                  color=MUTED)  # fmt: skip


def _dress(axes: Axes, n_lines: int, label: str) -> None:
    axes.set_ylim(n_lines - 0.4, -0.6)
    add_labels(axes, label, fontsize=10.5)
    axes.tick_params(length=0, labelsize=10, labelcolor=INK)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "left")
        spine.set_color(HAIRLINE)


def _add_legend(figure: Figure, used: set[str]) -> None:
    width, height = figure.get_size_inches()
    handles = [
        patch(rating or "not in the table", COLOURS[rating]) for rating in RATINGS if rating in used
    ]
    corner = LEFT / width, 1 - 0.78 / height
    style: Any = {"bbox_to_anchor": corner, "handlelength": 1.0, "columnspacing": 1.4}
    add_legend(figure, handles, "upper left", **style)


ENVIRONMENT = "CartPole-v1"  # of the policies that come with the package
_STATES = 241  # per trajectory, on average


@dataclass(frozen=True)
class Counts:
    """How many policies are compared, from how much data."""

    policies: tuple[int, ...]  # from few to many; enough for 48 come with the package
    episodes: int  # of each policy
    methods: tuple[str, ...] = field(default_factory=names)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def shipped_policies(count: int) -> list[NamedPolicy]:
    """Load policies that come with the package, spread evenly over all runs."""
    everything = load_policies(Path(str(files("pivec") / "demo_policies" / ENVIRONMENT)))
    return spread_evenly(everything, count)


def needs(pipeline: Pipeline, counts: Counts) -> list[Need]:
    """List the measurements."""
    sizes = [count * counts.episodes for count in counts.policies]
    return [
        Calculation(
            f"{name} of trajectories in {ENVIRONMENT}",
            sum(sizes),
            method_seconds(name) * _STATES / 1e6,
            done=pipeline.is_computed("cost", _inputs(pipeline, counts, name)),
        )
        for name in counts.methods
    ]


def _parameters(counts: Counts, name: str) -> dict[str, Any]:
    return {**AUTHORS.get(name, {}), **counts.parameters.get(name, {})}


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Measure every characterization on the same states."""
    store = _states(pipeline, counts)
    methods = {name: _parameters(counts, name) for name in counts.methods}
    rows = []
    for name, parameters in methods.items():
        measure = partial(measure_in_process, name, parameters, store, counts.policies)
        found = pipeline.computed("cost", _inputs(pipeline, counts, name), measure)
        rows += _rows(name, Measured(**found), counts)
    facts = {"environment": ENVIRONMENT, "episodes": counts.episodes, "cores": usable_cores()}
    numbers = {**facts, "methods": methods, "rows": rows}
    return Result(numbers, {"cost": cost_figure(rows, ENVIRONMENT, counts.episodes)})


def judge(numbers: Mapping[str, Any], _counts: Counts) -> Account:
    """Say what the numbers show."""
    rows, cores = numbers["rows"], numbers["cores"]
    remarks = notes("cost", cores="one core" if cores == 1 else f"{cores} cores")
    return Account(rows, table(rows), findings(rows), remarks)


def _states(pipeline: Pipeline, counts: Counts) -> Path:
    """Collect the states of the most policies, with actions and the policies themselves."""
    most = max(counts.policies)
    store = (
        pipeline.cache
        / "states"
        / f"{ENVIRONMENT}-shipped-{most}x{counts.episodes}-{pipeline.seed}"
    )
    kept: dict[str, Any] = {"store": store, "actions": True, "keep_policies": True}
    pipeline.play(ENVIRONMENT, shipped_policies(most), counts.episodes, pipeline.seed, **kept)
    return store


def _inputs(pipeline: Pipeline, counts: Counts, name: str) -> dict[str, Any]:
    """All that decides a measurement."""
    return {
        "method": name,
        "parameters": _parameters(counts, name),
        "policies": list(counts.policies),
        "episodes": counts.episodes,
        "seed": pipeline.seed,
        "cores": usable_cores(),
    }


@dataclass(frozen=True, eq=False)
class Measured:
    """What one characterization takes."""

    seconds: NDArray[np.float64]  # (n, 3): fit, describe and distances, for each number of policies
    peak_mb: NDArray[np.float64]  # (n,): the most memory, in millions of bytes, held by then
    before_mb: Any  # the same before the first, with all libraries loaded


def measure_in_process(
    method: str, parameters: Mapping[str, Any], store: Path, policies: Sequence[int]
) -> dict[str, Any]:
    """Let a process describe and compare the first so many policies of a store, few first."""
    request = (method, dict(parameters), store.resolve(), policies)
    measured: Measured = ask(_measure, request, failed=f"{method} could not be measured")
    return vars(measured)


def _measure(request: tuple[str, dict[str, Any], Path, Sequence[int]], _tell: Tell) -> Measured:
    """Measure what is asked for; runs in a process of its own."""
    method, parameters, store, policies = request
    data = load(store, verify=False)
    few = data[:3].sample_episodes(1, np.random.default_rng(0))
    characterization(method, **parameters).fit(few).distances(few)  # loads and compiles
    before, seconds, peaks = peak_mb(), [], []
    for count in policies:
        part = data.select(np.linspace(0, len(data) - 1, count).round().astype(int))
        measured = characterization(method, **parameters)
        times = [time.perf_counter()]
        measured.fit(part)
        times.append(time.perf_counter())
        described = measured.describe(part)
        times.append(time.perf_counter())
        measured.distances(described)
        times.append(time.perf_counter())
        seconds.append(np.diff(times))
        peaks.append(peak_mb())
    return Measured(np.array(seconds), np.array(peaks), before)


def _rows(method: str, measured: Measured, counts: Counts) -> list[dict[str, Any]]:
    row, rating = toml("published")["cost"].get(method, ("", ""))
    return [
        {
            "method": method,
            "row_of_the_table": row,
            "paper": rating,
            "policies": policies,
            "seconds": float(measured.seconds[i].sum()),
            "seconds_fit": float(measured.seconds[i, 0]),
            "seconds_describe": float(measured.seconds[i, 1]),
            "seconds_distances": float(measured.seconds[i, 2]),
            "peak_mb": float(measured.peak_mb[i]),
            "added_mb": float(measured.peak_mb[i] - measured.before_mb),
        }
        for i, policies in enumerate(counts.policies)
    ]


RECIPE = Recipe.of("cost", Counts, needs, make, judge)
