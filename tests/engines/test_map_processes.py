"""Processes of our own: what they answer, tell, warn of, and how they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import pivec
from pivec.engines.processes import ProcessFailed, ask, map_processes
from pivec.errors import BadData, MissingExtra, PivecError, PivecWarning, UsageError


def doubles(item, tell):
    print("chatter")  # must not mix with the answer
    return 2 * item


def breaks(item, tell):
    raise ValueError("no such\nthing")


def counts(item, tell):
    for i in range(item):
        tell(i)
    return item


def hurries(item, tell):
    return sum(tell(i, seldom=True) for i in range(1000))


def warns(item, tell):
    warnings.warn("careful", PivecWarning, stacklevel=2)
    warnings.warn("old", UserWarning, stacklevel=2)
    print("written")


def fails(item, tell):
    if item == "missing":
        raise MissingExtra("it", "fast")
    if item == "exit":
        sys.stderr.write("first\nlast words\n")
        sys.stderr.flush()
        os._exit(7)
    if isinstance(item, int):
        os.kill(os.getpid(), item)
        time.sleep(10)
    raise BadData(item)


def sleeps(item, tell):
    tell(os.getpid())
    time.sleep(60)


def cores_and_threads(item, tell):
    return sorted(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"]


def test_the_answer_is_what_the_function_returns():
    assert ask(doubles, 21, failed="it did not double") == 42


def test_a_failure_is_told_in_one_line():
    with pytest.raises(PivecError, match=r"it did not work: ValueError: no such thing$"):
        ask(breaks, 0, failed="it did not work")


def test_messages_come_in_order_and_the_result_last():
    replies = {}
    for reply in map_processes(counts, [3, 2], jobs=2):
        replies.setdefault(reply.number, []).append((reply.content, reply.finished))
    assert replies[0] == [(0, False), (1, False), (2, False), (3, True)]
    assert replies[1] == [(0, False), (1, False), (2, True)]


def test_messages_that_need_not_all_come_are_few():
    *told, last = map_processes(hurries, [0])
    assert 1 <= len(told) == last.content < 100


def test_failures_keep_their_kind_and_do_not_stop_the_others():
    items = ["bad", "missing", "exit", signal.SIGKILL, 6]
    failures = {items[reply.number]: reply.failure for reply in map_processes(fails, items, jobs=2)}
    assert (type(failures["bad"]), str(failures["bad"])) == (BadData, "bad")
    assert type(failures["missing"]) is MissingExtra
    assert "pivec[fast]" in str(failures["missing"])
    assert "raise BadData" in str(failures["bad"].__cause__)
    assert isinstance(failures["exit"], ProcessFailed)
    assert str(failures["exit"]) == "its process ended with code 7 (last words)"
    assert "killed, most likely because memory ran out" in str(failures[signal.SIGKILL])
    assert str(failures[6]) == "its process was ended by signal 6"


def test_warnings_come_here_and_with_a_log_those_of_others_stay_in_it(tmp_path):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ask(warns, 0, failed="it did not warn")
    assert [str(warning.message) for warning in seen] == ["careful", "old"]
    assert seen[0].category is PivecWarning
    log = tmp_path / "log"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        list(map_processes(warns, [0], log=lambda _: log))
    assert [str(warning.message) for warning in seen] == ["careful"]
    assert set(log.read_text().splitlines()) >= {
        "PivecWarning: careful",
        "UserWarning: old",
        "written",
    }
    [reply] = map_processes(fails, ["exit"], log=lambda _: log)
    assert str(reply.failure) == f"its process ended with code 7, see {log}"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs a choice of cores")
def test_cores_and_threads_of_a_job():
    replies = map_processes(cores_and_threads, [0, 1], jobs=2, pinned=True, threads=1)
    cores, threads = zip(*(reply.content for reply in replies), strict=True)
    assert threads == ("1", "1")
    if len(os.sched_getaffinity(0)) > 1:
        assert not set(cores[0]) & set(cores[1])


def test_what_cannot_be_sent_is_named_and_the_others_go_on():
    items = [1, lambda: 0, 2]
    replies = list(
        map_processes(doubles, items, parts=lambda item: [("the item", item)], remedy=", or else")
    )
    assert sorted(reply.content for reply in replies if reply.failure is None) == [2, 4]
    [failure] = [reply.failure for reply in replies if reply.failure is not None]
    assert isinstance(failure, UsageError)
    assert str(failure).startswith("the item cannot be sent to another process (")
    assert str(failure).endswith("): define it at the top level of a module, or else")


def test_items_are_taken_when_a_process_may_start():
    taken = []

    def items():
        for item in (1, 2, 3):
            taken.append(item)
            yield item

    replies = map_processes(doubles, items())
    assert next(replies).content == 2
    assert taken == [1]
    replies.close()
    assert taken == [1]


def test_closing_ends_the_processes():
    replies = map_processes(sleeps, [0, 1], jobs=2)
    pids = {next(replies).content, next(replies).content}
    replies.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_exception_between_replies_ends_the_processes():
    pids = []

    def listen():
        for reply in map_processes(sleeps, [0, 1], jobs=2):
            pids.append(reply.content)
            if len(pids) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        listen()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


SCRIPT = """
from pivec.engines.processes import map_processes

def triples(item, tell):
    return 3 * item

GUARD
    for reply in map_processes(triples, [14]):
        print(reply.content, reply.failure)
"""


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        ('if __name__ == "__main__":', "42 None"),
        ("if True:", "None the script starts processes while another process reads what it"),
    ],
)
@pytest.mark.parametrize("as_module", [False, True])
def test_functions_of_a_script_travel_if_it_can_be_read(tmp_path, guard, words, as_module):
    (tmp_path / "script.py").write_text(SCRIPT.replace("GUARD", guard))
    done = subprocess.run(
        [sys.executable, *(["-m", "script"] if as_module else ["script.py"])],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(pivec.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.startswith(words)


def test_functions_of_a_session_are_refused():
    code = SCRIPT.replace("GUARD", "if True:")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(pivec.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.startswith("None what is defined in a session cannot be sent")
