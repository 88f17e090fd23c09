"""Trust regions on the dangerous path: constraints on actions and on states, and none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pivec.figures import add_heading, axes_at, lined_axes, new_figure
from pivec.parallel import Tell
from reproduction.figures import (
    DASHED,
    DOT_DASHED,
    DOTTED,
    Curves,
    add_labels,
    draw_learning_curves,
)
from reproduction.pipeline import Pipeline
from reproduction.published import notes, toml
from reproduction.recipes import Account, Calculation, Finding, Need, Recipe, Result, finding
from reproduction.tables import Array, bootstrap_interval, column, different, markdown, where
from reproduction.training import trust_region as path

# What the paper calls them, and the thresholds it chose.
TITLES = {
    "max-tv": "Max TV",
    "gaussian": "Gaussian",
    "supervector": "supervector",
    "visitation": "visitation",
    "none": "no constraint",
    "clipped": "clipped PPO",
}
_SUFFIXES = {"ends": "end points", "anew": "old policy played anew", "64": "64 units"}
PAPER_THRESHOLDS = {"max-tv": 0.4, "gaussian": 10.0, "supervector": 0.05}
OPEN = "an interval reaches over 0"
OTHER_SCRIPTS = "the paper's belong to its scripts' other mines, paths and networks"


def title(method: str) -> str:
    """Name a method for readers."""
    name, _, suffix = method.rpartition("-")
    return f"{TITLES[name]}, {_SUFFIXES[suffix]}" if suffix in _SUFFIXES else TITLES[method]


def interval(values: Array, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Mean over the first axis with its 95 % interval, by the bootstrap."""
    rows = values if values.ndim > 1 else values[:, None]
    low, high = bootstrap_interval(rows, rng)
    if values.ndim > 1:
        return values.mean(axis=0), low, high
    return float(values.mean()), float(low[0]), float(high[0])


def remarks(numbers: Mapping[str, Any]) -> list[str]:
    """Say what a reader must know, and where the best threshold may lie beyond those searched."""
    edges = []
    for name in different(numbers["sweep"], "method"):
        tried = column(numbers["sweep"], "threshold", method=name)
        if numbers["chosen"][name] in (min(tried), max(tried)):
            edges.append(title(name))
    return notes("trust_region", edges=", ".join(edges) or "none")


def tables(numbers: Mapping[str, Any]) -> str:
    """Write the methods, and the search for thresholds, as Markdown."""
    chosen, runs = numbers["chosen"], where(numbers["runs"], part="repeat")
    heads = ["method", "threshold: paper", "ours", "repetitions", "mean return, all of training"]
    heads += ["last tenth", "less no constraint, paired", "updates an iteration"]
    heads += ["iterations stopped", "against itself"]
    rng = np.random.default_rng(0)  # of the bootstrap
    lines = []
    for name, row in numbers["methods"].items():
        mine = np.array(column(runs, "mean_return", method=name))
        paper, gain = PAPER_THRESHOLDS.get(name), ""
        if not name.startswith("none"):  # less no constraint with the same networks
            other = "none-64" if name.endswith("-64") else "none"
            free = np.array(column(runs, "mean_return", method=other))[: len(mine)]
            gain = "{:+.2f} ({:+.2f} to {:+.2f})".format(*interval(mine - free, rng))
        lines.append(
            [
                title(name),
                "" if paper is None else f"{paper:g}",
                f"{chosen[name]:g}" if name in chosen else "",
                f"{len(mine)}",
                _spoken(row["area"]),
                _spoken(row["end"]),
                gain,
                f"{row['updates']:.0f}",
                f"{row['stopped']:.0%}" if name in chosen else "",
                f"{row['self_stops']:.0%}" if name in chosen else "",
            ]
        )
    explanation = (
        "*Against itself*: share of the iterations in which the policy that collected the data "
        "exceeds the threshold against a second sample of its own episodes. All thresholds:"
    )
    searched = ["method", "threshold", "mean return", "updates an iteration", "against itself"]
    swept = [
        [
            title(entry["method"]),
            f"{entry['threshold']:g}",
            f"**{entry['area'][0]:.2f}**"
            if chosen[entry["method"]] == entry["threshold"]
            else f"{entry['area'][0]:.2f}",
            f"{entry['updates']:.1f}",
            f"{entry['self_stops']:.0%}",
        ]
        for entry in numbers["sweep"]
    ]
    return "\n\n".join([markdown(heads, lines), explanation, markdown(searched, swept)])


