"""Novelty search in the deceptive point: ES, and NSR-ES with several kinds of behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pivec.figures import INK, MUTED, add_heading, axes_at, new_figure, quiet_axes
from pivec.policies import load_policies
from pivec.workflows import collect
from reproduction.figures import (
    DASHED,
    DOT_DASHED,
    DOTTED,
    PAPER,
    Curves,
    Look,
    add_labels,
    draw_learning_curves,
)
from reproduction.pipeline import Pipeline, Training
from reproduction.published import notes
from reproduction.recipes import Account, Finding, Need, Recipe, Result, finding
from reproduction.tables import Array, bootstrap_interval, column, markdown
from reproduction.training.novelty import read_generations
from reproduction.worlds.deceptive_point import START, WALLS

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
        finding(
            "novelty-trap",
            f"{stuck.mean():.3f}, at most {stuck.max():.3f} (the bar begins at {EDGE:.2f})",
            bool(stuck.max() <= EDGE),
        ),
        finding("novelty-best", f"{best:.2f}", bool(best >= BEST)),
    ]
    for name in (TERMINAL, GAUSSIAN, SUPERVECTOR, VISITATION):
        final, low, high = finals[name], curves[name]["low"][-1], curves[name]["high"][-1]
        key = {TERMINAL: "-terminal", VISITATION: "-visitation"}.get(name, "")
        ours = (
            f"{final.mean():.2f} (95 %: {low:.2f} to {high:.2f}), at best {final.max():.2f}, out "
            f"in {_out(final)} runs"
        )
        result.append(finding(f"novelty-overcome{key}", ours, bool(low > EDGE), name=name))
    for name in (GAUSSIAN, SUPERVECTOR):
        # The same run begins with the same networks in both.
        gaps = (finals[TERMINAL] - finals[name])[:, None]
        mean, low, high = (
            float(x) for x in (gaps.mean(), *np.ravel(bootstrap_interval(gaps, rng)))
        )
        alike = low <= 0 <= high
        worse = alike and mean <= 0
        result.append(
            finding(
                "novelty-terminal",
                f"{mean:+.2f} (95 %: {low:+.2f} to {high:+.2f})",
                None if worse else alike,
                why="worse, but not significantly so" if worse else "",
                name=name.split(", ")[1],
            )
        )
    return result


WALL = "#59636E"
LOOKS: dict[str, Look] = {
    ES: (WALL, DOTTED),
    TERMINAL: ("#0072B2", DASHED),
    GAUSSIAN: ("#009E73", DOT_DASHED),
    SUPERVECTOR: ("#D55E00", "-"),
    VISITATION: ("#CC79A7", "-"),
}
_VIEW = (-2.2, 1.4, -1.35, 3.4)  # of the plane: left, right, bottom, top


def novelty_figure(curves: Curves, ways: Mapping[str, Sequence[Array]]) -> Figure:
    """Draw the best mean return so far with its intervals, and the ways of the best policies."""
    width, height, top, bottom = 9.2, 4.9, 1.12, 0.62
    figure = new_figure(width, height)
    add_heading(
        figure,
        "Novelty search in the deceptive point",
        "Best generation's mean return so far (mean, 95 % interval), the way of each run's best",
    )
    tall = height - top - bottom
    axes = axes_at(figure, 0.66, bottom, 5.7, tall)
    draw_learning_curves(axes, curves, LOOKS, 3)
    style: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    style |= {"ha": "right", "fontsize": 8.5, "color": MUTED}
    for value, text, above in ((POCKET, "straight up", -9.5), (BEST, "the paper's best", 2)):
        axes.axhline(value, color=PAPER, linewidth=0.8, zorder=1)
        axes.annotate(f"{text}, {value}", (1, value), (-2, above), **style)
    axes.set_ylim(bottom=min(0.0, *(min(curve["low"]) for curve in curves.values())), top=4.2)
    add_labels(axes, y="best mean return of a generation so far")
    wide = tall * (_VIEW[1] - _VIEW[0]) / (_VIEW[3] - _VIEW[2])
    _draw_ways(axes_at(figure, 6.6, bottom, wide, tall), ways)
    return figure


def _draw_ways(axes: Axes, ways: Mapping[str, Sequence[Array]]) -> None:
    cell = 2 / len(WALLS)
    for row, col in np.argwhere(WALLS):
        corner = col * cell - 1, row * cell - 1
        axes.add_patch(Rectangle(corner, cell, cell, color=WALL, linewidth=0))
    for method, (colour, dashes) in LOOKS.items():
        for way in ways[method]:
            axes.plot(*way.T, color=colour, linestyle=dashes, linewidth=1.1, alpha=0.85)
    axes.plot(*START, marker="o", markersize=4, color=INK, zorder=4)
    axes.set_xlim(*_VIEW[:2])
    axes.set_ylim(*_VIEW[2:])
    quiet_axes(axes)


ENVIRONMENT = "pivec/DeceptivePoint-v0"
# What the paper calls them, and the behaviour (None: only returns count).
METHODS = {
    ES: None,
    TERMINAL: "terminal-state",
    GAUSSIAN: "gaussian",
    SUPERVECTOR: "supervector",
    VISITATION: "visitation",  # pivec's own, outside the paper's claims
}


@dataclass(frozen=True)
class Counts:
    """How many repetitions; the generations are those of the scale's settings."""

    runs: int


