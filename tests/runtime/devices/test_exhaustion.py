"""A driver that gets no thread, file or memory has no fault."""

import errno
import threading

import pytest
from support.process.threads import refuse_threads

from neurald.hal.errors import BadState, Error, OpFailed, OutOfMemory, ResourceExhaustedTransient
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.devices.exhaustion import exhaustion

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
    assert exhaustion("gpu", RuntimeError("no")) is None
    with (
        pytest.raises(OpFailed, match="the driver has a fault: it raised RuntimeError: no"),
        convert_driver_faults("gpu"),
    ):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EMFILE, ResourceExhaustedTransient),
        (errno.ENFILE, ResourceExhaustedTransient),
        (errno.ENOMEM, OutOfMemory),
        (errno.EIO, OpFailed),
    ],
)
def test_errors_of_the_system(number: int, kind: type[Error]) -> None:
    with pytest.raises(Error, match=f"Errno {number}") as caught, convert_driver_faults("gpu"):
        raise OSError(number, "no")
    assert type(caught.value) is kind
    assert ("fault" in str(caught.value)) == (kind is OpFailed)
