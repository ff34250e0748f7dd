"""The conversation of operators' commands with the service manager.

The manager listens at `manager.sock` beside its drivers' sockets. A client sends one request as a
line of JSON, gets its reply in the same form, and the connection ends. Only the request for a
restart may have two replies.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from neurald.hal.decoding import from_json
from neurald.hal.errors import BadState, UnavailableDevice
from neurald.hal.process.activation import MANAGER_SOCKET, is_served
from neurald.hal.process.files.runtime_directory import machine_directory, machine_user, runtime_directory
from neurald.hal.process.peer import peer_of
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.rpc.client.reach import require_running, require_trusted
from neurald.service.manager.state import ManagerStatus

#: Maximum length of a request and of a reply.
MAX_REQUEST_BYTES: Final = 4096
_MAX_REPLY_BYTES: Final = 4 << 20
_TIMEOUT_S: Final = 10.0

_Reply = TypeVar("_Reply", bound=msgspec.Struct)


class StatusRequest(msgspec.Struct, frozen=True, tag="status"):
    """Asks for a `ManagerStatus`."""


class RestartRequest(msgspec.Struct, frozen=True, tag="restart"):
    """Asks for the restart of a driver.

    The reply is a `Done`. If its `within_s` is not 0, another `Done` follows when the restart has
    ended.
    """

    driver: str


class ForgiveRequest(msgspec.Struct, frozen=True, tag="forgive"):
    """Asks to forget what killed drivers; the reply is a `Forgiven`.

    Attributes:
        driver: only what killed this one; empty for all.
        pattern: only patterns whose identifier begins with this.
    """

    driver: str = ""
    pattern: str = ""


class Forgiven(msgspec.Struct, frozen=True):
    """The reply to a `ForgiveRequest`.

    Attributes:
        patterns: what was forgotten, for display.
        refusal: why nothing was; empty if it was not refused.
    """

    patterns: tuple[str, ...] = ()
    refusal: str = ""


class Done(msgspec.Struct, frozen=True):
    """The reply to a request.

    Attributes:
        refusal: why it was refused, or failed; empty if it was not.
        text: the outcome, for display.
        within_s: another reply follows within this many seconds; 0 if this is the last one.
    """

    refusal: str = ""
    text: str = ""
    within_s: float = 0.0


Request = StatusRequest | RestartRequest | ForgiveRequest


def may_control(connection: socket.socket) -> bool:
    """Returns True if the peer of a connection is this user or root."""
    return peer_of(connection).user in (os.geteuid(), 0)


def manager_status(*, system: bool = False) -> ManagerStatus:
    """Asks a service manager for its status.

    Args:
        system: see `control_path`.

    Raises:
        UnavailableDevice: no service manager runs.
        BadState: its reply is not understood.
    """
    return _ask(StatusRequest(), ManagerStatus, system=system)


def restart_driver(name: str, *, system: bool = False, waits: bool = True) -> str:
    """Asks a service manager to restart a driver; returns the outcome as text.

    Args:
        name: the name of the driver.
        system: see `control_path`.
        waits: whether to wait until the new process serves.

    Raises:
        UnavailableDevice: no service manager runs.
        BadState: the manager refuses, or the new process does not become ready; the message says
            why.
    """
    with _asked(RestartRequest(name), system=system) as replies:
        done = replies.next(Done)
        if done.within_s and waits and not done.refusal:
            done = replies.next(Done, within_s=done.within_s + _TIMEOUT_S)
    if done.refusal:
        raise BadState(done.refusal)
    return done.text


def forgive_patterns(driver: str, pattern: str, *, system: bool = False) -> tuple[str, ...]:
    """Asks a service manager to forget what killed drivers.

    Args:
        driver, pattern: see `ForgiveRequest`.
        system: see `control_path`.

    Returns:
        What was forgotten, as text.

    Raises:
        UnavailableDevice: no service manager runs.
        BadState: the manager refuses; the message says why.
    """
    reply = _ask(ForgiveRequest(driver, pattern), Forgiven, system=system)
    if reply.refusal:
        raise BadState(reply.refusal)
    return reply.patterns


def control_path(*, system: bool = False) -> Path:
    """Returns the path of the socket of a service manager.

    Args:
        system: the machine's; otherwise this user's if there is one, and else the machine's.
    """
    own, machine = (folder / MANAGER_SOCKET for folder in (runtime_directory(), machine_directory()))
    if system or (
        not is_served(own) and is_served(machine, or_forbidden=True) and machine_user() is not None
    ):
        return machine
    return own


def _remedy(path: Path) -> str:
    if path.parent != machine_directory():
        return "`neurald serve` starts one"
    return "`neurald serve --system` starts one, and `systemctl status neurald` shows the state of its unit"


class _Replies:
    """The replies of a service manager to one request.

    Args:
        connection: the connection to the manager.
        path: the path of its socket.
    """

    def __init__(self, connection: socket.socket, path: Path) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._path = path

    def next(self, kind: type[_Reply], *, within_s: float = _TIMEOUT_S) -> _Reply:
        """Returns the next reply.

        Raises:
            OSError: there is none.
            BadState: it is not understood.
        """
        self._connection.settimeout(within_s)
        reply = self._file.readline(_MAX_REPLY_BYTES)
        if not reply:
            raise ConnectionResetError(errno.ECONNRESET, "it has ended the connection")
        try:
            return from_json(reply, kind)
        except DECODE_ERRORS as error:
            raise BadState(f"the service manager at {self._path} is of another version: {error}") from None

    def close(self) -> None:
        """Ends the conversation."""
        self._file.close()


@contextlib.contextmanager
def _asked(request: Request, *, system: bool) -> Iterator[_Replies]:
    """Sends a request to a service manager, and reads its replies during the block.

    Raises:
        UnavailableDevice: none runs, or it does not answer.
    """
    path = control_path(system=system)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(str(path))
            require_trusted(connection, path)
            require_running(peer_of(connection).process, f"the service manager at {path}")
            connection.sendall(msgspec.json.encode(request) + b"\n")
            with contextlib.closing(_Replies(connection, path)) as replies:
                yield replies
    except TimeoutError:
        raise UnavailableDevice(
            f"the service manager at {path} does not answer in time; its log may say why"
        ) from None
    except OSError as error:
        raise UnavailableDevice(
            f"no service manager answers at {path} ({error.strerror or error}); {_remedy(path)}"
        ) from None


def _ask(request: Request, kind: type[_Reply], *, system: bool) -> _Reply:
    with _asked(request, system=system) as replies:
        return replies.next(kind)
