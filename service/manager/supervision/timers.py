"""Timers that have names: a timer takes the place of another one of its name."""

import asyncio
from collections.abc import Callable


class NamedTimers:
    """Timers of one event loop, each with a name.

    Args:
        loop: in which they act.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._handles

    def arm(self, name: str, after_s: float, action: Callable[[], object]) -> None:
        """Takes an action after some time, unless the timer is cancelled or armed again before."""

        def act() -> None:
            # A later timer of this name would have cancelled this one.
            del self._handles[name]
            action()

        self.cancel(name)
        self._handles[name] = self._loop.call_later(after_s, act)

    def cancel(self, name: str) -> None:
        """Cancels a timer, if there is one of this name."""
        if (handle := self._handles.pop(name, None)) is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        """Cancels all timers."""
        for name in tuple(self._handles):
            self.cancel(name)
