"""Native code notices cancellation and deadlines between calls and inside long calls."""

import threading
import time

import numpy as np
import pytest
from support.cpu.routines import adding, bound, cancelling, counting, native, requiring
from support.sweeps import sweep

from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.hal.errors import Cancelled, MissedDeadlineTransient
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation

COUNT = 100
#: Of work_items that take this long, each is a piece of its own.
LONG_NS = 1e9


def bound_memory(
    model: NativeModel, word: int, work_item: int
) -> tuple[
    np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    ArgumentBinding,
    np.ndarray[tuple[int], np.dtype[np.int64]],
]:
    """Returns an output, an input with these two numbers, and the binding of both."""
    source = aligned_zeros(4 * COUNT, 64).view(np.int64)
    source[:2] = word, work_item
    target = aligned_zeros(4 * COUNT, 64).view(np.int32)
    return target, bound(model, source, target), source


def test_between_calls() -> None:
    """The first call sets the word of the cancellation; the second one is not run."""
    model = native([cancelling(COUNT), requiring(COUNT), adding(5, COUNT)])
    cancellation = Cancellation()
    target, binding, _source = bound_memory(model, cancellation.address, 0)
    with pytest.raises(MissedDeadlineTransient, match="operation 1"):
        model.run(binding, None, cancellation)
    cancellation.cancel()
    with pytest.raises(Cancelled, match="operation 0"):
        model.run(binding, None, cancellation)
    assert not target.any()
    # The model can be executed again.
    model.run(binding, None, Cancellation())
    assert target[0] == 6


def test_another_word() -> None:
    """Native code also stops when a word written by others, such as a ring, has a certain value."""
    model = native([cancelling(COUNT), adding(5, COUNT)])
    word = np.zeros(1, np.int64)
    for value, stops in ((1, True), (2, False)):
        word[0] = 0
        cancellation = Cancellation()
        cancellation.watch(word.ctypes.data, value)
        _, binding, _source = bound_memory(model, word.ctypes.data, 0)
        if stops:
            with pytest.raises(MissedDeadlineTransient, match="operation 1"):
                model.run(binding, None, cancellation)
        else:
            model.run(binding, None, cancellation)


@sweep("work_item", [0, 3, COUNT - 1])
def test_inside_a_long_call(work_item: int) -> None:
    model = native([cancelling(COUNT, cost_ns=LONG_NS)])
    cancellation = Cancellation()
    target, binding, _source = bound_memory(model, cancellation.address, work_item)
    if work_item == COUNT - 1:
        model.run(binding, None, cancellation)
    else:
        with pytest.raises(MissedDeadlineTransient, match="operation 0"):
            model.run(binding, None, cancellation)
    assert target.tolist() == [*range(1, work_item + 2), *[0] * (COUNT - work_item - 1)]


@sweep("threads", [2, 4])
def test_inside_a_shared_call(threads: int) -> None:
    model = native([cancelling(COUNT, cost_ns=LONG_NS), adding(1, COUNT)], threads=threads)
    for _ in range(20):
        cancellation = Cancellation()
        target, binding, _source = bound_memory(model, cancellation.address, 0)
        with pytest.raises(MissedDeadlineTransient, match="operation"):
            model.run(binding, None, cancellation)
        assert not target.any()
    target, binding, _source = bound_memory(model, Cancellation().address, COUNT)
    model.run(binding, None, Cancellation())
    assert target.tolist() == list(range(2, COUNT + 2))


@pytest.mark.timed
@sweep("threads", [1, 2])
def test_deadlines(threads: int) -> None:
    """Little of two seconds' work is done."""
    model = native([counting(COUNT, milliseconds=2000)], threads=threads)
    _, binding, _source = bound_memory(model, 0, 0)
    started = time.monotonic()
    with pytest.raises(MissedDeadlineTransient, match="the deadline passed in operation 0"):
        model.run(binding, started + 0.02)
    assert time.monotonic() - started < 0.5


@pytest.mark.timed
def test_cancelled_by_another_thread() -> None:
    model = native([counting(COUNT, milliseconds=2000)])
    _, binding, _source = bound_memory(model, 0, 0)
    cancellation = Cancellation()
    timer = threading.Timer(0.02, cancellation.cancel)
    started = time.monotonic()
    timer.start()
    with pytest.raises(Cancelled, match="in operation 0"):
        model.run(binding, None, cancellation)
    assert time.monotonic() - started < 0.5


def test_a_deadline_that_passes_in_a_call_that_cannot_be_divided() -> None:
    model = native([replace(counting(COUNT, milliseconds=30), work_items=30, cost_ns=1.0)])
    _, binding, _source = bound_memory(model, 0, 0)
    with pytest.raises(MissedDeadlineTransient, match="last kernel"):
        model.run(binding, time.monotonic() + 0.005)
