"""How far apart descriptions are, and what to read off the distances of many policies.

pairwise.py the distances of all rows of two sets (pairwise_torch.py: on a graphics card)
method.py   what they are measured with: as much of a characterization as is needed here
pairs.py    the nearest and the farthest pairs, and how sure their distances are
travel.py   the distance a training run travels, checkpoint by checkpoint
measured.py these and each policy's nearest others, however many policies there are
discoveries.py  many tests at once: q-values
behaviours.py   classes of policies that cannot be told apart
groups.py   whether groups of runs differ, and how diverse each one is
settling.py when a run has settled: its behaviour does not change any more
"""
