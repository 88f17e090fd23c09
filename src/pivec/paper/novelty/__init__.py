"""Novelty search in the deceptive point: ES, and NSR-ES with three kinds of behaviour."""
