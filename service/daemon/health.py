"""The standard health service, in which slow watchers cannot block other callers.

gRPC's own servicer sends while holding its lock, and waits until gRPC has sent, that is, for a
client that may not read. It deadlocks if another watch ends meanwhile, since ending takes the lock
in the thread that serves all.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from neurald.hal.admission.streams import StreamLimiter
from neurald.hal.errors import ResourceExhaustedTransient
from neurald.hal.rpc.transport.status import abort

#: Limit on watches; beyond it, the oldest one is cancelled.
MAX_WATCHES = 64
#: Number of threads that notify watches, and the time limit for one notification.
_TELLERS = 4
_TELL_S = 10.0
_GRACE_S = 0.25


class _Watch:
    """Client that is notified of every change."""

    __slots__ = ("context", "lock", "send", "service", "told")

    def __init__(self, service: str, context: grpc.ServicerContext, send: Callable[[Any], None]) -> None:
        self.service = service
        self.context = context
        self.send = send
        self.lock = threading.Lock()
        self.told: int | None = None


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Reports whether services serve."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, int] = {}
        # By call, in order of arrival.
        self._watches: dict[grpc.ServicerContext, _Watch] = {}
        self._telling = StreamLimiter(limit=MAX_WATCHES, patience_s=_TELL_S, grace_s=_GRACE_S)
        self._tellers = ThreadPoolExecutor(_TELLERS, thread_name_prefix="neurald health")

    def set(self, service: str, state: int) -> None:
        """Changes the state of a service; watches are notified asynchronously."""
        with self._lock:
            self._states[service] = state
            for watch in self._watches.values():
                if watch.service == service:
                    self._tellers.submit(self._tell, watch)

    def close(self) -> None:
        """Stops all notifications."""
        self._tellers.shutdown(wait=False, cancel_futures=True)

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 - name from the protocol
        """Returns the state of a service."""
        with self._lock:
            state = self._states.get(request.service)
        if state is None:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            return health_pb2.HealthCheckResponse()
        return health_pb2.HealthCheckResponse(status=state)

    def Watch(  # noqa: N802 - name from the protocol
        self, request: Any, context: grpc.ServicerContext, send_response_callback: Callable[[Any], None]
    ) -> None:
        """Reports the state of a service now, and whenever it changes."""
        watch = _Watch(request.service, context, send_response_callback)
        oldest = None
        with self._lock:
            self._watches[context] = watch
            if len(self._watches) > MAX_WATCHES:
                oldest = next(iter(self._watches))
                del self._watches[oldest]
        if oldest is not None:
            oldest.cancel()
        if not context.add_callback(lambda: self._forget(context)):
            self._forget(context)
            return
        refusal = ""
        try:
            self._tell(watch)
        except ResourceExhaustedTransient as error:
            refusal = str(error)
        if refusal:
            abort(context, ResourceExhaustedTransient(refusal))

    # Makes gRPC pass a send callback instead of iterating in a thread until the stream ends.
    Watch.experimental_non_blocking = True  # type: ignore[attr-defined]

    def _tell(self, watch: _Watch) -> None:
        with watch.lock:
            with self._lock:
                state = self._states.get(watch.service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if state != watch.told:
                watch.told = state
                with self._telling.open(None, watch.context):
                    watch.send(health_pb2.HealthCheckResponse(status=state))

    def _forget(self, context: grpc.ServicerContext) -> None:
        with self._lock:
            self._watches.pop(context, None)
