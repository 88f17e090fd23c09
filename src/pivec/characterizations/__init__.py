"""How a policy is described: one file for each way, one contract for all.

base.py           the contract: fit, describe, distances, save
descriptions.py   what describe returns: one row a policy
registry.py       the names, and `characterization(name, ...)` that makes one
views.py          what is described: states, (state, action) or (state, next state)
cells.py          sparse histograms and the distances between them
networks/         what the trained characterizations share: batched networks, sequence encoders
space.py          a fitted characterization on disk, with the policies it has described

One file for each characterization, named after it: see `names()`.
"""
