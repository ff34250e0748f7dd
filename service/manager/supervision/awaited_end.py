"""The end of a process of a driver, which others wait for."""

import asyncio


class AwaitedEnd:
    """The end of a process of a driver, if one is about to end.

    Attributes:
        reason: why it ends; empty if it does not.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._is_over = asyncio.Event()
        self._is_over.set()

    def begin(self, reason: str) -> None:
        """Notes that the process does not serve any more, and ends at once."""
        self.reason = reason
        self._is_over.clear()

    def finish(self) -> None:
        """Notes that the process has ended, or that its end concerns nobody any more."""
        self.reason = ""
        self._is_over.set()

    async def wait(self, within_s: float) -> bool:
        """Waits until no process is about to end; returns whether that is so within a time."""
        try:
            async with asyncio.timeout(within_s):
                return await self._is_over.wait()
        except TimeoutError:
            return False
