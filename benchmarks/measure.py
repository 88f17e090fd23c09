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


def in_process(script: str, part: str, **environment: str) -> dict[str, Any]:
    """Run ``python script --part part`` and return what its `serve` gave, with ``peak_mb``."""
    done = subprocess.run(
        [sys.executable, script, "--part", part],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    line = next(row for row in done.stdout.splitlines() if row.startswith(_MARK))
    return json.loads(line[len(_MARK) :])


def serve(parts: Mapping[str, Callable[[], Mapping[str, Any]]]) -> bool:
    """Run the part that `in_process` asked for, if this process was started by it."""
    if "--part" not in sys.argv:
        return False
    result = dict(parts[sys.argv[sys.argv.index("--part") + 1]]())
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(_MARK + json.dumps(result))
    return True


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
