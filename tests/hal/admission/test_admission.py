"""Admission to a device: calls under way, the end of a daemon, and hanging executions."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
from support.models.addition import AddingDevice
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.admission import Admission
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.sessions import Sessions
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import DeadObject, Error, MissedDeadlinePersistent, UnavailableDevice
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.types import Priority
from neurald.hal.sync.cancellation import Cancellation


def admission_of(limits: Limits) -> tuple[Admission, Sessions]:
    sessions = Sessions(limits)
    return Admission(AddingDevice(), limits, sessions), sessions


def test_a_drain_refuses_new_calls_and_waits_for_those_under_way() -> None:
    admission, _ = admission_of(Limits())
    with admission.admit(PrepareOptions()):
        assert admission.is_busy
        assert admission.calls == 1
        assert not admission.drain(0.0, lambda: False)
        with pytest.raises(DeadObject, match="about to stop"), admission.admit(ExecuteOptions()):
            pytest.fail("admitted although the daemon stops")
        with admission.track():  # never refused
            assert admission.calls == 2
    assert not admission.is_busy
    assert admission.drain(30.0, lambda: False)


@pytest.mark.timed
def test_a_drain_waits_for_results_to_be_read() -> None:
    admission, sessions = admission_of(Limits())
    session = sessions.open()
    session.is_watched = True
    token = session.memories.add(HostMemory(np.zeros(4, np.uint8)), is_result=True)
    threading.Timer(0.1, session.memories.take, [token]).start()
    started = time.monotonic()
    assert admission.drain(30.0, lambda: False)
    assert time.monotonic() - started < 2.0


def test_a_deadline_that_has_passed_is_refused() -> None:
    admission, sessions = admission_of(Limits())
    options = ExecuteOptions(deadline_s=time.monotonic())
    with pytest.raises(MissedDeadlinePersistent):
        admission.begin_execution(sessions.open(), options, Priority.MEDIUM)
    assert not admission.is_busy


def test_an_execution_that_hangs_is_given_up() -> None:
    admission, sessions = admission_of(Limits(execution_s=0))
    session = sessions.open()
    ended: list[tuple[Session, Error]] = []
    admission.on_hang.append(lambda session, error: ended.append((session, error)))
    ticket = admission.begin_execution(session, ExecuteOptions(), Priority.MEDIUM)
    wait_until(lambda: bool(ended))
    wait_until(lambda: not sessions.all())
    assert ended[0][0] is session
    assert isinstance(ended[0][1], DeadObject)
    assert admission.is_hanging
    assert not admission.is_busy
    with pytest.raises(UnavailableDevice, match="hangs"):
        admission.require_responsive()
    admission.end_execution(ticket)
    admission.require_responsive()
    assert not admission.is_busy


def test_the_turn_of_a_call_ends_where_the_device_begins() -> None:
    admission, sessions = admission_of(Limits())
    session, turns = sessions.open(), admission.turns

    def execution() -> AbstractContextManager[object]:
        return admission.execution(session, ExecuteOptions(), Priority.MEDIUM)

    parts: list[Callable[[], AbstractContextManager[object]]] = [
        execution,
        lambda: admission.admit(PrepareOptions()),
        admission.track,
        lambda: admission.reading_model(session, 1 << 20, None),
    ]
    for part in parts:
        with admission.serving(session) as place:
            assert turns._holder is place
            with part():
                assert turns._holder is None
    with admission.serving(session) as place, admission.reading_model(session, 1, None):
        assert turns._holder is place


def test_large_models_are_read_one_at_a_time() -> None:
    admission, sessions = admission_of(Limits())
    session, cancellation = sessions.open(), Cancellation()
    read: list[int] = []

    def read_model(size_bytes: int) -> None:
        with admission.reading_model(session, size_bytes, None):
            read.append(size_bytes)

    with admission.reading_model(session, 1 << 20, None):
        read_model(1 << 10)  # small ones do not wait
        thread = threading.Thread(target=read_model, args=(1 << 20,))
        thread.start()
        cancellation.cancel()
        with pytest.raises(Error), admission.reading_model(session, 1 << 20, cancellation):
            pytest.fail("two large models at the same time")
        assert read == [1 << 10]
    thread.join()
    assert read == [1 << 10, 1 << 20]
