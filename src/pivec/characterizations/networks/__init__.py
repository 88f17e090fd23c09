"""What the characterizations by neural networks share; importing this loads no torch.

canonical.py      keys of states and sequences, so that random numbers follow the data
training.py       Adam, threads, starting weights
batched_mlp.py    many multilayer perceptrons of one shape, trained together
discriminators.py one of them for each policy, against the states of the others
classifier.py     one of them for all policies, which names the policy of a state
pair_encoder.py   one of them that embeds (state, action) pairs
trajectories.py   trajectories of the data, and the autoencoder trained on them
sequence_vae.py   the variational autoencoder of trajectories
stacked_vae.py    several of them trained together, on a graphics card
"""

from __future__ import annotations

from importlib.util import find_spec

from pivec.errors import MissingExtra


def require_torch(what: str) -> None:
    """Raise `MissingExtra` if torch is not installed."""
    if find_spec("torch") is None:
        raise MissingExtra(what, "torch")
