"""What all engines guarantee: replies, messages, warnings, and how work and workers fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import pivec
from pivec.errors import BadData, MissingExtra, PivecError, PivecWarning, UsageError
from pivec.options import EngineOptions
from pivec.parallel import WorkFailed, ask, current, make_engine, on_engine, using


@pytest.fixture(params=["serial", "processes", "ray"])
def engine(request):
    """Each of the engines, with two workers if it has any."""
    if request.param == "ray":
        return request.getfixturevalue("ray_engine")
    return make_engine(request.param, 2 if request.param == "processes" else None)


@pytest.fixture
def workers(engine):
    """Each of the engines whose workers are other processes."""
    if type(engine).__name__ == "Serial":
        pytest.skip("it has no workers")
    return engine


def doubles(item, tell):
    print("chatter")  # must not mix with the reply
    return 2 * item


def counts(item, tell):
    for i in range(item):
        tell(i)
    return item


def hurries(item, tell):
    return sum(tell(i, seldom=True) for i in range(1000))


def waits_for_file(path, tell):
    tell("waiting")
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    return "seen"


def process(item, tell):
    return os.getpid()


def warns(item, tell):
    warnings.warn("careful", PivecWarning, stacklevel=2)
    warnings.warn("old", UserWarning, stacklevel=2)
    print("written")
    raise ValueError("no such\nthing")


def fails(item, tell):
    if item == "missing":
        raise MissingExtra("it", "fast")
    if item == "exit":
        os._exit(7)
    if isinstance(item, int):
        os.kill(os.getpid(), item)
        time.sleep(10)
    raise BadData(item)


def fails_at_7(numbers, tell):
    for number in numbers:
        if number == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        tell(number)


def dies_twice(folder, tell):
    marks = len(list(folder.iterdir()))
    (folder / str(marks)).touch()
    if marks < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return "at last"


def sleeps(seconds, tell):
    tell(os.getpid())
    time.sleep(seconds)


def surroundings(item, tell):
    return os.getcwd(), os.environ["OPENBLAS_NUM_THREADS"]


def cores(item, tell):
    return sorted(os.sched_getaffinity(0))


def scaled(part, values, factor):
    return float(values[part].sum()) * factor


def fails_on_part_3(part):
    if part == 3:
        raise BadData(f"part {part} is bad")
    return part


def test_messages_come_in_order_and_the_result_last(engine):
    seen = {3: [], 2: []}

    def on_message(item, message):
        seen[item].append(message)

    for reply in engine.map(counts, [3, 2], on_message=on_message):
        seen[reply.item].append(f"result {reply.content}")
    assert seen == {3: [0, 1, 2, "result 3"], 2: [0, 1, "result 2"]}


def test_messages_come_while_the_work_runs(engine, tmp_path):
    path = tmp_path / "file"
    [reply] = engine.map(waits_for_file, [path], on_message=lambda *_: path.touch())
    assert reply.content == "seen"


def test_messages_are_rate_limited_if_they_are_seldom(engine):
    messages = []
    [last] = engine.map(hurries, [0], on_message=lambda _, message: messages.append(message))
    assert 1 <= len(messages) == last.content < 100


def test_an_error_of_the_caller_is_no_failure_of_the_work(engine):
    def on_message(item, message):
        raise PivecError("the disk is full")

    with pytest.raises(PivecError, match="the disk is full"):
        list(engine.map(counts, [3], on_message=on_message))


def test_parts_are_added_in_order_with_shared_values(engine):
    values = np.random.default_rng(0).normal(size=(60, 1000))
    shared, one = engine.share(values), engine.share(1.0)
    expected = sum(scaled(part, values, 1.0) for part in range(60))
    assert engine.sum(scaled, range(60), shared, 1.0) == expected
    assert list(engine.in_order(scaled, [5, 3], shared, one))[1] == scaled(3, values, 1.0)


def test_failures_of_parts_are_raised(engine):
    parts = engine.in_order(fails_on_part_3, range(10))
    assert [next(parts) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(BadData, match="part 3"):
        next(parts)


def test_failures_keep_their_type_and_do_not_stop_the_others(engine):
    failures = {r.item: r.failure for r in engine.map(fails, ["bad", "missing", "more"])}
    assert (type(failures["bad"]), str(failures["bad"])) == (BadData, "bad")
    assert type(failures["missing"]) is MissingExtra
    assert "pivec[fast]" in str(failures["missing"])
    assert str(failures["more"]) == "more"


def test_warnings_are_raised_here_and_output_goes_to_the_log(workers, tmp_path):
    log = tmp_path / "log"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        [first] = workers.map(warns, [0])
        [second] = workers.map(warns, [0], log=lambda _: log, apart=True)
    assert [str(w.message) for w in seen] == ["careful", "old", "careful"]
    assert seen[0].category is PivecWarning
    assert str(first.failure) == str(second.failure) == "ValueError: no such thing"
    assert "raise ValueError" in str(first.failure.__cause__)
    lines = log.read_text().splitlines()
    assert {"PivecWarning: careful", "UserWarning: old", "written", "thing"} <= set(lines)


def test_workers_are_reused_unless_each_item_needs_its_own(workers):
    reused = {reply.content for reply in workers.map(process, range(12))}
    apart = {reply.content for reply in workers.map(process, range(3), apart=True)}
    assert len(reused) <= 4  # two workers, and those whom other tests have just left
    assert len(apart) == 3
    assert not reused & apart
    assert os.getpid() not in reused | apart


def test_an_item_whose_worker_dies_is_retried(workers, tmp_path):
    [reply] = workers.map(dies_twice, [tmp_path])
    assert reply.content == "at last"


def test_the_rest_of_an_item_goes_on_without_what_kills_workers(workers):
    done = []
    replies = workers.map(
        fails_at_7,
        [[1, 7, 2], [3]],
        on_message=lambda _, message: done.append(message),
        split=lambda item: [[number] for number in item if number not in done],
        name=lambda item: f"number {item}",
    )
    [failure] = [reply.failure for reply in replies if reply.failure is not None]
    assert isinstance(failure, WorkFailed)
    assert failure.died
    assert "number [7]" in str(failure)
    assert "3 times" in str(failure)
    assert sorted(done) == [1, 2, 3]


def test_what_cannot_be_pickled_is_named_and_the_others_go_on(workers):
    items = [1, (n for n in ()), 2]
    replies = list(workers.map(doubles, items, name=lambda item: f"the {type(item).__name__}"))
    assert sorted(reply.content for reply in replies if reply.failure is None) == [2, 4]
    [failure] = [reply.failure for reply in replies if reply.failure is not None]
    assert isinstance(failure, UsageError)
    assert str(failure).startswith("the generator")


def test_items_are_taken_when_a_worker_is_free(workers):
    taken = []

    def items():
        for item in range(100):
            taken.append(item)
            yield item

    replies = workers.map(doubles, items())
    next(replies)
    replies.close()
    assert len(taken) < 10


def test_an_exception_between_replies_ends_the_workers(workers):
    pids = []

    def on_message(_, pid):
        pids.append(pid)
        if len(pids) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(workers.map(sleeps, [60, 60], on_message=on_message))
    assert_ended(pids)


def assert_ended(pids):
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < until, "workers go on"
        time.sleep(0.05)


def test_workers_run_in_this_folder_with_one_thread(workers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [reply] = workers.map(surroundings, [0], threads=1)
    assert reply.content == (str(tmp_path), "1")


# ---- local processes ----


@pytest.mark.parametrize(
    ("item", "words"), [("exit", "code 7"), (signal.SIGKILL, "memory"), (6, "signal 6")]
)
def test_how_a_process_died_is_said(item, words, tmp_path):
    [reply] = make_engine("processes", 1).map(fails, [item])
    assert words in str(reply.failure)
    if item == "exit":
        [reply] = make_engine("processes", 1).map(
            fails, [item], log=lambda _: tmp_path / "log", apart=True
        )
        assert str(tmp_path / "log") in str(reply.failure)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs a choice of cores")
def test_pinned_workers_share_the_cores():
    replies = make_engine("processes", 2).map(cores, [0, 1], pinned=True, threads=1)
    first, second = (reply.content for reply in replies)
    if len(os.sched_getaffinity(0)) > 1:
        assert not set(first) & set(second)


def test_a_function_is_called_in_a_process_of_its_own():
    assert ask(process, 0, failed="it failed") != os.getpid()
    with pytest.raises(PivecError, match=r"it failed: bad$"):
        ask(fails, "bad", failed="it failed")
    [reply] = make_engine("serial").map(process, [0], apart=True)
    assert reply.content != os.getpid()


SCRIPT = """
import os, sys, time
from pivec.parallel import using

