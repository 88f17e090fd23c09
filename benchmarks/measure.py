"""Pieces of work in processes of their own, with their peak memory, and the page of results."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "RESULTS.md"
_MARK = "@@result@@"


def in_process(
    script: str, part: str, arguments: Mapping[str, Any] | None = None, **environment: str
) -> dict[str, Any]:
    """Run one part of a script in a process of its own and return what it gave.

    Beside that there is ``peak_mb``, the most memory it held, and ``beyond_mb``, how much of that
    came after its last `mark_memory`. ``arguments`` are given to the part by keyword.
    """
    done = subprocess.run(
        [sys.executable, script, "--part", part, "--arguments", json.dumps(arguments or {})],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    line = next(row for row in done.stdout.splitlines() if row.startswith(_MARK))
    return json.loads(line[len(_MARK) :])


def serve(parts: Mapping[str, Callable[..., Mapping[str, Any]]]) -> bool:
    """Run the part that `in_process` asked for, if this process was started by it."""
    if "--part" not in sys.argv:
        return False
    name = sys.argv[sys.argv.index("--part") + 1]
    arguments = json.loads(sys.argv[sys.argv.index("--arguments") + 1])
    result = dict(parts[name](**arguments))
    result["peak_mb"] = max(_peak_mb(), _marked.get("peak", 0.0))
    result["beyond_mb"] = _peak_mb() - _marked.get("now", 0.0)
    print(_MARK + json.dumps(result))
    return True


_marked: dict[str, float] = {}


def mark_memory() -> None:
    """Count memory from here on: the data is there and the libraries are loaded."""
    _marked["peak"] = max(_peak_mb(), _marked.get("peak", 0.0))
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")  # the high-water mark starts anew from what is held now
    _marked["now"] = _peak_mb()


def _peak_mb() -> float:
    """Most memory this process held, in MB; the system's figure may include its parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.findall(r"VmHWM:\s*(\d+) kB", status.read_text())[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def alternately(
    works: Mapping[str, Callable[[], dict[str, Any]]], times: int, key: str = "seconds"
) -> dict[str, dict[str, Any]]:
    """Do each work in turn, several times over, and keep the run of each with the least ``key``."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(times):
        for name, work in works.items():
            run = work()
            if name not in best or run[key] < best[name][key]:
                best[name] = run
    return best


def table(header: list[str], rows: list[list[Any]]) -> str:
    """Write a table in Markdown; numbers with three digits."""

    def cell(value: Any) -> str:
        return (
            f"{value:.3g}"
            if isinstance(value, float) and abs(value) < 1000
            else (f"{value:.0f}" if isinstance(value, float) else str(value))
        )

    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell(v) for v in line) + " |" for line in lines)


def machine() -> str:
    """Describe the machine in one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = re.findall(r"model name\s*: (.*)", info.read_text())
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, Python {platform.python_version()}, {platform.system()}"


def write_section(name: str, text: str) -> None:
    """Replace one section of RESULTS.md, between its markers, and leave the others alone."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    page = RESULTS.read_text() if RESULTS.exists() else "# Benchmark results\n"
    block = f"{begin}\n## {name.replace('-', ' ').capitalize()}\n\n{text}\n\n{machine()}\n{end}\n"
    if begin in page:
        head, rest = page.split(begin, 1)
        page = head + block + rest.split(end, 1)[1].lstrip("\n")
    else:
        page = page.rstrip("\n") + "\n\n" + block
    RESULTS.write_text(page)
