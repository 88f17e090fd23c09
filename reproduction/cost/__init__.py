"""Table 1's column of required compute, measured: seconds and memory of every characterization."""
