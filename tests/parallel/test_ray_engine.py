"""The engine of a Ray cluster: what it answers, and how work, workers and nodes fail there."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pivec.errors import BadData, MissingExtra, PivecWarning, UsageError
from pivec.parallel import WorkFailed, n_threads

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def doubles(item, tell):
    return 2 * item


def counts(item, tell):
    for i in range(item):
        tell(i)
    return item


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
    raise BadData(item)


def fails_at_7(numbers, tell):
    for number in numbers:
        if number == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        tell(number)


def sleeps(seconds, tell):
    tell(os.getpid())
    time.sleep(seconds)
    return seconds


def place(item, tell):
    return os.getcwd(), n_threads(), os.environ["OPENBLAS_NUM_THREADS"]


def scaled(part, values, factor):
    return float(values[part].sum()) * factor


def fails_on_part_3(part):
    if part == 3:
        raise BadData(f"part {part} is bad")
    return part


def process_of(part, values):
    return {(os.getpid(), id(values))}


def node(item, tell):
    import ray

    tell(ray.get_runtime_context().get_node_id())
    time.sleep(0.3)
    return item


def sleeps_at_first(path, tell):
    if not path.exists():
        path.touch()
        tell("asleep")
        time.sleep(600)
    return "at last"


def part_that_sleeps_at_first(path):
    return sleeps_at_first(path, print)


def slowly(part, values):
    time.sleep(0.2)
    return [part * values.sum()]


def test_messages_come_in_order_and_the_result_last(ray_engine):
    seen = {3: [], 2: []}

    def on_message(item, message):
        seen[item].append(message)

    for reply in ray_engine.map(counts, [3, 2], on_message=on_message):
        seen[reply.item].append(f"result {reply.content}")
    assert seen == {3: [0, 1, 2, "result 3"], 2: [0, 1, "result 2"]}


def test_messages_come_while_the_work_goes_on(ray_engine, tmp_path):
    path = tmp_path / "file"
    [reply] = ray_engine.map(waits_for_file, [path], on_message=lambda *_: path.touch())
    assert reply.content == "seen"


def test_workers_are_kept_unless_each_item_needs_its_own(ray_engine):
    kept = {reply.content for reply in ray_engine.map(process, range(12))}
    apart = {reply.content for reply in ray_engine.map(process, range(3), apart=True)}
    assert len(kept) <= 4  # two processors, and whom other tests have just left
    assert len(apart) == 3
    assert not kept & apart


def test_failures_keep_their_kind_and_do_not_stop_the_others(ray_engine):
    failures = {r.item: r.failure for r in ray_engine.map(fails, ["bad", "missing", "more"])}
    assert (type(failures["bad"]), str(failures["bad"])) == (BadData, "bad")
    assert type(failures["missing"]) is MissingExtra
    assert "raise BadData" in str(failures["more"].__cause__)


def test_warnings_and_what_is_printed_travel(ray_engine, tmp_path):
    log = tmp_path / "log"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        [first] = ray_engine.map(warns, [0])
        [second] = ray_engine.map(warns, [0], log=lambda _: log, apart=True)
    assert [str(w.message) for w in seen] == ["careful", "old", "careful"]
    assert str(first.failure) == str(second.failure) == "ValueError: no such thing"
    lines = log.read_text().splitlines()
    assert {"PivecWarning: careful", "UserWarning: old", "written", "thing"} <= set(lines)


def test_a_piece_that_ends_its_worker_is_named_and_the_rest_goes_on(ray_engine):
    done = []
    replies = ray_engine.map(
        fails_at_7,
        [[1, 7, 2], [3]],
        on_message=lambda _, message: done.append(message),
        split=lambda item: [[number] for number in item if number not in done],
        name=lambda item: f"number {item}",
    )
    [failure] = [reply.failure for reply in replies if reply.failure is not None]
    assert isinstance(failure, WorkFailed)
    assert str(failure) == "number [7] lost its worker 3 times: its process died"
    assert sorted(done) == [1, 2, 3]


def test_what_cannot_be_sent_is_named_and_the_others_go_on(ray_engine):
    items = [1, (n for n in ()), 2]
    replies = list(ray_engine.map(doubles, items, parts=lambda item: [("the item", item)]))
    assert sorted(reply.content for reply in replies if reply.failure is None) == [2, 4]
    [failure] = [reply.failure for reply in replies if reply.failure is not None]
    assert isinstance(failure, UsageError)
    assert str(failure).startswith("the item cannot be sent to another process (")


def test_items_are_taken_when_a_worker_may_start(ray_engine):
    taken = []

    def items():
        for item in range(100):
            taken.append(item)
            yield item

    replies = ray_engine.map(doubles, items())
    next(replies)
    replies.close()
    assert len(taken) < 10


def test_closing_ends_what_runs(ray_engine):
    pids = []

    def on_message(_, pid):
        pids.append(pid)
        if len(pids) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(ray_engine.map(sleeps, [60, 60], on_message=on_message))
    assert_ended(pids)


def assert_ended(pids):
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < until, "workers go on"
        time.sleep(0.05)


def test_workers_are_where_the_driver_is_and_use_a_core(ray_engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [reply] = ray_engine.map(place, [0])
    assert reply.content == (str(tmp_path), 1, "1")


def test_parts_are_added_in_their_order_with_shared_values(ray_engine):
    values = np.random.default_rng(0).normal(size=(60, 1000))
    shared, ones = ray_engine.share(values), ray_engine.share(1.0)
    expected = sum(scaled(part, values, 1.0) for part in range(60))
    assert ray_engine.sum(scaled, range(60), shared, 1.0) == expected
    assert list(ray_engine.in_order(scaled, [5, 3], shared, ones))[1] == scaled(3, values, 1.0)


def test_a_shared_value_is_unpacked_once_in_a_worker(ray_engine):
    shared = ray_engine.share(list(range(1000)))
    rows = list(ray_engine.in_order(process_of, range(20), shared))
    places = set.union(*rows)
    assert len({pid for pid, _ in places}) == len(places)


def test_failures_of_parts_are_raised(ray_engine):
    parts = ray_engine.in_order(fails_on_part_3, range(10))
    assert [next(parts) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(BadData, match="part 3 is bad"):
        next(parts)


def test_a_node_that_goes_costs_nothing_but_time(ray_engine, add_node):
    import ray

    kill, killed = add_node(), []
    [extra] = [row["NodeID"] for row in ray.nodes() if "extra" in row["Resources"]]
    array = ray.remote(num_cpus=1, resources={"extra": 1}, max_retries=0)(np.ones).remote(100_000)
    ray.wait([array])

    def on_message(_, node):
        if node == extra and not killed:
            killed.append(node)
            kill()

    replies = list(ray_engine.map(node, range(20), on_message=on_message))
    assert killed
    assert sorted(reply.content for reply in replies if reply.failure is None) == list(range(20))
    shared = ray_engine.share(np.ones(100_000))
    shared.references.append(array)  # which is lost, and put again
    kill = add_node()
    results = []
    for row in ray_engine.in_order(slowly, range(20), shared):
        results.append(row)
        if len(results) == 5:
            kill()
    assert results == [[part * 100_000.0] for part in range(20)]


def test_a_machine_of_which_nothing_is_heard_is_given_up_as_ray_does(
    ray_engine, tmp_path, monkeypatch
):
    import ray

    nodes, gone = ray.nodes(), []

    def without():
        rows = [*nodes, *({**row, "Alive": False} for row in gone)]
        gone.clear()
        return rows

    monkeypatch.setattr(ray, "nodes", without)
    [reply] = ray_engine.map(
        sleeps_at_first, [tmp_path / "piece"], on_message=lambda *_: gone.extend(nodes)
    )
    assert reply.content == "at last"
    later = threading.Timer(3, lambda: gone.append({**nodes[0], "NodeID": "another"}))
    later.start()
    parts = ray_engine.in_order(part_that_sleeps_at_first, [tmp_path / "part"])
    assert list(parts) == ["at last"]
    later.join()
