"""One driver of the service manager: its socket, its process, and the consequences of its end.

The driver goes through the states of `neurald.service.manager.state.DriverState`:

- STOPPED: the manager listens at the driver's socket (`DriverClients`). The first client that needs
  the driver has a process started. A driver for other hosts, which cannot ask for it, starts at
  once.
- STARTING: clients wait until the process says that it serves. Its own socket has replaced that of
  the manager by then. If it takes too long, it is terminated.
- READY: the process reports regularly. One that is silent, hangs or has lost its device is
  terminated. One without clients for long, or that somebody tells to stop, is drained.
- DRAINING: the manager listens again while the process completes its calls (`DrainingProcesses`).
  The driver is STOPPED when the process has ended. A client that comes earlier has a new process
  started.
- BACKOFF: a process has ended by itself or was terminated. `RestartPolicy` says how long the pause
  is; there is none after the first death. A client waits for the end of a short pause and is
  refused during a longer one. Afterwards the driver starts if it had clients, and is STOPPED
  otherwise.
- QUARANTINED: it has died too often within a short time, and stays ended until an operator restarts
  it.

An operator's restart, or new settings, start a successor while the process serves. It takes over
when it is ready; if it ends before, the process stays. A spare process (`SpareProcess`) has loaded
the driver beforehand, so that the next start takes less time.
"""

import asyncio
import logging
import socket
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Final

from neurald.hal.admission.access.sharing import Sharing
from neurald.hal.open_file_limit import system_reason
from neurald.hal.process.address import Address
from neurald.service.crashes.investigator import CrashInvestigator
from neurald.service.daemon import notifications
from neurald.service.manager.control import Done
from neurald.service.manager.settings.configuration import DriverSettings
from neurald.service.manager.state import DriverState, DriverStatus
from neurald.service.manager.supervision.awaited_end import AwaitedEnd
from neurald.service.manager.supervision.awaited_restart import AwaitedRestart
from neurald.service.manager.supervision.draining_processes import STOP_SLACK_S, DrainingProcesses
from neurald.service.manager.supervision.driver_clients import DriverClients
from neurald.service.manager.supervision.driver_crashes import DriverCrashes
from neurald.service.manager.supervision.driver_launcher import DriverLauncher
from neurald.service.manager.supervision.driver_process import DriverProcess
from neurald.service.manager.supervision.driver_record import DriverRecord
from neurald.service.manager.supervision.process_report import reported_number
from neurald.service.manager.supervision.restart_policy import RestartPolicy
from neurald.service.manager.supervision.spare_process import SpareProcess
from neurald.service.manager.supervision.timers import NamedTimers

#: A spare process is started this long after the driver has become ready, when its clients have
#: done the first of their work, and is kept this long after the driver has ended.
_SPARE_AFTER_S: Final = 0.1
_SPARE_KEPT_S: Final = 60.0
#: How often deaths of a driver's helpers are read at most.
_HELPERS_S: Final = 0.25


