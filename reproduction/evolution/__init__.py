"""Figure 4: how PPO, A2C, NEAT and CMA-ES move through behaviours, as maps and as numbers."""
