"""Figure 1: what returns, actions and visited states say of two policies in a grid world.

Three scenarios, each with a blue and a green policy, over the probability that a random action
replaces the policy's; exact by linear algebra, and simulated as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from pivec import figures as base
from reproduction.figures import DASHED, DOTTED, add_labels, add_legend, arrow, line
from reproduction.pipeline import Pipeline
from reproduction.published import notes
from reproduction.recipes import Account, Calculation, Finding, Need, Recipe, Result, finding
from reproduction.tables import Array, Rows, different, markdown, where
from reproduction.worlds import grid_world as grid

SIZE = 5


@dataclass(frozen=True, eq=False)
class Scenario:
    """Walls and two deterministic policies, blue and green."""

    name: str
    title: str
    remark: str
    walls: NDArray[np.bool_]  # (5, 5), by row from the bottom, then column
    blue: NDArray[np.int64]  # actions, (5, 5); those in walls and in the goal are never asked for
    green: NDArray[np.int64]

    @property
    def acting(self) -> NDArray[np.bool_]:
        """Cells in which a policy may have to act: all but walls and the goal, (5, 5)."""
        free = ~self.walls
        free[-1, -1] = False
        return free

    @property
    def reachable(self) -> NDArray[np.bool_]:
        """Cells that some actions lead to from the start, (5, 5)."""
        table = grid.next_cells(self.walls)
        reached = np.zeros(self.walls.size, dtype=bool)
        reached[0] = True
        for _ in range(self.walls.size):
            reached[table[reached]] = True
        return reached.reshape(self.walls.shape)

    @property
    def action_distance(self) -> float:
        """Distance of the policies by actions: the sum of |π − π̂| over `acting` and actions."""
        # Random actions belong to the world and do not enter.
        return 2.0 * int((self.blue != self.green)[self.acting].sum())

    @property
    def most_actions(self) -> float:
        """The largest distance by actions that there can be in this world."""
        return 2.0 * int(self.acting.sum())


def scenarios() -> tuple[Scenario, Scenario, Scenario]:
    """Make the scenarios distinct, doorway and unreachable."""
    up, right = np.full((SIZE, SIZE), grid.UP), np.full((SIZE, SIZE), grid.RIGHT)
    up[-1], right[:, -1] = grid.RIGHT, grid.UP  # up and then right, right and then up
    door = np.full((SIZE, SIZE), grid.UP)
    door[2, :3] = grid.RIGHT  # along the row of the door, and through it
    door[3:, :2] = grid.DOWN  # back to that row from above
    door[-1, 3] = grid.RIGHT
    turns, down = door.copy(), up.copy()
    turns[2, 1] = grid.LEFT  # in the cell before the door
    down[:3, 2:] = grid.DOWN  # in the cells behind the walls
    free = grid.wall_mask(SIZE, SIZE, ())
    doorway = grid.wall_mask(SIZE, SIZE, [(2, row) for row in (0, 1, 3, 4)])
    bars = [(1, row) for row in range(3)] + [(column, 3) for column in range(1, SIZE)]
    shut = grid.wall_mask(SIZE, SIZE, bars)
    behind = "nine cells differ, all unreachable"
    return (
        Scenario("distinct", "Distinct ways", "two ways, equally short", free, up, right),
        Scenario("doorway", "Doorway", "one cell differs", doorway, door, turns),
        Scenario("unreachable", "Unreachable cells", behind, shut, up, down),
    )


Curves = tuple[Array, Array]

BLUE, GREEN = "#0072B2", "#009E73"
WALL, GOAL, BEHIND = "#59636E", "#FFF1C2", "#F0F2F5"
# Name, colour, dashes, marker and its size of the distances; blue and green are the policies'.
DISTANCES: tuple[tuple[str, str, Any, str, float], ...] = (
    ("actions", "#CC79A7", DASHED, "s", 5.0),
    ("states", "#D55E00", "-", "o", 7.5),
    ("returns", "#6B5300", DOTTED, "^", 5.2),
)
MARKS: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.7}

LENGTH = 0.64  # of an arrow, in cells

# Inches.
SIDE, CURVES, GAP, BETWEEN = 2.9, 1.95, 0.55, 1.0
MARGIN_LEFT, MARGIN_RIGHT, TOP, BOTTOM = 0.78, 0.3, 1.42, 0.62


def gridworld_figure(
    worlds: Sequence[Scenario], exact: Curves, simulated: Curves, episodes: int
) -> Figure:
    """Draw the n scenarios side by side."""
    n = len(worlds)
    width = MARGIN_LEFT + n * SIDE + (n - 1) * GAP + MARGIN_RIGHT
    figure = base.new_figure(width, TOP + SIDE + BETWEEN + CURVES + BOTTOM)
    base.add_heading(
        figure,
        "Different actions need not mean different behaviour",
        "Two policies in three worlds, and how far apart they are by what they do, "
        "where they are, and what they earn",
    )
    for i, world in enumerate(worlds):
        left = MARGIN_LEFT + i * (SIDE + GAP)
        _draw_world(base.axes_at(figure, left, BOTTOM + CURVES + BETWEEN, SIDE, SIDE), world)
        axes = base.axes_at(figure, left, BOTTOM, SIDE, CURVES)
        for k, (_, colour, dashes, marker, size) in enumerate(DISTANCES):
            axes.plot(exact[0], exact[1][i, :, k], color=colour, linestyle=dashes, linewidth=1.9)
            axes.plot(
                simulated[0],
                simulated[1][i, :, k],
                linestyle="none",
                marker=marker,
                color=colour,
                markersize=size,
                clip_on=False,
                zorder=3,
                **MARKS,
            )
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(0, 1.03)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
        base.lined_axes(axes)
        share = "distance, as a share\nof the largest possible" if i == 0 else ""
        add_labels(axes, "probability of a random action", share)
    _add_legend(figure, episodes)
    return figure


def _draw_world(axes: Axes, world: Scenario) -> None:
    rows, columns = world.walls.shape
    for row, column in np.ndindex(rows, columns):
        colour, edge = "white", base.HAIRLINE
        if world.walls[row, column]:
            colour = edge = WALL
        elif not world.reachable[row, column]:
            colour = BEHIND
        elif (row, column) == (rows - 1, columns - 1):
            colour = GOAL
        cell = Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=edge, linewidth=0.8)
        axes.add_patch(cell)
    for row, column in np.argwhere(world.acting):
        blue, green = int(world.blue[row, column]), int(world.green[row, column])
        # Where the policies agree their arrows step back.
        alpha = 0.38 if blue == green else 1.0
        tails = np.array([column + 0.5, row + 0.5]) + _tails(blue, green)
        for action, tail, colour in ((blue, tails[0], BLUE), (green, tails[1], GREEN)):
            head = tail + LENGTH * grid.MOVES[action]
            arrow(axes, tail, head, colour, (0.22, 0.38), 1.9, 13, alpha=alpha, joinstyle="miter")
    axes.plot(columns - 0.5, rows - 0.5, marker="*", markersize=17, color="#E69F00")
    axes.text(0.5, -0.1, "start", fontsize=9, color=base.MUTED, ha="center", va="top")
    axes.set_xlim(0, columns)
    axes.set_ylim(0, rows)
    base.quiet_axes(axes)
    base.add_panel_title(axes, world.title, world.remark)


def _tails(blue: int, green: int) -> Array:
    """Where the two arrows of a cell begin, seen from its middle: they never cover each other."""
    a, b = grid.MOVES[blue], grid.MOVES[green]
    if a @ b == 0:  # at right angles, out of one corner
        return np.tile(-LENGTH / 2 * (a + b), (2, 1))
    # Side by side, blue on the left or above.
    aside = 0.17 * np.array([-abs(a[1]), abs(a[0])])
    return np.array([aside - LENGTH / 2 * a, -aside - LENGTH / 2 * b])


def _add_legend(figure: Figure, episodes: int) -> None:
    """Put the policies beside the subtitle, and the distances above their curves."""
    width, height = figure.get_size_inches()
    right, above = 1 - MARGIN_RIGHT / width, (BOTTOM + CURVES + 0.44) / height
    policies = [
        line(f"{name} policy", colour, marker=">", markersize=6, linewidth=2)
        for name, colour in (("blue", BLUE), ("green", GREEN))
    ]
    distances = [
        line(f"by {name}", colour, dashes, marker=marker, markersize=size, linewidth=1.9, **MARKS)
        for name, colour, dashes, marker, size in DISTANCES
    ]
    style: Any = {"labelcolor": base.INK, "handlelength": 2.6, "columnspacing": 1.8}
    for handles, place, corner in (
        (policies, "upper right", (right, 1 - 0.18 / height)),
        (distances, "upper left", (MARGIN_LEFT / width, above)),
    ):
        add_legend(figure, handles, place, bbox_to_anchor=corner, borderpad=0.0, **style)
    text = f"lines: exact · marks: {episodes:,} episodes".replace(",", " ")
    figure.text(right, above, text, ha="right", va="top", fontsize=9.5, color=base.MUTED)


def distance_table(worlds: Sequence[Scenario], rows: Rows) -> str:
    """Write distances at the ends and in the middle of the probabilities, as Markdown."""
    shown = sorted(different(rows, "random_action"))
    ends_and_middle = {shown[0], shown[len(shown) // 2], shown[-1]}
    heads = ["scenario", "random actions", "by actions", "by states, exact", "simulated",
             "by returns, exact", "simulated"]  # fmt: skip
    lines = [
        [
            world.name,
            f"{row['random_action']:g}",
            f"{row['action_distance']:g} of {world.most_actions:g}",
            f"{row['state_distance']:.3f} of 2",
            f"{row['state_distance_simulated']:.3f}",
            f"{row['return_distance']:.3f}",
            f"{row['return_distance_simulated']:.3f}",
        ]
        for world in worlds
        for row in where(rows, scenario=world.name)
        if row["random_action"] in ends_and_middle
    ]
    return markdown(heads, lines)


def findings(worlds: Sequence[Scenario], rows: Rows, agreement: dict[str, float]) -> list[Finding]:
    """What the paper says of this figure, beside what came out."""
    most = {world.name: world.most_actions for world in worlds}
    distinct, doorway, unreachable = (where(rows, scenario=name) for name in most)
    first, last, door = distinct[0], distinct[-1], doorway[0]
    falls = all(
        a["state_distance"] > b["state_distance"]
        for line in (distinct, doorway)
        for a, b in pairwise(line)
    )
    farthest = max(row["state_distance"] for row in unreachable)
    actions = unreachable[0]["action_distance"]
    return [
        finding(
            "gridworld-returns",
            f"by returns {first['return_distance']:.3f}, by states {first['state_distance']:.3f} "
            "of 2",
            first["return_distance"] < 1e-9 and first["state_distance"] > 1,
        ),
        finding(
            "gridworld-random",
            f"distinct: by states {first['state_distance']:.3f} to {last['state_distance']:.3f}, "
            f"by actions {first['action_distance']:g}",
            falls and last["state_distance"] < 1e-9,
        ),
        finding(
            "gridworld-doorway",
            f"by actions {door['action_distance']:g} of {most['doorway']:g}, by states "
            f"{door['state_distance']:.3f} of 2; returns {door['return_blue']:.3f} and "
            f"{door['return_green']:.3f}, with the next probability "
            f"{doorway[1]['return_green']:.3f}",
            door["action_distance"] < 0.1 * most["doorway"]
            and door["return_green"] == 0.0 < doorway[1]["return_green"],
        ),
        finding(
            "gridworld-unreachable",
            f"by actions {actions:g} of {most['unreachable']:g}, by states at most {farthest:.3f}",
            farthest < 1e-9 < actions,
        ),
        finding(
            "gridworld-simulation",
            f"mean deviation {agreement['mean']:.2f} standard errors "
            f"({agreement['expected']:.2f} expected), largest {agreement['largest']:.2f}",
            abs(agreement["mean"] - agreement["expected"]) < 0.25 and agreement["largest"] < 3,
        ),
    ]


@dataclass(frozen=True, eq=False)
class Visits:
    """What is known of a policy in a world, or of many, along the first axes of all arrays."""

    distribution: Array  # (..., height, width): visits to each cell over steps; the sum is 1
    mean_return: Any  # of an episode, (...)
    mean_steps: Any
    errors: Array  # standard errors of the distribution; 0 where it is exact


def stacked(parts: Sequence[Visits], shape: tuple[int, ...]) -> Visits:
    """Put visits of single policies together."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    arrays = [np.array(column) for column in columns]
    return Visits(*(array.reshape(*shape, *array.shape[1:]) for array in arrays))


