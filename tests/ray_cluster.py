"""One small Ray cluster for all tests that need one: `ray_address` starts it, or finds it.

It runs in a process of its own, which the first test process starts that needs it, and ends when
pytest does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

CORES = 2
MEMORY = 100_000_000  # bytes of each object store

_started = []  # kept until this process ends, and the cluster with it


@pytest.fixture(scope="session")
def ray_address(tmp_path_factory):
    """Address of the cluster; this process is connected to it, so that workers stay."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    folder, session = tmp_path_factory.getbasetemp(), os.getpid()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder, session = folder.parent, os.getppid()
    place = folder / "ray-address"
    with (folder / "ray-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            command = [sys.executable, __file__, str(place), str(session)]
            _started.append(
                subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
            )
            until = time.monotonic() + 60
            while not place.exists():
                assert time.monotonic() < until, "the Ray cluster does not start"
                time.sleep(0.1)
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ray.init(place.read_text(), runtime_env={"env_vars": path}, log_to_driver=False)
    yield place.read_text()
    ray.shutdown()
    for process in _started:
        process.returncode = 0  # it is not waited for


@pytest.fixture
def ray_engine(ray_address):
    """The engine of that cluster."""
    from pivec.parallel import make_engine

    return make_engine(f"ray:{ray_address}")


@pytest.fixture
def add_node(ray_address):
    """Call it for another node with one CPU; it returns its id and a function that kills it."""
    import ray
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    nodes = []

    def add():
        known = {row["NodeID"] for row in ray.nodes()}
        about = RayParams(gcs_address=ray_address, num_cpus=1, object_store_memory=MEMORY)
        nodes.append(Node(about, head=False, shutdown_at_exit=False, spawn_reaper=False))
        [new] = {row["NodeID"] for row in ray.nodes()} - known
        return new, lambda: nodes[-1].kill_all_processes(check_alive=False, allow_graceful=False)

    yield add
    for node in nodes:
        node.kill_all_processes(check_alive=False, allow_graceful=False)


def main(place: Path, session: int) -> None:
    """Run a cluster as long as a process is there."""
    from ray.cluster_utils import Cluster

    node = {
        "num_cpus": CORES,
        "object_store_memory": MEMORY,
        "include_dashboard": False,
        "_system_config": {"health_check_period_ms": 500},  # a dead node is noticed sooner
    }
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Not where Ray's other commands look for a cluster to join; names of sockets must be short.
    folder = os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="ray-")
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        written = place.with_suffix(".part")
        written.write_text(cluster.address)
        written.rename(place)
        while True:
            os.kill(session, 0)
            time.sleep(0.5)
    except ProcessLookupError:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
