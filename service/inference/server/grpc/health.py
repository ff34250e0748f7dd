"""gRPC's own health service, for the execution service."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from neurald.service.inference.protocol.messages import SERVICE
from neurald.service.inference.server.grpc.server_call import ServerCall

#: How often it is examined for those who watch whether the service is ready.
_WATCH_S: Final = 0.1
_NAMES: Final = ("", SERVICE)
_STATES: Final = health_pb2.HealthCheckResponse


class ReadinessHealth(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Tells whether the service is ready.

    Calls share nothing. With `grpc_health.v1._async`, one that watches and does not read what it is
    sent would hold up the changes of the state, and so all others.

    Args:
        is_ready: whether the service is ready now.
    """

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready

    async def Check(self, request: Any, context: ServerCall) -> Any:  # noqa: N802 - gRPC's name
        """Returns the state."""
        if request.service not in _NAMES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no service of this name")
        return _STATES(status=self._state(request.service))

    async def Watch(self, request: Any, context: ServerCall) -> None:  # noqa: N802 - gRPC's name
        """Sends the state, and then each other one, until the client ends the call."""
        last = None
        while True:
            state = self._state(request.service)
            if state != last:
                await context.write(_STATES(status=state))
                last = state
            await asyncio.sleep(_WATCH_S)

    def _state(self, name: str) -> Any:
        if name not in _NAMES:
            return _STATES.SERVICE_UNKNOWN
        return _STATES.SERVING if self._is_ready() else _STATES.NOT_SERVING
