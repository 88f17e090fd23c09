"""How a folder of results was made, in run.json: command, settings, versions, times, memory."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pivec.files import atomic_write, make_folder
from pivec.terminal import CollectedWarning, WarningCollector, joined

RUN = "run.json"
_PACKAGES = (
    "pivec", "numpy", "gymnasium", "scikit-learn", "openTSNE", "pyarrow", "numba", "envpool",
    "torch", "stable-baselines3", "cma", "neat-python",
)  # fmt: skip


class RunLog:
    """The content of run.json; stages of earlier commands are kept."""

    def __init__(self, folder: str | Path, command: str = "") -> None:
        self.folder = Path(folder)
        earlier: dict[str, Any] = {}
        warnings: dict[str, list[CollectedWarning]] = {}
        with contextlib.suppress(
            OSError, ValueError, TypeError, AttributeError, KeyError
        ):  # none, or damaged
            record = json.loads((self.folder / RUN).read_text(encoding="utf-8"))
            warnings = {
                stage: [CollectedWarning(**row) for row in rows]
                for stage, rows in record.get("warnings", {}).items()
            }
            own = record["run"]
            earlier = {name: dict(own[name]) for name in ("timings", "peak_mb")}
            earlier |= {"command": str(own["command"]), "settings": dict(record["settings"])}
        self._warnings = warnings if earlier else {}
        self.command: str = command or earlier.get("command", "")
        self.settings: dict[str, Any] = earlier.get("settings", {})
        self.timings: dict[str, float] = earlier.get("timings", {})
        self.peaks: dict[str, float] = earlier.get("peak_mb", {})

    @contextmanager
    def stage(self, name: str, *, goes_on: bool = False) -> Iterator[None]:
        """Record time, peak memory and warnings of a stage, and write run.json after it.

        One that ``goes_on`` adds its time and warnings to those from before.
        """
        start = time.perf_counter()
        with WarningCollector() as notices:
            yield
        before = self.timings.get(name, 0.0) if goes_on else 0.0
        known = {row.text: row for row in self._warnings.get(name, []) if goes_on}
        self.timings[name] = round(before + time.perf_counter() - start, 3)
        self.peaks[name] = round(peak_mb(), 1)
        self._warnings[name] = list(({row.text: row for row in notices.rows} | known).values())
        record = {
            "run": {  # all that differs between two identical runs
                "command": self.command,
                "timings": self.timings,
                "peak_mb": {name: peak for name, peak in self.peaks.items() if math.isfinite(peak)},
            },
            "settings": self.settings,
            "versions": versions(),
            "warnings": {
                stage: [row._asdict() for row in rows] for stage, rows in self._warnings.items()
            },
        }
        make_folder(self.folder)
        with atomic_write(self.folder / RUN, "w") as file:
            json.dump(record, file, indent=1)

    @property
    def warnings(self) -> list[CollectedWarning]:
        """The warnings of all stages."""
        return joined(row for rows in self._warnings.values() for row in rows)


@cache  # a watch asks every few seconds
def versions() -> dict[str, str]:
    """Versions of everything that the numbers depend on."""
    known = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            known[package] = version(package)
    return known


@cache
def processor() -> str:
    """Return the name of the processor, if the system reports it."""
    with contextlib.suppress(OSError, IndexError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        return text.split("model name")[1].partition("\n")[0].strip("\t :")
    return platform.processor() or platform.machine()


def peak_mb() -> float:
    """Return the peak memory of this process in MB; NaN if unknown."""
    # Not ru_maxrss on Linux: it survives exec, so a child would inherit its parent's peak.
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return float(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
    try:
        import resource
    except ImportError:  # Windows has neither
        return float("nan")
    used = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return used / 1e6 if sys.platform == "darwin" else used * 1024 / 1e6
