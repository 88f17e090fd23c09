"""The folder of a run: what it is, what it has reached, whether it is finished."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pivec.atomic import atomic_write, locked, make_folder
from pivec.errors import PivecError, UsageError
from pivec.run_log import versions

RUN, STATE, LOCK = "run.json", "state", "lock"
FORMAT = 1


@dataclass(frozen=True)
class TrainedRun:
    """A finished run.

    Attributes
    ----------
    folder : Path
        Its checkpoints, and ``run.json``.
    seed : int
    steps : int
        Environment steps taken.
    mean_return : float or None
        Of the latest episodes of training; of populations, the best fitness of the last generation;
        of ES and NSR-ES, the best mean return of any generation's updated policy.
    reason : str
        Why it ended.
    reused : bool
        Whether it was finished before.
    """

    folder: Path
    seed: int
    steps: int
    mean_return: float | None
    reason: str
    reused: bool = False

    @property
    def n_policies(self) -> int:
        """Number of checkpoints."""
        return sum(1 for _ in self.folder.rglob("*.safetensors")) + sum(
            1 for _ in self.folder.rglob("*.neat")
        )


class Report(Protocol):
    """Hears how a run goes on."""

    def __call__(self, done: int, steps: int, mean_return: float | None) -> None:
        """``done`` of the run's total, after so many environment steps."""
        ...


class RunFolder:
    """Where a run keeps its checkpoints (in it), its state (in ``state``) and ``run.json``.

    Parameters
    ----------
    path : Path
    identity : mapping
        Everything that decides what the run does, as JSON holds it. A folder belongs to one
        identity only.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.state = path, path / STATE
        self.identity: dict[str, Any] = json.loads(json.dumps(dict(identity)))

    def finished(self) -> TrainedRun | None:
        """Give the result if the run is finished; UsageError if the folder is another run's."""
        if not self.path.exists():
            return None
        if not self.path.is_dir():
            raise UsageError(f"{self.path} is a file, but a run needs a folder there")
        file = self.path / RUN
        if not file.exists():
            if any(self.path.iterdir()):
                raise UsageError(
                    f"{self.path} holds files of something else than a training run: choose "
                    "another --out"
                )
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            found, result = content["run"], content["result"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PivecError(
                f"{file} cannot be read ({error}): remove the folder to train anew"
            ) from error
        if found != self.identity:
            raise UsageError(
                f"{self.path} belongs to a run with other settings ({_difference(found, self)}): "
                "choose another --out, or remove it"
            )
        if result is None:
            return None
        return TrainedRun(self.path, self.identity["seed"], **result, reused=True)

    def begin(self) -> None:
        """Make the folder and claim it."""
        make_folder(self.state)
        if not (self.path / RUN).exists():
            self._write(None)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes out, as long as this one lives."""
        with locked(self.state / LOCK, f"{self.path} is being trained in by another process"):
            yield

    def finish(self, steps: int, mean_return: float | None, reason: str) -> None:
        """Mark the run as finished."""
        self._write({"steps": steps, "mean_return": mean_return, "reason": reason})

    def _write(self, result: Mapping[str, Any] | None) -> None:
        content = {
            "format": FORMAT,
            "run": self.identity,
            "versions": versions(),
            "result": None if result is None else dict(result),
        }
        with atomic_write(self.path / RUN, "w") as file:
            json.dump(content, file, indent=1)


def _difference(found: Any, folder: RunFolder) -> str:
    """Name the first thing in which two identities differ."""
    theirs, ours = _flat(found), _flat(folder.identity)
    for key in [*ours, *theirs]:
        if theirs.get(key) != ours.get(key):
            return f"{key} is {theirs.get(key)!r} there and {ours.get(key)!r} here"
    return "in its description"


def _flat(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        return {}
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flat(value) if isinstance(value, dict) else {key: value}
    return flat
