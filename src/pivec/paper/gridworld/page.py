"""What is said of the grid worlds beside the picture: the table, the findings, the notes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from pivec.paper.gridworld.scenarios import Scenario
from pivec.paper.recipes import Finding

PICTURE = "the figure, without numbers"


def distance_table(worlds: tuple[Scenario, ...], rows: list[dict[str, Any]]) -> str:
    """Write distances at the ends and in the middle of the probabilities, as Markdown."""
    shown = sorted({row["random_action"] for row in rows})
    some = {shown[0], shown[len(shown) // 2], shown[-1]}
    heads = (
        "scenario|random actions|by actions|by states, exact|simulated|by returns, exact|simulated"
    )
    lines = [f"| {heads.replace('|', ' | ')} |", "|" + " --- |" * 7]
    for world in worlds:
        for row in rows:
            if row["scenario"] == world.name and row["random_action"] in some:
                lines.append(
                    f"| {world.name} | {row['random_action']:g} "
                    f"| {row['action_distance']:g} of {world.most_actions:g} "
                    f"| {row['state_distance']:.3f} of 2 | {row['state_distance_simulated']:.3f} "
                    f"| {row['return_distance']:.3f} | {row['return_distance_simulated']:.3f} |"
                )
    return "\n".join(lines)


def findings(
    worlds: tuple[Scenario, ...], rows: list[dict[str, Any]], agreement: dict[str, float]
) -> list[Finding]:
    """What the paper says of this figure, beside what came out."""
    most = {world.name: world.most_actions for world in worlds}
    lines = {world.name: [row for row in rows if row["scenario"] == world.name] for world in worlds}
    distinct, doorway, unreachable = (
        lines[name] for name in ("distinct", "doorway", "unreachable")
    )
    first, last, door = distinct[0], distinct[-1], doorway[0]
    falls = all(
        a["state_distance"] > b["state_distance"]
        for line in (distinct, doorway)
        for a, b in pairwise(line)
    )
    farthest = max(row["state_distance"] for row in unreachable)
    actions = unreachable[0]["action_distance"]
    return [
        Finding(
            "Returns do not tell two optimal but distinct policies apart; visited states do",
            PICTURE,
            f"by returns {first['return_distance']:.3f}, by states {first['state_distance']:.3f} "
            "of 2",
            first["return_distance"] < 1e-9 and first["state_distance"] > 1,
        ),
        Finding(
            "With more random actions behaviour becomes the same: the distance by states falls to "
            "0, that by actions does not change",
            PICTURE,
            f"distinct: by states {first['state_distance']:.3f} to {last['state_distance']:.3f}, "
            f"by actions {first['action_distance']:g}",
            falls and last["state_distance"] < 1e-9,
        ),
        Finding(
            "In the doorway the distance by actions is small, but green never gets to the other "
            "side unless actions are random",
            PICTURE,
            f"by actions {door['action_distance']:g} of {most['doorway']:g}, by states "
            f"{door['state_distance']:.3f} of 2; returns {door['return_blue']:.3f} and "
            f"{door['return_green']:.3f}, with the next probability "
            f"{doorway[1]['return_green']:.3f}",
            door["action_distance"] < 0.1 * most["doorway"]
            and door["return_green"] == 0.0 < doorway[1]["return_green"],
        ),
        Finding(
            "Cells that cannot be reached count in the distance by actions, not in that by states",
            PICTURE,
            f"by actions {actions:g} of {most['unreachable']:g}, by states at most {farthest:.3f}",
            farthest < 1e-9 < actions,
        ),
        Finding(
            "The simulation agrees with linear algebra within sampling error",
            "no exact numbers",
            f"mean deviation {agreement['mean']:.2f} standard errors "
            f"({agreement['expected']:.2f} expected), largest {agreement['largest']:.2f}",
            abs(agreement["mean"] - agreement["expected"]) < 0.25 and agreement["largest"] < 3,
        ),
    ]


def notes(start: float) -> list[str]:
    """What a reader must know; ``start`` is the effect of counting first states as visits."""
    return [
        (
            "The paper shows this figure without numbers. It sums |π − π̂| over cells and actions, "
            "and |p − p̂| over cells, as here; in the picture each distance is divided by the "
            "largest possible one, so that all fit one axis."
        ),
        (
            "With the given probability a random one of the four actions replaces the policy's. "
            "That belongs to the world, so the distance by actions does not change with it."
        ),
        "The goal, in which nobody acts, does not count in the distance by actions, nor do walls.",
        (
            "Every step is a visit to the cell in which it ends: the goal counts, the start only "
            "if the agent comes back or does not get away. Counting first states, too, changes a "
            f"distance by states by at most {start:.3f}."
        ),
        (
            "In the doorway, green turns back to the left in the cell before the door. In the "
            "third scenario the policies of that scenario are measured; the published script "
            "measured another pair."
        ),
    ]
