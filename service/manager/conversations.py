"""Limits the conversations with clients at a socket, so that no user takes the room of others.

Each conversation takes a descriptor of the manager, which needs some to start drivers.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from neurald.hal.process.peer import peer_of

_POLL_S: Final = 0.01


class ConversationLimit:
    """Counts conversations.

    Args:
        total: how many there may be.
        of_user: how many of them one user may have.
    """

    def __init__(self, *, total: int, of_user: int) -> None:
        self._total = total
        self._of_user = of_user
        self._users: Counter[int] = Counter()
        self._waiting: Counter[int] = Counter()

    async def wait_for_room(self, writer: asyncio.StreamWriter, within_s: float) -> None:
        """Waits until a conversation may be had, unless as many wait as may have one.

        Many clients that only look whether somebody serves the socket take all room for a moment.

        Args:
            writer: the writer of the conversation.
            within_s: how long to wait.
        """
        try:
            user = peer_of(writer.get_extra_info("socket")).user
        except OSError:  # the client has gone
            return
        if self._waiting[user] >= self._of_user or self._waiting.total() >= self._total:
            return
        self._waiting[user] += 1
        try:
            async with asyncio.timeout(within_s):
                while not self._has_room(user):
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return
        finally:
            self._waiting[user] -= 1
            if not self._waiting[user]:
                del self._waiting[user]

    def _has_room(self, user: int) -> bool:
        return self._users[user] < self._of_user and self._users.total() < self._total

    @contextlib.contextmanager
    def counted(self, writer: asyncio.StreamWriter) -> Iterator[bool]:
        """Counts a conversation during the block, and closes it afterwards.

        Yields:
            Whether it may be had.
        """
        try:
            user = peer_of(writer.get_extra_info("socket")).user
        except OSError:  # the client has gone
            writer.close()
            yield False
            return
        is_allowed = self._has_room(user)
        if is_allowed:
            self._users[user] += 1
        try:
            yield is_allowed
        finally:
            if is_allowed:
                self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]
            writer.close()
