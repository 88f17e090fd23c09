"""What a recipe is, what it gives, and which ones there are."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pivec.errors import UsageError, did_you_mean
from reproduction.pipeline import SCALES, Collection, Pipeline, Training
from reproduction.published import toml

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In the order of the paper; each is a module here with a RECIPE.
NAMES = tuple(name for name, table in toml("recipes").items() if "shows" in table)

ENVIRONMENTS = ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "LunarLander-v3", "BipedalWalker-v3")


@dataclass(frozen=True)
class Calculation:
    """Work other than training and collecting, for the plan."""

    what: str
    amount: float
    seconds: float  # of one core per unit of ``amount``
    done: bool = False  # whether the cache has it
    key: str = ""  # work of the same key is done once, whoever needs it


Need = Training | Collection | Calculation


@dataclass(frozen=True)
class Finding:
    """Something the paper says, beside what came out here."""

    of: str  # the key in claims.toml; empty for what the paper does not say
    claim: str  # as a sentence that can be judged by numbers
    paper: str  # the numbers behind it
    ours: str
    holds: bool | None  # None where it cannot be told
    place: str = ""  # the environment that it is about, of a claim that is made for several
    why: str = ""  # it did not come out, or cannot be told


def finding(
    key: str, ours: str, holds: bool | None, place: str = "", why: str = "", **words: Any
) -> Finding:
    """Make a finding of findings.toml, whose texts have ``words`` in braces."""
    entry = toml("findings")[key]
    paper = entry.get("paper", "the figure, without numbers")
    claim, paper = (text.format(**words) for text in (entry["claim"], paper))
    return Finding(entry.get("of", key), claim, paper, ours, holds, place, why)


@dataclass(frozen=True)
class Result:
    """What a recipe measured, and drew of it."""

    numbers: Mapping[str, Any]  # as JSON holds them; all that is told follows from these
    figures: Mapping[str, Figure]  # by the names of their files, without extension


@dataclass(frozen=True)
class Account:
    """What a recipe says of numbers that were measured."""

    rows: Sequence[Mapping[str, Any]]  # the numbers as a long table; all have the same keys
    tables: str  # Markdown: ours beside the paper's
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()  # what a reader must know: what differs from the paper, and why


@dataclass(frozen=True)
class Recipe:
    """A figure or table of the paper: how it is made, at every scale.

    Counts say how much of everything, in a frozen dataclass for each scale. Where the recipe goes
    through environments, they have ``environments``, Gymnasium ids, which a user may change.
    """

    name: str
    shows: str  # the figure or table, and what it shows, in a line
    counts: Mapping[str, Any]
    needs: Callable[[Pipeline, Any], list[Need]]  # what `make` trains, collects and computes
    make: Callable[[Pipeline, Any], Result]
    judge: Callable[[Mapping[str, Any], Any], Account]  # of numbers and counts, and nothing else
    judged_at_smoke: bool = False  # whether findings can be told there; most recipes need more

    @classmethod
    def of(cls, name: str, counts: type[Any], *functions: Any, **options: Any) -> Recipe:
        """Make a recipe of recipes.toml; ``counts`` is the class of its counts."""
        tables, sets = toml("recipes")[name], {}
        if issubclass(counts, SetCounts):
            sets = toml("recipes")["sets"]
        by_scale = {
            scale: counts(
                **{
                    key: tuple(value) if isinstance(value, list) else value
                    for key, value in {**sets.get(scale, {}), **tables[scale]}.items()
                }
            )
            for scale in SCALES
        }
        return cls(name, tables["shows"], by_scale, *functions, **options)


@dataclass(frozen=True, kw_only=True)
class SetCounts:
    """How many sets of policies, policies in each, trajectories, and draws of them."""

    environments: tuple[str, ...] = ENVIRONMENTS
    sets: int  # runs of PPO; policies of one run are compared with each other
    policies: int  # of each run, spread evenly over it
    episodes: int  # collected of each policy
    sizes: tuple[int, ...] = (100, 50, 25, 10)  # trajectories drawn of those
    repetitions: int = 3  # draws of each size


def recipe(name: str) -> Recipe:
    """Return the recipe of that name."""
    if name not in NAMES:
        hint = did_you_mean(name, NAMES)
        raise UsageError(f"there is no recipe {name!r}{hint}: expected some of {', '.join(NAMES)}")
    module = importlib.import_module(f"reproduction.recipes.{name.replace('-', '_')}")
    result: Recipe = module.RECIPE
    return result
