"""Figure 4: how PPO, A2C, NEAT and CMA-ES move through behaviours, as maps and as numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pivec.figures import INK, MUTED, add_key, axes_at, quiet_axes
from pivec.run_log import RUN
from pivec.text import thousands
from reproduction.figures import add_labels, add_title, line, no_frame, panel_grid
from reproduction.pipeline import Collection, Pipeline, Training
from reproduction.published import notes, scaled_return, short
from reproduction.recipes import Account, Finding, Recipe, Result, finding
from reproduction.supervectors import Described, Space, described, space_of, successive_distances
from reproduction.tables import Array, Rows, column, different, markdown, shown, where
from reproduction.training.evolution import LEDGER

NAMES = {"ppo": "PPO", "a2c": "A2C", "neat": "NEAT", "cmaes": "CMA-ES"}
LEARNERS, POPULATIONS = ("ppo", "a2c"), ("neat", "cmaes")
ENVIRONMENTS = ("BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1", "CartPole-v1", "Pendulum-v1")
PAPERS_POLICIES, PAPERS_RUNS = 30_000, 5  # runs of PPO and of A2C
MEASURES = {
    "area_of_algorithm": ("cells of the map that all policies of an algorithm lie in", 0),
    "area": ("cells that equally many policies of every run lie in", 1),
    "spread": ("mean distance between two policies of a run", 2),
    "step": ("mean step along a run", 3),
    "best_return": ("best return of a run", 0),
    "policies": ("policies of a run", 0),
    "distinct": ("different policies of a run", 0),
    "generations": ("generations of a search", 0),
}


def means(
    rows: Rows, environment: str, measure: str, algorithms: Iterable[str] = NAMES
) -> dict[str, float]:
    """Average over the runs of each algorithm; NaN where that was not measured."""
    result = {}
    for name in algorithms:
        mine = where(rows, environment=environment, algorithm=name)
        values = np.array([row.get(measure) for row in mine], np.float64)
        result[name] = float(values.mean())
    return result


def table(rows: Rows) -> str:
    """Write what was measured of each algorithm, as Markdown."""
    parts = []
    for name, (title, digits) in MEASURES.items():
        lines = [
            [short(place), *(shown(mean, digits) for mean in means(rows, place, name).values())]
            for place in different(rows, "environment")
        ]
        parts.append(f"**{title[0].upper()}{title[1:]}**")
        parts.append(markdown(["environment", *NAMES.values()], lines))
    return "\n\n".join(parts)


def findings(rows: Rows) -> list[Finding]:
    """What the paper says of the figure, beside what came out."""
    places = different(rows, "environment")
    of_places = [
        *(_wide(rows, place, name) for place in places for name in POPULATIONS),
        *(_apart(rows, place) for place in places),
        *(_worms(rows, place) for place in places),
        *(_stops(rows, place) for place in places),
    ]
    return [*of_places, _count(rows)]


def _wide(rows: Rows, place: str, name: str) -> Finding:
    area, best = (means(rows, place, measure) for measure in ("area", "best_return"))
    holds, why = _above(area, name), ""
    if not holds:
        why = f"its best return is {shown(best[name], 0)}, that of PPO {shown(best['ppo'], 0)}"
    ours = _listed(area, 1) + " cells"
    return finding("evolution-wide", ours, holds, place, why, name=NAMES[name])


def _apart(rows: Rows, place: str) -> Finding:
    spread = means(rows, place, "spread")
    holds = all(_above(spread, name) for name in POPULATIONS)
    return finding("evolution-apart", _listed(spread, 2), holds, place)


def _worms(rows: Rows, place: str) -> Finding:
    step = means(rows, place, "step", LEARNERS)
    holds, why = step["ppo"] < step["a2c"], ""
    unseen = " and ".join(NAMES[name] for name, mean in step.items() if mean <= 0)
    if not holds and unseen:
        why = f"what sampling adds hides the steps of {unseen}"
    elif not holds:
        why = "the paper says it of more complicated environments"
    return finding("evolution-worms", _listed(step, 3), holds, place, why)


def _stops(rows: Rows, place: str) -> Finding:
    """Judge the end of CMA-ES; results of earlier versions do not tell it."""
    (mine,) = where(rows, environment=place, algorithm="cmaes")
    (other,) = where(rows, environment=place, algorithm="neat")
    kept = f"{mine['policies']:,} policies, NEAT {other['policies']:,}"
    ours, holds, why = kept, None, "these numbers were made before the end was kept"
    if mine.get("generations") is not None:
        ours = f"after {mine['generations']:,} of {mine['all_generations']:,} generations; {kept}"
        early = mine["generations"] < mine["all_generations"]
        holds, why = early and mine["policies"] < other["policies"], mine["end"]
    return finding("evolution-stops", ours, holds, place, why)


def _count(rows: Rows) -> Finding:
    """Judge the number of policies; "roughly" is taken as a fifth more or less."""
    total, places = sum(column(rows, "policies")), different(rows, "environment")
    distinct = [row["distinct"] for row in rows if row.get("distinct") is not None]
    different_ones = thousands(sum(distinct)) if distinct else "–"
    whole = set(places) >= set(ENVIRONMENTS) and max(column(rows, "run")) + 1 >= PAPERS_RUNS
    return finding(
        "evolution-count",
        f"{thousands(total)}, of which {different_ones} are different, in {len(places)} of "
        f"{len(ENVIRONMENTS)} environments",
        abs(total / PAPERS_POLICIES - 1) <= 0.2 if whole else None,
        why="" if whole else "not all environments were run, or fewer runs than the paper's five",
    )


def all_notes(rows: Rows) -> list[str]:
    """What a reader must know to read the numbers."""
    places = different(rows, "environment")
    fewest = {place: column(rows, "compared_policies", environment=place)[0] for place in places}
    distinct = {
        place: " and ".join(
            f"{NAMES[name]} {shown(means(rows, place, 'distinct')[name], 0)} of "
            f"{shown(means(rows, place, 'policies')[name], 0)}"
            for name in LEARNERS
        )
        for place in places
    }
    parts = notes("evolution", compared=_by_place(fewest), distinct=_by_place(distinct))
    if all("end" not in row for row in rows):
        earlier = notes("evolution_earlier")[0]
        parts = [earlier if "paper's scripts" in part else part for part in parts]
    return list(dict.fromkeys(parts))


def _by_place(values: Mapping[str, object]) -> str:
    return ", ".join(f"{short(place)} {value}" for place, value in values.items())


def _above(numbers: dict[str, float], name: str) -> bool:
    """Whether a population's number is above those of both kinds of reinforcement learning."""
    return all(numbers[name] > numbers[other] for other in LEARNERS)


