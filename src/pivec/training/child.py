"""What happens in the process of a run: the algorithm is chosen, runs, and tells how far it is.

Libraries of training seed global generators and start threads. In a process of its own a run does
neither to its caller, and several go side by side, one core each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivec.engines.child import Tell
from pivec.rollouts.environment import Environment
from pivec.training.checkpoints import Maker
from pivec.training.runs import STATE, RunFolder

LOG = "log.txt"


@dataclass(frozen=True)
class RunRequest:
    """One run, as it is sent to its process."""

    environment: Environment
    values: Mapping[str, Any]
    checkpoints: int | list[int] | None
    folder: Path
    identity: Mapping[str, Any]
    maker: Maker

    @property
    def log(self) -> Path:
        """Where its process writes."""
        return self.folder / STATE / LOG

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Name what may be a user's own."""
        yield f"the environment {self.environment.name}", self.environment


def carry_out(request: RunRequest, tell: Tell) -> None:
    """Train to the end, from where the run stands."""

    def report(done: int, steps: int, mean_return: float | None) -> None:
        tell({"done": done, "steps": steps, "mean_return": mean_return}, seldom=True)

    folder = RunFolder(request.folder, request.identity)
    with folder.claimed():
        arguments = request.environment, request.values
        if request.maker.algorithm in ("ppo", "a2c"):
            from pivec.training.reinforcement import learn

            learn(*arguments, request.checkpoints or 1, folder, request.maker, report)
            return
        from threadpoolctl import threadpool_limits

        if request.maker.algorithm in ("es", "nsr-es"):
            from pivec.training.novelty_runs import search as run
        else:
            from pivec.training.evolution import evolve as run
        with threadpool_limits(limits=1):
            run(*arguments, request.checkpoints, folder, request.maker, report)
