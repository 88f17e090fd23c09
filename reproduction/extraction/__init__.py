"""Figure 2: how three Pendulum policies become supervectors."""
