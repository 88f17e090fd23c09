"""Figure 3: how well characterizations measure behaviour, with how many trajectories."""
