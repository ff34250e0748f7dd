"""Errors at the end of a connection: the cause that `Watch` tells comes first."""

import threading
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from neurald.hal.errors import SESSION_OVER, DeadObject, ResultCode, Withdrawn
from neurald.hal.rpc.client import connection_life
from neurald.hal.rpc.client.connection_life import ConnectionLife


class _Call:
    """A gRPC call that has ended, or that ends when told."""

    def __init__(self, code: grpc.StatusCode, details: str = "", result: ResultCode | None = None) -> None:
        self._code, self._details = code, details
        self._result = result
        self._callbacks: list[Callable[[Any], None]] = []

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        result = self._result
        if result is None:
            return ()

        number = str(int(result))

        class Item:
            key, value = "neurald-code", number

        return (Item,)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def end(self) -> None:
        for callback in self._callbacks:
            callback(self)


LOST = _Call(grpc.StatusCode.UNAVAILABLE, "Socket closed")
UNKNOWN_SESSION = _Call(
    grpc.StatusCode.UNAUTHENTICATED, "it is of another daemon, or the session is over", ResultCode.DEAD_OBJECT
)


def test_a_call_that_is_lost_before_the_end_of_the_daemon_is_known_was_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_life, "_CAUSE_WAIT_S", 60.0)
    life = ConnectionLife("the daemon")
    watch = _Call(grpc.StatusCode.OK)
    life.watch(watch)
    timer = threading.Timer(0.2, watch.end)
    timer.start()
    life.lose(LOST)
    assert life.was_stopped
    assert isinstance(life.death("Execute"), Withdrawn)
    timer.join()


def test_a_daemon_that_died_did_not_withdraw() -> None:
    life = ConnectionLife("the daemon")
    watch = _Call(grpc.StatusCode.UNAVAILABLE, "Socket closed")
    life.watch(watch)
    watch.end()
    life.lose(LOST)
    assert type(life.death("Execute")) is DeadObject
    unwatched = ConnectionLife("the daemon")
    unwatched.lose(LOST)
    assert type(unwatched.death()) is DeadObject


def test_another_daemon_that_does_not_know_the_session_began_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_life, "_CAUSE_WAIT_S", 0.05)
    life = ConnectionLife("the daemon")
    life.watch(_Call(grpc.StatusCode.OK))
    life.lose(UNKNOWN_SESSION)
    death = life.death("Execute")
    assert isinstance(death, Withdrawn)
    assert "was replaced by another one" in str(death)


def test_a_session_that_ended_before_it_was_watched_was_withdrawn() -> None:
    life = ConnectionLife("the daemon")
    watch = _Call(grpc.StatusCode.UNAVAILABLE, SESSION_OVER, ResultCode.DEAD_OBJECT)
    life.watch(watch)
    watch.end()
    assert life.was_stopped
    assert isinstance(life.death("Execute"), Withdrawn)


@pytest.mark.timeout(60)
def test_finalizers_remove_callbacks_at_any_time() -> None:
    """A finalizer runs in a thread that may hold the lock, or that calls the callbacks."""
    life = ConnectionLife("the daemon")
    called: list[str] = []
    forget = life.call_at_end(lambda: called.append("forgotten"))
    with life._lock:
        forget()
    forgets: list[Callable[[], None]] = []

    def forget_all() -> None:
        for each in forgets:
            each()

    forgets.extend(life.call_at_end(forget_all) for _ in range(3))
    life.call_at_end(lambda: called.append("kept"))
    life.end("has ended")
    assert called == ["kept"]


@pytest.mark.timeout(60)
def test_nobody_waits_for_a_cause_that_nothing_will_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_life, "_CAUSE_WAIT_S", 1000.0)
    connecting, older = ConnectionLife("the daemon"), ConnectionLife("the daemon")
    watch = _Call(grpc.StatusCode.UNIMPLEMENTED)
    older.watch(watch)
    watch.end()
    for life in (connecting, older):
        assert "is gone" in str(life.death(otherwise="is gone"))
        life.lose(LOST)
        assert life.is_over
