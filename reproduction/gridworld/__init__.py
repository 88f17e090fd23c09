"""Figure 1: what returns, actions and visited states say of two policies in a grid world."""