class SupervisedDriver:
    """A driver that is started at the first connection, and supervised.

    All methods are called in the event loop of the manager.

    Args:
        name: the name from the configuration.
        settings: the settings of the driver.
        sharing: whom it serves.
        directory: the directory of its socket.
        notify: the socket that receives notifications.
        investigator: records what kills it.
        received: a socket at which a supervisor listens for its clients; None for an own one.

    Raises:
        BadData: the path of its socket is too long.
    """

    def __init__(
        self,
        name: str,
        settings: DriverSettings,
        sharing: Sharing,
        directory: Path,
        notify: Path,
        investigator: CrashInvestigator,
        received: socket.socket | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.sharing = sharing
        self._loop = asyncio.get_running_loop()
        self._path = directory / f"{name}.sock"
        self._address = Address.parse(f"unix://{self._path}")
        self._crashes = DriverCrashes(name, str(self._address), investigator)
        self._policy = RestartPolicy()
        self._record = DriverRecord(name, self.address)
        self._log = self._record.log
        #: The end of its process, by itself or because it hangs.
        self._end = AwaitedEnd()
        self._clients = DriverClients(
            self._record,
            self._policy,
            self._end,
            self._start,
            path=self._path,
            sharing=sharing,
            received=received,
        )
        self._process: DriverProcess | None = None
        #: The successor of a process that is replaced, until it is ready.
        self._next: DriverProcess | None = None
        self._launcher = DriverLauncher(
            name, settings, self.address, sharing, notify, self._note_if_all_ended
        )
        self._spare = SpareProcess(self._create_process)
        self._timers = NamedTimers(self._loop)
        self._leaving = DrainingProcesses(self._timers)
        #: When the running process last had a session.
        self._used_s = 0.0
        self._is_closing = False
        self._restart = AwaitedRestart(name)
        #: Whether a restart was asked for while a process was starting, which is replaced then.
        self._is_outdated = False
        #: Why the successor is terminated.
        self._next_reason = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    @property
    def address(self) -> str:
        """The address at which clients find it."""
        return str(self._address)

    def status(self) -> DriverStatus:
        """Describes the driver."""
        patterns = self._crashes.patterns(self.settings)
        return self._record.status(self.settings, self._process, self._spare.pid, patterns)

    async def open(self) -> None:
        """Listens at its socket. A driver for other hosts is started: they cannot ask for it.

        Raises:
            OSError: the socket cannot be created.
        """
        await self._clients.listen()
        self._start_for_other_hosts()

    async def close(self, reason: str) -> None:
        """Stops its process, and removes the socket.

        Args:
            reason: the reason for its clients and the log.
        """
        self._is_closing = True
        self._timers.cancel_all()
        self._restart.failed(reason)
        self._clients.refuse_all(reason)
        self._drop_spare()
        if self._process is not None or self._next is not None:
            await self._retire(reason)
        await self._all_ended.wait()
        self._clients.close()
        for suffix in (".memory", ".token"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def kill(self) -> None:
        """Kills all of its processes."""
        for process in (self._process, self._next, *self._leaving):
            if process is not None:
                process.kill()
        self._spare.kill()
        self._launcher.drop()

    def restart(
        self, settings: DriverSettings | None = None, sharing: Sharing | None = None
    ) -> "asyncio.Future[Done]":
        """Replaces its process by a new one without a gap, and forgets its deaths.

        The process that runs stays until the new one is ready, and for good if that does not
        become ready. A process that is starting is replaced once it is ready. A driver that does
        not run only leaves quarantine or its pause.

        Args:
            settings: new settings; None for no change.
            sharing: whom it serves from now on; None for no change.

        Returns:
            The outcome.
        """
        if settings is not None:
            self.settings = settings
        if sharing is not None:
            self.sharing = sharing
            self._clients.share(sharing)
        self._policy.forget()
        # It has the settings and the modules of before.
        self._spare.drop()
        self._launcher.configure(self.settings, self.sharing)
        outcome = self._restart.outcome()
        if self._end.reason:
            self._restart.succeeded("its process ends just now, and the next one is a new one")
        elif self._record.state in (DriverState.BACKOFF, DriverState.QUARANTINED):
            self._timers.cancel("pause")
            self._record.is_unable = False
            self._record.enter(DriverState.STOPPED, "an operator restarted it")
            self._start_for_other_hosts()
        elif self._record.state is DriverState.STOPPED:
            self._start_for_other_hosts()
        elif self._record.state is DriverState.STARTING or self._next is not None:
            self._is_outdated = True
        elif self._record.state is DriverState.READY:
            self._replace()
        if self._process is None:
            self._restart.succeeded("it does not run, and starts at its next connection")
        return outcome

    @property
    def restart_s(self) -> float:
        """The time that a restart may take that was begun just now."""
        first_s = (
            self.settings.start_s if self._record.state is DriverState.STARTING else self.settings.update_s
        )
        return first_s + self.settings.update_s + STOP_SLACK_S

    def _replace(self) -> None:
        """Starts the successor of its process."""
        self._is_outdated = False
        try:
            self._next = self._begin(self._create_process(), self.settings.update_s)
        except OSError as error:
            self._keep_process(f"its process could not be started: {system_reason(error)}")

    def _keep_process(self, reason: str) -> None:
        """Keeps its process, which was not replaced for a reason."""
        consequence = "; the old one stays" if self._process is not None else ""
        self._log(f"{reason}{consequence}", logging.WARNING)
        self._record.reason = reason
        if self._is_outdated and self._record.state is DriverState.READY:
            self._replace()
        else:
            self._restart.failed(f"{reason}{consequence}")

    def _start_for_other_hosts(self) -> None:
        if self.settings.listen:
            self._start()

    def notified(self, pid: int, values: Mapping[str, str]) -> bool:
        """Handles a notification; returns True if it is of one of its processes."""
        process = next(
            (each for each in (self._process, self._next) if each is not None and each.pid == pid), None
        )
        if process is None:
            if (leaving := self._leaving.find(pid)) is not None:
                self._leaving.notified(leaving, values, self.settings.watchdog_s)
            return leaving is not None
        if notifications.READY in values and process.ready_s is None:
            process.describe_sandbox(values)
            process.watch_threads(values)
            self._became_ready(process)
        if process is not self._process or process.ready_s is None or self._end.reason:
            return True
        if process.is_stopping:
            self._leaving.notified(process, values, self.settings.watchdog_s)
            return True
        if notifications.STOPPING in values:
            self._note_stopping(process, values)
        else:
            self._note_report(process, values)
        return True

    def _note_stopping(self, process: DriverProcess, values: Mapping[str, str]) -> None:
        """Handles the notification of its process that somebody else has told it to stop."""
        process.is_stopping = True
        self._timers.cancel("watchdog")
        # A client may have come since the last report.
        self._record.sessions = reported_number(values, notifications.SESSIONS, self._record.sessions)
        if self._next is None and not self._is_closing:
            self._run(self._follow(process))

    def _note_report(self, process: DriverProcess, values: Mapping[str, str]) -> None:
        """Handles what its process, which serves, reports regularly."""
        self._timers.arm("watchdog", self.settings.watchdog_s, self._abort_silent)
        if values.get(notifications.HANGING) == "1":
            # The sessions that have just ended with it were in use.
            self._abort("an execution exceeds its time limit")
            return
        if values.get(notifications.LOST) == "1":
            self._abort("its device is lost")
            return
        deaths = reported_number(values, notifications.HELPER_DEATHS, process.helper_deaths)
        if deaths != process.helper_deaths:
            self._helpers_died(process)
        self._record.note_report(values)
        sessions = reported_number(values, notifications.SESSIONS, -1)
        if sessions >= 0:
            self._note_sessions(sessions)

    @property
    def is_idle(self) -> bool:
        """True if it has no process and no client waits for one."""
        works = self._process or self._next or self._leaving or self._clients
        return not works and "pause" not in self._timers

    def _start(self) -> None:
        self._timers.cancel("pause")
        self._is_outdated = False
        self._clients.wait_for_start()
        self._record.enter(DriverState.STARTING)
        if not self._launcher.is_current:
            self._drop_spare()
        try:
            self._process = self._begin(self._spare.take() or self._create_process(), self.settings.start_s)
        except OSError as error:
            self._record.is_unable = True
            self._handle_death(f"its process could not be started: {system_reason(error)}", 0.0)

    def _create_process(self) -> DriverProcess:
        """Starts a process that loads the driver, and then waits."""
        process = DriverProcess(self._launcher.launch, self._log, self._process_ended, self._process_ends)
        self._all_ended.clear()
        return process

    def _drop_spare(self) -> None:
        """Ends the spare process, and what forks others."""
        self._spare.drop()
        self._launcher.drop()

    def _begin(self, process: DriverProcess, within_s: float) -> DriverProcess:
        """Makes a process open the device, within a limit of time; returns the process."""
        self._record.starts += 1
        self._timers.arm(
            _start_timer(process), within_s, lambda: self._start_took_too_long(process, within_s)
        )
        process.begin()
        return process

    def _start_took_too_long(self, process: DriverProcess, within_s: float) -> None:
        reason = f"it was not ready within {within_s:g} s"
        self._log(reason)
        if process is self._process:
            self._end.reason = reason
        else:
            self._next_reason = reason
        process.abort()

    def _became_ready(self, process: DriverProcess) -> None:
        process.ready_s = self._loop.time()
        self._timers.cancel(_start_timer(process))
        if process is self._next:
            self._next = None
            if (before := self._process) is not None:
                self._leaving.drain(before, self.settings)
            self._process = process
            self._next_reason = ""
            self._end.finish()
        self._record.is_unable = False
        self._record.sessions = 0
        self._used_s = process.ready_s
        self._record.enter(DriverState.READY)
        self._timers.arm("watchdog", self.settings.watchdog_s, self._abort_silent)
        if self.settings.spare:
            self._timers.arm("spare", _SPARE_AFTER_S, self._prepare_spare)
        self._clients.hand_over()
        if self._is_outdated:
            self._replace()
        else:
            self._restart.succeeded(f"process {process.pid} serves")

    def _prepare_spare(self) -> None:
        try:
            self._spare.prepare()
        except OSError as error:
            self._log(
                f"no spare process can be started: {system_reason(error)}",
                logging.WARNING,
            )

    def _note_sessions(self, count: int) -> None:
        """Handles the number of sessions, which a process reports regularly."""
        now_s = self._loop.time()
        if count:
            self._used_s = now_s
        elif (
            self.settings.idle_s and not self.settings.listen and now_s - self._used_s >= self.settings.idle_s
        ):
            # If the socket cannot be opened, the driver goes on, and this is tried again later.
            self._used_s = now_s
            self._run(self._retire("it had no clients"))
        self._record.sessions = count

    async def _retire(self, reason: str, *, is_needed: bool = False) -> None:
        """Listens in place of its process, which then ends when it has drained.

        If a successor becomes ready meanwhile, that serves, and the process drains anyway.

        Args:
            reason: why.
            is_needed: whether clients may come back soon, so that the spare process stays for them.
        """
        if self._process is None and self._next is None:
            return
        if self._is_closing:
            await self._clients.stand_in()
        elif not await self._clients.listen():
            return  # a new process has become ready meanwhile
        self._timers.cancel("watchdog")
        if is_needed:
            self._timers.arm("spare", _SPARE_KEPT_S, self._drop_spare)
        else:
            self._timers.cancel("spare")
            self._drop_spare()
        process, self._process = self._process, None
        successor, self._next = self._next, None
        # If one of them has begun to end meanwhile, that concerns nobody any more.
        self._next_reason = ""
        self._end.finish()
        for each in (process, successor):
            if each is not None:
                self._timers.cancel(_start_timer(each))
                self._leaving.drain(each, self.settings)
        self._clients.refuse(reason)
        self._record.enter(DriverState.DRAINING, reason)
        self._restart.succeeded(f"it stops, since {reason}")

    async def _follow(self, process: DriverProcess) -> None:
        """Takes the place of a process that somebody else has told to stop."""
        reason = "somebody told its process to stop"
        try:
            if not self._record.sessions and not self.settings.listen:
                await self._retire(reason, is_needed=True)
                return
            await self._clients.listen()
        except OSError as error:
            self._log(f"its socket cannot be opened: {system_reason(error)}")
            return
        # Unless it has ended meanwhile.
        if process is self._process and self._next is None and not self._is_closing:
            self._log(f"{reason}, which another one replaces")
            self._process = None
            self._leaving.drain(process, self.settings)
            self._start()

    def _abort_silent(self) -> None:
        self._abort(f"it was silent for {self.settings.watchdog_s:g} s")

    def _abort(self, reason: str) -> None:
        """Ends a process that hangs; `_process_ended` does the rest."""
        self._log(f"{reason}; its process is terminated", logging.WARNING)
        self._expect_end(reason)
        if self._process is not None:
            self._process.abort()

    def _process_ends(self, process: DriverProcess) -> None:
        """Handles one of its processes that does not serve any more, and should end at once."""
        if process is self._process and not process.is_stopping and not self._end.reason:
            self._expect_end(_cause(process))
            process.kill_later(self.settings.watchdog_s)

    def _expect_end(self, reason: str) -> None:
        """Notes that the process does not serve; until its end, new clients wait or are refused."""
        self._timers.cancel("watchdog")
        self._end.begin(reason)
        self._record.enter(DriverState.BACKOFF, reason)
        self._run(self._clients.stand_in())

    def _process_ended(self, process: DriverProcess) -> None:
        """Handles the end of one of its processes."""
        if not process.has_begun:
            if self._spare.ended(process) and process.failure:
                self._log(f"there is no spare process: {process.failure}", logging.WARNING)
            self._note_if_all_ended()
            return
        self._timers.cancel(_start_timer(process))
        self._record.note_lines(process)
        # Before a successor starts, which must not be given what killed this one.
        self._crashes.process_died(self.settings, process)
        if self._leaving.ended(process):
            self._record.last_exit = process.exit_text
            if self._record.state is DriverState.DRAINING and not self._leaving:
                self._record.enter(DriverState.STOPPED, self._record.reason)
        elif process is self._next:
            self._next = None
            end = self._next_reason or process.exit_text or process.failure
            self._next_reason = ""
            self._keep_process(f"a new process ended before it was ready ({end}){_said(process)}")
        else:
            self._process = None
            self._record.last_exit = process.exit_text
            cause = self._end.reason or _cause(process)
            self._end.finish()
            self._record.is_unable = process.ready_s is None
            served_s = 0.0 if process.ready_s is None else self._loop.time() - process.ready_s
            end = process.exit_text or process.failure
            self._handle_death(f"{cause} ({end}){_said(process)}", served_s)
        self._note_if_all_ended()

    def _note_if_all_ended(self) -> None:
        """Notes that the driver has no processes any more, if that is so."""
        is_over = self._process is None and self._next is None and not self._leaving
        if is_over and self._spare.is_gone and self._launcher.is_gone:
            self._all_ended.set()

    def _helpers_died(self, process: DriverProcess) -> None:
        """Reads what killed helpers, but rarely: a driver may claim that as often as it likes."""
        if "helpers" not in self._timers and process is self._process:
            self._crashes.helpers_died(self.settings, process)
            self._timers.arm("helpers", _HELPERS_S, lambda: None)

    def _handle_death(self, reason: str, served_s: float) -> None:
        """Handles the death of a process that ended by itself, or could not be started."""
        self._record.deaths += 1
        self._timers.cancel("watchdog")
        if self._is_closing:
            return
        # Clients may come back soon.
        self._timers.arm("spare", _SPARE_KEPT_S, self._drop_spare)
        pause_s = self._policy.died(self._loop.time(), served_s)
        if pause_s is None:
            self._record.enter(
                DriverState.QUARANTINED,
                f"{self._policy.describe_quarantine()}, the last time because {reason}",
            )
        else:
            self._record.enter(DriverState.BACKOFF, reason)
            # Clients that had sessions come back at once.
            has_clients = self._record.sessions > 0 or bool(self.settings.listen)
            self._timers.arm("pause", pause_s, lambda: self._run(self._resume(reason, starts=has_clients)))
        self._record.sessions = 0
        if self._next is None:
            self._restart.failed(self._record.reason)
        self._clients.refuse_after_death()
        self._run(self._clients.stand_in())

    async def _resume(self, reason: str, *, starts: bool) -> None:
        """Ends the pause after a death."""
        # A process that starts replaces the socket, so this one must be there before.
        await self._clients.stand_in()
        if self._record.state is DriverState.BACKOFF and not self._is_closing:
            if starts:
                self._start()
            else:
                self._record.enter(DriverState.STOPPED, reason)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        """Runs a coroutine as a task."""
        task = self._loop.create_task(work)
        # The loop itself has only a weak reference to it.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _start_timer(process: DriverProcess) -> str:
    """Returns the name of the timer that limits the start of a process."""
    return f"start {id(process)}"


def _said(process: DriverProcess) -> str:
    """Returns what a process that did not become ready said last, which tells why."""
    return f": {process.last_lines[-1]}" if process.ready_s is None and process.last_lines else ""


def _cause(process: DriverProcess) -> str:
    return "it did not become ready" if process.ready_s is None else "it ended by itself"
