"""How a policy is described: one file for each way, one contract for all.

base.py           the contract: fit, describe, distances, save
descriptions.py   what describe returns: one row a policy
registry.py       the names, and `characterization(name, ...)` that makes one
pairwise.py       distances between all rows of two sets, in closed form
supervector.py    adapted means of a background mixture (the paper's own)
gaussian.py       one Gaussian a policy
space.py          a fitted characterization on disk, with the policies it has described
"""

from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.registry import characterization, names
from pivec.characterizations.space import Space

__all__ = ["Characterization", "Descriptions", "Space", "characterization", "names"]
