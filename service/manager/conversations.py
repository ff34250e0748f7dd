"""Limits the conversations with clients at a socket, so that no user takes the room of others.

Each conversation takes a descriptor of the manager, which needs some to start drivers.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

from neurald.hal.process.peer import peer_of


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
        is_allowed = self._users[user] < self._of_user and self._users.total() < self._total
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