def transition_matrix(
    walls: NDArray[np.bool_], policy: NDArray[np.int64], probability: float
) -> Array:
    """Probabilities of going from cell to cell in one step, shape (n_cells, n_cells)."""
    table = grid.next_cells(walls)
    n = len(table)
    chosen = np.full((n, 4), probability / 4)
    chosen[np.arange(n), policy.ravel()] += 1 - probability
    matrix = np.zeros((n, n))
    for action in range(4):
        np.add.at(matrix, (np.arange(n), table[:, action]), chosen[:, action])
    matrix[-1] = 0.0
    return matrix


def exact_visits(
    walls: NDArray[np.bool_],
    policy: NDArray[np.int64],
    probability: float,
    *,
    with_start: bool = False,
    timeout: int = grid.TIMEOUT,
) -> Visits:
    """Expected visits over expected steps, and the expected return, by linear algebra.

    Let P be the transition matrix and x the start. Visits after step t are x Pᵗ, so the expected
    visits are x (P + … + Pᵀ), with T the timeout, and their sum is the expected number of steps.
    (I − P)⁻¹ would give the sum, but does not exist where a policy walks in circles: powers of the
    block matrix [[P, P], [0, I]] have the sum in their upper right corner in any case.

    ``with_start`` counts the first state of an episode as a visit, too, as `pivec.collect` does.
    """
    matrix = transition_matrix(walls, policy, probability)
    n = len(matrix)
    identity, nothing = np.eye(n), np.zeros((n, n))
    blocks = np.block([[matrix, matrix], [nothing, identity]])
    visits = np.linalg.matrix_power(blocks, timeout)[0, n:]
    steps = float(visits.sum())
    visits[0] += with_start
    distribution = (visits / visits.sum()).reshape(walls.shape)
    return Visits(distribution, 1 - steps / timeout, steps, np.zeros(walls.shape))


