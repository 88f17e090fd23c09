"""How far apart descriptions are: what to read off the distances of many policies.

pairs.py    the nearest and the farthest pairs
travel.py   the distance a training run travels, checkpoint by checkpoint
measured.py these and each policy's nearest others, however many policies there are
"""

from pivec.distances.measured import Measured, measure
from pivec.distances.pairs import Pair, farthest_pairs, nearest_pairs
from pivec.distances.travel import Travel, travels

__all__ = [
    "Measured",
    "Pair",
    "Travel",
    "farthest_pairs",
    "measure",
    "nearest_pairs",
    "travels",
]
