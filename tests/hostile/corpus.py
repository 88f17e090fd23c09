"""All readers with their hostile files, and which files a process opens."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("hostile", "policies", ".")]

import hostile_policies  # noqa: E402
import hostile_states  # noqa: E402
from hostile_states import make_canary as make_canary  # noqa: E402

USUAL = ("/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sys", "/usr")


READERS = hostile_states.READERS | hostile_policies.READERS


def traced(log):
    """The command that lists in ``log`` which files another command opens."""
    calls = "trace=open,openat,openat2"
    return ["strace", "-f", "--seccomp-bpf", "-z", "-e", calls, "-o", str(log), "--"]


def opened_elsewhere(log):
    """Files that were opened and belong neither to a case nor to the installation."""
    temporary = tempfile.gettempdir()
    home = (*filter(None, sys.path), sys.prefix, sys.base_prefix, os.path.realpath(sys.prefix))
    home += (str(Path.home() / ".minari"),)  # which Minari lists when it is imported
    found = set()
    for line in log.read_text(errors="replace").splitlines():
        match = re.search(r'open\w*\((?:AT_FDCWD, )?"([^"]+)"', line)
        if match is None or not match[1].startswith("/"):
            continue
        path = os.path.normpath(match[1])
        # The last one is how tempfile finds out where it can write.
        case = re.match(rf"{re.escape(temporary)}/((tmp\w+|spoilt-\w+)(/|$)|\w{{8}}$)", path)
        usual = any(path == top or path.startswith(f"{top}/") for top in (*home, *USUAL))
        if not case and not usual:
            found.add(path)
    return found
