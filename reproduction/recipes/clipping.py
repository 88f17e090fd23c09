"""The clip ratio of PPO and the distance a policy travels in training, with A2C beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from pivec.characterizations import Visitation
from pivec.figures import INK, MUTED, add_key, colour_scale, lined_axes
from reproduction.figures import PAPER, add_labels, add_title, line, no_frame, panel_grid, patch
from reproduction.pipeline import Collection, Pipeline, Training
from reproduction.published import notes, scaled_return, short, toml
from reproduction.recipes import Account, Finding, Recipe, Result, finding
from reproduction.supervectors import Described, Space, described, space_of, successive_distances
from reproduction.tables import Array, Rows, column, different, markdown, pearson, where
from reproduction.training.runs import settings_for

A2C = "a2c"
TABLES = {
    "distance": ("Distance travelled", 1),
    "correlation": ("Corr(R, d)", 2),
    "visitation_distance": ("Distance travelled by visitation", 2),
    "visitation_correlation": ("Corr(R, d) by visitation", 2),
}


def table(summary: Rows, runs: int) -> str:
    """Write the paper's table as Markdown, ours with the paper's in brackets, if it has them."""
    kinds = ("mean", "std") if runs > 1 else ("mean",)
    environments, parts = different(summary, "environment"), []
    for name, (title, digits) in TABLES.items():
        theirs, lines = toml("published")["clipping"].get(name), []
        for setting in different(summary, "setting"):
            cells = [_name(setting)]
            for environment in environments:
                [ours] = where(summary, environment=environment, setting=setting)
                paper = f" ({_shown(theirs[environment][setting], digits)})" if theirs else ""
                cells.append(_shown([ours[f"{name}_{kind}"] for kind in kinds], digits) + paper)
            lines.append(cells)
        shown = ": ours (paper), mean ± standard deviation over runs"
        if not theirs:
            shown = ", which the paper does not have: mean ± standard deviation"
        parts.append(f"**{title}**{shown}")
        parts.append(markdown(["clip ratio", *map(short, environments)], lines))
    return "\n\n".join(parts)


def _name(setting: str) -> str:
    return "A2C" if setting == A2C else setting


def _shown(pair: Sequence[float], digits: int) -> str:
    return " ± ".join(f"{number:.{digits}f}" for number in pair)


def remarks_on(numbers: Mapping[str, Any], policies: int, states: int) -> list[str]:
    """Say what a reader must know of the numbers."""
    rows = numbers["runs"]
    chance = [row["by_chance"] / row["distance"] for row in rows if row["distance"] > 0]
    networks, changes = [], []
    for entry in numbers["trained"]:
        place, counted = short(entry["environment"]), entry["different_networks"]
        networks.append(f"{place} {counted['ppo']} (A2C {counted['a2c']})")
        changes += [
            f"{place} {algorithm} {name} {ours:,} ({paper:,})"
            for algorithm, settings in entry["changed_settings"].items()
            for name, (ours, paper) in settings.items()
        ]
    return notes(
        "clipping",
        share=100 * float(np.median(chance)),
        policies=policies,
        states=f"{states:,}",
        networks=", ".join(networks),
        changes=", ".join(changes) or "none",
    )


MOST_COLUMNS = 7  # of panels side by side
OURS, BASELINE, CHANCE, VISITS = "#0072B2", "#D55E00", "#E4E8EC", "#009E73"
DASHES: Any = (0, (3, 1.6))


def clipping_figure(rows: Rows) -> Figure:
    """Draw distance travelled and Corr(R, d) over the clip ratio, the paper's beside ours."""
    environments, settings = different(rows, "environment"), different(rows, "setting")
    n, gap, margins = len(environments), 0.5, (0.85, 0.3, 1.35, 0.75)
    wide = max(2.35, (7.6 - 0.85 - 0.3 + gap) / n - gap)
    heading = (
        "The clip ratio of PPO, and how far a policy travels",
        "Distance travelled in training, and its correlation with the return along the way",
    )
    figure, panel = panel_grid(heading, (2, n), (wide, 2.0), (gap, 0.42), margins)
    for j, environment in enumerate(environments):
        mine = where(rows, environment=environment)
        above, below = panel(0, j), panel(1, j)
        for axes, name in ((above, "distance"), (below, "correlation")):
            printed = toml("published")["clipping"][name][environment]
            _draw_settings(axes, mine, settings, printed, name)
        add_title(above, short(environment))
        above.set_ylim(bottom=0)
        above.set_xticklabels([])
        below.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
        below.set_ylim(-1, 1)
        below.set_yticks([-1, -0.5, 0, 0.5, 1])
        labels = [_name(setting).lstrip("0") for setting in settings]
        below.set_xticklabels(labels, rotation=90 if len(settings) > 8 else 0)
        add_labels(below, "clip ratio")
        if j == 0:
            add_labels(above, y="distance travelled")
            add_labels(below, y="Corr(R, d)")
    hollow = {"marker": "D", "markersize": 4, "markerfacecolor": "white"}
    handles = [
        line("PPO, mean", OURS, marker="o", markersize=6, linewidth=1.8),
        line("A2C", BASELINE, "none", marker="o", markersize=6),
        line("a run", OURS, "none", marker="o", markersize=3),
        line("visitation, its mean as ours", VISITS, DASHES, linewidth=1.3),
        line("paper (mean, deviation)", PAPER, "none", **hollow),
    ]
    add_key(figure, handles)
    return figure