def simulated_visits(
    walls: NDArray[np.bool_],
    policy: NDArray[np.int64],
    probability: float,
    rng: np.random.Generator,
    episodes: int,
    *,
    timeout: int = grid.TIMEOUT,
) -> Visits:
    """Visits over steps in episodes played side by side."""
    table, actions = grid.next_cells(walls), policy.ravel()
    goal = len(table) - 1
    counts = np.zeros((episodes, len(table)), dtype=np.int64)
    playing = np.arange(episodes)
    cells = np.zeros(episodes, dtype=np.int64)
    for _ in range(timeout):
        moves = grid.disturbed(actions[cells], rng.random(len(cells)), probability)
        cells = table[cells, moves]
        counts[playing, cells] += 1
        going = cells != goal
        playing, cells = playing[going], cells[going]
        if not len(playing):
            break
    steps = counts.sum(axis=1)
    total = int(steps.sum())
    distribution = counts.sum(axis=0) / total
    rest = counts - steps[:, None] * distribution
    errors = np.sqrt((rest**2).sum(axis=0)) / total
    return Visits(
        distribution.reshape(walls.shape),
        float(np.mean(1 - steps / timeout)),
        float(steps.mean()),
        errors.reshape(walls.shape),
    )


def state_distance(a: Array, b: Array) -> Any:
    """Sum of the absolute differences of two distributions over cells; 2 if they share none."""
    return np.abs(a - b).sum(axis=(-2, -1))


