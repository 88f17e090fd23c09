"""What recipes train and collect, as data: all that decides policies and states, and its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pivec.policies.policy import NamedPolicy


@dataclass(frozen=True)
class Training:
    """Runs of one algorithm in one environment with the same settings."""

    name: str  # the recipe's, as `clip 0.1`; the policies' groups begin with it
    environment: str
    algorithm: str
    runs: int  # run i has the seed `seed` + i, so that more runs add to fewer
    checkpoints: int | None  # kept of a run; None for populations, which keep generations
    seed: int
    settings: Mapping[str, Any] = field(hash=False)  # all of them

    @cached_property
    def key(self) -> str:
        """A name that says what it is, with a digest of all that decides the policies."""
        decides = [self.environment, self.algorithm, self.kept, self.seed]
        digest = digest_of([*decides, dict(self.settings)])
        return f"{self.environment}-{self.algorithm}-{digest}"

    @property
    def steps(self) -> int:
        """Environment steps of all runs; 0 for populations, whose episodes decide it."""
        return int(self.settings["steps"]) * self.runs

    @property
    def kept(self) -> list[int] | None:
        """Steps after whose updates a policy is kept; None for populations."""
        return None if self.checkpoints is None else self.updates()

    def saves(self, count: int | None = None) -> list[int]:
        """Steps at which the paper's scripts save ``count`` policies of a run, evenly spread.

        They do so whether or not an update came in between. There are at most ``checkpoints``, and
        so many if None.
        """
        most = self.checkpoints or 0
        count = most if count is None else min(count, most)
        return [(i + 1) * int(self.settings["steps"]) // count for i in range(count)]

    def updates(self, count: int | None = None) -> list[int]:
        """Steps after which the different networks among those that are saved came about."""
        batch = int(self.settings["n_envs"]) * int(self.settings["n_steps"])
        return sorted({step // batch * batch for step in self.saves(count)})

    def distinct(self, count: int | None = None) -> int:
        """Tell how many of ``count`` policies of a run of PPO or A2C are different networks.

        Where updates are rarer than policies, the same network is saved more than once.
        """
        return len(self.updates(count))


@dataclass(frozen=True)
class Collection:
    """States that policies of some trainings visit."""

    trainings: tuple[Training, ...]  # all in one environment
    episodes: int  # of each policy
    policies: int | None = None  # of each run, spread evenly; None takes all
    seed: int = 0
    kept: bool = True  # on disk; if not, `described` plays a few policies at a time
    runs: tuple[int, ...] | None = None  # only these of each training; None takes all

    @property
    def environment(self) -> str:
        """Where they act."""
        return self.trainings[0].environment

    @cached_property
    def key(self) -> str:
        """A name that says what it is, with a digest of all that decides the states."""
        who = [[training.name, training.key, training.runs] for training in self.trainings]
        decides = [who, self.episodes, self.policies, self.seed]
        digest = digest_of(decides if self.runs is None else [*decides, self.runs])
        return f"{self.environment}-{digest}"


def saved(training: Training, kept: Sequence[NamedPolicy], count: int | None) -> list[NamedPolicy]:
    """Take ``count`` policies out of those that a run keeps, in the order of training.

    Of PPO and A2C each is the network as it was when it would have been saved.
    """
    if training.checkpoints is None:
        return spread_evenly(kept, count)
    steps = [policy.info.step or 0 for policy in kept]
    saves = training.saves(count)
    places = np.maximum(np.searchsorted(steps, saves, side="right") - 1, 0)
    return [
        replace(kept[place], info=replace(kept[place].info, label=f"step_{step}", step=step))
        for place, step in zip(places.tolist(), saves, strict=True)
    ]


def spread_evenly(items: Sequence[Any], count: int | None) -> list[Any]:
    """Take ``count`` of the items, spread evenly from the first to the last."""
    if count is None or count >= len(items):
        return list(items)
    if count == 1:
        return [items[-1]]
    places = np.linspace(0, len(items) - 1, count).round().astype(int)
    return [items[place] for place in places.tolist()]


def digest_of(content: Any) -> str:
    """Return twelve hexadecimal digits that follow from the content, as JSON holds it."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