def _spoken(values: Sequence[float]) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*values)


class Gaps:
    """Differences of a method to others, repetition by repetition, which have the same path."""

    def __init__(self, values: Mapping[str, Array], better: str, others: Sequence[str]) -> None:
        rng = np.random.default_rng(0)  # of the bootstrap
        self.mean = values[better].mean()
        self.gaps = {other: interval(values[better] - values[other], rng) for other in others}

    @property
    def holds(self) -> bool | None:
        """Whether it is above all of them, by intervals of 95 %; None where it cannot be told."""
        if any(high < 0 for _, _, high in self.gaps.values()):
            return False
        return True if all(low > 0 for _, low, _ in self.gaps.values()) else None

    def __str__(self) -> str:
        spoken = "; ".join(
            f"{mean:+.2f} (95 %: {low:+.2f} to {high:+.2f}) over {title(other)}"
            for other, (mean, low, high) in self.gaps.items()
        )
        return f"{self.mean:.2f}: {spoken}"


def findings(numbers: Mapping[str, Any]) -> list[Finding]:
    """Judge what the paper says."""
    rows = where(numbers["runs"], part="repeat")
    whole, last = (
        {name: np.array(column(rows, measure, method=name)) for name in numbers["methods"]}
        for measure in ("mean_return", "last_tenth")
    )

    def compare(
        key: str, better: str, *others: str, values: Mapping[str, Array] = whole
    ) -> Finding:
        gaps = Gaps(values, better, others)
        alone = numbers["methods"][better]["self_stops"]
        why = OPEN if gaps.holds is None else ""
        if gaps.holds is False and alone:
            why = f"two samples of one policy exceed its threshold in {alone:.0%} of the iterations"
        return finding(key, str(gaps), gaps.holds, why=why)

    chosen = {name: numbers["chosen"][name] for name in PAPER_THRESHOLDS}
    shares = {name: numbers["methods"][name]["stopped"] for name in PAPER_THRESHOLDS}
    return [
        compare("trust-actions", "max-tv", "gaussian", "supervector"),
        compare("trust-gaussian", "gaussian", "none"),
        compare("trust-supervector", "supervector", "none"),
        compare("trust-slow", "gaussian", "max-tv", "supervector", "none", values=last),
        _peak(numbers),
        finding(
            "trust-thresholds",
            ", ".join(f"{value:g}" for value in chosen.values()),
            chosen == PAPER_THRESHOLDS,
            why="" if chosen == PAPER_THRESHOLDS else OTHER_SCRIPTS,
        ),
        finding(
            "trust-occasionally",
            ", ".join(f"{title(name)} {share:.0%}" for name, share in shares.items()),
            all(0 < share < 1 for share in shares.values()),
        ),
        compare("trust-clipped", "clipped", "max-tv", "gaussian", "supervector"),
    ]