def _listed(numbers: dict[str, float], digits: int) -> str:
    return ", ".join(f"{NAMES[name]} {shown(value, digits)}" for name, value in numbers.items())


COLOURS = {"ppo": "#0072B2", "a2c": "#56B4E9", "neat": "#D55E00", "cmaes": "#E69F00"}
OTHERS = "#E3E7EB"
CROWD = 3000  # more points than this are drawn with hard edges, for the size of the file


@dataclass(frozen=True, eq=False)
class Map:
    """The policies of an environment, and where they lie, (n, 2)."""

    policies: Described
    positions: Array

    def of(self, algorithm: str) -> NDArray[np.bool_]:
        """Tell which policies an algorithm made."""
        return np.char.startswith(self.policies.groups, f"{algorithm}-")

    @property
    def point_size(self) -> float:
        """How large a policy is drawn."""
        return float(np.clip(3000.0 / max(1, len(self.positions)), 1.2, 14.0))

    @property
    def crisp(self) -> bool:
        """Whether there are few enough policies to draw them with soft edges."""
        return len(self.positions) <= CROWD


def evolution_figure(maps: Mapping[str, Map]) -> Figure:
    """Draw rows of algorithms and columns of environments, coloured by return."""
    total = sum(len(drawn.positions) for drawn in maps.values())
    heading = (
        "Policies during training, by the states they visit",
        f"{thousands(total)} policies, t-SNE of supervectors; grey: the other algorithms",
    )
    shape, margins = (len(NAMES), len(maps)), (0.95, 0.3, 1.3, 0.75)
    figure, panel = panel_grid(heading, shape, (2.15, 2.15), (0.14, 0.14), margins, 7.2)
    for j, (environment, drawn) in enumerate(maps.items()):
        for i, (algorithm, name) in enumerate(NAMES.items()):
            axes = panel(i, j)
            _draw_algorithm(axes, drawn, algorithm, environment)
            if i == 0:
                add_title(axes, short(environment), "center")
            if j == 0:
                add_labels(axes, y=name, fontsize=11.5, fontweight="bold", color=INK)
    bar = axes_at(figure, 0.95, 0.38, 2.6, 0.13)
    bar.imshow(np.linspace(0, 1, 256)[None, :], aspect="auto", cmap=_colours(True))
    bar.set_yticks([])
    bar.set_xticks([0, 255], ["least return", "most return"])
    bar.tick_params(length=0, labelsize=9, labelcolor=MUTED, pad=2)
    for label, side in zip(bar.get_xticklabels(), ("left", "right"), strict=True):
        label.set(horizontalalignment=side)
    no_frame(bar)
    return figure


