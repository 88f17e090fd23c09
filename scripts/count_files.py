"""Count the files and functions of pivec whose code one `pivec compare` executes.

    python scripts/count_files.py [--list]

Compares the bundled CartPole policies with 5 episodes each in this process. Files count if they are
imported, functions (and lambdas, comprehensions and class bodies) if they are called.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="list the files with their counts")
    given = parser.parse_args()
    import pivec

    root = str(Path(pivec.__file__).parent) + os.sep
    called: set[Any] = set()

    def profile(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            called.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    policies = str(files("pivec") / "demo_policies" / "CartPole-v1")
    with tempfile.TemporaryDirectory() as folder:
        words = ["compare", "CartPole-v1", policies, "random:2", "--episodes", "5", "--out", folder]
        sys.argv = ["pivec", *words]
        from pivec.cli import main as command

        threading.setprofile(profile)
        sys.setprofile(profile)
        try:
            command()
        except SystemExit as end:
            if end.code:
                sys.exit(end.code)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    python = {call for call in called if call[0].endswith(".py")}
    functions = Counter(name.removeprefix(root) for name, what, _ in python if what != "<module>")
    imported = {name.removeprefix(root) for name, *_ in python}
    if given.list:
        for name in sorted(imported):
            print(f"{functions[name]:5} {name}")
    print(f"{len(imported)} files, {functions.total()} functions")


if __name__ == "__main__":
    main()
