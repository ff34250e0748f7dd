"""Calls of a model that adds to three elements, and the rings of a daemon that they go through."""

import threading
from typing import Any

import numpy as np
from support.models.addition import AddingDevice, request

from neurald.hal.admission.sessions.session import Session
from neurald.hal.device import ExecuteOptions
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel

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
