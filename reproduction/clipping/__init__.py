"""The clip ratio of PPO and the distance a policy travels in training, with A2C beside it."""
