"""Behavioural cloning: distance to the expert and return over the epochs."""
