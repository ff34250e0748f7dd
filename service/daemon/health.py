"""Implements the standard health service so that slow watchers cannot block other callers.

gRPC's own servicer holds its lock while it sends, and waits until the message is sent, which
depends on a client that may not read. If another watch ends in the meantime, it deadlocks, because
the thread that serves all calls needs the lock to end a watch.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from neurald.hal.admission.calls.streams import StreamLimiter
from neurald.hal.errors import ResourceExhaustedTransient
from neurald.hal.rpc.transport.status import abort

#: Maximum number of watches; a further one cancels the oldest.
MAX_WATCHES = 64
#: Number of threads that notify watches, and the time limit for one notification.
_NOTIFIER_THREADS = 4
_MAX_NOTIFICATION_S = 10.0
_GRACE_S = 0.25


class _HealthWatch:
    """A client that is notified of every change of a service's state."""

    __slots__ = ("context", "is_queued", "lock", "send", "sent_state", "service")

    def __init__(self, service: str, context: grpc.ServicerContext, send: Callable[[Any], None]) -> None:
        self.service = service
        self.context = context
        self.send = send
        self.lock = threading.Lock()
        self.sent_state: int | None = None
        # Whether a notifier will report the state that it finds then. Guarded by the lock of
        # `Health`.
        self.is_queued = False


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Reports whether services work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, int] = {}
        # The watches by call, in the order of arrival.
        self._watches: dict[grpc.ServicerContext, _HealthWatch] = {}
        self._streams = StreamLimiter(limit=MAX_WATCHES, patience_s=_MAX_NOTIFICATION_S, grace_s=_GRACE_S)
        self._notifiers = ThreadPoolExecutor(_NOTIFIER_THREADS, thread_name_prefix="neurald health")

    def set(self, service: str, state: int) -> None:
        """Changes the state of a service. Its watches are notified asynchronously."""
        with self._lock:
            self._states[service] = state
            for watch in self._watches.values():
                # Otherwise changes that come faster than notifications would queue up without
                # limit.
                if watch.service == service and not watch.is_queued:
                    watch.is_queued = True
                    self._notifiers.submit(self._notify, watch)

    def close(self) -> None:
        """Stops all notifications."""
        self._notifiers.shutdown(wait=False, cancel_futures=True)

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
        watch = _HealthWatch(request.service, context, send_response_callback)
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
            self._notify(watch)
        except ResourceExhaustedTransient as error:
            refusal = str(error)
        if refusal:
            abort(context, ResourceExhaustedTransient(refusal))

    # Makes gRPC pass a send callback instead of iterating in a thread until the stream ends.
    Watch.experimental_non_blocking = True  # type: ignore[attr-defined]

    def _notify(self, watch: _HealthWatch) -> None:
        with watch.lock:
            with self._lock:
                watch.is_queued = False
                state = self._states.get(watch.service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if state != watch.sent_state:
                watch.sent_state = state
                with self._streams.open(None, watch.context):
                    watch.send(health_pb2.HealthCheckResponse(status=state))

    def _forget(self, context: grpc.ServicerContext) -> None:
        with self._lock:
            self._watches.pop(context, None)
