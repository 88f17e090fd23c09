"""Behavioural cloning: distance to the expert and return over the epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pivec.characterizations import Visitation
from pivec.figures import HAIRLINE, INK, MUTED, add_key
from pivec.policies import NamedPolicy, PolicyInfo, load_policies
from pivec.states import VisitedStates
from reproduction.figures import add_labels, add_title, line, panel_grid, patch
from reproduction.pipeline import Arrays, Pipeline, Training, digest_of
from reproduction.planning import expected_length, playing_seconds
from reproduction.published import notes, short, toml
from reproduction.recipes import Account, Calculation, Finding, Need, Recipe, Result, finding
from reproduction.supervectors import PAPERS_FIT, chance_distances, fit_need, papers_supervector
from reproduction.tables import Array, Rows, column, different, markdown, pearson, spearman, where
from reproduction.training.cloning import clone
from reproduction.training.runs import settings_for

DISTANCE, RETURN, OURS, CHANCE = "#0072B2", "#D55E00", "#009E73", "#DDE2E7"
DASHES, DOTS = (0, (4, 1.6)), (0, (1, 1.4))


def imitation_figure(rows: Rows, runs: Rows) -> Figure:
    """Draw a panel for each environment: means over runs, and a deviation around them."""
    environments = different(rows, "environment")
    size = (3.9 if len(environments) > 1 else 5.8), 2.9
    heading = (
        "Behavioural cloning, epoch by epoch",
        "Distance to the expert, and return; means over runs, and a standard deviation",
    )
    margins = (0.8, 0.85, 1.3, 0.65)
    figure, panel = panel_grid(heading, (1, len(environments)), size, (1.35, 0.0), margins)
    for j, environment in enumerate(environments):
        axes = panel(0, j)
        chance = column(runs, "by_chance", environment=environment)
        _draw(axes, where(rows, environment=environment), float(np.mean(chance)))
        add_title(axes, short(environment))
    handles = [
        line("distance to the expert", DISTANCE, linewidth=2),
        line("by visitation, scaled", OURS, DOTS, linewidth=2),
        line("return", RETURN, DASHES, linewidth=2),
        patch("of the expert to itself", CHANCE),
    ]
    add_key(figure, handles)
    return figure


def _draw(axes: Axes, rows: Rows, chance: float) -> None:
    epochs = sorted(different(rows, "epoch"))
    axes.axhspan(0, chance, color=CHANCE, linewidth=0, zorder=1)
    _band(axes, rows, epochs, "distance", DISTANCE, "-")
    first = [np.mean(column(rows, name, epoch=epochs[0])) for name in ("distance", "visitation")]
    ours = [np.mean(column(rows, "visitation", epoch=epoch)) for epoch in epochs]
    scaled = np.array(ours) * first[0] / first[1]
    axes.plot(epochs, scaled, color=OURS, linewidth=1.6, linestyle=DOTS, zorder=3)
    axes.set_ylim(bottom=0)
    axes.set_xlim(epochs[0], max(epochs[-1], epochs[0] + 1))
    axes.locator_params(axis="x", integer=True)
    add_labels(axes, "epoch")
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    other: Any = axes.twinx()
    other.axhline(1, color=RETURN, linewidth=0.8, alpha=0.6)
    _band(other, rows, epochs, "normalised_return", RETURN, DASHES)
    for side, colour, label in (
        (axes, DISTANCE, "distance to the expert"),
        (other, RETURN, "return / return of the expert"),
    ):
        add_labels(side, y=label, color=colour)
        side.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=INK)
        side.tick_params(axis="y", labelcolor=colour)
        for spine in side.spines.values():
            spine.set_color(HAIRLINE)
        side.spines["top"].set_visible(False)


def _band(
    axes: Any, rows: Rows, epochs: Sequence[int], name: str, colour: str, dashes: Any
) -> None:
    runs = [column(rows, name, epoch=epoch) for epoch in epochs]
    mean, std = np.mean(runs, axis=1), np.std(runs, axis=1)
    axes.fill_between(epochs, mean - std, mean + std, color=colour, alpha=0.16, linewidth=0)
    axes.plot(epochs, mean, color=colour, linewidth=2, linestyle=dashes, zorder=3)


# Returns at which Gymnasium counts an environment as solved.
SOLVED = {"LunarLander-v3": 200, "BipedalWalkerHardcore-v3": 300}
COLUMNS = {
    "expert_return": ("expert's return", 0),
    "last_return": ("clone's", 0),
    "first_distance": ("first distance", 3),
    "last_distance": ("last", 3),
    "first_steps": ("first steps", 3),
    "last_steps": ("last steps", 3),
    "correlation": ("correlation", 2),
    "correlation_by_visitation": ("by visitation", 2),
}


def table(runs: Rows) -> str:
    """Write one line a run, as Markdown."""
    heads = ["environment", "run", *(head for head, _ in COLUMNS.values())]
    lines = [
        [
            short(run["environment"]),
            f"{run['run']}",
            *(f"{run[name]:.{digits}f}" for name, (_, digits) in COLUMNS.items()),
        ]
        for run in runs
    ]
    return (
        markdown(heads, lines)
        + f"\n\nCorrelation of the changes, over all runs: **{_correlation(runs)}** "
        f"(paper: {_papers_correlation()})"
    )


def _correlation(runs: Rows) -> str:
    changes = column(runs, "correlation")
    deviation = f" ± {np.std(changes):.3f}" if len(changes) > 1 else ""  # one has none
    return f"{np.mean(changes):.3f}{deviation}"


def _papers_correlation() -> str:
    return "{} ± {}".format(*toml("published")["imitation"]["correlation"])


def findings(runs: Rows) -> list[Finding]:
    """What the paper says of cloning, beside what came out: over both environments, and in each."""
    places = different(runs, "environment")
    together = [_changes(runs, "")] if len(places) > 1 else []
    alone = [
        judge(where(runs, environment=place), place)
        for judge in (_changes, _nearer, _slower)
        for place in places
    ]
    return [*together, *alone]


def _judged(key: str, ours: str, holds: bool, place: str, runs: Rows, paper: str = "") -> Finding:
    at, why = short(place) if place else "all runs", ""
    best = max(column(runs, "expert_return"))
    if not holds and best < SOLVED.get(place, -np.inf):  # experts are beginners
        steps = runs[0]["expert_steps"]
        why = f"the best expert has a return of {best:.0f} after {steps:,} steps"
    return finding(key, ours, holds, place, why, at=at, paper=paper)


def _changes(runs: Rows, place: str) -> Finding:
    return _judged(
        "imitation-correlation",
        f"{_correlation(runs)} over {len(runs)} run{'s' * (len(runs) > 1)}",
        bool(np.mean(column(runs, "correlation")) < 0),
        place,
        runs,
        _papers_correlation() + ("" if not place else " over both environments"),
    )


def _nearer(runs: Rows, place: str) -> Finding:
    nearer = [run["last_distance"] < run["first_distance"] for run in runs]
    levels = np.mean(column(runs, "correlation_of_levels"))
    return _judged(
        "imitation-nearer",
        f"nearer after the last epoch than after the first in {sum(nearer)} of {len(runs)} "
        f"runs; correlation of distance and return {levels:.2f}",
        all(nearer),
        place,
        runs,
    )


def _slower(runs: Rows, place: str) -> Finding:
    """Judge steps from epoch to epoch, by a criterion that was set before they were measured."""
    smaller = [run["last_steps"] < run["first_steps"] for run in runs]
    ranks = float(np.mean(column(runs, "correlation_of_steps")))
    return _judged(
        "imitation-slower",
        f"smaller in {sum(smaller)} of {len(runs)} runs; rank correlation of step and return "
        f"{ranks:.2f}",
        all(smaller) and ranks < 0,
        place,
        runs,
    )


def all_notes(runs: Rows) -> list[str]:
    """What a reader must know to read the numbers."""
    chance = float(np.median([run["by_chance"] / run["last_distance"] for run in runs]))
    parts = notes("imitation", chance=100 * chance)
    for environment, solved in SOLVED.items():
        mine, name = where(runs, environment=environment), short(environment)
        if not mine:
            continue
        steps, best = mine[0]["expert_steps"], max(column(mine, "expert_return"))
        papers: dict[str, Any] = settings_for("ppo", environment)
        decay = " What falls to zero over training, as its learning rate, does so over these."
        if steps != papers["steps"]:
            parts.append(
                f"The experts of {name} were trained for {steps:,} steps (the paper: "
                f"{papers['steps']:,}).{decay if papers['decay'] else ''}"
            )
        if best < solved:
            parts.append(
                f"The experts of {name} have returns of at most {best:.0f}, and {solved} counts as "
                "solved. What is cloned is the behaviour of a learner, so the return says less of "
                "how well it is imitated."
            )
    return parts


HARD = "BipedalWalkerHardcore-v3"
_DESCRIBED = {
    "fit": PAPERS_FIT,
    "beside": "visitation of moves",
}  # how, which decides nothing about clones


@dataclass(frozen=True)
class Counts:
    """Which environments, and how much of everything."""

    environments: tuple[str, ...]
    runs: int  # experts, each with a clone
    trajectories: int  # of the expert to learn from
    epochs: int
    episodes: int  # of the expert and of the clone after each epoch
    components: int
    background_states: int = 10_000_000
    # Steps of the experts, by environment, where they are not those of the scale.
    expert_steps: Mapping[str, int] = field(default_factory=dict)


def needs(pipeline: Pipeline, counts: Counts) -> list[Need]:
    """List what is trained, played and fitted."""
    result: list[Need] = []
    episodes = counts.runs * (counts.epochs + 1) * counts.episodes
    for environment in counts.environments:
        training = experts(pipeline, counts, environment)
        length = expected_length(training)
        fitted = min(episodes * (length + 1), counts.background_states)
        works = [
            Calculation(
                f"epochs of cloning in {environment}, a thousand states each",
                counts.runs * counts.epochs * counts.trajectories * length / 1e3,
                0.08,
            ),
            Calculation(
                f"episodes of experts and clones in {environment}",
                episodes,
                playing_seconds(environment, 1, length),
            ),
            fit_need(environment, fitted, counts.components),
        ]
        done = pipeline.is_computed("imitation", _inputs(pipeline, counts, training) | _DESCRIBED)
        result += [training, *(replace(work, done=done) for work in works)]
    return result


def experts(pipeline: Pipeline, counts: Counts, environment: str) -> Training:
    """Describe the runs whose last policies are the experts."""
    steps = counts.expert_steps.get(environment)
    changes = {} if steps is None else {"steps": steps}
    return pipeline.training(
        environment, "ppo", counts.runs, name="expert", checkpoints=1, **changes
    )


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Train experts, clone them, and follow the clones."""
    rows: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    for environment in counts.environments:
        clones = followed(pipeline, counts, environment)
        for number in range(counts.runs):
            names = "distance", "visitation", "steps", "returns"
            distance, visitation, steps, returns = (clones[name][number] for name in names)
            expert = float(clones["expert_return"][number])
            normalised = normalised_return(returns, expert)
            run = {"environment": environment, "run": number}
            fifth = max(1, len(steps) // 5)
            runs.append(
                {
                    **run,
                    "expert_return": expert,
                    "expert_steps": int(experts(pipeline, counts, environment).settings["steps"]),
                    "correlation": pearson(np.diff(distance), np.diff(normalised)),
                    "correlation_of_levels": pearson(distance, normalised),
                    "correlation_by_visitation": pearson(np.diff(visitation), np.diff(normalised)),
                    "first_steps": float(steps[:fifth].mean()),
                    "last_steps": float(steps[-fifth:].mean()),
                    "correlation_of_steps": spearman(steps, normalised[1:]),
                    "by_chance": float(clones["chance"][number]),
                    "first_distance": float(distance[0]),
                    "last_distance": float(distance[-1]),
                    "first_return": float(returns[0]),
                    "last_return": float(returns[-1]),
                }
            )
            rows += [
                {
                    **run,
                    "epoch": epoch + 1,
                    "distance": float(distance[epoch]),
                    "visitation": float(visitation[epoch]),
                    "step": float(steps[epoch - 1]) if epoch else None,
                    "return": float(returns[epoch]),
                    "normalised_return": float(normalised[epoch]),
                }
                for epoch in range(len(distance))
            ]
    return Result({"runs": runs, "epochs": rows}, {"imitation": imitation_figure(rows, runs)})


def judge(numbers: Mapping[str, Any], _counts: Counts) -> Account:
    """Say what the numbers show."""
    runs = numbers["runs"]
    return Account(numbers["epochs"], table(runs), findings(runs), all_notes(runs))


def normalised_return(returns: Array, expert: float) -> Array:
    """Divide returns by the expert's: 1 is as good; also where it is negative, more is better."""
    return 1.0 + (returns - expert) / abs(expert)


def followed(pipeline: Pipeline, counts: Counts, environment: str) -> Arrays:
    """Clone the experts, and measure the clones after each epoch; or take what was found before."""
    training = experts(pipeline, counts, environment)
    inputs = _inputs(pipeline, counts, training)

    def follow() -> dict[str, Any]:
        data = played(pipeline, counts, training, digest_of(inputs))
        states = counts.background_states
        method = papers_supervector(counts.components, pipeline.seed, states)
        descriptions = method.fit(data).describe(data, influences=True)
        ours = Visitation(counts.components, max_states=states, random_state=pipeline.seed)
        shape = counts.runs, counts.epochs + 1
        points, places = (
            np.asarray(made.points).reshape(*shape, -1)
            for made in (descriptions, ours.fit(data).describe(data))
        )
        returns = descriptions.mean_returns.reshape(shape)
        return {
            "distance": ((points[:, 1:] - points[:, :1]) ** 2).sum(axis=2),
            "visitation": ((places[:, 1:] - places[:, :1]) ** 2).sum(axis=2),
            "steps": (np.diff(points[:, 1:], axis=1) ** 2).sum(axis=2),
            "returns": returns[:, 1:],
            "expert_return": returns[:, 0],
            "chance": chance_distances(descriptions).reshape(shape)[:, 0],
        }

    return pipeline.computed("imitation", inputs | _DESCRIBED, follow)


def _inputs(pipeline: Pipeline, counts: Counts, training: Training) -> dict[str, Any]:
    """All that decides the clones and their episodes."""
    elsewhere = "environments", "expert_steps"  # in the key of the training
    amounts = {name: count for name, count in vars(counts).items() if name not in elsewhere}
    return {"expert": training.key, "seed": pipeline.seed, **amounts}


def played(pipeline: Pipeline, counts: Counts, training: Training, key: str) -> VisitedStates:
    """Let every expert play, and after it its clone of every epoch."""
    everyone = []
    for number, expert in enumerate(pipeline.policies(training, 1)):
        folder = (
            pipeline.cache / "policies" / f"{training.environment}-clone-{key}" / f"run-{number}"
        )
        amounts: Any = {"trajectories": counts.trajectories, "epochs": counts.epochs}
        seed = pipeline.seed * 10_000 + number
        who = (expert.policy, training.environment, folder)
        clone(*who, **amounts, seed=seed, progress=pipeline.progress)
        group = f"run-{number}"
        everyone.append(NamedPolicy(expert.policy, PolicyInfo(f"{group}/expert", group)))
        everyone += [
            NamedPolicy(
                load_policies(folder / f"epoch_{epoch}.safetensors")[0].policy,
                PolicyInfo(f"{group}/epoch_{epoch}", group, epoch),
            )
            for epoch in range(1, counts.epochs + 1)
        ]
    store = pipeline.cache / "states" / f"{training.environment}-clones-{key}"
    return pipeline.play(
        training.environment, everyone, counts.episodes, pipeline.seed, store=store
    )


RECIPE = Recipe.of("imitation", Counts, needs, make, judge)
