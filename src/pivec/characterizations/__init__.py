"""How a policy is described: one contract, one module per family.

base.py           the contract: `Characterization`, its `Traits`, and `characterization(name, ...)`
descriptions.py   what `describe` returns, one row per policy
sampling.py       influences of episodes, the jackknife and the permutation test
decomposition.py  parts of a distance by region, kind and feature
measurement.py    `measure`: all distances between many policies
rows.py           what is described: states, (state, action) pairs or transitions
space.py          a fitted characterization on disk, with the policies it has described
background.py     visitation, supervector: a Gaussian mixture of all states
distributions.py  gaussian, mmd, sliced-wasserstein
discretization.py discretization, transitions: histograms over a grid
episodes.py       returns, terminal-state, trajectories
policies.py       actions, parameters: the policies themselves
networks.py       discriminator, skill-discriminator, state-actions, encoder, trajectory-encoder
                  (networks in torch_networks.py)

The classes of all characterizations are imported from `pivec`, which loads their modules only when
they are used.
"""

from pivec.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
