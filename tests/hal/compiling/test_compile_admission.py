"""Models compiled in the daemon's own process are admitted in order, while clients live."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.sweeps import sweep
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.session import Session
from neurald.hal.compiling.compile_admission import CompileAdmission
from neurald.hal.errors import Cancelled, Error, MissedDeadlineTransient
from neurald.hal.model.types import Priority
from neurald.hal.sync.cancellation import Cancellation


class Compilations:
    """Holds compile slots until they are released, and records whose they were."""

    def __init__(self, queue: CompileAdmission) -> None:
        self._queue = queue
        self.go_on = threading.Event()
        self.begun: list[Session] = []

    def compile(self, session: Session, deadline_s: float | None = None) -> None:
        with self._queue.slot(session, Priority.MEDIUM, deadline_s, None):
            self.begun.append(session)
            assert self.go_on.wait(30)


def test_as_many_at_a_time_as_the_limit_says_and_sessions_take_turns() -> None:
    queue = CompileAdmission(Limits(compilers=1))
    compilations = Compilations(queue)
    greedy, modest = Session(Limits()), Session(Limits())
    with ThreadPoolExecutor(10) as threads:
        first = threads.submit(compilations.compile, greedy)
        wait_until(lambda: len(compilations.begun) == 1)
        others = [threads.submit(compilations.compile, greedy) for _ in range(6)]
        wait_until(lambda: queue.waiting == 6)
        last = threads.submit(compilations.compile, modest)
        wait_until(lambda: queue.waiting == 7)
        assert compilations.begun == [greedy]
        compilations.go_on.set()
        for each in (first, *others, last):
            each.result(30)
    assert modest in compilations.begun[1:3]


@sweep(
    ("end", "error"),
    [(Session.close, Cancelled), (lambda session: None, MissedDeadlineTransient)],
    ids=["session closed", "deadline"],
)
def test_nobody_waits_longer_than_the_client(end: Callable[[Session], None], error: type[Error]) -> None:
    queue = CompileAdmission(Limits(compilers=1))
    compilations = Compilations(queue)
    owner, waiter = Session(Limits()), Session(Limits())
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(compilations.compile, owner)
        wait_until(lambda: len(compilations.begun) == 1)
        second = threads.submit(compilations.compile, waiter, time.monotonic() + 0.3)
        wait_until(lambda: queue.waiting == 1)
        end(waiter)
        with pytest.raises(error):
            second.result(60)
        assert not queue.waiting
        compilations.go_on.set()
        first.result(60)


def test_the_end_of_a_session_cancels_what_is_compiled_for_it() -> None:
    queue, session = CompileAdmission(Limits()), Session(Limits())
    with queue.slot(session, Priority.MEDIUM, None, None) as stop:
        assert not stop.is_cancelled
        session.close()
        assert stop.is_cancelled


def test_the_client_can_cancel() -> None:
    queue, session, cancellation = CompileAdmission(Limits()), Session(Limits()), Cancellation()
    with queue.slot(session, Priority.MEDIUM, None, cancellation) as stop:
        cancellation.cancel()
        assert stop.is_cancelled
