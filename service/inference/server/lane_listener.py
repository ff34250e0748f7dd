"""Opens lanes for clients on this host, at a socket of the service.

A client talks to the front end once for each lane, and then to the model's process. Only the user
of the service and root are served.
"""

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadState, ResultCode
from neurald.hal.lanes.opening import Opened, OpenRequest, Refused, decode_open_model, encode_opening
from neurald.hal.lanes.socket_end import receive, send
from neurald.hal.process.peer import peer_of
from neurald.hal.records import DECODE_ERRORS
from neurald.service.inference.models.registry import Registry
from neurald.service.inference.protocol.errors import ServiceError, Status

_MAX_CONNECTIONS: Final = 256
_CODES: Final = {
    Status.INVALID: ResultCode.BAD_DATA,
    Status.NOT_FOUND: ResultCode.BAD_DATA,
    Status.UNAVAILABLE: ResultCode.DEAD_OBJECT,
}


class LaneListener:
    """Listens at a socket. Belongs to one event loop.

    Args:
        path: the path of the socket, in a directory that only the user of the service may change.
        registry: the models.

    Raises:
        BadState: it cannot be listened at.
    """

    def __init__(self, path: Path, registry: Registry) -> None:
        self._path = path
        self._registry = registry
        self._loop = asyncio.get_running_loop()
        self._connections: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        try:
            # The socket of a service that was killed; the manager sees to it that only one runs.
            path.unlink(missing_ok=True)
            mask = os.umask(0o177)
            try:
                self._listener.bind(str(path))
            finally:
                os.umask(mask)
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise BadState(f"{path} cannot be listened at: {error.strerror or error}") from None
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Closes the socket; lanes that are open stay open."""
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        self._path.unlink(missing_ok=True)
        for connection in tuple(self._connections):
            self._drop(connection)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        is_welcome = False
        with contextlib.suppress(OSError):
            is_welcome = peer_of(connection).user in (os.geteuid(), 0)
        if not is_welcome or len(self._connections) >= _MAX_CONNECTIONS:
            reason = (
                "too many clients" if is_welcome else "permission denied: the service serves its own user"
            )
            with contextlib.suppress(OSError):
                send(connection, encode_opening(Refused(code=ResultCode.UNAVAILABLE_DEVICE, message=reason)))
            connection.close()
            return
        self._connections.add(connection)
        self._loop.add_reader(connection.fileno(), self._answer, connection)

    def _drop(self, connection: socket.socket) -> None:
        self._loop.remove_reader(connection.fileno())
        self._connections.discard(connection)
        connection.close()

    def _answer(self, connection: socket.socket) -> None:
        lane: socket.socket | None = None
        try:
            packet, descriptor = receive(connection)
            if descriptor is not None:
                os.close(descriptor)
            if not packet:
                raise ConnectionResetError
            answer, lane = self._opened(decode_open_model(packet))
            send(connection, encode_opening(answer), None if lane is None else lane.fileno())
        except BlockingIOError:
            return
        except (OSError, *DECODE_ERRORS):
            self._drop(connection)
        finally:
            if lane is not None:
                lane.close()

    def _opened(self, wanted: OpenRequest) -> tuple[Opened | Refused, socket.socket | None]:
        try:
            found = self._registry.find(wanted.name, wanted.version)
            lane = found.open_lane()
            loaded = found.loaded_by_worker
        except ServiceError as error:
            code = _CODES.get(error.status, ResultCode.OP_FAILED)
            return Refused(code=code, message=str(error)), None
        return (
            Opened(
                version=str(found.version),
                inputs=loaded.inputs,
                outputs=loaded.outputs,
                max_batch=found.settings.max_batch_size,
            ),
            lane,
        )
