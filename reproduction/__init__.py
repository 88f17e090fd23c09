"""Every figure and table of the paper, as a recipe with a scale.

reproduction.py  `reproduce`: runs recipes, writes figures, numbers and pages
telling.py       what is said of numbers: pages, and the table of all claims (claims.toml)
planning.py      `plan`: what recipes would do, and the time and disk it would take
recipes.py       what a recipe is and gives; the list of them
trainings.py     what is trained and collected, as data
workshop.py      the stages that recipes share: train, collect, compute; kept by hash
background.py    characterizations as the authors have them: the background model's fit
described.py     supervectors of the policies of many runs, without keeping all their states
evaluating.py    characterizations evaluated on sets of policies
published.py     the paper's numbers (published.toml); scales.toml has those of the scales
rows.py          rows of numbers: looked up, written as Markdown
panels.py        what figures share
console.py       recipes and plans on the terminal
array_env.py     many of one environment on arrays, of which each lane is a single one
worlds.py        registers the paper's own environments

Every recipe is a folder, in the order of the paper: gridworld, extraction, metrics, components,
evolution, clipping, imitation, cost, novelty, trust_region. In each:

recipe.py  a `RECIPE`: counts for every scale, ``needs``, ``make`` and ``tell``
figure.py  what is drawn
page.py    what is said: tables, and findings beside the paper's
notes.md   what a reader must know to read the numbers, a paragraph each
world.py   its own environment, if it has one

``needs`` lists what is trained, collected and computed; ``make`` does it through the workshop
(``train``, ``collect``, ``computed``) and returns a `Result`, numbers and figures; ``tell`` says
what the numbers show, from them alone. The workshop keeps every stage under the hash of its inputs:
a recipe that was stopped goes on, and gives the same numbers. A new recipe is such a folder, and
its name in `NAMES`.
"""

from reproduction.claims import retell, verify
from reproduction.planning import plan
from reproduction.recipes import NAMES, recipe
from reproduction.runner import reproduce

__all__ = ["NAMES", "plan", "recipe", "reproduce", "retell", "verify"]
