"""Conversations are counted for each user, and closed whether they were allowed or not."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from neurald.service.manager import conversations
from neurald.service.manager.conversations import ConversationLimit


class Writer:
    """The part of `asyncio.StreamWriter` that a conversation uses."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.is_closed = False

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self._connection

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def writers() -> Iterator[list[Any]]:
    with contextlib.ExitStack() as cleanup:
        pairs = [[cleanup.enter_context(each) for each in socket.socketpair()] for _ in range(6)]
        yield [Writer(pair[0]) for pair in pairs]


def test_a_user_has_a_share(writers: list[Any]) -> None:
    limit = ConversationLimit(total=5, of_user=2)
    with contextlib.ExitStack() as stack:
        allowed = [stack.enter_context(limit.counted(writer)) for writer in writers[:3]]
        assert allowed == [True, True, False]
    assert all(writer.is_closed for writer in writers[:3])
    with limit.counted(writers[3]) as is_allowed:
        assert is_allowed


def test_all_users_together(writers: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    users = iter(range(10, 16))

    class Other:
        def __init__(self, connection: socket.socket) -> None:
            self.user = next(users)

    monkeypatch.setattr(conversations, "peer_of", Other)
    limit = ConversationLimit(total=4, of_user=2)
    with contextlib.ExitStack() as stack:
        allowed = [stack.enter_context(limit.counted(writer)) for writer in writers]
    assert allowed == [True] * 4 + [False] * 2


def test_a_client_that_has_gone(writers: list[Any]) -> None:
    limit = ConversationLimit(total=1, of_user=1)
    os.close(writers[0].get_extra_info("socket").detach())
    with limit.counted(writers[0]) as is_allowed:
        assert not is_allowed
    assert writers[0].is_closed
    with limit.counted(writers[1]) as is_allowed:
        assert is_allowed


def test_an_error_ends_a_conversation(writers: list[Any]) -> None:
    limit = ConversationLimit(total=1, of_user=1)
    with pytest.raises(ValueError, match="of the block"), limit.counted(writers[0]):
        raise ValueError("of the block")
    with limit.counted(writers[1]) as is_allowed:
        assert is_allowed


def test_one_more_waits_for_room(writers: list[Any]) -> None:
    limit = ConversationLimit(total=5, of_user=2)

    async def converse(writer: Any, taken_s: float, within_s: float) -> bool:
        await limit.wait_for_room(writer, within_s)
        with limit.counted(writer) as is_allowed:
            await asyncio.sleep(taken_s if is_allowed else 0)
            return is_allowed

    async def all_of_them(within_s: float) -> list[bool]:
        return await asyncio.gather(*(converse(writer, 0.2, within_s) for writer in writers))

    # Two wait while two converse; the others are refused.
    assert asyncio.run(all_of_them(10.0)) == [True, True, True, True, False, False]
    assert asyncio.run(all_of_them(0.01)) == [True, True, False, False, False, False]
    with limit.counted(writers[0]) as is_allowed:
        assert is_allowed
