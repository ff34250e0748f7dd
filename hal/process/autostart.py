"""Starts the service manager of this user when an application needs a driver and none runs.

Of many processes that need one at the same time, one starts it while the others wait for a lock.
The manager belongs to no application: it is in a session of its own, so that Ctrl-C does not reach
it, it is nobody's child, and it ends by itself when it has been idle for a while. It holds the same
lock while it ends, so that a process that comes then waits and starts the next one.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from neurald.hal.errors import BadData, BadState, UnavailableDevice
from neurald.hal.open_file_limit import system_reason
from neurald.hal.process.activation import MANAGER_SOCKET, is_served
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.configuration_file import (
    configuration_path,
    listed_drivers,
    read_configuration,
)
from neurald.hal.process.files.file_lock import ProcessLock
from neurald.hal.process.files.private_directory import open_private_file
from neurald.hal.process.files.runtime_directory import prepare_directory, runtime_directory
from neurald.hal.process.interpreter import NO_INTERPRETER, interpreter
from neurald.hal.process.own_program import own_program
from neurald.hal.wording import printable

#: Whether applications start a service manager: 0 or 1. It precedes the configuration file.
AUTOSTART_VARIABLE = "NEURALD_AUTOSTART"
#: Names in the runtime directory: the lock of those who start a manager, and the manager's log.
_LOCK: Final = "manager.start"
#: Name in the runtime directory of the socket at which a manager tells who started it that it is
#: ready. It has one name, so that a process that ends meanwhile leaves none that stays.
_NOTIFY: Final = "manager.started"
LOG: Final = "manager.log"
#: How long a manager that was started in this way stays after its last driver has stopped.
IDLE_S: Final = 60.0
_TOO_LATE: Final = "a service manager is being started and was not ready in time"
_LOG_TAIL_BYTES: Final = 4096
#: Variables by which supervisors tell a process about itself; they are not meant for its children.
_OWN_VARIABLES: Final = (
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
)
#: Runs between the application and the manager, so that the manager is not a child that the
#: application would have to wait for. An application's signal mask is not the manager's.
_BETWEEN: Final = (
    "import os, signal, sys; signal.pthread_sigmask(signal.SIG_SETMASK, []); "
    "os.fork() and os._exit(0); os.execv(sys.argv[1], sys.argv[1:])"
)


class AutostartSettings(Struct, frozen=True, kw_only=True):
    """The settings by which applications start a service manager.

    Attributes:
        obstacle: why they do not; empty if they do.
        is_unexpected: whether the obstacle is not one that was set on purpose.
        drivers: the names that the environment or the configuration file gives to drivers; None if
            neither does, so that the manager supervises the installed ones.
    """

    obstacle: str
    is_unexpected: bool
    drivers: tuple[str, ...] | None


def autostart_settings() -> AutostartSettings:
    """Returns the settings that are in force.

    A configuration file that cannot be used is an obstacle, since the manager would refuse it.

    Raises:
        BadData: NEURALD_AUTOSTART is neither 0 nor 1.
    """
    wanted = autostart_from_environment()
    if wanted is False:
        return AutostartSettings(obstacle=f"{AUTOSTART_VARIABLE} is 0", is_unexpected=False, drivers=None)
    path, is_chosen = configuration_path()
    try:
        content = read_configuration(path, must_exist=is_chosen)
    except (BadData, BadState) as error:
        return AutostartSettings(obstacle=str(error), is_unexpected=True, drivers=None)
    if wanted is None and content.get("autostart") is False:
        return AutostartSettings(obstacle=f"{path} has autostart = false", is_unexpected=False, drivers=None)
    table = content.get("drivers")
    drivers = listed_drivers() or (tuple(table) if isinstance(table, dict) else None)
    obstacle = _unusable_directory() if interpreter() else NO_INTERPRETER
    return AutostartSettings(obstacle=obstacle, is_unexpected=True, drivers=drivers)


def autostart_from_environment() -> bool | None:
    """Returns the value of NEURALD_AUTOSTART; None if it is not set.

    Raises:
        BadData: it is neither 0 nor 1.
    """
    text = environment_variable(AUTOSTART_VARIABLE) or ""
    if text not in ("", "0", "1"):
        raise BadData(f"{AUTOSTART_VARIABLE} is {text!r}; 0 or 1 is expected")
    return text == "1" if text else None


def _unusable_directory() -> str:
    """Returns why no manager can have the runtime directory; empty if one can."""
    directory = runtime_directory()
    for each in (directory, directory.parent):
        try:
            owner = each.stat().st_uid
        except OSError:
            continue
        # With sudo, XDG_RUNTIME_DIR may still be another user's; files of root there would lock
        # that user out. The directory of temporary files is root's.
        if owner not in (os.geteuid(), 0):
            return (
                f"{each} belongs to user {owner}; set XDG_RUNTIME_DIR to a directory of user {os.geteuid()}"
            )
        break
    return ""


def ensure_manager(deadline_s: float) -> None:
    """Starts a service manager unless one runs, and waits until it listens.

    Args:
        deadline_s: when to stop waiting, on the clock of `time.monotonic()`.

    Raises:
        UnavailableDevice: it cannot be started, or not in time; the message says why.
    """
    directory = runtime_directory()
    control = directory / MANAGER_SOCKET
    if is_served(control):
        return
    try:
        prepare_directory(directory)
        with starting_manager(deadline_s):
            if not is_served(control):
                _launch(directory, deadline_s)
    except BadState as error:
        raise UnavailableDevice(f"no service manager can be started: {error}") from None
    except OSError as error:
        raise UnavailableDevice(f"no service manager can be started: {system_reason(error)}") from None


@contextlib.contextmanager
def starting_manager(deadline_s: float | None) -> Iterator[bool]:
    """Holds the lock of those who start a manager, or end one, during the block.

    Args:
        deadline_s: when to stop waiting; None does not wait, and the value of the block is False
            if another process holds the lock.

    Raises:
        OSError: there can be no lock.
        UnavailableDevice: another process has held the lock until the deadline.
    """
    lock = ProcessLock(runtime_directory() / _LOCK)
    try:
        is_locked = lock.acquire(0.0 if deadline_s is None else deadline_s - time.monotonic())
        if not is_locked and deadline_s is not None:
            raise UnavailableDevice(_TOO_LATE)
        yield is_locked
    finally:
        lock.release()


def _launch(directory: Path, deadline_s: float) -> None:
    """Starts a manager, and waits until it is ready; the caller holds the lock."""
    import select
    import socket

    notify = directory / _NOTIFY
    log = directory / LOG
    with contextlib.ExitStack() as cleanup:
        ready = cleanup.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        notify.unlink(missing_ok=True)
        ready.bind(str(notify))
        cleanup.callback(notify.unlink, missing_ok=True)
        # The manager keeps the other end open for as long as it lives.
        alive, kept = os.pipe()
        cleanup.callback(os.close, alive)
        try:
            _spawn(_command(log), kept, {"NOTIFY_SOCKET": str(notify)}, log)
        finally:
            os.close(kept)
        poll = select.poll()
        for descriptor in (ready.fileno(), alive):
            poll.register(descriptor, select.POLLIN)
        while True:
            left_s = deadline_s - time.monotonic()
            found = [descriptor for descriptor, _ in poll.poll(max(0.0, left_s) * 1000)]
            if ready.fileno() in found and b"READY=1" in ready.recv(4096).split(b"\n"):
                return
            if alive in found:
                raise UnavailableDevice(f"the service manager has ended: {_last_line(log)}")
            if not found:
                raise UnavailableDevice("a service manager was started and was not ready in time")


def _command(log: Path) -> list[str]:
    return own_program("neurald", "serve", "--exit-when-idle", f"{IDLE_S:g}", "--log", str(log))


def _spawn(command: list[str], kept: int, variables: dict[str, str], log: Path) -> None:
    """Starts a process that is neither a child of this one nor in its session.

    Args:
        command: the process.
        kept: a descriptor that it inherits.
        variables: the variables for its environment.
        log: receives what it writes to stderr before it opens the log itself.

    Raises:
        OSError: it cannot be started.
    """
    import subprocess  # slow to import, and rarely needed

    environment = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
    environment |= variables
    if path := _module_path():
        environment["PYTHONPATH"] = path
    with open(log, "ab", opener=open_private_file) as errors:
        between = subprocess.Popen(  # noqa: S603 - this interpreter
            [interpreter(), "-I", "-S", "-c", _BETWEEN, *command],
            env=environment,
            # `python -m` looks for modules in the working directory, which may be anybody's.
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(kept,),
            start_new_session=True,
        )
    if between.wait() != 0:
        raise UnavailableDevice(f"no service manager can be started: {_last_line(log)}")


def _module_path() -> str:
    """Returns the value of PYTHONPATH with which another process finds the same neurald."""
    import site

    given = filter(None, (environment_variable("PYTHONPATH") or "").split(os.pathsep))
    parts = [str(Path(part).absolute()) for part in given]
    root = str(Path(sys.modules["neurald"].__file__ or "").absolute().parents[1])
    if root not in (*site.getsitepackages(), site.getusersitepackages(), *parts):
        parts.append(root)
    return os.pathsep.join(parts)


def _last_line(log: Path) -> str:
    """Returns the last line of a log."""
    try:
        with open(log, "rb", opener=open_private_file) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError as error:
        return f"{log} cannot be read: {error.strerror}"
    text = next((line.strip() for line in reversed(lines) if line.strip()), f"{log} is empty")
    return printable(text)
