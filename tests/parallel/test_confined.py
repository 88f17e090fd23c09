"""The child process that reads untrusted files: its limits, and that it goes on after any file."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from pivec.errors import BadData, BadPolicyFile, PivecWarning, UsageError
from pivec.parallel import confined

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def double(number):
    return 2 * number


def allocate(n_bytes):
    return len(np.ones(n_bytes, np.uint8))


def spin(_):
    while True:
        pass


def end(how):
    os.kill(os.getpid(), how)


def fail(error):
    raise error


def warn(text):
    warnings.warn(text, PivecWarning, stacklevel=1)


def read_text(path):
    with confined.opening(0):
        return Path(path).read_text()


def two_files(path):
    with confined.opening(1), open(path):
        return Path(path).read_text()


def test_results_and_arrays_come_back():
    assert confined.call(double, 21, 0) == 42
    rows = np.random.default_rng(0).normal(size=(1000, 7))
    np.testing.assert_array_equal(confined.call(double, rows, 0), 2 * rows)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited on Linux")
def test_memory_is_limited_by_the_size_of_the_file(monkeypatch):
    assert confined.call(allocate, 200 << 20, 0) == 200 << 20
    with pytest.raises(BadPolicyFile, match="memory"):
        confined.call(allocate, 600 << 20, 0)
    assert confined.call(allocate, 600 << 20, 10 << 20) == 600 << 20
    monkeypatch.setenv("PIVEC_FILE_LIMITS", "10")
    assert confined.call(allocate, 600 << 20, 0) == 600 << 20


@pytest.mark.parametrize("factor", ["0", "-1", "2.5", "many"])
def test_the_factor_of_the_limits_is_checked(monkeypatch, factor):
    monkeypatch.setenv("PIVEC_FILE_LIMITS", factor)
    with pytest.raises(UsageError, match="PIVEC_FILE_LIMITS"):
        confined.call(double, 1, 0)


def test_the_factor_raises_the_time_as_well(monkeypatch):
    monkeypatch.setenv("PIVEC_FILE_LIMITS", "2")
    with pytest.raises(BadPolicyFile, match="2 s of processor time"):
        confined.call(spin, None, 0, seconds=1)


def test_processor_time_is_limited():
    begin = time.process_time()
    with pytest.raises(BadPolicyFile, match="1 s of processor time"):
        confined.call(spin, None, 0, seconds=1)
    assert time.process_time() - begin < 1.0  # it ran in the other process
    assert confined.call(double, 1, 0) == 2


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_is_an_error_of_its_file(how):
    with pytest.raises(BadPolicyFile, match=f"signal {int(how)}"):
        confined.call(end, how, 0)
    assert confined.call(double, 1, 0) == 2


def test_errors_and_warnings_come_back():
    with pytest.raises(BadData, match="no rows"):
        confined.call(fail, BadData("it has no rows"), 0)
    with pytest.raises(BadPolicyFile, match="KeyError"):
        confined.call(fail, KeyError("x"), 0)
    with pytest.warns(PivecWarning, match="assumed"):
        confined.call(warn, "something was assumed", 0)


def test_other_files_cannot_be_opened(tmp_path):
    (tmp_path / "secret").write_text("secret")
    for work in (read_text, two_files):
        with pytest.raises(BadPolicyFile, match="Too many open files"):
            confined.call(work, tmp_path / "secret", 0)


def test_threads_share_the_process():
    results = {}
    threads = [
        threading.Thread(target=lambda n=n: results.update({n: confined.call(double, n, 0)}))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 2 * n for n in range(20)}
