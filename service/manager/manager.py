"""The service manager: owns the sockets of drivers, and supervises their processes."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

import msgspec

from neurald.hal.crashes.records import CrashRecords
from neurald.hal.decoding import from_json
from neurald.hal.errors import BadState, Error
from neurald.hal.open_file_limit import system_reason
from neurald.hal.process.activation import MANAGER_SOCKET
from neurald.hal.process.address import Address
from neurald.hal.process.autostart import starting_manager
from neurald.hal.process.files.own_file import OwnFile
from neurald.hal.process.files.runtime_directory import prepare_directory, runtime_directory
from neurald.hal.process.orphans import ORPHANS
from neurald.hal.process.peer import CREDENTIALS, described_user
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.wording import counted
from neurald.service.crashes.investigator import CrashInvestigator
from neurald.service.daemon.admitted_users import group_number
from neurald.service.daemon.notifications import (
    READY,
    STATUS,
    STOPPING,
    WATCHDOG,
    Notifier,
    supervisor_address,
    watchdog_interval_s,
)
from neurald.service.daemon.socket_files import (
    lock_socket,
    prepare_shared_directory,
    release_socket,
)
from neurald.service.logs.choices import NOTICE
from neurald.service.logs.formatters import DRIVER
from neurald.service.manager.control import (
    MAX_REQUEST_BYTES,
    Done,
    Forgiven,
    ForgiveRequest,
    Request,
    StatusRequest,
    may_control,
)
from neurald.service.manager.conversations import ConversationLimit
from neurald.service.manager.received_sockets import received_sockets
from neurald.service.manager.settings.configuration import Configuration, driver_sharing
from neurald.service.manager.state import ManagerStatus, ServiceStatus
from neurald.service.manager.supervision.driver_launcher import MANAGER_VARIABLE
from neurald.service.manager.supervision.standby_socket import bind_private, serve_unix
from neurald.service.manager.supervision.supervised_driver import SupervisedDriver

_LOG: Final = logging.getLogger(__name__)

_ANOTHER_MANAGER: Final = (
    "another service manager supervises drivers in {}, or starts or ends just now; `neurald status` shows its "
    "process, and SIGTERM stops it"
)
_NOTIFY_SOCKET: Final = "manager.notify"
_MAX_NOTIFICATION_BYTES: Final = 4096
#: How many notifications are read before the loop does other work.
_MAX_NOTIFICATIONS: Final = 64
_REQUEST_S: Final = 10.0
#: How many commands of operators are answered at the same time, of all users and of one.
_MAX_OPERATORS: Final = 64
_MAX_USER_OPERATORS: Final = 16
#: How long one more command waits for its turn.
_ROOM_S: Final = 2.0
#: How often what drivers leave behind is looked for at most, and at the end until when, or until so
#: many rounds have found none.
_ORPHANS_S: Final = 0.02
_LAST_ORPHANS_S: Final = 2.0
_ROUNDS_WITHOUT_ORPHANS: Final = 2
#: How often to check at most whether drivers are in use.
_MIN_IDLE_CHECK_S: Final = 0.05


class Companion(Protocol):
    """A process beside the drivers that the manager also starts, watches and stops."""

    async def start(self) -> None:
        """Starts it; raises Error if that is not possible."""

    async def stop(self) -> None:
        """Stops it, once its running requests have ended."""

    def kill(self) -> None:
        """Ends it at once."""

    def status(self) -> ServiceStatus:
        """Describes it."""


class Manager:
    """Supervises the drivers of a configuration in the runtime directory of this user.

    Args:
        configuration: what to supervise.
        reload: loads the configuration again, for SIGHUP.
        exit_when_idle_s: ends when no driver has run for this long; None never does.
        service: the execution service; None without.
    """

    def __init__(
        self,
        configuration: Configuration,
        reload: Callable[[], Configuration],
        *,
        exit_when_idle_s: float | None = None,
        service: Companion | None = None,
    ) -> None:
        self._service = service
        self._exit_when_idle_s = exit_when_idle_s
        self._busy_s = 0.0
        #: The file of its socket, once it listens.
        self._control: OwnFile | None = None
        self._configuration = configuration
        self._reload = reload
        self._directory = runtime_directory()
        self._drivers: dict[str, SupervisedDriver] = {}
        self._files: dict[str, contextlib.ExitStack] = {}
        self._received: dict[Path, socket.socket] = {}
        self._stops = asyncio.Event()
        self._operators = ConversationLimit(total=_MAX_OPERATORS, of_user=_MAX_USER_OPERATORS)
        self._investigator = CrashInvestigator(CrashRecords.of_user())
        #: What is given back when nothing else is left.
        self._ending = contextlib.ExitStack()
        self._orphans_timer: asyncio.TimerHandle | None = None

    async def run(self, ready: Callable[[str], None]) -> None:
        """Supervises until SIGTERM or SIGINT.

        Args:
            ready: the function that is called with the directory once the drivers can be used.

        Raises:
            BadData: the path of the directory is too long for sockets.
            BadState: another manager or daemon serves one of the sockets, or the directory is not
                safe, or what a supervisor passed is not valid.
        """
        Address.parse(f"unix://{self._directory / MANAGER_SOCKET}")  # must not be too long
        self._received = received_sockets()
        if self._configuration.system:
            prepare_shared_directory(self._directory, group_number(self._configuration.group))
        else:
            prepare_directory(self._directory)
        notifier = Notifier(supervisor_address())
        interval_s = watchdog_interval_s()
        ORPHANS.inherit(f"{MANAGER_VARIABLE}={os.getpid()}")
        with self._ending, contextlib.ExitStack() as cleanup:
            control = self._directory / MANAGER_SOCKET
            cleanup.enter_context(_locked(control, _ANOTHER_MANAGER.format(self._directory)))
            cleanup.enter_context(self._notifications())
            try:
                for name in self._configuration.drivers:
                    await self._add(name)
                listener = self._received.get(control)
                mode = int(self._configuration.socket_mode, 8)
                server = await serve_unix(self._serve_operator, listener or _listening(control, mode))
                self._control = OwnFile(control)
                cleanup.callback(self._control.remove if listener is None else self._control.forget)
                cleanup.callback(server.close)
                cleanup.enter_context(self._signals())
                cleanup.enter_context(_watchdog(notifier, interval_s))
                self._report_unused()
                if self._service is not None:
                    await self._service.start()
                ready(str(self._directory))
                notifier.send(**{READY: 1, STATUS: f"supervising {counted(len(self._drivers), 'driver')}"})
                self._busy_s = asyncio.get_running_loop().time()
                self._end_when_idle()
                await self._stops.wait()
                notifier.send(**{STOPPING: 1})
            finally:
                if self._service is not None:
                    await self._service.stop()
                await self._investigator.close()
                drivers = tuple(self._drivers)
                await asyncio.gather(*(self._remove(name, "the service manager stops") for name in drivers))
                await self._investigator.recorded()
                await self._end_orphans()
        notifier.close()

    def status(self) -> ManagerStatus:
        """Describes the manager and its drivers."""
        return ManagerStatus(
            process=os.getpid(),
            directory=str(self._directory),
            drivers=tuple(driver.status() for driver in self._drivers.values()),
            service=None if self._service is None else self._service.status(),
            is_of_application=self._exit_when_idle_s is not None,
        )

    def _report_unused(self) -> None:
        known = {
            self._directory / MANAGER_SOCKET,
            *(self._directory / f"{name}.sock" for name in self._drivers),
        }
        for path in self._received.keys() - known:
            _LOG.warning(
                "nothing serves the socket %s that the supervisor passed: no driver has its name", path
            )

    def _stop(self) -> None:
        """Stops; a second time without waiting for running calls."""
        if self._stops.is_set():
            if self._service is not None:
                self._service.kill()
            for driver in self._drivers.values():
                driver.kill()
        self._stops.set()

    def _end_orphans_soon(self) -> None:
        """Ends the processes that drivers leave behind. Each end may leave more of them."""
        if self._orphans_timer is None:
            self._orphans_timer = asyncio.get_running_loop().call_later(_ORPHANS_S, self._end_orphans_now)

    def _end_orphans_now(self) -> None:
        self._orphans_timer = None
        if ORPHANS.end():
            _LOG.log(NOTICE, "a process that a driver had left behind was ended")
        if ORPHANS.is_starting:
            self._end_orphans_soon()

    async def _end_orphans(self) -> None:
        """Ends all processes that drivers have left behind, which may take several rounds.

        While a process replaces its program it has no environment that tells whose it is, so that a
        round that has found none is repeated.
        """
        limit_s = time.monotonic() + _LAST_ORPHANS_S
        rounds_left = _ROUNDS_WITHOUT_ORPHANS
        while rounds_left and time.monotonic() < limit_s:
            rounds_left = _ROUNDS_WITHOUT_ORPHANS if ORPHANS.end() else rounds_left - 1
            if rounds_left:
                await asyncio.sleep(_ORPHANS_S)

    def _end_when_idle(self) -> None:
        """Ends the manager once it has been idle for long enough; calls itself until then.

        It also ends if its socket was removed or replaced, such as that of a user who has logged
        out, or by systemd: nobody can find it any more, and applications start another.
        """
        if self._exit_when_idle_s is None or self._stops.is_set():
            return
        if self._control is not None and not self._control.is_there:
            _LOG.warning("the sockets in %s have been removed or replaced", self._directory)
            self._stops.set()
            return
        loop = asyncio.get_running_loop()
        if not all(driver.is_idle for driver in self._drivers.values()):
            self._busy_s = loop.time()
        left_s = self._busy_s + self._exit_when_idle_s - loop.time()
        if left_s <= 0:
            with contextlib.ExitStack() as attempt:
                if attempt.enter_context(starting_manager(None)):
                    # Until its end, applications wait that need a manager, and then start one.
                    self._ending.enter_context(attempt.pop_all())
                    _LOG.info("no driver is in use")
                    self._stops.set()
                    return
        loop.call_later(max(_MIN_IDLE_CHECK_S, left_s / 4), self._end_when_idle)

    async def _add(self, name: str) -> None:
        settings = self._configuration.drivers[name]
        with contextlib.ExitStack() as files:
            # A daemon that somebody starts by hand is refused while the manager serves the socket.
            files.enter_context(_locked(self._directory / f"{name}.sock"))
            driver = SupervisedDriver(
                name,
                settings,
                driver_sharing(settings, self._configuration.socket_mode),
                self._directory,
                self._directory / _NOTIFY_SOCKET,
                self._investigator,
                self._received.get(self._directory / f"{name}.sock"),
            )
            try:
                await driver.open()
            except OSError as error:
                raise BadState(f"the socket of {name} cannot be opened: {system_reason(error)}") from None
            self._files[name] = files.pop_all()
        self._drivers[name] = driver

    async def _remove(self, name: str, reason: str) -> None:
        await self._drivers[name].close(reason)
        del self._drivers[name]
        self._files.pop(name).close()

    async def _reload_configuration(self) -> None:
        """Adds, removes and restarts drivers whose configuration has changed."""
        try:
            fresh = self._reload()
        except Error as error:
            _LOG.error("the configuration stays as it is: %s", error)
            return
        before, self._configuration = self._configuration, fresh
        for name in before.drivers.keys() - fresh.drivers.keys():
            await self._remove(name, "the configuration does not name it any more")
        for name, settings in fresh.drivers.items():
            try:
                if name not in self._drivers:
                    await self._add(name)
                elif settings != before.drivers.get(name) or fresh.socket_mode != before.socket_mode:
                    self._drivers[name].restart(settings, driver_sharing(settings, fresh.socket_mode))
            except (Error, OSError) as error:
                _LOG.error("%s", error, extra={DRIVER: name})
        if fresh.service != before.service:
            _LOG.warning("the execution service keeps its settings until `neurald serve` is started again")
        _LOG.log(NOTICE, "the configuration was loaded again")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

        def reload() -> None:
            task = loop.create_task(self._reload_configuration())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        handlers = {
            signal.SIGTERM: self._stop,
            signal.SIGINT: self._stop,
            signal.SIGHUP: reload,
            signal.SIGCHLD: self._end_orphans_soon,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            # Until all drivers have ended, a second signal ends them at once.
            loop.remove_signal_handler(signal.SIGHUP)

    @contextlib.contextmanager
    def _notifications(self) -> Iterator[None]:
        """Receives the notifications of drivers during the block."""
        path = self._directory / _NOTIFY_SOCKET
        try:
            receiver = bind_private(path, socket.SOCK_DGRAM)
        except OSError as error:
            raise BadState(f"{path} cannot be bound: {system_reason(error)}") from None
        file = OwnFile(path)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        loop = asyncio.get_running_loop()
        loop.add_reader(receiver, self._receive, receiver)
        try:
            yield
        finally:
            loop.remove_reader(receiver)
            receiver.close()
            file.remove()

    def _receive(self, receiver: socket.socket) -> None:
        for _ in range(_MAX_NOTIFICATIONS):
            try:
                data, ancillary, _, _ = receiver.recvmsg(
                    _MAX_NOTIFICATION_BYTES, socket.CMSG_SPACE(CREDENTIALS.size)
                )
            except BlockingIOError:
                return
            pid = next(
                (
                    CREDENTIALS.unpack(content[: CREDENTIALS.size])[0]
                    for level, kind, content in ancillary
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
                    and len(content) >= CREDENTIALS.size
                ),
                0,
            )
            lines = data.decode(errors="replace").split("\n")
            values = {
                name: value for name, equals, value in (line.partition("=") for line in lines) if equals
            }
            for driver in self._drivers.values():
                if driver.notified(pid, values):
                    break

    async def _serve_operator(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request of an operator's command."""
        await self._operators.wait_for_room(writer, _ROOM_S)
        with (
            self._operators.counted(writer) as is_allowed,
            contextlib.suppress(OSError, TimeoutError, ValueError),
        ):
            if not is_allowed:
                return
            connection = writer.get_extra_info("socket")
            async with asyncio.timeout(_REQUEST_S):
                line = await reader.readline()
            async for answer in self._answers(line, reader, may_control=may_control(connection)):
                writer.write(msgspec.json.encode(answer) + b"\n")
                async with asyncio.timeout(_REQUEST_S):
                    await writer.drain()

    def _forgive(self, request: ForgiveRequest) -> Forgiven:
        known = self._configuration.drivers.get(request.driver)
        drivers = (known.driver if known is not None else request.driver,) if request.driver else ()
        try:
            return Forgiven(self._investigator.forgive(drivers, request.pattern))
        except BadState as error:
            return Forgiven(refusal=str(error))

    async def _answers(
        self, line: bytes, reader: asyncio.StreamReader, *, may_control: bool
    ) -> AsyncIterator[msgspec.Struct]:
        """Yields the replies to a request, until its client closes the connection."""
        try:
            request = from_json(line[:MAX_REQUEST_BYTES], Request)
        except DECODE_ERRORS as error:
            yield Done(f"the request is not understood: {error}")
            return
        if isinstance(request, StatusRequest):
            yield self.status() if may_control else _for_clients(self.status())
        elif not may_control:
            # `Forgiven` has the same field.
            yield Done(
                f"permission denied: only {described_user(os.geteuid())} and root may control the service manager"
            )
        elif isinstance(request, ForgiveRequest):
            yield self._forgive(request)
        elif (driver := self._drivers.get(request.driver)) is None:
            yield Done(
                f"there is no driver {request.driver!r}; there are {', '.join(self._drivers) or 'none'}"
            )
        else:
            outcome = driver.restart()
            if not outcome.done():
                within_s = driver.restart_s
                yield Done(within_s=within_s)
                # Others need the place of a client that has left.
                left = asyncio.ensure_future(_ended(reader))
                await asyncio.wait((outcome, left), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
                left.cancel()
                if left.done() and not outcome.done():
                    return
            yield (
                outcome.result()
                if outcome.done()
                else Done(
                    f"{driver.name}: its new process has neither become ready nor ended; `neurald status` shows its state"
                )
            )


async def _ended(reader: asyncio.StreamReader) -> None:
    """Waits until a client sends nothing more, or something that nobody expects."""
    with contextlib.suppress(OSError):
        await reader.read(1)


def _for_clients(status: ManagerStatus) -> ManagerStatus:
    """Leaves out the patterns and the lines of logs, which may reveal something of other users."""
    drivers = tuple(msgspec.structs.replace(each, patterns=(), last_lines=()) for each in status.drivers)
    return msgspec.structs.replace(status, drivers=drivers)


@contextlib.contextmanager
def _locked(path: Path, otherwise: str = "") -> Iterator[None]:
    """Holds the lock of a socket during the block.

    Args:
        path: the path of the socket.
        otherwise: the message if another process holds it; "" for that of daemons.

    Raises:
        BadState: another process holds it.
    """
    lock = lock_socket(path, otherwise)
    try:
        yield
    finally:
        release_socket(lock)


@contextlib.contextmanager
def _watchdog(notifier: Notifier, interval_s: float | None) -> Iterator[None]:
    """Tells the supervisor regularly, during the block, that the event loop works."""
    if interval_s is None:
        yield
        return
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def report() -> None:
        nonlocal timer
        notifier.send(**{WATCHDOG: 1})
        timer = loop.call_later(interval_s, report)

    report()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def _listening(path: Path, mode: int) -> socket.socket:
    try:
        opened = bind_private(path)
        path.chmod(mode)
        return opened
    except OSError as error:
        raise BadState(f"{path} cannot be bound: {system_reason(error)}") from None
