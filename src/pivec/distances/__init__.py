"""How far apart two descriptions are: what to read off a matrix of distances.

pairs.py    the nearest and the farthest pairs
travel.py   the distance a training run travels, checkpoint by checkpoint
"""

from pivec.distances.pairs import Pair, farthest_pairs, nearest_pairs
from pivec.distances.travel import Travel, travels

__all__ = ["Pair", "Travel", "farthest_pairs", "nearest_pairs", "travels"]
