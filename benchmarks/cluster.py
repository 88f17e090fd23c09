"""The engine on a Ray cluster: equal files and numbers, what faults cost, and its own price.

Nodes are those of `ray.cluster_utils.Cluster`: several on this machine. The demo's CartPole
policies play; every command runs in a process of its own, as a user's does.

    python benchmarks/cluster.py [equal] [faults] [price] [scale] [--times N]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pivec
from cluster_scale import scale
from measure import table, write_section

POLICIES = Path(pivec.__file__).parent / "demo_policies" / "CartPole-v1"
MEMORY = 100_000_000  # bytes of a node's object store
OTHERWISE = ("run.json", "report.html")  # tell times, and the command


@contextmanager
def cluster(nodes: int, cpus: int = 1) -> Iterator[Any]:
    """Nodes with so many CPUs each, and a head that only leads."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        head = {
            "num_cpus": 0,
            "object_store_memory": MEMORY,
            "include_dashboard": False,
            "_system_config": {"health_check_period_ms": 500},  # a dead node is noticed sooner
        }
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(nodes):
                made.add_node(num_cpus=cpus, object_store_memory=MEMORY)
            yield made
        finally:
            made.shutdown()


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start a command of pivec's."""
    return subprocess.Popen(
        [sys.executable, "-m", "pivec", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> float:
    """Wait for the end of a command, which must be a good one."""
    began = time.perf_counter()
    _, errors = process.communicate(timeout=600)
    if process.returncode:
        raise SystemExit(f"{' '.join(process.args)} failed:\n{errors}")
    return time.perf_counter() - began


def files(folder: Path) -> dict[str, str]:
    """Contents of all files, in short, but those that tell times."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in OTHERWISE
    }


def collect(out: Path, engine: str, episodes: int = 20) -> tuple[object, ...]:
    return (
        "collect",
        "CartPole-v1",
        POLICIES,
        "--episodes",
        episodes,
        "--out",
        out,
        "--engine",
        engine,
    )


def describe(store: Path, out: Path, engine: str) -> tuple[object, ...]:
    return "compare", store, "--out", out, "--engine", engine


def equal(folder: Path, _times: int) -> str:
    """Compare with every engine; all files but those that tell times are the same."""

    def run(name: str, *engine: object) -> tuple[float, dict[str, str]]:
        command = "compare", "CartPole-v1", POLICIES, "--episodes", 20, "--out", folder / name
        return finish(start(*command, *engine)), files(folder / name)

    runs = {
        "serial": run("serial", "--engine", "serial"),
        "2 processes": run("processes", "--engine", "processes", "--jobs", 2),
    }
    for nodes in (1, 2, 4):
        with cluster(nodes) as made:
            runs[f"Ray, {nodes} nodes"] = run(f"ray-{nodes}", "--engine", f"ray:{made.address}")
    expected = runs["serial"][1]
    rows = [
        [name, seconds, f"{sum(got.get(k) == v for k, v in expected.items())} of {len(expected)}"]
        for name, (seconds, got) in runs.items()
    ]
    words = (
        "`pivec compare` of the 48 policies of the demo × 20 episodes. Equal: files of the store, "
        "of the space, tables and pictures, all but run.json and report.html, which tell times."
    )
    return f"{words}\n\n{table(['engine', 'seconds', 'equal files'], rows)}"


def faults(folder: Path, times: int) -> str:
    """Remove a node, or kill the driver, at random moments of a collection and of a fit."""
    chance, rows = random.Random(0), []
    with cluster(2) as made:
        engine = f"ray:{made.address}"
        works = {
            "collect": lambda out: collect(out, engine),
            "describe": lambda out: describe(folder / "collect" / "whole", out, engine),
        }
        for name, command in works.items():
            whole = folder / name / "whole"
            finish(start(*command(whole)))
            length, expected = finish(start(*command(folder / name / "again"))), files(whole)
            for what in ("a node removed", "the driver killed"):
                equal_files, seconds, ended = 0, [], 0
                for number in range(times):
                    out = folder / name / f"{what} {number}"
                    process = start(*command(out))
                    time.sleep(chance.uniform(0, length))
                    if what == "a node removed":
                        node = chance.choice(sorted(made.worker_nodes, key=id))
                        made.remove_node(node, allow_graceful=False)
                        made.add_node(num_cpus=1, object_store_memory=MEMORY)
                    else:
                        process.send_signal(signal.SIGKILL)
                        process.communicate()
                        process = start(*command(out))
                    try:
                        seconds.append(finish(process))
                    except SystemExit as error:  # of Ray itself, which has ended a driver once
                        print(error, flush=True)
                        ended += 1
                        seconds.append(finish(start(*command(out))))
                    equal_files += files(out) == expected
                    print(name, what, number, equal_files, flush=True)
                row = [f"{name}: {what}", times, equal_files, ended, length, max(seconds)]
                rows.append(row)
    header = [
        "fault",
        "times",
        "all files equal",
        "of these run again by hand",
        "seconds without",
        "most seconds after",
    ]
    words = (
        "At random moments of a command, from its start to its end; two nodes of one CPU, and "
        "another takes the place of one that was removed. After a kill the same command runs again."
    )
    return f"{words}\n\n{table(header, rows)}"


def price(_folder: Path, times: int) -> str:
    """Time 200 policies × 100 episodes on two processes and on two CPUs of a cluster."""
    from dataclasses import replace

    from pivec.options import CollectOptions
    from pivec.parallel import using
    from pivec.parallel.ray_engine import RayEngine
    from pivec.policies import NamedPolicy, load_policies
    from pivec.rollouts import Environment, play_policies

    chosen = [
        NamedPolicy(p.policy, replace(p.info, fingerprint=f"{p.info.fingerprint} again {i}"))
        for i in range(5)
        for p in load_policies(POLICIES)
    ][:200]

    def timed(engine: Any) -> float:
        began, kept = time.perf_counter(), []
        with using(*engine if isinstance(engine, tuple) else (engine,)):
            options = CollectOptions(episodes=100)
            play_policies(
                Environment("CartPole-v1"), chosen, options, lambda *row: kept.append(row)
            )
        assert len(kept) == len(chosen)
        return time.perf_counter() - began

    seconds: dict[str, list[float]] = {"2 processes": [], "Ray, new workers": [], "Ray": []}
    with cluster(1, cpus=2) as made:
        for _ in range(max(1, times // 4)):
            seconds["2 processes"].append(timed(("processes", 2)))
            engine = RayEngine(made.address)
            seconds["Ray, new workers"].append(timed(engine))
            seconds["Ray"].append(timed(engine))
            empty = _empty(engine)
            engine.close()
    least = {name: min(row) for name, row in seconds.items()}
    base = least["2 processes"]
    rows = [[name, s, f"{100 * (s / base - 1):+.0f} %"] for name, s in least.items()]
    words = (
        f"200 CartPole policies × 100 episodes, best of {len(seconds['Ray'])}; the cluster runs. "
        "Processes start for each map; Ray's workers stay for the next one."
    )
    costs = [[name, 1000 * value] for name, value in empty.items()]
    tables = (
        table(["engine", "seconds", "more than processes"], rows),
        table(["of Ray", "ms"], costs),
    )
    return "\n\n".join([words, *tables])


def _nothing(item: int, tell: Any) -> None:
    for number in range(item):
        tell(number)


def _nothing_of(part: int) -> int:
    return part


def _empty(engine: Any) -> dict[str, float]:
    """Seconds of an item, a message and a part that do nothing."""

    def seconds(work: Any) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return {
        "an item": seconds(lambda: list(engine.map(_nothing, [0] * 500))) / 500,
        "a message": seconds(lambda: list(engine.map(_nothing, [2000]))) / 2000,
        "a part": seconds(lambda: engine.sum(_nothing_of, range(500))) / 500,
    }


SECTIONS = {"equal": equal, "faults": faults, "price": price, "scale": scale}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    for name in given.sections:
        with tempfile.TemporaryDirectory() as folder:
            text = SECTIONS[name](Path(folder), given.times)
        print(text, flush=True)
        write_section(f"cluster-{name}", text)


if __name__ == "__main__":
    main()