class Result:
    pass

def work(item, tell):
    result = Result()
    result.value = 3 * item
    tell(os.getpid())
    for _ in range(10 * SECONDS):
        time.sleep(0.1)
        tell(os.getpid())
    return result

told = lambda _, pid: print(pid, flush=True)
with using("processes", 1) as engine:
    for reply in engine.map(work, [14], on_message=told, quiet=False):
        print(reply.content.value)
"""


def start_script(arguments, tmp_path, seconds):
    script = SCRIPT.replace("SECONDS", str(seconds))
    (tmp_path / "script.py").write_text(script)
    return subprocess.Popen(
        [sys.executable, *(arguments or ["-c", script])],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(pivec.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("arguments", [["script.py"], ["-m", "script"], None])
def test_functions_and_classes_of_scripts_and_sessions_reach_workers(arguments, tmp_path):
    with start_script(arguments, tmp_path, 0) as script:
        out, _ = script.communicate(timeout=120)
    assert out.splitlines()[1] == "42"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(number, tmp_path):
    with start_script(["script.py"], tmp_path, 600) as script:
        pid = int(script.stdout.readline())
        os.killpg(script.pid, number) if number == signal.SIGINT else script.kill()
        script.wait(60)
        assert_ended([pid])
        # The worker leaves Ctrl-C to its parent, and does not complain that nobody listens.
        assert script.stderr.read().count("Traceback") == (number == signal.SIGINT)


# ---- choosing an engine ----


def test_a_block_chooses_the_engine():
    with using("processes", 2) as engine:
        assert current() is engine
        with using() as same, using("auto", 1) as other:
            assert (same is engine, other is engine) == (True, False)
    assert current() is not engine


def test_the_default_is_used_if_nothing_was_chosen():
    with using(), using(default="processes") as engine:
        assert type(engine).__name__ == "Processes"
    with using("serial") as chosen, using(default="processes") as engine:
        assert engine is chosen


@pytest.mark.parametrize(
    ("name", "jobs", "facts"),
    [
        ("procesess", None, ["procesess", "did you mean"]),
        ("serial:there", None, ["'serial:there'"]),
        ("serial", 2, ["serial", "2"]),
        ("processes", 0, ["at least 1", "0"]),
    ],
)
def test_engines_that_do_not_exist(name, jobs, facts):
    with pytest.raises(UsageError) as error, using(name, jobs):
        pass
    assert all(fact in str(error.value) for fact in facts)


def test_arguments_of_a_function_choose_its_engine():
    @on_engine
    def workers(options, engine="auto", jobs=None):
        return current().n_workers

    assert workers(EngineOptions()) == 1
    assert workers(EngineOptions(jobs=3)) == 3
    assert workers(EngineOptions(jobs=3), jobs=2) == 2
    assert workers(None, "processes", 4) == 4
