"""A driver that cannot start threads has no fault."""

import threading

import pytest
from support.threads import refuse_threads

from neurald.hal.errors import BadState, OpFailed, ResourceExhaustedTransient
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.devices.thread_refusal import thread_refusal

pytestmark = pytest.mark.quick


def _start_a_thread() -> None:
    threading.Thread(target=int).start()


def test_a_driver_that_gets_no_thread_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_threads(monkeypatch)
    with (
        pytest.raises(ResourceExhaustedTransient, match="gpu needs threads, and none can be started: can't"),
        convert_driver_faults("gpu"),
    ):
        _start_a_thread()


def test_an_interpreter_without_threads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("thread is not supported for isolated subinterpreters")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with (
        pytest.raises(BadState, match=r"gpu needs threads.*isolated.*; use neurald in the main interpreter"),
        convert_driver_faults("gpu"),
    ):
        _start_a_thread()


def test_other_faults_stay_those_of_the_driver() -> None:
    assert thread_refusal("gpu") is None
    with (
        pytest.raises(OpFailed, match="the driver has a fault: it raised RuntimeError: no"),
        convert_driver_faults("gpu"),
    ):
        raise RuntimeError("no")
