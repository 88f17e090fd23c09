"""A comparison that grows while training runs: `watch.watch`."""
