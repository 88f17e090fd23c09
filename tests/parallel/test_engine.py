"""The engines of this machine: what they answer, tell and warn of, and how work fails there."""

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
from pivec.errors import BadData, MissingExtra, PivecError, PivecWarning, UsageError
from pivec.options import EngineOptions
from pivec.parallel import WorkFailed, ask, current, make_engine, on_engine, using
from pivec.parallel.processes import Processes


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


def sleeps_once(seconds, tell):
    tell(os.getpid())
    time.sleep(seconds)


def cores_and_threads(item, tell):
    return sorted(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"]


def process(item, tell):
    return os.getpid()


def dies_twice(folder, tell):
    marks = len(list(folder.iterdir()))
    (folder / str(marks)).touch()
    if marks < 2:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    return "at last"


def fails_at_7(numbers, tell):
    for number in numbers:
        if number == 7:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        tell(number)


def test_the_answer_is_what_the_function_returns():
    assert ask(doubles, 21, failed="it did not double") == 42


def test_a_failure_is_told_in_one_line():
    with pytest.raises(PivecError, match=r"it did not work: ValueError: no such thing$"):
        ask(breaks, 0, failed="it did not work")


@pytest.fixture(params=["serial", "processes"])
def engine(request):
    return make_engine(request.param)


def test_messages_come_in_order_and_the_result_last(engine):
    seen = {3: [], 2: []}

    def on_message(item, message):
        seen[item].append(message)

    for reply in engine.map(counts, [3, 2], on_message=on_message):
        seen[reply.item].append(f"result {reply.content}")
    assert seen == {3: [0, 1, 2, "result 3"], 2: [0, 1, "result 2"]}


def test_messages_that_need_not_all_come_are_few(engine):
    messages = []
    [last] = engine.map(hurries, [0], on_message=lambda _, message: messages.append(message))
    assert 1 <= len(messages) == last.content < 100


def test_what_goes_wrong_with_a_message_is_no_failure_of_the_work(engine):
    def on_message(item, message):
        raise PivecError("the disk is full")

    with pytest.raises(PivecError, match="the disk is full"):
        list(engine.map(counts, [3], on_message=on_message))


def test_parts_are_added_in_their_order():
    with using("processes", 2) as engine:
        assert current() is engine
        shared = engine.share("-")
        assert engine.sum(str.__add__, ["a", "b", "c"], shared) == "a-b-c-"
        with using() as same, using("auto", 1) as other:
            assert (same is engine, other is engine) == (True, False)
    assert current() is not engine


@pytest.mark.parametrize(
    ("name", "jobs", "words"),
    [
        (
            "procesess",
            None,
            r"must be auto, serial, processes or ray\[:ADDRESS\], .* \(did you mean",
        ),
        ("serial:there", None, "but is 'serial:there'"),
        ("serial", 2, "the engine serial is one job, but 2 are asked for"),
        ("processes", 0, "at least 1, but is 0"),
    ],
)
def test_engines_that_are_not_there(name, jobs, words):
    with pytest.raises(UsageError, match=words), using(name, jobs):
        pass


def test_a_default_is_for_those_who_chose_nothing():
    with using(), using(default="processes") as engine:
        assert isinstance(engine, Processes)
    with using("serial") as chosen, using(default="processes") as engine:
        assert engine is chosen


def test_arguments_of_a_function_choose_its_engine():
    @on_engine
    def workers(options, engine="auto", jobs=None):
        return current().n_workers

    assert workers(EngineOptions()) == 1
    assert workers(EngineOptions(jobs=3)) == 3
    assert workers(EngineOptions(jobs=3), jobs=2) == 2
    assert workers(None, "processes", 4) == 4


def test_a_process_takes_item_after_item_unless_each_needs_its_own():
    pids = {reply.content for reply in Processes(1).map(process, [0, 1, 2])}
    assert len(pids) == 1
    assert len({reply.content for reply in Processes(1).map(process, [0, 1], apart=True)}) == 2
    [reply] = make_engine("serial").map(process, [0])
    [other] = make_engine("serial").map(process, [0], apart=True)
    assert reply.content == os.getpid() != other.content


def test_an_item_whose_process_dies_is_worked_on_again(tmp_path):
    [reply] = Processes(1).map(dies_twice, [tmp_path])
    assert reply.content == "at last"


def test_what_is_left_of_an_item_goes_on_without_the_culprit():
    done = []
    replies = Processes(2).map(
        fails_at_7,
        [[1, 7, 2], [3]],
        on_message=lambda _, message: done.append(message),
        split=lambda item: [[number] for number in item if number not in done],
        name=lambda item: f"number {item}",
    )
    [failure] = [reply.failure for reply in replies if reply.failure is not None]
    assert str(failure).startswith("number [7] lost its worker 3 times: its process was ended by")
    assert sorted(done) == [1, 2, 3]


def test_failures_keep_their_kind_and_do_not_stop_the_others():
    items = ["bad", "missing", "exit", signal.SIGKILL, 6]
    failures = {reply.item: reply.failure for reply in Processes(2).map(fails, items)}
    assert (type(failures["bad"]), str(failures["bad"])) == (BadData, "bad")
    assert type(failures["missing"]) is MissingExtra
    assert "pivec[fast]" in str(failures["missing"])
    assert "raise BadData" in str(failures["bad"].__cause__)
    assert isinstance(failures["exit"], WorkFailed)
    lost = "lost its worker 3 times: its process"
    assert str(failures["exit"]) == f"exit {lost} ended with code 7 (last words)"
    assert failures["exit"].code == 7
    assert "killed, most likely because memory ran out" in str(failures[signal.SIGKILL])
    assert str(failures[6]) == f"6 {lost} was ended by signal 6"


def test_warnings_come_here_and_with_a_log_those_of_others_stay_in_it(tmp_path):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ask(warns, 0, failed="it did not warn")
    assert [str(warning.message) for warning in seen] == ["careful", "old"]
    assert seen[0].category is PivecWarning
    log = tmp_path / "log"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        list(Processes(1).map(warns, [0], log=lambda _: log, apart=True))
    assert [str(warning.message) for warning in seen] == ["careful"]
    assert set(log.read_text().splitlines()) >= {
        "PivecWarning: careful",
        "UserWarning: old",
        "written",
    }
    [reply] = Processes(1).map(fails, ["exit"], log=lambda _: log, apart=True)
    assert str(reply.failure).endswith(f"its process ended with code 7, see {log}")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs a choice of cores")
def test_cores_and_threads_of_a_job():
    replies = Processes(2).map(cores_and_threads, [0, 1], pinned=True, threads=1)
    cores, threads = zip(*(reply.content for reply in replies), strict=True)
    assert threads == ("1", "1")
    if len(os.sched_getaffinity(0)) > 1:
        assert not set(cores[0]) & set(cores[1])


def test_what_cannot_be_sent_is_named_and_the_others_go_on():
    items = [1, lambda: 0, 2]
    replies = list(
        Processes(1).map(
            doubles, items, parts=lambda item: [("the item", item)], remedy=", or else"
        )
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

    replies = Processes(1).map(doubles, items())
    assert next(replies).content == 2
    assert taken == [1]
    replies.close()
    assert taken == [1]


def test_an_exception_between_replies_ends_the_processes():
    pids = []

    def on_message(_, pid):
        pids.append(pid)
        if len(pids) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Processes(2).map(sleeps, [0, 1], on_message=on_message))
    assert_ended(pids)


def test_closing_ends_the_processes():
    pids = []
    replies = Processes(2).map(sleeps_once, [0, 60], on_message=lambda _, pid: pids.append(pid))
    assert next(replies).item == 0
    replies.close()
    assert_ended(pids)


def assert_ended(pids):
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


SCRIPT = """
from pivec.parallel.processes import Processes

def triples(item, tell):
    return 3 * item

GUARD
    for reply in Processes(1).map(triples, [14]):
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
