"""Starts the processes of a driver: forks them from a server, or executes its program."""

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from neurald.hal.admission.access.sharing import Sharing
from neurald.hal.crashes.breadcrumbs import VARIABLE as BREADCRUMBS_VARIABLE
from neurald.hal.process.autostart import AUTOSTART_VARIABLE
from neurald.hal.process.orphans import ORPHANS
from neurald.hal.process.own_program import own_program
from neurald.service.daemon.notifications import SOCKET_VARIABLE
from neurald.service.logs.choices import LogFormat, LogLevel
from neurald.service.logs.formatters import DRIVER
from neurald.service.manager.settings.configuration import DriverSettings, limit_arguments, tls_arguments
from neurald.service.manager.supervision.fork_server import ForkServer

_LOG: Final = logging.getLogger(__name__)

#: Tells processes that drivers leave behind from others. Its value is the id of the manager.
MANAGER_VARIABLE: Final = "NEURALD_MANAGER"
#: Where a process that is executed has its breadcrumbs.
_BREADCRUMBS_AT: Final = 3


class DriverLauncher:
    """Starts processes of one driver, all with the same settings.

    A server, which is started with the first process, forks them: that takes a tenth of the time.
    If that is not possible, each of them executes the program.

    Args:
        name: the name of the driver, for the log.
        settings: the settings of the driver.
        address: where it serves.
        sharing: whom it serves.
        notify: the socket that receives notifications.
        ended: the function that is called when a server has ended.
    """

    def __init__(
        self,
        name: str,
        settings: DriverSettings,
        address: str,
        sharing: Sharing,
        notify: Path,
        ended: Callable[[], None],
    ) -> None:
        self._name = name
        self._address = address
        self._notify = notify
        self._ended = ended
        self._server: ForkServer | None = None
        #: All servers, until they have ended.
        self._servers: set[ForkServer] = set()
        #: What was installed when the first process since `drop` was started; None before.
        self._packages: tuple[tuple[str, int], ...] | None = None
        self.configure(settings, sharing)

    def configure(self, settings: DriverSettings, sharing: Sharing) -> None:
        """Starts further processes with these settings, and none from the server of before."""
        self.drop()
        self._forks = settings.spare
        self._command = _command(settings, self._address, sharing)
        self._environment = {
            **os.environ,
            **settings.environment,
            SOCKET_VARIABLE: str(self._notify),
            MANAGER_VARIABLE: str(os.getpid()),
            # A driver must not start the manager of others.
            AUTOSTART_VARIABLE: "0",
        }

    @property
    def is_gone(self) -> bool:
        """True if no server is left, not even one that is about to end."""
        return not self._servers

    @property
    def is_current(self) -> bool:
        """True unless packages were installed or removed since the first process after `drop`.

        Otherwise some modules of a process would be of the old version, and others of the new one.
        """
        return self._packages in (None, _installed_packages())

    async def launch(self, stdin: int, stderr: int, breadcrumbs: int) -> int:
        """Starts a process with these descriptors; returns the id of this new child.

        Raises:
            OSError: it cannot be started.
        """
        if not self.is_current:
            self.drop()
        if self._packages is None:
            self._packages = _installed_packages()
        if self._forks:
            try:
                return await self._current_server().fork(stdin, stderr, breadcrumbs)
            except OSError as error:
                _LOG.warning(
                    "no process can be forked, so the program is executed: %s",
                    error,
                    extra={DRIVER: self._name},
                )
        return self._execute(stdin, stderr, breadcrumbs)

    def _current_server(self) -> ForkServer:
        if self._server is None:
            self._server = ForkServer([*self._command, "--fork"], self._environment, self._server_ended)
            self._servers.add(self._server)
        return self._server

    def _server_ended(self, server: ForkServer) -> None:
        self._servers.discard(server)
        if server is self._server:
            self._server = None
        self._ended()

    def _execute(self, stdin: int, stderr: int, breadcrumbs: int) -> int:
        environment: Mapping[str, str] = {**self._environment, BREADCRUMBS_VARIABLE: str(_BREADCRUMBS_AT)}
        process = os.posix_spawn(
            self._command[0],
            self._command,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
                (os.POSIX_SPAWN_DUP2, breadcrumbs, _BREADCRUMBS_AT),
                *((os.POSIX_SPAWN_CLOSE, each) for each in _inheritable() if each > _BREADCRUMBS_AT),
            ],
            setsid=True,
            # Python ignores these.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
        ORPHANS.started(process)
        return process

    def drop(self) -> None:
        """Ends the server; the next process gets another one."""
        server, self._server = self._server, None
        self._packages = None
        if server is not None:
            server.kill()


def _inheritable() -> list[int]:
    """Returns the descriptors that a program gets which this process executes.

    They are those with which it was started itself, such as locks and sockets of its supervisor.
    """
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them is closed
            if os.get_inheritable(int(link.name)):
                found.append(int(link.name))
    return found


def _command(settings: DriverSettings, address: str, sharing: Sharing) -> list[str]:
    command = own_program("neurald", "driver", settings.driver, "--listen", address)
    command += ["--await-start", "--take-over", "--until-exit-of", str(os.getpid())]
    command += ["--drain", f"{settings.drain_s:g}"]
    command += ["--sandbox", settings.sandbox.value]
    command += ["--log-format", LogFormat.JOURNAL, "--log-level", settings.log_level or LogLevel.NOTICE]
    command += ["--socket-mode", f"{sharing.socket_mode:04o}"]
    for user in sorted(sharing.users):
        command += ["--allow-user", str(user)]
    for group in sorted(sharing.groups):
        command += ["--allow-group", str(group)]
    command += tls_arguments(settings)
    for limit in limit_arguments(settings):
        command += ["--limit", limit]
    for path in settings.writable:
        command += ["--writable", path]
    for path in settings.readable:
        command += ["--readable", path]
    return command


def _installed_packages() -> tuple[tuple[str, int], ...]:
    """Returns when packages were last installed or removed, in each folder of modules.

    The current folder is none of them, although modules are found there: other files come and go.
    """
    here = ""
    with contextlib.suppress(OSError):  # it was removed
        here = str(Path.cwd())
    found = []
    for folder in {*sys.path} - {"", here}:
        try:
            found.append((folder, Path(folder).stat().st_mtime_ns))
        except OSError:
            continue
    return tuple(sorted(found))
