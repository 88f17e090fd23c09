"""Every figure and table of the paper, as a recipe with a scale.

reproduction.py  `reproduce`: runs recipes, writes figures, numbers and pages
recipes.py       what a recipe is and gives; the list of them
workshop.py      the stages that recipes share: train, collect, compute; kept by hash
scales.py        how much of everything, from scales.toml
planning.py      `plan`: what a recipe would do, and the time and disk it would take
published.py     the paper's numbers, from published.toml
described.py     supervectors of the policies of many runs, without keeping all their states

Recipes, in the order of the paper: gridworld.py, extraction.py, metrics.py, components.py,
evolution.py, clipping.py, imitation.py, cost.py, novelty.py, trust_region.py; what they draw is in
files named ``<recipe>_figure.py``, and what they say in ``<recipe>_page.py``.

A recipe is a module with a `RECIPE`: counts for every scale (a frozen dataclass), ``needs``, which
lists what is trained, collected and computed, and ``make``, which does it through the workshop and
returns a `Result`. Every stage that takes more than a moment goes through the workshop
(``train``, ``collect``, ``computed``), which keeps it under the hash of its inputs: that is what
makes a recipe that was stopped go on and give the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pivec.lazy import attach

_EXPORTS = {
    "NAMES": "pivec.paper.recipes",
    "Calculation": "pivec.paper.recipes",
    "Collection": "pivec.paper.workshop",
    "Finding": "pivec.paper.recipes",
    "Recipe": "pivec.paper.recipes",
    "Result": "pivec.paper.recipes",
    "Training": "pivec.paper.workshop",
    "Workshop": "pivec.paper.workshop",
    "plan": "pivec.paper.planning",
    "recipe": "pivec.paper.recipes",
    "reproduce": "pivec.paper.reproduction",
}

if TYPE_CHECKING:
    from pivec.paper.planning import plan as plan
    from pivec.paper.recipes import NAMES as NAMES
    from pivec.paper.recipes import Calculation as Calculation
    from pivec.paper.recipes import Finding as Finding
    from pivec.paper.recipes import Recipe as Recipe
    from pivec.paper.recipes import Result as Result
    from pivec.paper.recipes import recipe as recipe
    from pivec.paper.reproduction import reproduce as reproduce
    from pivec.paper.workshop import Collection as Collection
    from pivec.paper.workshop import Training as Training
    from pivec.paper.workshop import Workshop as Workshop

__all__ = sorted(_EXPORTS)  # noqa: PLE0605

__getattr__, _names = attach(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return _names()
