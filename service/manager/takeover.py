"""Takes the place of a service manager that runs already."""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadState, UnavailableDevice
from neurald.hal.process.activation import MANAGER_SOCKET, is_of_supervisor, is_served
from neurald.hal.process.autostart import starting_manager
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.runtime_directory import runtime_directory
from neurald.hal.process.peer import peer_of
from neurald.service.manager.control import manager_status
from neurald.service.manager.received_sockets import COUNT_VARIABLE

#: How long a manager has to stop, with the running calls of its drivers.
_STOP_S: Final = 60.0
#: How long to wait for an application that starts a manager just now.
_START_S: Final = 60.0


@contextlib.contextmanager
def taking_over(tell: Callable[[str], None]) -> Iterator[None]:
    """Stops the manager of this user that an application has started, if one runs.

    During the block, no application starts another. A manager that somebody else has started is
    left alone.

    Args:
        tell: receives a line if there was one.

    Raises:
        BadState: it does not stop.
        UnavailableDevice: an application has been starting a manager for too long.
    """
    directory = runtime_directory()
    # A supervisor listens at the socket until this process does.
    is_activated = bool(environment_variable(COUNT_VARIABLE))
    if is_activated or not is_served(directory / MANAGER_SOCKET):
        yield
        return
    with starting_manager(time.monotonic() + _START_S):
        if _is_of_application():
            end_other_manager(directory, tell)
        yield


def _is_of_application() -> bool:
    try:
        return manager_status().is_of_application
    except (UnavailableDevice, BadState):
        return False


def end_other_manager(directory: Path, tell: Callable[[str], None]) -> None:
    """Stops the service manager of a directory, unless systemd has started it.

    It would keep the locks of the sockets at which systemd is going to listen.

    Args:
        directory: the directory of its sockets.
        tell: receives a line if there is one.

    Raises:
        BadState: it does not stop, or takes no connections.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.setblocking(False)  # it would wait where too many wait already
            connection.connect(str(directory / MANAGER_SOCKET))
            process = peer_of(connection).process
        if is_of_supervisor(process):
            return
        ended = os.pidfd_open(process)
    except BlockingIOError:
        raise BadState(
            f"the service manager of {directory} does not answer; end its process, and try again"
        ) from None
    except OSError:
        return
    try:
        signal.pidfd_send_signal(ended, signal.SIGTERM)
        if not select.select([ended], [], [], _STOP_S)[0]:
            raise BadState(
                f"the service manager {process} of {directory} does not stop; end it, and try again"
            )
    except OSError as error:
        raise BadState(f"process {process} cannot be stopped: {error.strerror or error}") from None
    finally:
        os.close(ended)
    tell(f"stopped the service manager that ran in {directory} (process {process})")
