"""The clients that wait for the start of a driver, and the lines that they are told."""

import asyncio
from typing import Final

from neurald.hal.process.activation import REFUSED

_MAX_REASON_BYTES: Final = 2000


class WaitingClients:
    """Those that wait for a start that is under way, if there is one."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[bytes] | None = None

    def __bool__(self) -> bool:
        """Returns whether a start is under way."""
        return self._answer is not None

    def begin(self) -> None:
        """Lets clients wait from now on."""
        self._answer = asyncio.get_running_loop().create_future()

    async def answer(self) -> bytes | None:
        """Waits for the line for a client; returns None if no start is under way."""
        return None if self._answer is None else await asyncio.shield(self._answer)

    def refuse(self, reason: str) -> None:
        """Refuses all of them."""
        self.give(refusal(reason))

    def give(self, answer: bytes) -> None:
        """Answers all of them."""
        if self._answer is not None:
            self._answer.set_result(answer)
            self._answer = None


def refusal(reason: str, beginning: bytes = REFUSED) -> bytes:
    """Returns the line that tells a client why the driver does not start."""
    return beginning + " ".join(reason.split()).encode()[:_MAX_REASON_BYTES] + b"\n"