def needs(pipeline: Pipeline, counts: Counts) -> list[Need]:
    """List what is trained."""
    return list(trainings(pipeline, counts).values())


def trainings(pipeline: Pipeline, counts: Counts) -> dict[str, Training]:
    """Describe the runs of each method; run i has the same first networks in all of NSR-ES."""
    return {
        name: pipeline.training(ENVIRONMENT, "es", counts.runs, name=name)
        if behaviour is None
        else pipeline.training(ENVIRONMENT, "nsr-es", counts.runs, name=name, behaviour=behaviour)
        for name, behaviour in METHODS.items()
    }


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Train, follow the best return so far, and compare."""
    planned = trainings(pipeline, counts)
    pipeline.train(list(planned.values()))
    histories = {name: history(pipeline, training) for name, training in planned.items()}
    ways = {name: best_ways(pipeline, training) for name, training in planned.items()}
    rng = np.random.default_rng(pipeline.seed)
    curves = {name: curve(steps, best, rng) for name, (steps, best, _) in histories.items()}
    rows = [
        {
            "method": name,
            "run": run,
            "best_batch_return": float(best[run, -1]),
            "best_return": float(policies[run, -1]),
            "out_of_pocket_in_generation": next(map(int, np.flatnonzero(best[run] > EDGE)), None),
            "steps": int(steps[run, -1]),
        }
        for name, (steps, best, policies) in histories.items()
        for run in range(len(best))
    ]
    return Result({"runs": rows, "curves": curves}, {"novelty": novelty_figure(curves, ways)})


def judge(numbers: Mapping[str, Any], _counts: Counts) -> Account:
    """Say what the numbers show."""
    rows, curves = numbers["runs"], numbers["curves"]
    finals, policies = (
        {name: np.array(column(rows, measure, method=name)) for name in curves}
        for measure in ("best_batch_return", "best_return")
    )
    rng = np.random.default_rng(0)  # of the bootstrap
    text = table(curves, finals, policies)
    judged = findings(curves, finals, policies, rng)
    return Account(rows, text, judged, notes("novelty", best=max(map(np.max, policies.values()))))


def history(pipeline: Pipeline, training: Training) -> tuple[Array, Array, Array]:
    """Steps, best mean return so far of a generation (the paper's) and of a policy, per run."""
    runs = [read_generations(pipeline.run_folder(training, run)) for run in range(training.runs)]
    steps, batches, best = (
        np.array([[getattr(entry, name) for entry in run] for run in runs], dtype=np.float64)
        for name in ("steps", "batch_return", "best_return")
    )
    return steps, np.maximum.accumulate(batches, axis=1), best


def best_ways(pipeline: Pipeline, training: Training) -> list[Array]:
    """For each run, the way that its best policy takes: one episode's states, (n, 2)."""
    ways = []
    for run in range(training.runs):
        folder = pipeline.run_folder(training, run)
        best = max(read_generations(folder), key=lambda entry: entry.mean_return)
        policies = load_policies(folder / f"generation_{best.number}.safetensors")
        data = collect(ENVIRONMENT, policies, episodes=1, seed=pipeline.seed)
        ways.append(np.asarray(data.states, dtype=np.float64))
    return ways


def curve(steps: Array, best: Array, rng: np.random.Generator) -> dict[str, list[float]]:
    """Mean over the runs at each generation, with a 95 % interval."""
    low, high = bootstrap_interval(best, rng)
    arrays = {"steps": steps.mean(axis=0), "mean": best.mean(axis=0), "low": low, "high": high}
    return {name: array.tolist() for name, array in arrays.items()}


RECIPE = Recipe.of("novelty", Counts, needs, make, judge)