def _draw_settings(
    axes: Axes, rows: Rows, settings: Sequence[str], theirs: dict[str, list[float]], name: str
) -> None:
    places = np.array([i + (0.5 if s == A2C else 0.0) for i, s in enumerate(settings)])
    runs = [column(rows, name, setting=setting) for setting in settings]
    means = np.array([np.mean(numbers) for numbers in runs])
    ratio = np.array([setting != A2C for setting in settings])
    paper = np.array([theirs[setting] for setting in settings])
    axes.errorbar(places + 0.22, paper[:, 0], paper[:, 1], fmt="D", markersize=3.6, color=PAPER,
                  markerfacecolor="white", linewidth=1.0, zorder=2)  # fmt: skip
    axes.plot(places[ratio], means[ratio], color=OURS, linewidth=1.8, zorder=3)
    visits = np.array([np.mean(column(rows, f"visitation_{name}", setting=s)) for s in settings])
    if name == "distance":
        visits *= means.mean() / visits.mean()
    axes.plot(places, visits, color=VISITS, linewidth=1.3, linestyle=DASHES, zorder=2)
    for place, numbers, mean, ppo in zip(places, runs, means, ratio, strict=True):
        colour = OURS if ppo else BASELINE
        axes.scatter([place] * len(numbers), numbers, s=11, color=colour, alpha=0.55, linewidths=0)
        axes.scatter([place], [mean], s=34, color=colour, edgecolors="white", zorder=4)
    axes.set_xticks(places)
    axes.set_xlim(-0.5, places[-1] + 0.6)
    lined_axes(axes, 9)


