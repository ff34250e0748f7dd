"""The conversation of operators' commands with the service manager.

The manager listens at `manager.sock` beside its drivers' sockets. A client sends one request as a
line of JSON, gets one reply in the same form, and the connection ends.
"""

import os
import socket
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from neurald.hal.errors import BadState, UnavailableDevice
from neurald.hal.process.activation import MANAGER_SOCKET, is_served
from neurald.hal.process.peer import peer_of
from neurald.hal.process.runtime_directory import machine_directory, machine_user, runtime_directory
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
    """Asks for the restart of a driver; the reply is a `Done`."""

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
        patterns: what was forgotten, for people.
        refusal: why nothing was; empty if it was not refused.
    """

    patterns: tuple[str, ...] = ()
    refusal: str = ""


class Done(msgspec.Struct, frozen=True):
    """The reply to a request.

    Attributes:
        refusal: why it was refused; empty if it was not.
    """

    refusal: str = ""


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


def restart_driver(name: str, *, system: bool = False) -> None:
    """Asks a service manager to restart a driver.

    Args:
        name: of the driver.
        system: see `control_path`.

    Raises:
        UnavailableDevice: no service manager runs.
        BadState: the manager refuses; the message says why.
    """
    refusal = _ask(RestartRequest(name), Done, system=system).refusal
    if refusal:
        raise BadState(refusal)


def forgive_patterns(driver: str, pattern: str, *, system: bool = False) -> tuple[str, ...]:
    """Asks a service manager to forget what killed drivers.

    Args:
        driver, pattern: see `ForgiveRequest`.
        system: see `control_path`.

    Returns:
        What was forgotten, for people.

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


def _ask(request: Request, kind: type[_Reply], *, system: bool) -> _Reply:
    path = control_path(system=system)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(str(path))
            require_trusted(connection, path)
            require_running(peer_of(connection).process, f"the service manager at {path}")
            connection.sendall(msgspec.json.encode(request) + b"\n")
            with connection.makefile("rb") as file:
                reply = file.readline(_MAX_REPLY_BYTES)
    except TimeoutError:
        raise UnavailableDevice(
            f"the service manager at {path} does not answer within {_TIMEOUT_S:g} s; its log may say why"
        ) from None
    except OSError as error:
        raise UnavailableDevice(
            f"no service manager answers at {path} ({error.strerror or error}); {_remedy(path)}"
        ) from None
    try:
        return msgspec.json.decode(reply, type=kind)
    except DECODE_ERRORS as error:
        raise BadState(f"the service manager at {path} is of another version: {error}") from None
