"""Small characterizations for the tests of the evaluation, importable by another process."""

from __future__ import annotations

import os

import numpy as np

from pivec.characterizations import Characterization
from pivec.errors import UsageError


class Mean(Characterization):
    """Distance of the mean states; writes down what it saw, where it is told to."""

    name = "mean"

    def __init__(self, *, log=None, fails="", offset=0.0, holds_mb=0, random_state=0):
        self.log, self.fails, self.offset = log, fails, offset
        self.holds_mb, self.random_state = holds_mb, random_state

    def _fit(self, data):
        np.ones(self.holds_mb * 125_000)  # 8 bytes each
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{data.n_episodes} {float(data.states.sum())!r} {os.getpid()}\n")
        if self.fails == "refuse":
            raise UsageError("mean needs what is not there")
        if self.fails == "crash":
            raise ZeroDivisionError("division\nby zero")
        if self.fails == "kill":
            os.kill(os.getpid(), 9)

    def _describe(self, data):
        means = np.array([data.policy_states(i).mean(axis=0) for i in range(len(data))], float)
        print("methods may print")
        return means, means, {}

    def _distances(self, a, b):
        other = a if b is None else b
        d = ((a.points[:, None] - other.points[None]) ** 2).sum(axis=-1) + self.offset
        return np.full_like(d, np.inf) if self.fails == "infinite" else d
