"""Checks the conditions under which systemd can run the service manager."""

import os
import select
import signal
import socket
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadState
from neurald.hal.process.activation import MANAGER_SOCKET, is_of_supervisor
from neurald.hal.process.peer import peer_of

#: How long a manager has to stop, with the running calls of its drivers.
_STOP_S: Final = 60.0


def require_public(paths: Iterable[Path], user: str) -> None:
    """Raises an error if a user whom nothing here belongs to cannot read files.

    Args:
        paths: the paths of the files and folders.
        user: the user for the message.

    Raises:
        BadState: it cannot; the message says what is in the way.
    """
    for path in paths:
        for each in (path, *path.parents):
            try:
                mode = each.stat().st_mode
            except OSError as error:
                raise BadState(f"{each} cannot be examined: {error.strerror or error}") from None
            wanted = stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
            if not mode & wanted:
                raise BadState(
                    f"the user {user}, as whom the service runs, may not use {path}: {each} has the mode "
                    f"{stat.S_IMODE(mode):04o}. Install neurald where everyone may read it, such as in a virtual "
                    "environment in /opt, whose Python is not in a home directory either"
                )


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
