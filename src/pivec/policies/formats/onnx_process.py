"""The process in which onnxruntime runs: bounded in memory and time, and it can open no file.

One process serves all models of its parent. Where one of them never ends, takes too much memory or
crashes, the process ends; the next request starts another, which loads what it needs again.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import threading
import time
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, PivecError
from pivec.parallel import start
from pivec.policies.distributions import row_by_row

SECONDS = 15  # for loading a model, and for each batch of the size that it takes
MEMORY, MEMORY_RATIO = 1 << 29, 8  # bytes for each model, and times its size
MAX_OUTPUT = 1 << 26
_alarm = getattr(signal, "alarm", lambda _: None)  # Windows has none


def runtime() -> Runtime:
    """Give the runtime of this process; a fork has one of its own."""
    return _runtime(os.getpid())


@functools.cache
def _runtime(_process: int) -> Runtime:
    made = Runtime()
    atexit.register(made.stop)
    return made


class Runtime:
    """The parent's side: asks one request after another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Any = None
        self._loaded: set[str] = set()

    def load(self, key: str, data: bytes, name: str) -> dict[str, Any]:
        """Load a model and tell what it declares: inputs, outputs, metadata."""
        with self._lock:
            return self._ask({"key": key}, data, name)[0]

    def run(
        self, key: str, data: bytes, name: str, request: dict[str, Any], rows: NDArray[Any]
    ) -> NDArray[Any]:
        """Give the outputs of a model, which is loaded first if the process is a new one."""
        with self._lock:
            if key not in self._loaded:
                self._ask({"key": key}, data, name)
            about = {"key": key, "type": rows.dtype.str, "shape": rows.shape, **request}
            known, content = self._ask(about, np.ascontiguousarray(rows).data.cast("B"), name)
        return np.frombuffer(content, known["type"]).reshape(known["shape"])

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        self._loaded.clear()
        if process is not None:
            process.kill()
            process.communicate()

    def _ask(
        self, about: dict[str, Any], content: bytes | memoryview, name: str
    ) -> tuple[dict[str, Any], bytes]:
        try:
            if self._process is None:
                self._process = start(serve, threads=1)
            _send(self._process.stdin, {**about, "seconds": SECONDS}, content)
            known, answer = _receive(self._process.stdout)
        except (OSError, EOFError) as error:
            process = self._process
            _, last = process.communicate()
            self._process = None
            self.stop()
            raise BadPolicyFile(_ending(process.returncode, last, name)) from error
        except BaseException:  # Ctrl-C: an answer to nobody must not be taken for the next one's
            self.stop()
            raise
        if "error" in known:
            raise BadPolicyFile(f"{name} {known['error']}")
        self._loaded.add(about["key"])
        return known, answer


def _ending(code: int, errors: bytes, name: str) -> str:
    if code == -getattr(signal, "SIGALRM", 0):
        return f"{name} was stopped: it took more than {SECONDS} seconds for one batch"
    last = " ".join(errors.decode(errors="replace").strip().splitlines()[-1:])[:200]
    return (
        f"{name} ended the process of onnxruntime with code {code} ({last}): it may need more than "
        f"{MEMORY >> 20} MB of memory"
    )


def _send(file: IO[bytes], about: dict[str, Any], content: bytes | memoryview = b"") -> None:
    """Send a line of JSON and the bytes behind it."""
    file.write(json.dumps({**about, "size": len(content)}).encode() + b"\n")
    file.write(content)
    file.flush()


def _receive(file: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    line = file.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    about = json.loads(line)
    content = file.read(about["size"])
    if len(content) < about["size"]:
        raise EOFError
    return about, content


# ---- in the process ----


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until there are no more; the entry of the process."""
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    import onnxruntime

    sessions: dict[str, Any] = {}
    reply: tuple[dict[str, Any], bytes | memoryview]
    with contextlib.suppress(EOFError):
        limit_memory = _confine()
        while True:
            about, content = _receive(requests)
            _alarm(about["seconds"])
            try:
                if "shape" in about:
                    result = _run(sessions[about["key"]], about, content)
                    known = {"type": result.dtype.str, "shape": result.shape}
                    reply = known, np.ascontiguousarray(result).data.cast("B")
                else:
                    limit_memory(MEMORY + MEMORY_RATIO * len(content))
                    session = sessions[about["key"]] = _load(onnxruntime, content)
                    reply = _declared(session), b""
            except Exception as error:  # onnxruntime has a dozen kinds, and names may be no text
                what = f"({type(error).__name__}: {' '.join(str(error).split())[:300]})"
                other = f"is no ONNX model, or one that onnxruntime cannot run {what}"
                reply = {"error": str(error) if isinstance(error, PivecError) else other}, b""
            _alarm(0)
            _send(replies, *reply)


def _follow(parent: int) -> None:
    """End when the parent has: a model that never ends does not see that nobody asks any more."""
    while os.getppid() == parent:
        time.sleep(0.3)
    os._exit(1)


def _confine() -> Any:
    """Let no file be opened from now on; give the function that limits the memory."""
    try:
        import resource

        usage = os.open("/proc/self/statm", os.O_RDONLY)
    except (ImportError, OSError):  # not Linux: time is limited, memory is not
        return lambda _: None
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(kind, (0, 0))

    def limit(more: int) -> None:
        pages = int(os.pread(usage, 200, 0).split()[5])
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))

    return limit


def _load(onnxruntime: Any, data: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    # One thread: many small policies run side by side. No optimisation: folding constants would
    # run parts of the graph while it is only being loaded.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _declared(session: Any) -> dict[str, Any]:
    return {
        "inputs": [
            [given.name, given.type, [n if isinstance(n, int) else None for n in given.shape]]
            for given in session.get_inputs()
        ],
        "outputs": {output.name: output.type for output in session.get_outputs()},
        "metadata": dict(session.get_modelmeta().custom_metadata_map),
    }


def _run(session: Any, about: dict[str, Any], content: bytes) -> NDArray[Any]:
    """Run a model for every row, in batches of the one size that it takes."""
    rows = np.frombuffer(content, about["type"]).reshape(about["shape"])

    def answer(batch: NDArray[Any]) -> NDArray[Any]:
        _alarm(about["seconds"])
        (result,) = session.run(
            [about["output"]], {about["input"]: batch.astype(rows.dtype, copy=False)}
        )
        result = np.asarray(result)
        if result.ndim == 0 or len(result) != len(batch) or result.dtype.kind not in "biuf":
            raise BadPolicyFile(
                f"gave an array of shape {result.shape} for {len(batch)} observations: expected "
                "one row of outputs for each"
            )
        if result.nbytes > MAX_OUTPUT:
            raise BadPolicyFile(f"gave {result.nbytes} bytes of outputs for one batch")
        return result

    return row_by_row(answer, rows, about["batch"])
