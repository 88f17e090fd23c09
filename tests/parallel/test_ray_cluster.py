"""Which Ray cluster is joined, and what is said where there is none."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

import pivec
from pivec.errors import MissingExtra, PivecError, UsageError
from pivec.parallel import ray_engine as ray_cluster
from pivec.parallel import ray_entry, using

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture
def mute():
    """A server that answers nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def stranger(ray_address, monkeypatch):
    """Another server of Ray's: that of the head as a node."""
    import ray

    monkeypatch.setattr(ray_cluster, "_LONG", 1.0)

    [node] = [node for node in ray.nodes() if "node:__internal_head__" in node["Resources"]]
    return f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"


@pytest.fixture
def outside(monkeypatch, ray_address):
    """This process, as if it were connected with no cluster."""
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_cluster, "_PATIENCE", 0.5)


def test_an_address_that_nobody_answers_is_a_sentence(outside):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(PivecError, match=f"no Ray cluster answers at 127.0.0.1:{port} .* start"):
        ray_cluster.join(f"127.0.0.1:{port}")
    with pytest.raises(PivecError, match=r"no Ray cluster answers at no-such-host.invalid:6379 "):
        ray_cluster.join("no-such-host.invalid:6379")


@pytest.mark.parametrize("server", ["mute", "stranger"])
def test_an_address_at_which_something_else_answers(outside, server, request):
    address = request.getfixturevalue(server)
    with pytest.raises(PivecError, match=f"answers at {address}, but it is no Ray cluster: give"):
        ray_cluster.join(address)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://head:10001", "messages of work do not come through Ray Client: run pivec on a"),
        ("head", "must be HOST:PORT, but is 'head'"),
    ],
)
def test_addresses_that_cannot_be_used(outside, address, words, monkeypatch):
    with pytest.raises(UsageError, match=words):
        ray_cluster.join(address)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UsageError, match=words):
        ray_cluster.join()


def test_a_connection_that_is_there_is_used_and_not_ended(ray_address):
    import ray

    with using(f"ray:{ray_address}") as engine, using("ray"):
        assert engine.n_workers >= 2
    assert ray.is_initialized()
    with pytest.raises(UsageError, match=f"connected with the Ray cluster at {ray_address}, but"):
        ray_cluster.join("head:6379")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r'pip install "pivec\[ray\]"'), using("ray"):
        pass


def test_other_versions_are_named(outside, monkeypatch, ray_address):
    import ray

    def refuse(**_):
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.1.0\n    Python: 3.10.2\n"
            "This process on x was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
        )

    monkeypatch.setattr(ray, "init", refuse)
    words = "it has Ray 2.1.0 with Python 3.10.2, but here is Ray 2.60.0 with Python 3.11.7"
    with pytest.raises(PivecError, match=words):
        ray_cluster.join(ray_address)


def test_a_worker_of_another_version_is_named(ray_engine, monkeypatch):
    monkeypatch.setitem(ray_engine._versions, "pivec", "9.9")
    with pytest.raises(PivecError, match=rf"has pivec {pivec.__version__}, but here it is 9\.9"):
        list(ray_engine.map(ray_entry.piece, [0]))


SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from pivec.parallel import using

def sleeps(item, tell):
    tell(os.getpid())
    time.sleep(item)
    return "done"

if __name__ == "__main__":
    with using("ray:ADDRESS") as engine:
        def on_message(item, pid):
            if item:
                print(pid, flush=True)
        for reply in engine.map(sleeps, ITEMS, on_message=on_message):
            print(reply.content)
"""


def start_script(tmp_path, address, items):
    script = SCRIPT.replace("ADDRESS", address).replace("ITEMS", repr(items))
    (tmp_path / "script.py").write_text(script)
    return subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(pivec.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_ends_leaves_nothing_running(ray_address, tmp_path, number):
    with start_script(tmp_path, ray_address, [0, 600]) as driver:
        lines = [driver.stdout.readline() for _ in range(2)]
        [pid] = [int(line) for line in lines if line != "done\n"]
        os.killpg(driver.pid, number)
        began = time.monotonic()
        driver.wait(120)  # the worker would sleep for ten minutes
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() - began < 120, "the worker goes on"
            time.sleep(0.05)
        assert "Traceback" in driver.stderr.read() or number == signal.SIGKILL
