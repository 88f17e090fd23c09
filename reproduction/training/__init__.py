"""Making policies: runs with checkpoints that `pivec.compare` takes as they are.

train.py            `train`: several runs, each in a process of its own, finished ones kept
settings.py         the paper's hyperparameters, from settings.toml, and the user's changes
runs.py             a run: what it is, its folder, what it has reached, when a policy is kept
architecture.py     networks whose weights are a vector, for the spaces of an environment
reinforcement.py    PPO and A2C, by Stable-Baselines3
lanes_env.py        lanes of environments as Stable-Baselines3 wants them
evolution.py        generations of a population in lock-step, replayed from a ledger after a stop
cmaes.py            generations proposed by pycma, of networks of a fixed shape
neat_search.py      generations proposed by neat-python, of networks that grow
novelty.py          `NoveltySearch`: ES and NSR-ES, by any characterization; a run in its folder
novelty_archive.py  the behaviours it met, and how new others are beside them
es.py               its mathematics: centred ranks, mirrored noise, Adam
trust_region.py     `TrustRegionPPO`: PPO whose updates a rule stops, with Stable-Baselines3; rules
behaviour.py        `BehaviourMonitor`: follows one run, description by description
behaviour_callback.py  the same inside Stable-Baselines3's training, and its end; see `pivec.sb3`
watching.py         whole episodes out of the steps that such training takes
encoder.py          `fit_encoder`: of the images that policies see, a few numbers
image_networks.py   its networks: learned as autoencoders, or drawn at random
cloning.py          `clone`: imitates an expert from a few of its episodes
"""
