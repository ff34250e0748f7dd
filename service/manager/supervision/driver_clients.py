"""The clients of a driver that does not serve: what they are told, and who of them waits."""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from neurald.hal.admission.access.sharing import Sharing
from neurald.hal.open_file_limit import system_reason
from neurald.hal.process.activation import READY as READY_LINE
from neurald.hal.process.activation import REFUSED, STANDBY, UNABLE
from neurald.hal.process.peer import Peer
from neurald.service.manager.state import DriverState
from neurald.service.manager.supervision.awaited_end import AwaitedEnd
from neurald.service.manager.supervision.driver_record import DriverRecord
from neurald.service.manager.supervision.restart_policy import RestartPolicy
from neurald.service.manager.supervision.standby_socket import StandbySocket
from neurald.service.manager.supervision.waiting_clients import WaitingClients, refusal

#: A client waits for the end of a pause that is at most this long; otherwise it is told to come
#: back, so that its call can go elsewhere.
_MAX_WAIT_S: Final = 0.5


class DriverClients:
    """Listens in place of a driver's process, and answers its clients.

    Args:
        record: the state of the driver.
        policy: knows the pause after a death.
        end: the end of its process.
        start: starts the driver.
        path: the path of its socket.
        sharing: whom it serves.
        received: a socket at which a supervisor listens for its clients; None for an own one.
    """

    def __init__(
        self,
        record: DriverRecord,
        policy: RestartPolicy,
        end: AwaitedEnd,
        start: Callable[[], None],
        *,
        path: Path,
        sharing: Sharing,
        received: socket.socket | None,
    ) -> None:
        self._record, self._policy, self._end, self._start = record, policy, end, start
        self._sharing = sharing
        self._standby = StandbySocket(
            path, self._activate, self._describe, self._refusal, sharing.socket_mode, received
        )
        self._waiting = WaitingClients()
        self._closing_reason = ""

    def __bool__(self) -> bool:
        """Returns whether clients wait for a start that is under way."""
        return bool(self._waiting)

    def share(self, sharing: Sharing) -> None:
        """Changes whom the driver serves."""
        self._sharing = sharing
        self._standby.set_mode(sharing.socket_mode)

    async def listen(self) -> bool:
        """Listens at the driver's socket; see `StandbySocket.open`."""
        return await self._standby.open()

    async def stand_in(self) -> None:
        """Listens in place of the process, unless a successor listens by now."""
        if self._record.state is DriverState.READY and not self._closing_reason:
            return
        try:
            await self._standby.open()
        except OSError as error:
            self._record.log(f"its socket cannot be opened: {system_reason(error)}")

    def wait_for_start(self) -> None:
        """Lets clients wait for a start that begins."""
        self._waiting.begin()

    def hand_over(self) -> None:
        """Leaves the socket and all clients to a process that has replaced the socket."""
        self._standby.close()
        self._waiting.give(READY_LINE)

    def refuse(self, reason: str) -> None:
        """Refuses the clients that wait."""
        self._waiting.refuse(reason)

    def refuse_after_death(self) -> None:
        """Refuses the clients that wait, since the process died."""
        self._waiting.give(self._refusal_of_death(self._record.reason))

    def refuse_all(self, reason: str) -> None:
        """Refuses all clients from now on, since the manager ends."""
        self._closing_reason = reason
        self._waiting.refuse(reason)

    def close(self) -> None:
        """Removes the socket."""
        self._standby.close(removes=True)

    def _describe(self) -> bytes:
        """Returns the line for a client that asks whether the driver starts when it is needed."""
        if self._closing_reason:
            return refusal(self._closing_reason)
        if self._record.state in (DriverState.BACKOFF, DriverState.QUARANTINED) or (
            self._record.state is DriverState.STARTING and self._policy.deaths
        ):
            return self._refusal_of_death(self._record.reason or "it died and is being started again")
        return STANDBY

    def _refusal_of_death(self, reason: str) -> bytes:
        """Returns the line for a client that the last death of the driver's process concerns."""
        return refusal(reason, UNABLE if self._record.is_unable else REFUSED)

    def _refusal(self, peer: Peer) -> bytes:
        """Returns the line for a client that is not served; empty for one that is."""
        reason = self._sharing.refusal(peer)
        if not reason:
            return b""
        self._record.refusals += 1
        self._record.log(f"a client was refused: {reason}", logging.WARNING)
        return refusal(reason)

    async def _activate(self) -> bytes:
        """Starts the driver unless it runs; returns the line for the client that needs it."""
        if self._closing_reason:
            # Connections that end with the process may come back at once.
            return refusal(self._closing_reason)
        # The end of a process that does not serve follows at once.
        if self._end.reason and not await self._end.wait(_MAX_WAIT_S):
            return refusal(self._end.reason)
        if self._record.state is DriverState.QUARANTINED:
            return self._refusal_of_death(
                f"{self._record.reason}; `neurald restart {self._record.name}` starts it again"
            )
        if self._record.state is DriverState.BACKOFF:
            left_s = self._policy.pause_left_s(asyncio.get_running_loop().time())
            if left_s > _MAX_WAIT_S:
                return self._refusal_of_death(
                    f"{self._record.reason}; it can be started again in {left_s:.1f} s"
                )
            await asyncio.sleep(left_s)
        if self._record.state is DriverState.DRAINING:
            # It will be listening for its successor's clients all the time.
            self._record.enter(DriverState.STOPPED, self._record.reason)
        if self._record.state in (DriverState.STOPPED, DriverState.BACKOFF):
            self._start()
        if self._record.state is DriverState.READY:
            return READY_LINE
        return await self._waiting.answer() or refusal(self._record.reason or "it stops")
