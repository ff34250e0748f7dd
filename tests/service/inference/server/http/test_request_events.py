"""Events of a request, in the order of ASGI."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from neurald.service.inference.server.http.request_events import RequestEvents


class Connection:
    """Notes whether anything may be received."""

    is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


def test_parts_are_passed_on_without_copies() -> None:
    async def run() -> None:
        events = RequestEvents(Connection())
        first = bytes(10)
        events.add(first)
        got = await events.receive()
        assert got["body"] is first
        assert got["more_body"]
        events.add(b"a")
        events.add(b"b")
        events.complete()
        assert await events.receive() == {"type": "http.request", "body": b"ab", "more_body": False}

    asyncio.run(run())


def test_an_event_that_is_there_needs_no_waiting() -> None:
    events = RequestEvents(Connection())
    assert events.next() is None
    events.add(b"a")
    assert events.next() == {"type": "http.request", "body": b"a", "more_body": True}
    assert events.next() is None
    events.gone()
    assert events.next() == {"type": "http.disconnect"}


def test_an_event_is_awaited() -> None:
    async def run() -> None:
        events = RequestEvents(Connection())
        cases: tuple[tuple[Callable[[], None], dict[str, Any]], ...] = (
            (partial(events.add, b"a"), {"type": "http.request", "body": b"a", "more_body": True}),
            (events.complete, {"type": "http.request", "body": b"", "more_body": False}),
        )
        for happen, expected in cases:
            receiving = asyncio.ensure_future(events.receive())
            await asyncio.sleep(0)
            assert not receiving.done()
            happen()
            assert await receiving == expected
        events = RequestEvents(Connection())
        receiving = asyncio.ensure_future(events.receive())
        await asyncio.sleep(0)
        events.gone()
        assert await receiving == {"type": "http.disconnect"}

    asyncio.run(run())


def test_no_more_is_held_than_may_be() -> None:
    async def run() -> None:
        connection = Connection()
        events = RequestEvents(connection)
        events.add(bytes(1 << 18))
        assert not connection.is_paused
        events.add(b"a")
        assert connection.is_paused
        await events.receive()
        receiving: asyncio.Future[Any] = asyncio.ensure_future(events.receive())
        await asyncio.sleep(0)
        assert not connection.is_paused
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        events.add(b"b")
        assert (await events.receive())["body"] == b"b"

    asyncio.run(run())


def test_who_waits_for_an_answer_is_told_that_the_client_has_left() -> None:
    told: list[bool] = []
    events = RequestEvents(Connection())
    events.on_gone = lambda: told.append(events.is_gone)
    events.gone()
    assert told == [True]
