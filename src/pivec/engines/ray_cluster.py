"""A Ray cluster that this process joins, or starts, and leaves again."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from pivec.engines.workers import usable_cores
from pivec.errors import MissingExtra, PivecError, UsageError
from pivec.terminal import say

_PATIENCE = 3.0  # seconds for an answer
_LONG = 10.0  # seconds for a process that asks Ray itself
# What every server that speaks HTTP/2, as Ray's do, answers with the settings it wants.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_GREET = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"
_CLIENT = (
    "messages of work do not come through Ray Client: run pivec on a machine of the cluster with "
    "--engine ray, or give the head's HOST:PORT"
)


def import_ray() -> Any:
    """Import Ray, or say how to install it."""
    try:
        import ray
    except ImportError:
        raise MissingExtra("the engine ray", "ray") from None
    return ray


def join(address: str = "", jobs: int | None = None) -> bool:
    """Connect this process with a cluster; say whether it is to be left again.

    Without an address it is that of ``RAY_ADDRESS``, or the cluster that `ray start` left running
    on this machine, or one that is started here and ends with this process. A connection that
    the caller has made already is used, and left to the caller.
    """
    ray = import_ray()
    if ray.util.client.ray.is_connected():
        raise UsageError(f"this process uses Ray Client, but {_CLIENT}")
    if ray.is_initialized():
        joined = ray.get_runtime_context().gcs_address
        if address not in ("", "auto", "local", joined):
            raise UsageError(
                f"this process is connected with the Ray cluster at {joined}, but {address} is "
                "asked for: call ray.shutdown() first"
            )
        return False
    named = bool(address)
    address = _address(ray, address)
    if address != "local":
        _check(address)
    if not named:
        cores = f"one for this process, on {jobs or usable_cores()} of its cores"
        say(f"Ray cluster: {cores if address == 'local' else address}", error=True)
    _init(ray, address, jobs)
    # What Ray's own processes say of those that died is said by the errors of the work.
    ray._private.worker._worker_logs_enabled = False
    return True


def leave() -> None:
    """Leave the cluster that `join` joined, and end it if it was started there."""
    ray = import_ray()
    ray.shutdown()
    ray._private.worker._worker_logs_enabled = True


def _address(ray: Any, address: str) -> str:
    """Give host and port of the cluster that is meant, or ``local`` for a new one."""
    if address in ("", "auto"):
        address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "auto"):
        address = ray._private.utils.read_ray_address() or "local"
        if address != "local" and not _speaks_http2(address):
            return "local"  # that cluster is gone, and did not tidy up
    if "://" in address:
        raise UsageError(f"{address} cannot be used: {_CLIENT}")
    if address != "local" and not re.fullmatch(r".+:\d{1,5}", address):
        raise UsageError(f"the address of a Ray cluster must be HOST:PORT, but is {address!r}")
    return address


def _check(address: str) -> None:
    """Refuse an address at which no Ray cluster answers: Ray itself would wait for minutes."""
    try:
        known = _speaks_http2(address)
    except OSError as error:
        raise PivecError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): start one with "
            "`ray start --head`, or check the address"
        ) from error
    if known:
        # In a process of its own, which can be ended: Ray waits long, and holds all threads.
        command = [sys.executable, "-c", _GREET, address]
        try:
            done = subprocess.run(  # noqa: S603
                command, timeout=_LONG, capture_output=True, check=False
            )
            known = done.returncode == 0
        except subprocess.TimeoutExpired:
            known = False
    if not known:
        raise PivecError(
            f"something answers at {address}, but it is no Ray cluster: give the address of the "
            "head node, whose port is 6379 unless `ray start --port` chose another"
        )


def _speaks_http2(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE) as connection:
        connection.settimeout(_PATIENCE)
        with contextlib.suppress(OSError):
            connection.sendall(_GREETING)
            answer = connection.recv(9)
            return answer[3:4] == b"\x04"
    return False


def _init(ray: Any, address: str, jobs: int | None) -> None:
    local = {"num_cpus": jobs or usable_cores(), "include_dashboard": False}
    try:
        with warnings.catch_warnings(), _variables(RAY_USAGE_STATS_ENABLED="0"):
            warnings.simplefilter("ignore")  # about versions to come
            ray.init(
                address=address,
                logging_level=logging.ERROR,
                log_to_driver=False,
                **(local if address == "local" else {}),
            )
    except Exception as error:
        why = " ".join(str(error).split())
        if versions := re.findall(r"Ray: (\S+) Python: (\S+)", why):
            there, here = (f"Ray {ray} with Python {python}" for ray, python in versions)
            why = f"it has {there}, but here is {here}: install the same"
        raise PivecError(f"the Ray cluster at {address} cannot be used: {why}") from error


@contextlib.contextmanager
def _variables(**values: str) -> Iterator[None]:
    """Set variables for processes that are started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
