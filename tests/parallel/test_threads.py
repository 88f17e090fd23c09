"""Workers do every task once, and pass failures on."""

from __future__ import annotations

import threading

import pytest

from pivec.errors import UsageError
from pivec.parallel import n_threads, run_tasks, threads


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_task_is_done_once(n):
    done, lock = [], threading.Lock()

    def work(i):
        with lock:
            done.append(i)

    with threads(n):
        run_tasks(work, 100)
    assert sorted(done) == list(range(100))


def test_a_failure_is_raised_and_ends_the_handing_out():
    done = []

    def work(i):
        done.append(i)
        if i == 3:
            raise ValueError("task 3")

    with threads(1), pytest.raises(ValueError, match="task 3"):
        run_tasks(work, 100)
    assert done == [0, 1, 2, 3]


def test_a_failure_in_another_thread_is_raised_here():
    main = threading.get_ident()
    elsewhere = threading.Event()

    def work(i):
        if threading.get_ident() != main:
            elsewhere.set()
            raise ValueError("elsewhere")
        elsewhere.wait(60)

    with threads(2), pytest.raises(ValueError, match="elsewhere"):
        run_tasks(work, 2)


def test_no_tasks_is_no_work():
    run_tasks(lambda _: pytest.fail("called"), 0)


def test_number_of_threads_is_chosen_for_a_block_of_code():
    outside = n_threads()
    with threads(7):
        assert n_threads() == 7
        with threads(2):
            assert n_threads() == 2
        assert n_threads() == 7
    assert n_threads() == outside
    with pytest.raises(UsageError, match="at least 1"), threads(0):
        pass