def _draw_algorithm(axes: Axes, drawn: Map, algorithm: str, environment: str) -> None:
    mine, policies = drawn.of(algorithm), drawn.policies
    x, y = drawn.positions.T
    style: dict[str, Any] = {"linewidths": 0, "antialiased": drawn.crisp}
    axes.scatter(x[~mine], y[~mine], s=0.6 * drawn.point_size, c=OTHERS, **style)
    if algorithm in ("ppo", "a2c") and drawn.crisp:
        for group in np.unique(policies.groups[mine]):
            rows = policies.rows(group)
            axes.plot(x[rows], y[rows], color="#8C959F", linewidth=0.6, alpha=0.6)
    share = np.clip(scaled_return(environment, policies.returns[mine]), 0, 1)
    best_last = np.argsort(share, kind="stable")
    axes.scatter(
        x[mine][best_last],
        y[mine][best_last],
        s=drawn.point_size,
        c=share[best_last],
        cmap=_colours(drawn.crisp),
        vmin=0,
        vmax=1,
        zorder=3,
        **style,
    )
    _frame(axes, drawn.positions)


def _colours(smooth: bool) -> Any:
    """Viridis without its palest, in few steps for a crowd, which packs well."""
    return ListedColormap(colormaps["viridis"](np.linspace(0, 0.95, 256 if smooth else 12)))


def _frame(axes: Axes, positions: Array) -> None:
    """Show all points of the environment in a square."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-9) * 1.06
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_aspect("equal")
    quiet_axes(axes)


def algorithms_figure(maps: Mapping[str, Map]) -> Figure:
    """Draw one map for each environment, coloured by algorithm."""
    heading = (
        "Which algorithm goes where",
        "The same maps, coloured by the algorithm that made a policy",
    )
    margins = (0.28, 0.28, 1.35, 0.25)
    figure, panel = panel_grid(heading, (1, len(maps)), (2.6, 2.6), (0.14, 0.14), margins, 7.2)
    for j, (environment, drawn) in enumerate(maps.items()):
        axes = panel(0, j)
        # In a random order, so that no algorithm covers another.
        order = np.random.default_rng(0).permutation(len(drawn.positions))
        x, y = drawn.positions[order].T
        axes.scatter(
            x,
            y,
            s=drawn.point_size,
            c=[COLOURS[group.rpartition("-")[0]] for group in drawn.policies.groups[order]],
            linewidths=0,
            alpha=0.85 if drawn.crisp else None,
            antialiased=drawn.crisp,
        )
        _frame(axes, drawn.positions)
        add_title(axes, short(environment), "center")
    add_key(figure, [line(NAMES[name], COLOURS[name], "none", marker="o") for name in COLOURS])
    return figure


CELLS = 24  # of the grid over a map, along its longer side
DRAWS = 200  # of equally many policies of every run


@dataclass(frozen=True)
class Counts:
    """Which environments, and how much of everything; populations have one run."""

    environments: tuple[str, ...]
    runs: int  # of PPO and of A2C
    episodes: int  # of a policy
    components: int
    background_states: int = 10_000_000
    background_policies: int = 100  # of an algorithm


def space(pipeline: Pipeline, counts: Counts, environment: str) -> Space:
    """Choose which policies are compared in an environment, and in which space."""
    runs = tuple(
        pipeline.training(environment, name, counts.runs if name in LEARNERS else 1)
        for name in NAMES
    )
    policies = Collection(runs, counts.episodes, None, pipeline.seed, kept=False)
    return space_of(policies, counts.background_policies, counts)


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Train, describe, lay out, and measure what the picture shows."""
    maps: dict[str, Map] = {}
    rows: list[dict[str, Any]] = []
    for environment in counts.environments:
        compared = space(pipeline, counts, environment)
        policies = described(pipeline, compared)
        maps[environment] = Map(policies, layout(pipeline, policies, compared.key))
        ends = {run.name: ended(pipeline, run) for run in compared.policies.trainings}
        new = first_times(pipeline, compared.policies)
        rows += [
            {**row, **ends[row["algorithm"]]}
            for row in measured(environment, maps[environment], new, pipeline.seed)
        ]
    numbers = {"runs": rows}
    figures = {"evolution": evolution_figure(maps), "algorithms": algorithms_figure(maps)}
    return Result(numbers, figures)


def judge(numbers: Mapping[str, Any], _counts: Counts) -> Account:
    """Say what the numbers show."""
    rows = numbers["runs"]
    return Account(rows, table(rows), findings(rows), all_notes(rows))


def first_times(pipeline: Pipeline, collection: Collection) -> NDArray[np.bool_]:
    """Tell which policies are the first of their kind in a run; others are the same network."""
    known: set[tuple[str, str]] = set()
    new = []
    for training in collection.trainings:
        for named in pipeline.policies(training, collection.policies, collection.runs):
            kind = str(getattr(named.policy, "fingerprint", named.info.label))
            new.append((named.info.group, kind) not in known)
            known.add((named.info.group, kind))
    return np.array(new)


