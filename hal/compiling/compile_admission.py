"""Decides which model a daemon compiles next when more are waiting than it may compile at once."""

import contextlib
from collections.abc import Iterator
from typing import Final

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.executions.admission_queue import AdmissionQueue
from neurald.hal.admission.sessions.session import Session
from neurald.hal.model.types import Priority
from neurald.hal.sync.cancellation import Cancellation

#: A compilation that takes longer no longer counts for other clients, so that theirs can start
#: beside it.
_LONG_S: Final = 5.0
#: How many compilations may run beyond the limit while others take that long.
_EXTRA_SLOTS: Final = 2


class CompileAdmission:
    """Admits compilations, up to the limit at the same time. Thread-safe.

    Users get shares by their weights, and the sessions of one user equal ones.

    Args:
        limits: `compilers` says how many run at the same time, and `weights` are those of users.
    """

    def __init__(self, limits: Limits) -> None:
        self._queue = AdmissionQueue(
            limits.compilers,
            long_s=_LONG_S,
            max_running=limits.compilers + _EXTRA_SLOTS,
            what="compilations",
            weights=dict(limits.weights),
        )

    @property
    def waiting(self) -> int:
        """The number of models that wait."""
        return self._queue.waiting

    @contextlib.contextmanager
    def slot(
        self,
        session: Session,
        priority: Priority,
        deadline_s: float | None,
        cancellation: Cancellation | None,
    ) -> Iterator[Cancellation]:
        """Waits until a model may be compiled, and holds its slot for the duration of the context.

        Args:
            session: the session of the client whose model it is.
            priority: the priority of the model.
            deadline_s: the deadline on the clock of `time.monotonic()`; None for no limit.
            cancellation: the cancellation of the client; None if it cannot cancel.

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
