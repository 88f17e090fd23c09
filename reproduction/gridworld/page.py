"""What is said of the grid worlds beside the picture: the table, the findings, the notes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from reproduction.gridworld.scenarios import Scenario
from reproduction.published import Rows, different, markdown, where
from reproduction.recipes import PICTURE, Finding


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
        Finding(
            "gridworld-returns",
            "Returns do not tell two optimal but distinct policies apart; visited states do",
            PICTURE,
            f"by returns {first['return_distance']:.3f}, by states {first['state_distance']:.3f} "
            "of 2",
            first["return_distance"] < 1e-9 and first["state_distance"] > 1,
        ),
        Finding(
            "gridworld-random",
            "With more random actions behaviour becomes the same: the distance by states falls to "
            "0, that by actions does not change",
            PICTURE,
            f"distinct: by states {first['state_distance']:.3f} to {last['state_distance']:.3f}, "
            f"by actions {first['action_distance']:g}",
            falls and last["state_distance"] < 1e-9,
        ),
        Finding(
            "gridworld-doorway",
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
            "gridworld-unreachable",
            "Cells that cannot be reached count in the distance by actions, not in that by states",
            PICTURE,
            f"by actions {actions:g} of {most['unreachable']:g}, by states at most {farthest:.3f}",
            farthest < 1e-9 < actions,
        ),
        Finding(
            "",
            "The simulation agrees with linear algebra within sampling error",
            "no exact numbers",
            f"mean deviation {agreement['mean']:.2f} standard errors "
            f"({agreement['expected']:.2f} expected), largest {agreement['largest']:.2f}",
            abs(agreement["mean"] - agreement["expected"]) < 0.25 and agreement["largest"] < 3,
        ),
    ]