def ended(pipeline: Pipeline, training: Training) -> dict[str, Any]:
    """Tell after how many generations a search ended, and why; None for PPO and A2C."""
    generations = all_generations = end = None
    if training.algorithm not in LEARNERS:
        folder = pipeline.run_folder(training, 0)
        with open(folder / "state" / LEDGER, encoding="utf-8") as file:
            generations = sum(1 for _ in file)
        all_generations = training.settings["generations"]
        end = json.loads((folder / RUN).read_text(encoding="utf-8"))["result"]["reason"]
    return {"generations": generations, "all_generations": all_generations, "end": end}


def layout(pipeline: Pipeline, policies: Described, background: str) -> Array:
    """Lay the policies out by t-SNE on scaled supervectors, or take what was laid out before."""

    def tsne() -> dict[str, Array]:
        from pivec.report import tsne_map

        return {"positions": tsne_map(policies.points, random_state=pipeline.seed).positions}

    inputs = {
        "background": background,
        "groups": policies.groups.tolist(),
        "steps": policies.steps.tolist(),
        "seed": pipeline.seed,
    }
    return pipeline.computed("map", inputs, tsne)["positions"]


def measured(
    environment: str, drawn: Map, new: NDArray[np.bool_], seed: int
) -> list[dict[str, Any]]:
    """Measure every run: area on the map, spread among supervectors, and steps along the run.

    Only policies that are ``new`` count: a network that is kept several times counts once. The area
    of a run is that of equally many policies of every run, as many as the run with the fewest has,
    as a mean over draws; that of an algorithm is that of all its policies. Spreads and steps are
    without what sampling adds to them.
    """
    policies, cells = drawn.policies, map_cells(drawn.positions, CELLS)
    kept = {group: policies.rows(group) for group in dict.fromkeys(policies.groups.tolist())}
    runs = {group: rows[new[rows]] for group, rows in kept.items()}
    fewest = min(len(rows) for rows in runs.values())
    rng = np.random.default_rng([seed, 4])
    result = []
    for group, rows in runs.items():
        algorithm, _, number = group.rpartition("-")
        points, chance = policies.unbiased[rows], 2.0 * np.nan_to_num(policies.noise[rows])
        result.append(
            {
                "environment": environment,
                "algorithm": algorithm,
                "run": int(number),
                "policies": len(kept[group]),
                "distinct": len(rows),
                "area": covered(cells[rows], fewest, DRAWS, rng),
                "area_of_algorithm": len(np.unique(cells[drawn.of(algorithm) & new])),
                "spread": mean_distance(points) - float(chance.mean()),
                "step": mean_step(points, chance, policies.steps[rows]),
                "by_chance": float(chance.mean()),
                "compared_policies": fewest,
                "best_return": float(policies.returns[rows].max()),
            }
        )
    return result


def map_cells(positions: Array, cells: int) -> NDArray[np.int64]:
    """Number the square cells of a grid over the map in which policies lie."""
    low = positions.min(axis=0)
    side = float((positions.max(axis=0) - low).max()) / cells or 1.0
    row_column = np.minimum((positions - low) // side, cells - 1).astype(np.int64)
    return np.asarray(row_column[:, 0] * cells + row_column[:, 1])


def covered(cells: NDArray[np.int64], count: int, draws: int, rng: np.random.Generator) -> float:
    """Count the different cells of ``count`` policies, as a mean over random draws of these."""
    counts = [len(np.unique(rng.choice(cells, count, replace=False))) for _ in range(draws)]
    return float(np.mean(counts))


def mean_distance(points: NDArray[Any]) -> float:
    """Mean squared distance of all pairs: 2 n / (n - 1) times that from their mean."""
    x = points.astype(np.float64)
    n = len(x)
    if n < 2:
        return 0.0
    return float(2 * ((x - x.mean(axis=0)) ** 2).sum() / (n - 1))


def mean_step(points: NDArray[Any], chance: Array, order: NDArray[np.int64]) -> float:
    """Mean distance from a policy to the next, or between the means of successive generations."""
    # Sampling adds half of `chance` at each end, the less to means the more policies they are of.
    mine = [order == generation for generation in np.unique(order)]
    path = np.array([points[rows].mean(axis=0, dtype=np.float64) for rows in mine])
    noise = np.array([chance[rows].mean() / rows.sum() for rows in mine])
    return float(np.mean(successive_distances(path) - (noise[1:] + noise[:-1]) / 2))


RECIPE = Recipe.of("evolution", Counts, partial(Space.all_needs, space), make, judge)
