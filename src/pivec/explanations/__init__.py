"""What differs: between two policies, along a run, between groups of runs, and within a policy.

folder.py       what a comparison folder holds: its space and its states
names.py        names of features with their units, and names of regions
replay.py       episodes replayed from their seeds
clips.py        frames of states and clips of episodes
regions.py      the regions of a space: who visits them, when, and states near their centres
differences.py  differences in the time spent in regions and in spans of a feature
motion.py       direction and speed of two policies in the same places
rules.py        rules that separate two policies, from a shallow tree
pairs.py        what differs between two policies
runs.py         what changed along a training run
groups.py       what the runs of a group have in common
unusual.py      episodes that differ from the others of their policy
kinds.py        kinds of episodes, and each policy's shares of them
datasets.py     near-duplicates, coverage and drift of recorded episodes
coverage.py     states outside of what a space covers
plots.py        the figures

Functions take a comparison: its folder, the result of `pivec.compare`, or a `ComparisonFolder`.
Modules are imported on first use; ``__init__.pyi`` lists the names.
"""

from pivec.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
