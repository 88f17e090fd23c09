"""All benchmarks, one after another; each writes its section of RESULTS.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = (
    "forward.py",
    "rollouts.py",
    "workers.py",
    "callback.py",
    "training.py",
    "backends.py",
    "mixture.py",
    "distances.py",
    "tsne.py",
    "characterizations.py",
    "networks.py",
    "trust_region.py",
    "robust.py",
    "trust.py",
    "stopping.py",
    "groups.py",
    "explaining.py",
    "page.py",
    "cluster.py",
    "thirty_thousand.py",
)


def main() -> None:
    for name in sys.argv[1:] or SCRIPTS:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, str(HERE / name)], check=True)


if __name__ == "__main__":
    main()