def _peak(numbers: Mapping[str, Any]) -> Finding:
    """Judge whether supervectors are quick, have their peak in the first two thirds, and drop."""
    if numbers["tenths"] is None:
        return finding("trust-peak", "–", None, why="its numbers were not kept")
    parts = {name: np.array(rows) for name, rows in numbers["tenths"].items()}
    mine = parts["supervector"].mean(axis=0)
    peak = int(mine.argmax())
    quick = Gaps(
        {name: rows[:, :2].mean(axis=1) for name, rows in parts.items()},
        *("supervector", ("gaussian", "none")),
    )
    drop = Gaps(
        {"peak": parts["supervector"][:, peak], "last": parts["supervector"][:, -1]},
        *("peak", ("last",)),
    )
    early = peak <= 5  # that tenth ends before two thirds of training
    verdicts = (early, quick.holds, drop.holds)
    holds = False if False in verdicts else None if None in verdicts else True
    mean, low, high = drop.gaps["last"]
    return finding(
        "trust-peak",
        f"first fifth {quick}; best in tenth {peak + 1} of 10, last one {-mean:+.2f} "
        f"(95 %: {-high:+.2f} to {-low:+.2f})",
        holds,
        why=OPEN if holds is None else "",
    )


COLOURS = dict(
    zip(TITLES, ("#0072B2", "#009E73", "#D55E00", "#E69F00", "#59636E", "#CC79A7"), strict=True)
)
DASHES: Mapping[str, Any] = dict(
    zip(TITLES, (DASHED, DOT_DASHED, "-", DASHED, DOTTED, "-"), strict=True)
)


def trust_region_figure(
    curves: Curves,
    sweep: Sequence[Mapping[str, Any]],
    chosen: Mapping[str, float],
    summary: Mapping[str, Mapping[str, Any]],
) -> Figure:
    """Draw the learning curves with their intervals, and the area under them by threshold."""
    width, height, top, bottom = 9.6, 6.6, 1.2, 0.62
    figure = new_figure(width, height)
    add_heading(
        figure,
        "PPO on the dangerous path, its updates stopped by a constraint",
        "Return in training (mean and 95 % interval over paths), and the search for thresholds",
    )
    tall = height - top - bottom
    axes = axes_at(figure, 0.62, bottom, 5.3, tall)
    labels = {
        name: TITLES[name] + (f" ({chosen[name]:g})" if name in chosen else "")
        for name in COLOURS
        if name in curves
    }
    shown = {label: curves[name] for name, label in labels.items()}
    looks = {label: (COLOURS[name], DASHES[name]) for name, label in labels.items()}
    draw_learning_curves(axes, shown, looks, 3, width=1.7, band=0.13)
    axes.set_ylim(bottom=0)
    add_labels(axes, y="mean return, of 25")
    rules = [name for name in COLOURS if name in chosen]
    gap = 0.62
    high = (tall + 0.35 - gap * (len(rules) - 1)) / len(rules)
    for i, rule in enumerate(rules):
        low = bottom + (len(rules) - 1 - i) * (high + gap)
        panel = axes_at(figure, 6.55, low, 2.8, high)
        mine = [entry for entry in sweep if entry["method"] == rule]
        _draw_sweep(panel, rule, mine, chosen[rule], summary["none"]["area"][0])
    return figure


