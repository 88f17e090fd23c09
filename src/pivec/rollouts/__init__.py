"""Acting: episode quotas, seeds, vectorised environments, many policies in lock-step.

environment.py   which environment, made from a name or a factory, with clear errors
spaces.py        batches of observations as rows of numbers
seeds.py         one seed for each (seed, policy, episode)
lanes.py         environments side by side, each reset and stepped under our control
answers.py       how a group of policies answers the observations of all its lanes
play.py          the loop: every policy plays exactly its episodes
"""
