"""Making policies: runs with checkpoints that `pivec.compare` takes as they are.

train          `train`: several runs, each in a process of its own, finished ones kept
runs           a run with its settings (settings.toml), its folder, and when a policy is kept
reinforcement  PPO and A2C, by Stable-Baselines3
evolution      CMA-ES and NEAT: generations in lock-step, replayed from a ledger after a stop
novelty        `NoveltySearch`: ES and NSR-ES, with any characterization as behaviour
cloning        `clone`: imitates an expert from a few of its episodes
trust_region   PPO on the dangerous path, compiled, whose updates a constraint stops
"""
