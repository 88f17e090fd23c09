"""What the characterizations by neural networks share; importing this loads no torch.

method.py         the arguments that all of them have
canonical.py      keys of states and sequences, so that random numbers follow the data
training.py       Adam, threads, starting weights
batched_mlp.py    many multilayer perceptrons of one shape, trained together
discriminators.py one of them for each policy, against the states of the others
single_mlp.py     one of them for all policies: naming the policy of a state, or embedding pairs
trajectories.py   what the two characterizations by trajectories share
sequence_vae.py   the variational autoencoder of trajectories
"""
