"""How a folder of results was made: command, settings, versions, times, warnings, in run.json."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pivec.atomic import atomic_write
from pivec.notices import Notice, Notices, joined

RUN = "run.json"
_PACKAGES = (
    "pivec",
    "numpy",
    "gymnasium",
    "scikit-learn",
    "openTSNE",
    "pyarrow",
    "numba",
    "envpool",
    "torch",
    "stable-baselines3",
    "cma",
    "neat-python",
)


@dataclass
class Log:
    """What goes into run.json: how the folder was made, stage by stage."""

    command: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    warnings: dict[str, list[Notice]] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Measure one stage in seconds, and keep the warnings that are raised in it."""
        start = time.perf_counter()
        with Notices() as notices:
            yield
        self.timings[stage] = round(time.perf_counter() - start, 3)
        self.warnings[stage] = notices.rows

    def write(self, folder: Path) -> None:
        """Write run.json; stages that an earlier command ran are kept."""
        old = read_run(folder)
        record = {
            "command": self.command or old.get("command", ""),
            "settings": old.get("settings", {}) | self.settings,
            "versions": versions(),
            "timings": old.get("timings", {}) | self.timings,
            "warnings": old.get("warnings", {})
            | {stage: [row._asdict() for row in rows] for stage, rows in self.warnings.items()},
        }
        with atomic_write(folder / RUN, "w") as file:
            json.dump(record, file, indent=1)


def read_run(folder: Path) -> dict[str, Any]:
    """Read run.json of a folder; empty if there is none."""
    try:
        record: Any = json.loads((folder / RUN).read_text(encoding="utf-8"))
        parts = ("settings", "timings", "warnings")
        whole = all(isinstance(record.get(part, {}), dict) for part in parts)
    except (OSError, ValueError, AttributeError):
        return {}
    return record if whole else {}


def notices(run: dict[str, Any]) -> list[Notice]:
    """Give the warnings of all stages that run.json holds."""
    stages = run.get("warnings", {}).values()
    rows = (row for stage in stages if isinstance(stage, list) for row in stage)
    fields = set(Notice._fields)
    return joined(Notice(**row) for row in rows if isinstance(row, dict) and set(row) == fields)


def versions() -> dict[str, str]:
    """Versions of everything that the numbers depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
