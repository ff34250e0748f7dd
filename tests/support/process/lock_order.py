"""Records the order in which threads take locks, and reports orders that contradict each other.

`PYTHONPATH=src:tests python -m pytest -p support.process.lock_order TESTS` prints, after the tests,
each pair of locks of which one was taken while the other was held, by the places where they are
made. It fails if pairs form a cycle: threads that take locks so may wait for each other for ever.
Only locks of the process of the tests are recorded, so it is run without `-n`.

Locks that another thread releases than the one that took them are signals, and do not count. Nor
do locks that nobody releases.
"""

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

_ROOT = Path(__file__).parents[3]
_PACKAGES = tuple(f"{_ROOT}/{name}/" for name in ("hal", "runtime", "drivers", "service"))
_LINKS = f"{_ROOT}/src/neurald/"
#: Make locks for others.
_MAKERS = (threading.__file__, "hal/process/fork.py")


class LockOrder:
    """Pairs of locks, and the locks that are signals."""

    def __init__(self) -> None:
        self.pairs: dict[str, set[str]] = defaultdict(set)
        self.signals: set[str] = set()
        self._released: set[str] = set()
        self._of_thread = threading.local()

    @property
    def _held(self) -> "list[RecordedLock]":
        """The locks that the calling thread holds."""
        held: list[RecordedLock] | None = getattr(self._of_thread, "held", None)
        if held is None:
            held = self._of_thread.held = []
        return held

    def wanted(self, lock: "RecordedLock") -> None:
        """Notes that a thread is about to wait for a lock."""
        held = self._held
        if lock not in held:
            for each in held:
                self.pairs[each.name].add(lock.name)

    def taken(self, lock: "RecordedLock") -> None:
        """Notes that a thread has got a lock."""
        self._held.append(lock)

    def given(self, lock: "RecordedLock") -> None:
        """Notes that a thread gives a lock back."""
        if lock in self._held:
            self._held.remove(lock)
            self._released.add(lock.name)
        else:
            self.signals.add(lock.name)

    def found(self) -> Mapping[str, set[str]]:
        """Returns the locks that were taken while each of the others was held."""
        counted = self._released - self.signals
        return {held: taken - self.signals for held, taken in self.pairs.items() if held in counted}

    def cycle(self) -> list[str]:
        """Returns locks of which each was held while the next one was taken, or an empty list.

        Locks that are made in the same place do not count: only their objects have an order.
        """
        found, done = self.found(), set[str]()

        def search(name: str, trail: list[str]) -> list[str]:
            if name in trail:
                return [*trail[trail.index(name) :], name]
            for each in sorted(found.get(name, set()) - {name}):
                cycle = [] if each in done else search(each, [*trail, name])
                if cycle:
                    return cycle
            done.add(name)
            return []

        return next(filter(None, (search(name, []) for name in sorted(found))), [])


class RecordedLock:
    """A lock whose use is recorded.

    Args:
        order: records it.
        name: the place where it is made.
        lock: the lock.
    """

    def __init__(self, order: LockOrder, name: str, lock: Any) -> None:
        self._order, self.name, self._lock = order, name, lock

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            self._order.wanted(self)
        is_taken: bool = self._lock.acquire(blocking, timeout)
        if is_taken:
            self._order.taken(self)
        return is_taken

    def release(self) -> None:
        self._lock.release()
        self._order.given(self)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __getattr__(self, name: str) -> Any:
        # What a condition needs of a reentrant lock, which it gives back while it waits.
        return getattr(self._lock, name)


def _maker() -> str:
    """Returns the place in the packages that makes a lock; empty if it is none of these."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith(_MAKERS):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return ""
    file = frame.f_code.co_filename.replace(_LINKS, f"{_ROOT}/")
    return f"{file.removeprefix(f'{_ROOT}/')}:{frame.f_lineno}" if file.startswith(_PACKAGES) else ""


def _recorded(order: LockOrder, make: Callable[[], Any]) -> Callable[[], Any]:
    def made() -> Any:
        name, lock = _maker(), make()
        return RecordedLock(order, name, lock) if name else lock

    return made


_order = LockOrder()


def pytest_configure() -> None:
    """Records the locks that are made from now on."""
    threading.Lock = _recorded(_order, threading.Lock)  # type: ignore[assignment]
    threading.RLock = _recorded(_order, threading.RLock)  # type: ignore[assignment]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if threads have taken locks in contradicting orders."""
    if _order.cycle():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the pairs."""
    terminalreporter.section("order of locks")
    for held, taken in sorted(_order.found().items()):
        for each in sorted(taken):
            terminalreporter.line(f"{held} -> {each}")
    if cycle := _order.cycle():
        terminalreporter.line("a cycle: " + " -> ".join(cycle), red=True)
