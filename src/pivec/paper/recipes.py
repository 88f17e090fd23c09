"""What a recipe is, what it gives, and which ones there are."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pivec.errors import UsageError, did_you_mean
from pivec.paper.workshop import Collection, Training, Workshop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In the order of the paper; each is a folder here whose recipe.py has a RECIPE.
NAMES = (
    "gridworld",
    "extraction",
    "metrics",
    "components",
    "evolution",
    "clipping",
    "imitation",
    "cost",
    "novelty",
    "trust-region",
)
PICTURE = "the figure, without numbers"  # what the paper has of many findings


@dataclass(frozen=True)
class Calculation:
    """Work beside training and collecting, for the plan.

    Attributes
    ----------
    what : str
    amount : float
        How much of it there is.
    measure : callable
        Does a little of it and returns the seconds that one of ``amount`` takes.
    """

    what: str
    amount: float
    measure: Callable[[], float]


Need = Training | Collection | Calculation


@dataclass(frozen=True)
class Finding:
    """Something the paper says, beside what came out here.

    Attributes
    ----------
    claim : str
        As a sentence.
    paper, ours : str
        The numbers behind it.
    holds : bool or None
        Whether it came out; None where that cannot be told.
    """

    claim: str
    paper: str
    ours: str
    holds: bool | None


@dataclass(frozen=True)
class Result:
    """What a recipe gives.

    Attributes
    ----------
    numbers : mapping
        Everything that was measured, as JSON holds it.
    rows : sequence of mappings
        The same as a long table; all rows have the same keys.
    figures : mapping of str to Figure
        By the names of their files, without extension.
    tables : str
        Markdown: ours beside the paper's.
    findings : sequence of Finding
    notes : sequence of str
        What a reader must know to read the numbers: what differs from the paper, and why.
    """

    numbers: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    figures: Mapping[str, Figure]
    tables: str
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Recipe:
    """A figure or table of the paper: how it is made, at every scale.

    Attributes
    ----------
    name : str
    shows : str
        The figure or table, and what it shows, in a line.
    counts : mapping of str to a frozen dataclass
        For each scale, how much of everything. Where the recipe goes through environments, the
        counts have ``environments``, a tuple of Gymnasium ids, which a user may change.
    needs : callable (workshop, counts) -> list of Need
        What is trained, collected and computed; the recipe itself uses these objects.
    make : callable (workshop, counts) -> Result
    tells_at_smoke : bool
        Whether findings can be told at smoke scale; in most recipes that is too small.
    """

    name: str
    shows: str
    counts: Mapping[str, Any]
    needs: Callable[[Workshop, Any], list[Need]]
    make: Callable[[Workshop, Any], Result]
    tells_at_smoke: bool = False


def recipe(name: str) -> Recipe:
    """Return the recipe of that name.

    Examples
    --------
    >>> recipe("gridworld").name
    'gridworld'
    """
    if name not in NAMES:
        hint = did_you_mean(name, NAMES)
        raise UsageError(f"there is no recipe {name!r}{hint}: expected some of {', '.join(NAMES)}")
    module = importlib.import_module(f"pivec.paper.{name.replace('-', '_')}.recipe")
    result: Recipe = module.RECIPE
    return result
