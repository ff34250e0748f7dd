"""Which model a daemon compiles next when more are waiting than it compiles at the same time."""

import contextlib
from collections.abc import Iterator
from typing import Final

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.admission_queue import AdmissionQueue
from neurald.hal.admission.session import Session
from neurald.hal.model.types import Priority
from neurald.hal.sync.cancellation import Cancellation

#: After this long, a compilation no longer counts against other clients, so that theirs can start beside it.
_LONG_S: Final = 5.0
#: How many compilations may run beyond the limit, where others take that long.
_EXTRA: Final = 2


class CompileQueue:
    """Lets models be compiled at the same time, as many as the limits allow. Thread-safe.

    Users, and the sessions of one user, take turns.

    Args:
        limits: `compilers` says how many.
    """

    def __init__(self, limits: Limits) -> None:
        self._queue = AdmissionQueue(
            limits.compilers,
            long_s=_LONG_S,
            max_running=limits.compilers + _EXTRA,
            what="compilations",
        )

    @property
    def waiting(self) -> int:
        """How many models wait for their turn."""
        return self._queue.waiting

    @contextlib.contextmanager
    def turn(
        self,
        session: Session,
        priority: Priority,
        deadline_s: float | None,
        cancellation: Cancellation | None,
    ) -> Iterator[Cancellation]:
        """Waits for a turn and holds it.

        Args:
            session: of the client whose model it is.
            priority: of the model.
            deadline_s: on the clock of `time.monotonic()`; None for no limit.
            cancellation: of the client; None: it cannot cancel.

        Yields:
            A cancellation that the end of the session cancels, too.

        Raises:
            Cancelled: it was cancelled, or the session ended, while it waited.
            DeadObject: the session is over.
            MissedDeadlineTransient: the deadline passed while it waited.
        """
        stop = Cancellation()
        if cancellation is not None:
            cancellation.call_on_cancel(stop.cancel)
        with session.cancelling(stop):
            ticket = self._queue.acquire(
                priority, deadline_s, client=session.token, user=session.user, cancellation=stop
            )
            try:
                yield stop
            finally:
                self._queue.release(ticket)
