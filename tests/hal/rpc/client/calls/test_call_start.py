"""Ctrl-C at any moment of a connection: what was begun is ended, and nothing waits for ever."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition, run_addition

from neurald.hal.device import PrepareOptions
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.calls.call_start import start_call
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer

#: How long what was interrupted may take to end.
_MAX_END_S = 20.0
#: The least number of moments, of which each is tried.
_MIN_MOMENTS = 100


@contextmanager
def interrupted(number: int, *files: str) -> Iterator[None]:
    """Raises KeyboardInterrupt at one of the moments at which Python handles signals.

    Args:
        number: its number among the moments at which this thread is in functions of the files.
        files: the last parts of the paths of the files.
    """
    moments = count()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        # Python handles signals when a function begins, and after a function in C has returned.
        if event not in ("call", "c_return") or not frame.f_code.co_filename.endswith(files):
            return
        if next(moments) == number:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.fixture
def limited() -> Iterator[None]:
    """Fails what waits for longer than `_MAX_END_S`."""

    def fail(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it has not ended in {_MAX_END_S:g} s")

    before = signal.signal(signal.SIGALRM, fail)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


# Python discards an exception in a finalizer, and gRPC's thread may end with a call that is ended.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_any_moment_of_a_connection(tmp_path: Path, kind: str) -> None:
    place = f"unix://{tmp_path}/adder.sock" if kind == "unix" else "127.0.0.1:0"
    server = DeviceServer(AddingDevice(), Address.parse(place))
    server.start()
    try:
        for number in count():
            signal.setitimer(signal.ITIMER_REAL, _MAX_END_S)
            try:
                with interrupted(number, "grpc/_channel.py", "client/connection.py", "client/call_start.py"):
                    connect(str(server.address)).close()
            except KeyboardInterrupt:
                continue
            break
        assert number >= _MIN_MOMENTS
        remote = connect(str(server.address))
        prepared = remote.prepare_model(addition(np.ones(3, np.float32)), PrepareOptions())
        assert run_addition(prepared, np.zeros(3, np.float32)).tolist() == [1, 1, 1]
        remote.close()
    finally:
        server.stop()


def test_a_call_is_started_where_no_signal_is_handled() -> None:
    assert start_call(threading.current_thread) is not threading.main_thread()
    other = threading.Thread(target=lambda: found.append(start_call(threading.current_thread)))
    found: list[threading.Thread] = []
    other.start()
    other.join()
    assert found == [other]


def test_errors_are_those_of_the_call() -> None:
    def fail() -> None:
        raise ValueError("closed channel")

    with pytest.raises(ValueError, match="closed channel"):
        start_call(fail)