def _draw_sweep(
    axes: Axes, rule: str, entries: Sequence[Mapping[str, Any]], chosen: float, none: float
) -> None:
    thresholds = np.array([entry["threshold"] for entry in entries])
    mean, low, high = np.array([entry["area"] for entry in entries]).T
    places = np.arange(len(thresholds))
    axes.axhline(none, color=COLOURS["none"], linestyle=DASHES["none"], linewidth=1.0, zorder=1)
    axes.vlines(places, low, high, color=COLOURS[rule], alpha=0.4, linewidth=2.4)
    axes.plot(places, mean, color=COLOURS[rule], marker="o", markersize=3.4, linewidth=1.0)
    best = thresholds.tolist().index(chosen)
    axes.plot(best, mean[best], marker="o", markersize=7.5, color=COLOURS[rule], zorder=3)
    shown = places[:: -(-len(places) // 10)]  # so that their numbers do not overlap
    axes.set_xticks(shown, [f"{value:g}".lstrip("0") for value in thresholds[shown]])
    axes.set_ylim(0, 1.1 * max(none, high.max()))
    axes.set_title(
        f"{TITLES[rule][0].upper()}{TITLES[rule][1:]}, mean return by threshold",
        loc="left",
        fontsize=9.5,
        color=COLOURS[rule],
        pad=3,
    )
    lined_axes(axes, 8.5)


Runs = dict[tuple[str, float], list[path.PathRun]]  # by method and threshold
_FACTOR = 1_000  # so that repetitions of different seeds have different paths


@dataclass(frozen=True)
class Counts:
    """Repetitions of the best thresholds and of each threshold searched; steps of a run."""

    repetitions: int
    sweep_repetitions: int
    steps: int
    variants: tuple[str, ...] = (*path.SEARCHED_VARIANTS, *path.OTHER_VARIANTS)


def needs(pipeline: Pipeline, counts: Counts) -> list[Need]:  # noqa: ARG001 - as of all recipes
    """List what is computed, without what the search does beyond the first ranges."""
    few = counts.sweep_repetitions
    amounts = dict.fromkeys((*path.CONSTRAINTS, *path.OTHERS), counts.repetitions)
    amounts |= dict.fromkeys(counts.variants, few)
    for name in amounts:
        if name in path.CONSTRAINTS or name in path.SEARCHED_VARIANTS:
            amounts[name] += few * (len(path.RANGES[path.base_of(name)]["first"]) - 1)
    return [
        Calculation(
            f"runs of {name} in pivec/DangerousPath-v0", amount, _seconds(name, counts.steps)
        )
        for name, amount in amounts.items()
    ]


def _seconds(name: str, steps: int) -> float:
    speeds = toml("speeds")["path"]
    return float(
        speeds[path.base_of(name)] * (speeds["wider"] if "-64" in name else 1) * steps / 1e6
    )


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Search the thresholds, repeat the best of each rule, and compare."""
    few, searched = (
        range(counts.sweep_repetitions),
        set(counts.variants) & set(path.SEARCHED_VARIANTS),
    )
    runner = partial(_runs, pipeline, counts.steps)
    swept = _search(path.CONSTRAINTS, runner, few)
    chosen = best_thresholds(swept)
    runs = runner(
        [(name, chosen.get(name, np.inf)) for name in (*path.CONSTRAINTS, *path.OTHERS)],
        range(counts.repetitions),
        "repeat",
    )
    swept |= _search([name for name in counts.variants if name in searched], runner, few)
    chosen |= best_thresholds(swept)
    chosen |= {
        name: chosen[path.base_of(name)]
        for name in counts.variants
        if path.base_of(name) in chosen and name not in searched
    }
    runs |= runner([(name, chosen.get(name, np.inf)) for name in counts.variants], few, "variants")
    rng = np.random.default_rng(pipeline.seed)
    sweep = [{"method": key[0], **_summary(key, group, rng)} for key, group in swept.items()]
    summary = {key[0]: _summary(key, group, rng) for key, group in runs.items()}
    curves = {name: _curve(group, counts, rng) for (name, _), group in runs.items()}
    numbers = {
        "chosen": chosen,
        "methods": summary,
        "sweep": sweep,
        "curves": curves,
        "tenths": {
            name: [path.tenths(run).tolist() for run in group] for (name, _), group in runs.items()
        },
        "runs": _rows(swept, "search", pipeline) + _rows(runs, "repeat", pipeline),
    }
    return Result(numbers, {"trust-region": trust_region_figure(curves, sweep, chosen, summary)})


def _search(names: Sequence[str], runner: Any, repetitions: Sequence[int]) -> Runs:
    """Run all thresholds, and more of them while the best lies at the edge of its range."""
    todo = [(name, value) for name in names for value in path.RANGES[path.base_of(name)]["first"]]
    swept: Runs = {}
    while todo:
        swept |= runner(todo, repetitions, "search")
        further = {
            name: path.next_threshold(_areas(swept, name), path.RANGES[path.base_of(name)])
            for name in names
        }
        todo = [(name, value) for name, value in further.items() if value is not None]
    return {key: swept[key] for key in sorted(swept, key=lambda key: (names.index(key[0]), key[1]))}


def _areas(swept: Runs, name: str) -> dict[float, float]:
    return {
        threshold: path.area(runs) for (method, threshold), runs in swept.items() if method == name
    }


def best_thresholds(swept: Runs) -> dict[str, float]:
    """For each method, the threshold with the largest area under the mean learning curve."""
    areas = {name: _areas(swept, name) for name in dict.fromkeys(name for name, _ in swept)}
    return {name: max(of, key=of.__getitem__) for name, of in areas.items()}


def judge(numbers: Mapping[str, Any], _counts: Counts) -> Account:
    """Say what the numbers show."""
    return Account(numbers["runs"], tables(numbers), findings(numbers), remarks(numbers))


def _runs(
    pipeline: Pipeline,
    steps: int,
    what: Sequence[tuple[str, float]],
    repetitions: Sequence[int],
    title: str,
) -> Runs:
    """Run everything that is not there yet; in the order of ``what``."""
    inputs = [
        {
            "settings": path.settings_of(*key)._replace(total_steps=steps)._asdict(),
            "path_seed": _path_seed(pipeline, i),
            "seed": [pipeline.seed, i],
        }
        | ({"describes": "spread"} if path.settings_of(*key).rule == path.VISITATION else {})
        for key in what
        for i in repetitions
    ]
    done = iter(pipeline.computed_all("trust-region", inputs, run_path, title))
    return {key: [path.PathRun(**next(done)) for _ in repetitions] for key in what}


def run_path(inputs: Mapping[str, Any], _tell: Tell) -> dict[str, Any]:
    """One run, from all that decides it."""
    settings = path.PathSettings(**inputs["settings"])
    return path.learn_path(settings, inputs["path_seed"], inputs["seed"])._asdict()


def _path_seed(pipeline: Pipeline, repetition: int) -> int:
    return pipeline.seed * _FACTOR + repetition


def _summary(
    key: tuple[str, float], runs: Sequence[path.PathRun], rng: np.random.Generator
) -> dict[str, Any]:
    """Numbers of one method, with 95 % intervals over the repetitions."""
    settings = path.settings_of(*key)
    return {
        "threshold": _finite(settings.threshold),
        "area": interval(np.array([run.returns.mean() for run in runs]), rng),
        "end": interval(np.array([path.tenths(run)[-1] for run in runs]), rng),
        "updates": float(np.mean([run.updates for run in runs])),
        "stopped": path.stopped(runs, settings),
        "self_stops": path.self_stops(runs, settings),
    }


def _curve(
    runs: Sequence[path.PathRun], counts: Counts, rng: np.random.Generator
) -> dict[str, list[float]]:
    """Mean return over the repetitions at each iteration, with a 95 % interval."""
    returns = np.array([run.returns for run in runs])
    mean, low, high = interval(returns, rng)
    n = returns.shape[1]
    steps = np.linspace(counts.steps / n, counts.steps, n)
    return {
        name: np.asarray(values).tolist()
        for name, values in (("steps", steps), ("mean", mean), ("low", low), ("high", high))
    }


def _finite(threshold: float) -> float | None:
    return threshold if np.isfinite(threshold) else None


def _rows(runs: Runs, part: str, pipeline: Pipeline) -> list[dict[str, Any]]:
    """One row for each run."""
    return [
        {
            "part": part,
            "method": key[0],
            "threshold": _finite(key[1]),
            "repetition": i,
            "path_seed": _path_seed(pipeline, i),
            "mean_return": float(run.returns.mean()),
            "first_fifth": float(path.tenths(run)[:2].mean()),
            "last_tenth": float(path.tenths(run)[-1]),
            "updates": float(run.updates.mean()),
            "stopped": path.stopped([run], path.settings_of(*key)),
            "self_stops": path.self_stops([run], path.settings_of(*key)),
        }
        for key, group in runs.items()
        for i, run in enumerate(group)
    ]


RECIPE = Recipe.of("trust-region", Counts, needs, make, judge)
