"""Distances between arrays, and the statistics of distances.

pairwise.py     distances between all rows of two sets
intervals.py    confidence intervals, p- and q-values, permutation tests, parts of a distance
equivalence.py  whether two policies behave the same, and how many episodes that takes
episodes.py     single episodes: whether two policies' differ, and which kinds there are
sequential.py   evidence that holds however often one looks
views.py        two policies seen by feature, kind of episode, length and return
pairs.py        pairs and nearest neighbours; the distance that a run travels, its convergence
groups.py       differences between groups of runs, their diversity, behaviour classes
evaluation.py   how good a characterization is: the paper's metrics
"""

from pivec.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