def curves_figure(curves: Rows) -> Figure:
    """Draw return and distance to the next policy over training, for every setting."""
    environments, settings = different(curves, "environment"), different(curves, "setting")
    columns = len(settings) if len(settings) <= MOST_COLUMNS else -(-len(settings) // 2)
    lines = -(-len(settings) // columns)  # of panels, for each environment
    shape = len(environments) * lines, columns
    heading = (
        "Change of behaviour, and return, over training",
        "Distance to the next policy, on a logarithmic scale, and return; means over runs",
    )
    margins = (0.95, 0.43, 1.4, 0.62)
    figure, panel = panel_grid(heading, shape, (1.5, 1.15), (0.13, 0.3), margins, 7.6)
    # Colours from dark to bright, without the palest, which cannot be seen on white.
    scale = colour_scale("viridis")
    shades = [scale[round(k)] for k in np.linspace(0, 12, len(settings))]
    for i, environment in enumerate(environments):
        mine = where(curves, environment=environment)
        lengths = np.concatenate(column(mine, "legs"))
        lengths = lengths[lengths > 0]
        limits = float(np.quantile(lengths, 0.01)) / 2, float(lengths.max()) * 1.5
        for k, (curve, shade) in enumerate(zip(mine, shades, strict=True)):
            row, j = i * lines + k // columns, k % columns
            axes = panel(row, j)
            a2c = curve["setting"] == A2C
            colour, name = (BASELINE, "A2C") if a2c else (shade, f"clip {curve['setting']}")
            _draw_curve(axes, curve, colour, limits)
            add_title(axes, name, "center", fontsize=9.5, color=colour, pad=4)
            if row < shape[0] - 1:
                axes.set_xticklabels([])
            if j > 0:
                axes.set_yticklabels([])
            else:
                add_labels(axes, y=short(environment), color=INK, fontweight="bold")
    handles = [
        line("distance to the next policy", scale[5], linewidth=1.8),
        patch("what sampling alone gives", CHANCE),
        line("return, 0 to 1", INK, DASHES, linewidth=1.1),
    ]
    add_key(figure, handles)
    width, height = figure.get_size_inches()
    middle = (0.95 + columns * 1.63 / 2) / width
    figure.text(middle, 0.16 / height, "share of training", ha="center", fontsize=10, color=MUTED)
    return figure


def _draw_curve(
    axes: Axes, curve: dict[str, Any], colour: str, limits: tuple[float, float]
) -> None:
    share = np.array(curve["share"])
    middle = (share[1:] + share[:-1]) / 2
    axes.set_yscale("log")
    chance = np.maximum(curve["chance"], limits[0])
    axes.fill_between(middle, limits[0], chance, color=CHANCE, linewidth=0, zorder=1)
    axes.plot(middle, np.maximum(curve["legs"], limits[0]), color=colour, linewidth=1.5, zorder=3)
    axes.set_ylim(*limits)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    axes.minorticks_off()
    lined_axes(axes, 9)
    axes.tick_params(labelsize=8)
    returns = scaled_return(curve["environment"], np.array(curve["returns"]))
    scale: Any = axes.twinx()
    scale.plot(share, returns, color=INK, linewidth=1.0, linestyle=DASHES)
    scale.set_ylim(-0.05, 1.1)
    scale.set_yticks([])
    no_frame(scale)


USUAL = "0.2"  # the clip ratio of the paper's settings
HIGH = ("LunarLander-v3", "BipedalWalker-v3")  # of eight values and more
LOW = ("Acrobot-v1", "CartPole-v1", "Pendulum-v1")
DEVIATIONS = 2.0  # of the paper's, within which a distance is as printed


def findings(rows: Rows, curves: Rows) -> list[Finding]:
    """Judge every claim in every environment that is there."""
    result = []
    for environment in different(rows, "environment"):
        mine = where(rows, environment=environment)
        ways = where(curves, environment=environment)
        result += [
            _grows(mine, environment),
            _as_printed(mine, environment),
            _a2c_is_farther(mine, environment),
            _better_changes_less(mine, environment),
            _slows_down(ways, environment),
        ]
    return [*result, _grows_more_where_there_is_more(rows)]


def _ratios(rows: Rows) -> list[str]:
    return [setting for setting in different(rows, "setting") if setting != A2C]


def _means(rows: Rows, name: str) -> dict[str, float]:
    """Mean over runs of each setting."""
    return {
        setting: float(np.mean(column(rows, name, setting=setting)))
        for setting in different(rows, "setting")
    }


def _printed(name: str, environment: str) -> dict[str, tuple[float, float]]:
    """Mean and deviation of each setting in the paper's table."""
    table = toml("published")["clipping"][name][environment]
    return {setting: (pair[0], pair[1]) for setting, pair in table.items()}


def _grows(rows: Rows, environment: str) -> Finding:
    runs = [row for row in rows if row["setting"] != A2C]
    ours = spearmanr([float(run["setting"]) for run in runs], column(runs, "distance")).statistic
    printed = _printed("distance", environment)
    means = {float(ratio): pair[0] for ratio, pair in printed.items() if ratio != A2C}
    paper = spearmanr(list(means), list(means.values())).statistic
    return finding(
        "clipping-grows",
        f"{ours:.2f} over {len(runs)} runs",
        bool(ours > 0),
        environment,
        "" if ours > 0 else "The distance does not grow with the ratio",
        paper=f"{paper:.2f} of the printed means",
    )


def _as_printed(rows: Rows, environment: str) -> Finding:
    ours, paper = _means(rows, "distance"), _printed("distance", environment)
    near = [
        setting
        for setting, mean in ours.items()
        if abs(mean - paper[setting][0]) <= DEVIATIONS * paper[setting][1]
    ]
    compared = [setting for setting in (USUAL, A2C) if setting in ours]
    ratios = [f"{_name(setting)} {ours[setting] / paper[setting][0]:.2f}" for setting in compared]
    enough = 2 * len(near) >= len(ours)
    far = ", ".join(_name(setting) for setting in ours if setting not in near)
    return finding(
        "clipping-distance",
        f"{len(near)} of {len(ours)} do; ours divided by the paper's: {', '.join(ratios)}",
        enough,
        environment,
        "" if enough else f"Farther away: {far}",
        paper=", ".join(f"{_name(s)} {paper[s][0]:g} ± {paper[s][1]:g}" for s in compared),
    )


def _a2c_is_farther(rows: Rows, environment: str) -> Finding:
    means, paper = _means(rows, "distance"), _printed("distance", environment)
    a2c, ppo = means[A2C], means[USUAL]
    farther = paper[A2C][0] > paper[USUAL][0]
    return finding(
        "clipping-a2c",
        f"{a2c:.1f} against {ppo:.1f}",
        a2c > ppo,
        environment,
        "" if farther else "The paper's own table does not have it so here",
        paper=f"{paper[A2C][0]:g} against {paper[USUAL][0]:g}",
    )


def _better_changes_less(rows: Rows, environment: str) -> Finding:
    settings = [setting for setting in _ratios(rows) if 0.1 <= float(setting) <= 0.5]
    means, without = (_means(rows, f"correlation{end}") for end in ("", "_beyond_chance"))
    ours, beyond = ([numbers[setting] for setting in settings] for numbers in (means, without))
    printed = {setting: pair[0] for setting, pair in _printed("correlation", environment).items()}
    paper = [printed[setting] for setting in settings]
    reasons = []
    if max(ours) >= 0:
        wrong = [f"{s} ({means[s]:.2f})" for s in settings if means[s] >= 0]
        reasons.append(f"Not below 0 at {', '.join(wrong)}")
    if max(paper) >= 0:
        reasons.append("The paper's own table does not have it so at all of them here")
    if means[A2C] * printed[A2C] < 0:
        reasons.append("A2C's sign is the reverse of the paper's")
    return finding(
        "clipping-negative",
        f"{_range(ours)}; of what sampling does not explain {_range(beyond)}; A2C {means[A2C]:.2f}",
        max(ours) < 0,
        environment,
        "; ".join(reasons),
        paper=f"{_range(paper)}; A2C {printed[A2C]:.2f}",
    )


def _range(numbers: Sequence[float]) -> str:
    return f"{min(numbers):.2f} to {max(numbers):.2f}"


def _slows_down(curves: Rows, environment: str) -> Finding:
    ways = {curve["setting"]: tuple(_slowing(curve)) for curve in curves}
    ratios = [setting for setting in ways if setting != A2C]
    falls = [setting for setting in ratios if ways[setting][0] < 1]
    negative = [setting for setting in ratios if ways[setting][1] < 0]
    both = [setting for setting in falls if setting in negative]
    others = [setting for setting in ratios if setting not in both]
    share, correlation = ways[USUAL]
    return finding(
        "clipping-curves",
        f"{len(both)} of {len(ratios)} ratios ({len(falls)} change less, {len(negative)} have "
        f"Corr < 0); at {USUAL} the last third has {share:.2f} of the first's change, and Corr is "
        f"{correlation:.2f}",
        2 * len(both) > len(ratios),
        environment,
        "" if 2 * len(both) > len(ratios) else f"Not at {', '.join(others)}",
    )


def _slowing(curve: dict[str, Any]) -> Iterator[float]:
    """Give the change in the last third of a curve by that in the first, and its Corr(R, d)."""
    legs = np.array(curve["legs"])
    third = max(1, len(legs) // 3)
    first = legs[:third].mean()
    yield float(legs[-third:].mean() / first) if first > 0 else float("nan")
    returns = scaled_return(curve["environment"], np.array(curve["returns"]))
    yield pearson(returns[:-1], legs)


def _grows_more_where_there_is_more(rows: Rows) -> Finding:
    """Compare the growth in environments of many values with that in those of few."""
    there = different(rows, "environment")
    ratios = _ratios(rows)
    least, largest = min(ratios, key=float), max(ratios, key=float)
    ours, paper = {}, {}
    for environment in (*HIGH, *LOW):
        printed = _printed("distance", environment)
        paper[environment] = printed[least][0], printed[largest][0]
        if environment in there:
            means = _means(where(rows, environment=environment), "distance")
            ours[environment] = means[least], means[largest]
    gains = {environment: last - first for environment, (first, last) in ours.items()}
    whole = all(environment in there for environment in (*HIGH, *LOW))
    holds = None
    if whole:
        holds = min(gains[name] for name in HIGH) > max(gains[name] for name in LOW)
    why = "" if whole else "Not all five environments were run"
    words = {"least": least, "largest": largest, "paper": _growth(paper)}
    return finding("clipping-dimensions", _growth(ours), holds, why=why, **words)


def _growth(pairs: dict[str, tuple[float, float]]) -> str:
    return ", ".join(
        f"{short(environment)} {last - first:+.1f} (×{last / first:.1f})"
        for environment, (first, last) in pairs.items()
    )


MEASURES = (
    *("distance", "correlation", "correlation_beyond_chance", "by_chance", "last_return"),
    *("visitation_distance", "visitation_correlation"),
)


@dataclass(frozen=True)
class Counts:
    """Which environments and clip ratios, and how much of everything."""

    environments: tuple[str, ...]
    ratios: tuple[float, ...]
    runs: int
    policies: int  # of a run
    episodes: int  # of a policy
    components: int
    background_states: int = 10_000_000
    background_policies: int | str = "all"  # earlier results had at most so many


@dataclass(frozen=True, eq=False)
class Run:
    """One run: its n checkpoints, and the n - 1 distances from each to the next."""

    share: Array  # of training, from 0 to 1
    returns: Array
    legs: Array
    chance: Array  # how long the legs would be by sampling alone

    @property
    def distance(self) -> float:
        """Distance travelled in all."""
        return float(self.legs.sum())

    @property
    def correlation(self) -> float:
        """Corr(R, d): of the return of a checkpoint and the distance from it to the next."""
        return pearson(self.returns[:-1], self.legs)

    @property
    def correlation_beyond_chance(self) -> float:
        """The same of the part of the distances that sampling does not explain."""
        return pearson(self.returns[:-1], self.legs - self.chance)


Runs = Mapping[str, Mapping[str, list[Run]]]  # by environment and setting: "0.2", ..., "a2c"


def space(pipeline: Pipeline, counts: Counts, environment: str) -> Space:
    """Choose which policies are compared in an environment, and in which space."""
    runs = trainings(pipeline, counts, environment)
    policies = Collection(runs, counts.episodes, counts.policies, pipeline.seed, kept=False)
    return space_of(policies, None, counts)


def trainings(pipeline: Pipeline, counts: Counts, environment: str) -> tuple[Training, ...]:
    """Describe the runs of PPO with each clip ratio, and those of A2C."""
    # As in the paper's scripts, the ratio does not decay, and the value's clip is the policy's.

    def ppo(ratio: float) -> Training:
        published = settings_for("ppo", environment)["decay"]
        changes: dict[str, Any] = {"name": f"clip {ratio:g}", "checkpoints": counts.policies}
        changes |= {"clip_range": ratio, "clip_range_vf": ratio}
        changes["decay"] = [name for name in published if not name.startswith("clip_range")]
        return pipeline.training(environment, "ppo", counts.runs, **changes)

    return *map(ppo, counts.ratios), pipeline.training(environment, "a2c", counts.runs)


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Train, describe, measure the way of every run, and compare."""
    runs: dict[str, dict[str, list[Run]]] = {}
    rows: list[dict[str, Any]] = []
    for environment in counts.environments:
        compared = space(pipeline, counts, environment)
        policies, visits = described(pipeline, compared), described(pipeline, compared, Visitation)
        settings = runs[environment] = {}
        for training in compared.policies.trainings:
            setting = training.name.removeprefix("clip ")
            groups = [f"{training.name}-{number}" for number in range(training.runs)]
            settings[setting] = [run_of(policies, group) for group in groups]
            for number, run in enumerate(settings[setting]):
                visited = run_of(visits, groups[number])
                rows.append(
                    {
                        "environment": environment,
                        "setting": setting,
                        "run": number,
                        "distance": run.distance,
                        "correlation": run.correlation,
                        "correlation_beyond_chance": run.correlation_beyond_chance,
                        "by_chance": float(run.chance.sum()),
                        "first_return": float(run.returns[0]),
                        "last_return": float(run.returns[-1]),
                        "visitation_distance": visited.distance,
                        "visitation_correlation": visited.correlation,
                    }
                )
    ways = curves(runs)
    figures = {"clipping": clipping_figure(rows), "curves": curves_figure(ways)}
    trained = []
    for environment in counts.environments:
        ppo, *_, a2c = trainings(pipeline, counts, environment)
        networks = {run.algorithm: len(run.updates(counts.policies)) for run in (ppo, a2c)}
        changes = {name: pipeline.changed(name, environment) for name in networks}
        trained.append({"environment": environment, "different_networks": networks})
        trained[-1]["changed_settings"] = changes
    numbers = {"trained": trained, "runs": rows, "summary": summary(rows), "curves": ways}
    return Result(numbers, figures)


def judge(numbers: Mapping[str, Any], counts: Counts) -> Account:
    """Say what the numbers show."""
    rows = numbers["runs"]
    remarks = remarks_on(numbers, counts.policies, counts.background_states)
    judged = findings(rows, numbers["curves"])
    return Account(rows, table(numbers["summary"], counts.runs), judged, remarks)


def run_of(policies: Described, group: str) -> Run:
    """Follow one run through the space."""
    rows = policies.rows(group)
    legs = successive_distances(policies.points[rows])
    chance = (policies.chance[rows[:-1]] + policies.chance[rows[1:]]) / 2
    steps = policies.steps[rows]
    return Run(steps / max(1, steps[-1]), policies.returns[rows], legs, chance)


def summary(rows: Rows) -> list[dict[str, Any]]:
    """Mean and standard deviation over the runs of each setting."""
    return [
        {
            **pair,
            **{
                f"{name}_{kind}": float(measure(column(rows, name, **pair)))
                for name in MEASURES
                for kind, measure in (("mean", np.mean), ("std", np.std))
            },
        }
        for environment in different(rows, "environment")
        for setting in different(where(rows, environment=environment), "setting")
        for pair in [{"environment": environment, "setting": setting}]
    ]


def curves(runs: Runs) -> list[dict[str, Any]]:
    """Average returns, distances and what chance makes of them over the runs of a setting."""
    return [
        {
            "environment": environment,
            "setting": setting,
            **{
                name: np.mean([getattr(run, name) for run in repeated], axis=0).tolist()
                for name in ("share", "returns", "legs", "chance")
            },
        }
        for environment, settings in runs.items()
        for setting, repeated in settings.items()
    ]


RECIPE = Recipe.of("clipping", Counts, partial(Space.all_needs, space), make, judge)
