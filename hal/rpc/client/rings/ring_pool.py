"""The rings that the calls of a connection share.

A ring is opened when a call finds none free, and closed once it has not been used for a while. A
call takes a ring for its duration, if possible one that knows its request, otherwise the one used
last. If all rings are in use, or a request cannot go through a ring, the call goes by gRPC.
"""

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import (
    BadState,
    Cancelled,
    DeadObject,
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
)
from neurald.hal.model.request import Request
from neurald.hal.process.fork import notice_fork
from neurald.hal.rpc.client.rings.ring import RemoteModel, Ring, RingRequest, is_for_rings
from neurald.hal.rpc.client.rings.ring_execution import RingExecution, SubmittedRun
from neurald.hal.rpc.client.rings.ring_peer import RingConnection

#: How many rings calls may share. Each takes a thread and three descriptors of the daemon.
MAX_RINGS: Final = 16
#: How long a ring stays open without calls.
IDLE_S: Final = 5.0
#: How long a call waits for one of `MAX_RINGS` rings before it goes by gRPC.
_WAIT_S: Final = 5e-3
#: How long calls go by gRPC after the daemon has refused a ring.
_REFUSED_S: Final = 1.0


class _Waiter:
    """A thread that waits for a ring. `ring` is set once `ready` can be acquired."""

    __slots__ = ("ready", "ring")

    def __init__(self) -> None:
        self.ready = threading.Lock()
        self.ready.acquire()
        self.ring: Ring | None = None


