"""Calls of a model that adds to three elements, and the rings of a daemon that they go through."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.models.addition import AddingDevice, request

from neurald.hal.admission.sessions.session import Session
from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import Cancelled
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.sync.cancellation import Cancellation

_RUN = ExecuteOptions()


def stop_rings(session: Session) -> None:
    """Ends the rings of a session in the daemon."""
    for open_ring in session._rings.values():
        open_ring.ring.stop()


class Caller:
    """A request of arrays, and its result."""

    def __init__(self, added: float = 1.0) -> None:
        self.values, self.result = np.zeros(3, np.float32), np.zeros(3, np.float32)
        self.request = request(self.values, self.result)
        self._added = added

    def run(self, prepared: RemotePreparedModel, value: float, options: ExecuteOptions = _RUN) -> None:
        self.values[:] = value
        assert prepared.execute(self.request, options).is_sufficient
        assert self.result.tolist() == [value + self._added] * 3


def blocking(device: AddingDevice) -> tuple[threading.Semaphore, threading.Event]:
    """Makes executions wait; returns what counts those that have started, and lets them go on."""
    started, proceed = threading.Semaphore(0), threading.Event()

    def on_execute(*_: Any) -> None:
        started.release()
        assert proceed.wait(30)

    device.on_execute = on_execute
    return started, proceed


def expect_cancelled(device: AddingDevice, execute: Callable[[ExecuteOptions], object]) -> Cancellation:
    """Asserts that an execution ends when it is cancelled, and returns the cancellation."""
    started, cancellation = threading.Event(), Cancellation()

    def on_execute(request: Request, options: ExecuteOptions) -> None:
        started.set()
        assert options.cancellation is not None
        while not options.cancellation.is_cancelled:
            time.sleep(0.001)
        options.cancellation.require_not_cancelled("before an operation")

    device.on_execute = on_execute
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(execute, ExecuteOptions(cancellation=cancellation))
        assert started.wait(60)
        cancellation.cancel()
        with pytest.raises(Cancelled):
            run.result(60)
    device.on_execute = lambda *_: None
    return cancellation


def request_of_other_memory(result: "np.ndarray[Any, Any]") -> Request:
    """Returns a request of three ones in memory of a class that rings do not know."""

    class Special(HostMemory):
        pass

    return Request(
        inputs=(Argument(pool=0, length=12),),
        outputs=(Argument(pool=1, length=12),),
        pools=(Special(np.ones(3, np.float32)), HostMemory(result)),
    )
