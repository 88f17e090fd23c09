"""Hold that a change of the code changes no number: run everything, compare with a record.

python scripts/same_numbers.py record    with the code as it was
python scripts/same_numbers.py check     with the code as it is; `check compare gridworld` for parts

Runs `pivec compare` with every characterization, `pivec evaluate` and all recipes at smoke scale
(five minutes on two cores). The record was made on a processor with AVX2; training and t-SNE
enlarge the last bits, in which others differ, so record there first.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_suffix(".json.gz")
RTOL = 1e-6
# Of what was measured, times and memory are another each time, and so is what is said of them.
_PASSING = re.compile(r"seconds|peak|_mb\b|exponent|/ours$|/store$|time|memory")


def run(module: str, *arguments: object) -> None:
    """Run the command line of a package that this Python finds."""
    words = [str(argument) for argument in arguments]
    done = subprocess.run(
        [sys.executable, "-m", module, *words, "--quiet"],
        capture_output=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    if done.returncode:
        sys.exit(f"{module} {' '.join(words)}: {done.stderr.decode()}")


def numbers(folder: Path, parts: list[str]) -> dict[str, Any]:
    """Run everything in a folder, and return what came out, by file, row and column."""
    policies = Path(__import__("pivec").__file__).parent / "demo_policies"
    found: dict[str, Any] = {}
    if "compare" in parts:
        found |= compared(folder, policies)
    if "evaluate" in parts:
        found |= evaluated(folder, policies)
    if recipes := [part for part in parts if part not in ("compare", "evaluate")]:
        run("reproduction", *recipes, "--scale", "smoke", "--out", folder / "paper")
    for file in sorted((folder / "paper" / "smoke").glob("*/numbers.json")):
        found |= flat(json.loads(file.read_text()), f"paper/{file.parent.name}")
    return {key: value for key, value in found.items() if not _PASSING.search(key)}


def compared(folder: Path, policies: Path) -> dict[str, Any]:
    """Compare policies with every characterization."""
    from pivec.characterizations import names

    found = {}
    some = [policies / "CartPole-v1" / run for run in ("ppo-0", "a2c-1")]
    for method in names():
        out = folder / method
        run("pivec", "compare", "CartPole-v1", *some, "--episodes", 5, "--method", method,
              "--out", out)  # fmt: skip
        found |= flat(table(out / "distances.csv"), f"compare/{method}/distances")
        found |= flat(table(out / "map.csv"), f"compare/{method}/map")
    return found


def evaluated(folder: Path, policies: Path) -> dict[str, Any]:
    """Evaluate some characterizations."""
    store = folder / "store"
    run("pivec", "collect", "Pendulum-v1", policies / "Pendulum-v1", "--episodes", 8, "--actions",
          "--keep-policies", "--out", store)  # fmt: skip
    run("pivec", "evaluate", store, "--sizes", "4,2", "--repetitions", 2, "--methods",
        "supervector,gaussian,actions,returns,mmd,discretization",
        "--out", folder / "evaluate")  # fmt: skip
    return flat(table(folder / "evaluate" / "evaluation.csv"), "evaluate")


def table(file: Path) -> list[dict[str, Any]]:
    """Read a CSV; what looks like a number is one."""
    with open(file, newline="") as lines:
        return [{k: number(v) for k, v in row.items()} for row in csv.DictReader(lines)]


def number(text: str) -> Any:
    """Read a number, and leave other text as it is."""
    try:
        return float(text)
    except ValueError:
        return re.sub(r".*/demo_policies", "demo_policies", text)


def flat(content: Any, path: str) -> dict[str, Any]:
    """Give every value of nested tables the way to it as its name."""
    if isinstance(content, dict):
        parts = content.items()
    elif isinstance(content, list):
        parts = enumerate(content)
    else:
        return {path: content}
    return {k: v for key, part in parts for k, v in flat(part, f"{path}/{key}").items()}


def differ(a: Any, b: Any) -> bool:
    """Tell whether two values are not the same; numbers may be off by RTOL."""
    if isinstance(a, float | int) and isinstance(b, float | int):
        return not (
            math.isclose(a, b, rel_tol=RTOL, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
        )
    return bool(a != b)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from reproduction.recipes import NAMES

    everything = ["compare", "evaluate", *NAMES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "check"))
    parser.add_argument("parts", nargs="*", default=everything, metavar="PART")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        now = numbers(Path(folder), given.parts)
    if given.what == "record":
        rounded = {k: float(f"{v:.9g}") if isinstance(v, float) else v for k, v in now.items()}
        RECORD.write_bytes(gzip.compress(json.dumps(rounded).encode(), mtime=0))
        return
    made = tuple(part if part in everything[:2] else f"paper/{part}" for part in given.parts)
    record = json.loads(gzip.decompress(RECORD.read_bytes()))
    before = {k: v for k, v in record.items() if k.startswith(made) and not _PASSING.search(k)}
    wrong = [key for key in {**before, **now} if differ(before.get(key), now.get(key))]
    for key in wrong[:40]:
        print(f"{key}: {before.get(key)} before, {now.get(key)} now")
    sys.exit(f"{len(wrong)} of {len(before)} numbers differ" if wrong else 0)


if __name__ == "__main__":
    main()