class RingPool:
    """Lends rings, each to one call at a time. Thread-safe.

    A signal handler or a finalizer may make a call while its thread is inside a method of the pool.
    So no lock is held here; each step is one atomic operation on a container.

    Args:
        connection: the connection to a daemon on this host. It owns the pool, so it is not kept
            alive.

    Attributes:
        takes_ongoing_requests: whether the daemon does, which one of an older version does not.
    """

    def __init__(self, connection: RingConnection) -> None:
        self._connection = weakref.ref(connection)
        #: The open rings by identity. What an interruption has lost ends with its last reference.
        self._open: dict[int, weakref.ref[Ring]] = {}
        self._free: list[Ring] = []  # the one that was used last is at the end
        self._waiting: deque[_Waiter] = deque()
        self._pending: dict[int, weakref.ref[RingExecution]] = {}
        self._refused_until = 0.0
        self._is_closed = False
        self.takes_ongoing_requests = False

    def __len__(self) -> int:
        """Returns the number of open rings."""
        return sum(ring() is not None for ring in tuple(self._open.values()))

    def execute(
        self,
        model: RemoteModel,
        request: Request,
        options: ExecuteOptions,
        *,
        is_ongoing: bool = False,
    ) -> ExecutionResult | None:
        """Runs a request through a ring.

        Args:
            model: the prepared model.
            request: the request for it.
            options: the options for the execution. They limit nothing if it is ongoing.
            is_ongoing: to send a new request with its execution, which takes one round trip less,
                if the daemon takes that. Its refusal is then an error, after which it may go by
                gRPC.

        Returns:
            The result; None if nothing was run, or a ring broke while the daemon lives, so that
                the request must go by gRPC.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        notice_fork()
        if options.attributes:  # a submission cannot hold them
            return None
        ring = self._take(request, options)
        if ring is None:
            return None
        try:
            bound = self._bound(ring, model, request, options, is_ongoing=is_ongoing)
            return None if bound is None else ring.run(bound, options)
        except DeadObject:
            if ring.is_usable or not self._is_connected:
                raise
            return None
        finally:
            self._give_back(ring)

    def submit(
        self,
        model: RemoteModel,
        request: Request,
        options: ExecuteOptions,
        run_instead: Callable[[], ExecutionResult],
    ) -> RingExecution | None:
        """Starts to run a request through a ring, and returns at once.

        Args:
            model, request, options: see `execute`.
            run_instead: runs the request in another way, if the ring breaks while the daemon lives.

        Returns:
            The execution, which uses the ring until its end has been waited for; None if
                nothing was started.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        notice_fork()
        connection = self._connection()
        if options.attributes or connection is None:
            return None
        ring = self._take(request, options)
        if ring is None:
            return None
        try:
            bound = self._bound(ring, model, request, options)
            if bound is None:
                self._give_back(ring)
                return None
            ring.submit(bound, options)
        except BaseException:
            self._give_back(ring)
            raise
        execution = RingExecution(
            SubmittedRun(
                ring=ring,
                bound=bound,
                options=options,
                give_back=self._give_back,
                run_again=lambda: run_instead() if self._is_connected else None,
                start_soon=connection.start_soon,
            )
        )
        pending, identity = self._pending, id(execution)
        pending[identity] = weakref.ref(execution, lambda _: pending.pop(identity, None))
        return execution

    @property
    def _is_connected(self) -> bool:
        connection = self._connection()
        return connection is not None and connection.is_open

    def _finish_pending(self) -> None:
        """Ends executions that the daemon has completed, and whose end no thread has waited for."""
        for reference in tuple(self._pending.values()):
            execution = reference()
            if execution is not None:
                with contextlib.suppress(BadState):  # the code that was interrupted here waits for it
                    execution.wait(0)

    def _bound(
        self,
        ring: Ring,
        model: RemoteModel,
        request: Request,
        options: ExecuteOptions,
        *,
        is_ongoing: bool = False,
    ) -> RingRequest | None:
        """Binds a request to a ring; returns None if that fails.

        Raises:
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline has passed.
            Cancelled: the execution was cancelled.
        """
        is_ongoing = is_ongoing and self.takes_ongoing_requests
        try:
            try:
                return ring.bind(model, request, options, is_ongoing=is_ongoing)
            except (ResourceExhaustedTransient, ResourceExhaustedPersistent):
                # The memory of earlier requests, which the daemon keeps for rings, may be too much.
                for other in tuple(self._free):
                    self._discard_free(other)
                ring.release_memories()
                return ring.bind(model, request, options, is_ongoing=is_ongoing)
        except (Cancelled, MissedDeadlineTransient, MissedDeadlinePersistent):
            raise
        except Error:
            return None  # gRPC reports it, if it is the request's fault

    def result(self, request: Request) -> ExecutionResult | None:
        """Returns the last result of a request, without timing; None if no free ring knows it."""
        results = (ring.result(request) for ring in reversed(self._free))
        return next((result for result in results if result is not None), None)

    def _take(self, request: Request, options: ExecuteOptions) -> Ring | None:
        """Returns a ring for exclusive use; None if the request must go by gRPC.

        Raises:
            MissedDeadlineTransient: the deadline passed while a ring was opened.
            Cancelled: the execution was cancelled meanwhile.
        """
        ring = self._take_known(request)
        if ring is not None:
            return ring
        if not is_for_rings(request):
            return None
        ring = self._take_free()
        if ring is not None:
            return ring
        if len(self) < MAX_RINGS:
            return self._opened(options)
        self._finish_pending()
        return self._awaited()

    def _take_known(self, request: Request) -> Ring | None:
        free = self._free
        for ring in reversed(free):
            if ring.knows(request):
                try:
                    free.remove(ring)
                except ValueError:  # another thread took it
                    continue
                return ring
        return None

    def _take_free(self) -> Ring | None:
        try:
            return self._free.pop()
        except IndexError:
            return None

    def _opened(self, options: ExecuteOptions) -> Ring | None:
        """Opens another ring; returns None if the daemon refuses it, now or a moment ago."""
        connection = self._connection()
        if connection is None or self._is_closed or time.monotonic() < self._refused_until:
            return None
        try:
            ring = Ring(connection, options.deadline_s, options.cancellation)
        except (Cancelled, MissedDeadlineTransient):
            raise
        except Error:
            self._refused_until = time.monotonic() + _REFUSED_S
            return None
        opened, identity = self._open, id(ring)
        opened[identity] = weakref.ref(ring, lambda _: opened.pop(identity, None))
        connection.tidy_soon()
        return ring

    def _awaited(self) -> Ring | None:
        """Waits for a moment until a ring is given back, in order of arrival."""
        waiter = _Waiter()
        self._waiting.append(waiter)
        ring = self._take_free()  # one that was given back in the meantime
        if ring is None and waiter.ready.acquire(timeout=_WAIT_S):
            return waiter.ring
        try:
            self._waiting.remove(waiter)
        except ValueError:  # it is being handed a ring
            waiter.ready.acquire()
            if ring is None:
                return waiter.ring
            if waiter.ring is not None:
                self._give_back(waiter.ring)
        return ring

    def _give_back(self, ring: Ring) -> None:
        if self._is_closed or not ring.is_usable:
            self._discard(ring)
            return
        ring.used_s = time.monotonic()
        try:
            waiter = self._waiting.popleft()
        except IndexError:
            self._free.append(ring)
            return
        waiter.ring = ring
        waiter.ready.release()

    def _discard(self, ring: Ring) -> None:
        self._open.pop(id(ring), None)
        ring.close()

    def _discard_free(self, ring: Ring) -> None:
        try:
            self._free.remove(ring)
        except ValueError:  # a call took it
            return
        self._discard(ring)

    def close_idle(self, idle_s: float = IDLE_S) -> bool:
        """Closes the rings that were not used for this long; returns whether any ring is open."""
        limit_s = time.monotonic() - idle_s
        for ring in tuple(self._free):
            if ring.used_s <= limit_s or not ring.is_usable:
                self._discard_free(ring)
        return bool(len(self))

    def close(self) -> None:
        """Closes the free rings at once, and those in use when they are given back."""
        self._is_closed = True
        self.close_idle(0.0)
