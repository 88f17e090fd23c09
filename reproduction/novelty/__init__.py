"""Novelty search in the deceptive point: ES, and NSR-ES with several kinds of behaviour."""
