"""Learns when a prepared model of a daemon runs faster code than at first.

Such a model has another artifact from then on, see `neurald.hal.device.ImprovesLater`. It takes
seconds until it does, and happens once, so the daemon is asked from time to time.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Final, Protocol

from neurald._proto import device_pb2
from neurald.hal.device import PreparedModel
from neurald.hal.errors import Error
from neurald.hal.process.threads.checked_thread import CheckedThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from neurald.hal.rpc.client.connection import Connection
    from neurald.hal.rpc.client.connection_life import ConnectionLife

#: How long to wait before the daemon is asked first, and by what each wait is longer, up to a
#: limit.
_FIRST_WAIT_S: Final = 1.0
_GROWTH: Final = 1.5
_MAX_WAIT_S: Final = 15.0
#: A model that takes longer is not expected to become faster any more.
_MAX_TIME_S: Final = 900.0


class _RemoteModel(PreparedModel, Protocol):
    connection: Connection
    handle: int


def call_when_improved(model: _RemoteModel, callback: Callable[[PreparedModel], None]) -> None:
    """Starts a thread that calls a function once a model of a daemon runs faster code.

    The thread ends without the call if no caller uses the model any more, if its connection ends,
    or if it stays as it is. It does not keep the model alive.

    Args:
        model: improves later, as its daemon has said.
        callback: gets the model.
    """
    arguments = (weakref.ref(model), model.connection.life, callback)
    CheckedThread(target=_await, args=arguments, name="neurald improvement", daemon=True).start()


def _await(
    reference: weakref.ref[_RemoteModel],
    life: ConnectionLife,
    callback: Callable[[PreparedModel], None],
) -> None:
    wait_s, end_s = _FIRST_WAIT_S, time.monotonic() + _MAX_TIME_S
    while not life.wait(wait_s) and time.monotonic() < end_s:
        model = reference()
        if model is None:
            return
        message = device_pb2.GetImprovementRequest(prepared_model=model.handle)
        try:
            is_improved = model.connection.call("GetImprovement", message).is_improved
        except Error:  # the connection has ended, or the session
            return
        if is_improved:
            callback(model)
            return
        del model
        wait_s = min(wait_s * _GROWTH, _MAX_WAIT_S)
