"""Tests of finding out whether clients wait for their answers or have left."""

import asyncio

import pytest
from support.sweeps import sweep

from neurald.service.inference.server.http import presence_check
from neurald.service.inference.server.http.presence_check import PresenceCheck


class Sent:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        """Keeps what is sent."""
        self.data += data


_HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


async def sent_in(seconds: float, *, answers: int) -> bytes:
    """Returns what a client gets that waits for this long for each of some answers."""
    sent = Sent()
    presence = PresenceCheck(sent, asyncio.get_running_loop())
    presence.begin()
    for _ in range(answers):
        await asyncio.sleep(seconds)
        presence.begin()  # says the same again
        sent.write(presence.rest_of(_HEAD))
        await asyncio.sleep(seconds)
        presence.answered()
    presence.end()
    await asyncio.sleep(seconds)
    return sent.data


@sweep("answers", [1, 3])
@sweep("seconds", [0.0, 0.03, 0.3])
def test_a_client_gets_its_answers_and_nothing_else(seconds: float, answers: int) -> None:
    assert asyncio.run(sent_in(seconds, answers=answers)) == _HEAD * answers


def test_bytes_are_sent_ahead_until_the_answer_may_be_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence_check, "_FACTOR", 1)

    async def waits() -> list[bytes]:
        sent = Sent()
        presence = PresenceCheck(sent, asyncio.get_running_loop())
        presence.begin()
        seen = [sent.data]
        async with asyncio.timeout(60):
            while len(sent.data) < len("HTTP/1.1 "):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # ten times as long as it takes to the next byte
        return [*seen, sent.data]

    assert asyncio.run(waits()) == [b"H", b"HTTP/1.1 "]


def test_nothing_is_sent_to_clients_that_may_send_more() -> None:
    async def answered() -> bytes:
        sent = Sent()
        presence = PresenceCheck(sent, asyncio.get_running_loop())
        sent.write(presence.rest_of(_HEAD))
        presence.answered()
        await asyncio.sleep(0.05)
        return sent.data

    assert asyncio.run(answered()) == _HEAD
