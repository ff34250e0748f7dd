"""Takes over sockets that a supervisor such as systemd already listens at.

The protocol is systemd's socket activation. LISTEN_FDS is the number of the descriptors, which
begin with number 3, and LISTEN_PID the process that they are for. The supervisor keeps listening
when this process ends, and starts it again at the next connection.
"""

import os
import socket
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadState

#: Environment variables of the protocol.
PROCESS_VARIABLE = "LISTEN_PID"
COUNT_VARIABLE = "LISTEN_FDS"
NAMES_VARIABLE = "LISTEN_FDNAMES"
_FIRST: Final = 3
_MAX_SOCKETS: Final = 1024


def received_sockets() -> dict[Path, socket.socket]:
    """Returns the sockets that the supervisor passed to this process, by their paths.

    The variables are removed from the environment, so that processes that this one starts do not
    take the descriptors for their own.

    Raises:
        BadState: the variables or descriptors are not valid; the message says which.
    """
    process = os.environ.pop(PROCESS_VARIABLE, "")
    text = os.environ.pop(COUNT_VARIABLE, "")
    os.environ.pop(NAMES_VARIABLE, None)
    if process != str(os.getpid()) or not text:
        return {}
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and int(text) <= _MAX_SOCKETS):
        raise BadState(f"{COUNT_VARIABLE} is {text!r}; a number up to {_MAX_SOCKETS} is expected")
    found: dict[Path, socket.socket] = {}
    for number in range(_FIRST, _FIRST + int(text)):
        path, received = _taken_over(number)
        if path in found:
            raise BadState(f"the supervisor passed two sockets at {path}")
        found[path] = received
    return found


def _taken_over(number: int) -> tuple[Path, socket.socket]:
    wrong = (
        f"descriptor {number}, which the supervisor passed, is not a listening UNIX stream socket with a path"
    )
    try:
        os.set_inheritable(number, False)
        received = socket.socket(fileno=number)
        listens = received.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        raise BadState(wrong) from None
    if received.family != socket.AF_UNIX or received.type != socket.SOCK_STREAM or not listens:
        raise BadState(wrong)
    name = received.getsockname()
    if not isinstance(name, str) or not name.startswith("/"):
        raise BadState(wrong)
    received.setblocking(False)
    return Path(name), received
