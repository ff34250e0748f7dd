"""Starts the front end beside a service manager, watches it, and starts it again when it dies."""

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.decoding import from_json
from neurald.hal.errors import BadState
from neurald.hal.process.autostart import AUTOSTART_VARIABLE
from neurald.hal.process.orphans import ORPHANS
from neurald.hal.process.own_program import own_program
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.wording import counted, listed
from neurald.service.inference.server.front_end_report import FrontEndReport
from neurald.service.inference.server.settings import ServiceSettings
from neurald.service.logs.setup import notice
from neurald.service.manager.state import ServiceStatus
from neurald.service.manager.supervision.restart_policy import RestartPolicy

logger = logging.getLogger(__name__)

_START_S: Final = 60.0
_GRACE_S: Final = 5.0
#: The longest report of a front end, which describes all of its models.
_MAX_LINE_BYTES: Final = 1 << 23
_PAUSE_IN_QUARANTINE_S: Final = 30.0


class SupervisedFrontEnd:
    """The front end as a companion of the service manager. Belongs to one event loop.

    Args:
        settings: the settings of the service.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._policy = RestartPolicy()
        self._process: Process | None = None
        self._pidfd: int | None = None
        self._status = ServiceStatus(process=None)
        #: What clients have chosen, which the next front end is given.
        self._choices = settings.choices
        self._watching: asyncio.Task[None] | None = None
        self._was_ready = False

    def status(self) -> ServiceStatus:
        """Describes the service as the front end has last described itself."""
        return self._status

    async def start(self) -> None:
        """Starts the front end; returns when it listens, perhaps before its models are loaded.

        Raises:
            BadState: it cannot listen, or a setting is not valid.
        """
        listens = asyncio.get_running_loop().create_future()
        self._watching = asyncio.create_task(self._watch(listens))
        try:
            async with asyncio.timeout(_START_S):
                await listens
        except TimeoutError:
            raise BadState(f"the execution service did not start within {_START_S:g} s") from None

    async def stop(self) -> None:
        """Stops the front end once its running requests have ended."""
        watching, self._watching = self._watching, None
        process = self._process
        if process is not None and process.returncode is None:
            self._signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(self._settings.drain_s + _GRACE_S):
                    await process.wait()
            except TimeoutError:
                self.kill()
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def kill(self) -> None:
        """Ends the front end at once; its workers end with it."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """Sends the front end a signal if it is there.

        `Process.send_signal` waits for a process that has just ended, so that asyncio cannot tell
        how it has ended any more.
        """
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    async def _watch(self, listens: "asyncio.Future[None]") -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            # That of the process before is not the reason if this one ends without a word.
            self._status = msgspec.structs.replace(self._status, failure="")
            with ORPHANS.starting():
                process = self._process = await asyncio.create_subprocess_exec(
                    *own_program("neurald.service.inference.server.program", str(os.getpid())),
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=None,
                    env={**os.environ, AUTOSTART_VARIABLE: "0"},
                    start_new_session=True,
                    limit=_MAX_LINE_BYTES,
                )
                ORPHANS.started(process.pid)
            with self._signals_to(process):
                await self._listen_to(process, listens)
                self.kill()
                status = await process.wait()
            ORPHANS.ended(process.pid)
            failure = self._status.failure
            self._status = ServiceStatus(process=None, failure=failure)
            if not listens.done():
                reason = f": {failure}" if failure else f" (status {status}); its log says why"
                listens.set_exception(BadState(f"the execution service could not be started{reason}"))
                return
            if self._watching is None:
                return
            text = "the execution service ended with status %d%s, and is started again"
            reason = f" ({failure})" if failure else ""
            note_event(CountedEvent.RESTART, "execution service", logger.error, text, status, reason)
            pause_s = self._policy.died(loop.time(), loop.time() - began_s)
            await asyncio.sleep(_PAUSE_IN_QUARANTINE_S if pause_s is None else pause_s)

    @contextlib.contextmanager
    def _signals_to(self, process: Process) -> Iterator[None]:
        """Lets the front end receive signals in the block."""
        with contextlib.suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(process.pid)
        try:
            yield
        finally:
            pidfd, self._pidfd = self._pidfd, None
            if pidfd is not None:
                os.close(pidfd)

    async def _listen_to(self, process: Process, listens: "asyncio.Future[None]") -> None:
        """Gives the front end its settings, and reads what it says until it says no more."""
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        settings = msgspec.structs.replace(self._settings, choices=self._choices)
        with contextlib.suppress(ConnectionError):
            process.stdin.write(msgspec.json.encode(settings) + b"\n")
            await process.stdin.drain()
        with contextlib.suppress(ConnectionError):
            while line := await self._line(process.stdout):
                self._told(line)
                if not listens.done() and not self._status.failure:
                    listens.set_result(None)

    async def _line(self, output: asyncio.StreamReader) -> bytes:
        """Returns the next line; nothing at the end, or if the line is too long to be read."""
        try:
            return await output.readline()
        except ValueError:
            logger.error(
                "the execution service reports more than %d bytes in one line; it is ended", _MAX_LINE_BYTES
            )
            return b""

    def _told(self, line: bytes) -> None:
        try:
            report = from_json(line, FrontEndReport)
        except DECODE_ERRORS as error:
            logger.error("the execution service says what is not understood: %s", error)
            return
        self._choices = report.choices or self._choices
        self._status = report.status or self._status
        if self._status.is_ready and not self._was_ready:
            served = sum(each.is_ready for each in self._status.models)
            notice(f"serving {counted(served, 'model')}{_places(self._status.addresses)}")
        self._was_ready = self._status.is_ready


def _places(addresses: Mapping[str, str]) -> str:
    """Returns the end of a sentence about where a service listens, by protocol."""
    others = {protocol: address for protocol, address in addresses.items() if protocol != "web"}
    places = [f"{protocol.upper()} at {address}" for protocol, address in others.items()]
    page = [f"the live page is http://{addresses['web']}"] if "web" in addresses else []
    return "; ".join([f" over {listed(places)}" if places else "", *page])