SMOOTH = 101  # probabilities at which the exact lines of the figure are computed


@dataclass(frozen=True)
class Counts:
    """How many episodes of each policy, and how many probabilities from 0 to 1."""

    episodes: int
    probabilities: int


def needs(pipeline: Pipeline, counts: Counts) -> list[Need]:  # noqa: ARG001 - as every recipe's
    """List the simulation."""
    runs = 2 * len(scenarios()) * counts.probabilities
    return [Calculation("episodes in grid worlds", runs * counts.episodes, 1.4e-5)]


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Compute, simulate, compare and draw."""
    worlds = scenarios()
    probabilities = np.linspace(0, 1, counts.probabilities).round(6)
    exact = _exact(worlds, probabilities)
    played = _simulated(pipeline, worlds, probabilities, counts.episodes)
    rows = []
    for (i, j), states in np.ndenumerate(_states(exact)):
        (blue, green), (a, b) = (visits.mean_return[i, j].tolist() for visits in (exact, played))
        rows.append(
            {
                "scenario": worlds[i].name,
                "random_action": float(probabilities[j]),
                "action_distance": worlds[i].action_distance,
                "state_distance": float(states),
                "state_distance_simulated": float(_states(played)[i, j]),
                "return_distance": abs(blue - green),
                "return_distance_simulated": abs(a - b),
                "return_blue": blue,
                "return_green": green,
                "return_blue_simulated": a,
                "return_green_simulated": b,
            }
        )
    smooth = np.linspace(0, 1, SMOOTH)
    lines = _shares(worlds, _exact(worlds, smooth))
    marks = _shares(worlds, played)
    figure = gridworld_figure(worlds, (smooth, lines), (probabilities, marks), counts.episodes)
    agreement = _agreement(exact, played)
    # Largest change of a state distance when first states count as visits, too.
    with_start = _exact(worlds, probabilities, with_start=True)
    start = float(np.abs(_states(with_start) - _states(exact)).max())
    numbers = {"rows": rows, "agreement": agreement, "effect_of_counting_the_start": start}
    return Result(numbers, {"gridworld": figure})


def judge(numbers: Mapping[str, Any], _counts: Counts) -> Account:
    """Say what the numbers show."""
    worlds, rows = scenarios(), numbers["rows"]
    return Account(
        rows,
        distance_table(worlds, rows),
        findings(worlds, rows, numbers["agreement"]),
        notes("gridworld", start=numbers["effect_of_counting_the_start"]),
    )


def _exact(worlds: Sequence[Scenario], probabilities: Array, *, with_start: bool = False) -> Visits:
    """Compute the visits of every world, probability, and policy: blue, then green."""
    visits = [
        exact_visits(world.walls, policy, probability, with_start=with_start)
        for world in worlds
        for probability in probabilities
        for policy in (world.blue, world.green)
    ]
    return stacked(visits, (len(worlds), len(probabilities), 2))


def _simulated(
    pipeline: Pipeline, worlds: Sequence[Scenario], probabilities: Array, episodes: int
) -> Visits:
    """Simulate the same, or take what was simulated before."""

    def play() -> dict[str, Any]:
        shape = (len(worlds), len(probabilities), 2)
        visits = [
            simulated_visits(
                worlds[i].walls,
                (worlds[i].blue, worlds[i].green)[k],
                float(probabilities[j]),
                # Each has random numbers of its own, so that none depends on what else is played.
                np.random.default_rng([pipeline.seed, i, j, k]),
                episodes,
            )
            for i, j, k in np.ndindex(*shape)
        ]
        return vars(stacked(visits, shape))

    inputs = {
        "scenarios": [
            [world.name, *(x.tolist() for x in (world.walls, world.blue, world.green))]
            for world in worlds
        ],
        "probabilities": probabilities.tolist(),
        "episodes": episodes,
        "seed": pipeline.seed,
    }
    return Visits(**pipeline.computed("grid-visits", inputs, play))


def _states(visits: Visits) -> Array:
    """Distances of blue and green by states, (worlds, probabilities)."""
    return np.asarray(state_distance(visits.distribution[:, :, 0], visits.distribution[:, :, 1]))


def _shares(worlds: Sequence[Scenario], visits: Visits) -> Array:
    """Distances of actions, states and returns over the largest possible ones, (n, m, 3)."""
    states = _states(visits) / 2
    actions = [world.action_distance / world.most_actions for world in worlds]
    returns = np.abs(visits.mean_return[:, :, 0] - visits.mean_return[:, :, 1])
    return np.stack([np.repeat(actions, states.shape[1]).reshape(states.shape), states, returns], 2)


def _agreement(exact: Visits, played: Visits) -> dict[str, float]:
    """Deviations of the simulation from the exact distributions, in standard errors (√(2/π))."""
    deviations = state_distance(exact.distribution, played.distribution)
    errors = played.errors.sum(axis=(-2, -1))
    counted = (errors > 0) | (deviations > 1e-9)
    with np.errstate(divide="ignore"):
        ratios = deviations[counted] / errors[counted]
    return {
        "mean": float(np.mean(ratios)),
        "largest": float(np.max(ratios)),
        "expected": np.sqrt(2 / np.pi),
    }


RECIPE = Recipe.of("gridworld", Counts, needs, make, judge, judged_at_smoke=True)
