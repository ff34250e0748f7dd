"""The outcome of the restart of a driver, for the operators who wait for it."""

import asyncio

from neurald.service.manager.control import Done


class AwaitedRestart:
    """The restart of a driver that is under way, if there is one, and who waits for its end.

    Args:
        name: the name of the driver.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: list[asyncio.Future[Done]] = []

    def outcome(self) -> "asyncio.Future[Done]":
        """Returns what will come of it."""
        found: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._waiting.append(found)
        return found

    def succeeded(self, text: str) -> None:
        """Tells that it has ended well."""
        self._ended(Done(text=f"{self._name}: {text}"))

    def failed(self, reason: str) -> None:
        """Tells that it has failed."""
        self._ended(Done(f"{self._name}: {reason}"))

    def _ended(self, done: Done) -> None:
        for each in self._waiting:
            each.set_result(done)
        self._waiting.clear()
