"""Threads of a daemon ask for short time slices, and only those."""

import os
import platform
import threading

import pytest

from neurald.hal.process.threads.time_slices import (
    SLICE_NS,
    AdaptiveSlices,
    short_time_slices,
    time_slice_ns,
    use_ordinary_time_slices,
)


def slice_of_a_new_thread() -> int | None:
    found: list[int | None] = []
    thread = threading.Thread(target=lambda: found.append(time_slice_ns()))
    thread.start()
    thread.join()
    return found[0]


def test_threads_that_are_started_meanwhile_have_short_slices() -> None:
    before = time_slice_ns()
    if before is None:
        pytest.skip("this machine does not tell the attributes of a thread")
    with short_time_slices():
        if time_slice_ns() != SLICE_NS:
            pytest.skip("this kernel has no slices of a thread's own")
        assert slice_of_a_new_thread() == SLICE_NS
        assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert time_slice_ns() == before
    assert slice_of_a_new_thread() == before


def test_the_nice_value_stays() -> None:
    nice: list[int] = []

    def work() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 3)
        with short_time_slices():
            nice.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        nice.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert nice == [3, 3]


def test_a_chosen_policy_stays() -> None:
    found: list[int | None] = []

    def work() -> None:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        before = time_slice_ns()
        with short_time_slices():
            found.extend((before, time_slice_ns(), os.sched_getscheduler(0)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] == found[1]
    assert found[2] == os.SCHED_BATCH


def test_an_unknown_machine_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "unknown")
    assert time_slice_ns() is None
    with short_time_slices():
        pass


def test_long_work_gets_ordinary_slices() -> None:
    before = time_slice_ns()
    if before is None:
        pytest.skip("this machine does not tell the attributes of a thread")
    found: list[int | None] = []

    def work() -> None:
        slices = AdaptiveSlices()
        for taken_s in (1e-5, 1.8e-4, 1e-2, 1.8e-4, 1e-5):
            for _ in range(200):
                slices.note_work(taken_s)
            found.append(time_slice_ns())

    with short_time_slices():
        if time_slice_ns() != SLICE_NS:
            pytest.skip("this kernel has no slices of a thread's own")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [SLICE_NS, SLICE_NS, before, before, SLICE_NS]


def test_a_thread_with_ordinary_slices_keeps_them() -> None:
    before = time_slice_ns()
    slices = AdaptiveSlices()
    for taken_s in (1e-5, 1e-2, 1e-5):
        for _ in range(200):
            slices.note_work(taken_s)
        assert time_slice_ns() == before


def test_a_thread_gives_up_the_slices_of_its_starter() -> None:
    before = time_slice_ns()
    if before is None:
        pytest.skip("this machine does not tell the attributes of a thread")
    found: list[int | None] = []

    def work() -> None:
        use_ordinary_time_slices()
        found.append(time_slice_ns())

    with short_time_slices():
        if time_slice_ns() != SLICE_NS:
            pytest.skip("this kernel has no slices of a thread's own")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    work()
    assert found == [before, before]
