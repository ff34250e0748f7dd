"""The secret by which a daemon knows who may use it: 32 random bytes in a file that only its own user can read.

A daemon makes another one each time that it starts, and removes it when it stops, so that whoever takes over the address of
a daemon that is gone learns nothing of use. Beside a UNIX socket the file is `PATH.token`; for TCP it is in the
runtime directory and named after host and port. A client of the same user finds it there. Any other client is given a copy.
A client on this host is never sent elsewhere by a name: `localhost` is 127.0.0.1, so that nobody who listens at ::1 is shown a token.
"""

import contextlib
import ipaddress
import logging
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from neurald.hal.errors import BadData, BadState
from neurald.hal.process.address import Address
from neurald.hal.process.private_directory import make_directory, open_private
from neurald.hal.process.runtime_directory import runtime_directory

logger = logging.getLogger(__name__)

#: The name under which calls carry the token.
TOKEN_KEY = "neurald-token"  # noqa: S105 - the name of a field
#: Names the file of the token that is sent to daemons on TCP.
TOKEN_VARIABLE = "NEURALD_TOKEN_FILE"  # noqa: S105 - the name of a variable
TOKEN_BYTES = 32
TOKEN_SUFFIX = ".token"  # noqa: S105 - a suffix of file names
#: Opening a pipe must not wait for who writes to it.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def token_path(address: Address) -> Path:
    """Where the token of the daemon at an address is."""
    if address.path is not None:
        return address.path.with_name(address.path.name + TOKEN_SUFFIX)
    host = address.numeric.host
    with contextlib.suppress(ValueError):
        host = ipaddress.ip_address(host).compressed
    return runtime_directory() / f"tcp-{host.replace(':', '_')}-{address.port}{TOKEN_SUFFIX}"


def create_token(address: Address) -> bytes:
    """Makes a new token for the daemon that has bound an address, in place of what a dead one has left.

    Raises:
        BadState: the file cannot be made, or its directory is not safe.
    """
    path = token_path(address)
    token = secrets.token_bytes(TOKEN_BYTES)
    try:
        make_directory(path.parent)
        directory = open_private(path.parent, may_be_link=address.path is not None)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path.name, dir_fd=directory)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path.name, flags, 0o600, dir_fd=directory)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)
                file.write(token)
        finally:
            os.close(directory)
    except OSError as error:
        raise BadState(f"the token file {path} cannot be made: {error.strerror or error}") from None
    return token


def remove_token(address: Address, token: bytes) -> None:
    """Removes the file of a daemon that stops, unless it is by now another daemon's."""
    path = token_path(address)
    with contextlib.suppress(OSError, BadState):
        if read_token(path) == token:
            path.unlink()


def read_token(path: Path) -> bytes:
    """The token in the file of a daemon of this user, which nobody else but root can have read or written.

    Root may read those of all daemons.

    Raises:
        BadState: it is not a private file, or it holds no token.
        OSError: it cannot be opened.
    """
    directory = open_private(path.parent, may_be_link=True)
    try:
        descriptor = os.open(path.name, _READ | os.O_NOFOLLOW, dir_fd=directory)
    finally:
        os.close(directory)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        is_own = status.st_uid == os.geteuid() or os.geteuid() == 0
        if not is_own or status.st_mode & 0o077:
            raise BadState(
                f"the token file {path} is not private: it belongs to user {status.st_uid} and has mode "
                f"{stat.S_IMODE(status.st_mode):04o}; a file of user {os.geteuid()} with mode 0600 is expected"
            )
        return _content(path, file)


def read_copy(path: Path) -> bytes:
    """The token in a copy that somebody has handed out; it may be shared by a group, and be reached through links.

    Logs a warning if every user can read it.

    Raises:
        BadState: it cannot be read, or it holds no token.
    """
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IROTH:
                logger.warning("every user of this machine can read the token file %s (chmod 600)", path)
            return _content(path, file)
    except OSError as error:
        raise BadState(f"the token file {path} cannot be read: {error.strerror or error}") from None


def _content(path: Path, file: BinaryIO) -> bytes:
    """The token in an open file; raises BadState if there is none."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise BadState(f"the token file {path} is not a regular file")
    content = file.read(TOKEN_BYTES + 1)
    if len(content) != TOKEN_BYTES:
        raise BadState(
            f"the token file {path} has {status.st_size} bytes; {TOKEN_BYTES} are expected, as the daemon wrote them"
        )
    return content


def clients_token(address: Address, token_file: Path | None = None) -> bytes | None:
    """The token that a client sends to a daemon; None where it has none for it.

    Tokens are not sent to other hosts: nothing is encrypted on the way there.

    Args:
        address: of the daemon.
        token_file: a copy of the daemon's token file; by default what NEURALD_TOKEN_FILE names, for TCP, or else the file of a
            daemon of this user.

    Raises:
        BadData: `token_file` is given for an address on another host.
        BadState: the file cannot be read, or holds no token; or that of this user's daemon is not private.
    """
    if not address.is_loopback:
        if token_file is not None:
            raise BadData(
                f"the token would travel to {address} unencrypted; forward a port of this host to the daemon "
                "(ssh -L), and connect to that"
            )
        return None
    if token_file is None and address.path is None and (named := os.environ.get(TOKEN_VARIABLE)):
        token_file = Path(named)
    if token_file is not None:
        return read_copy(token_file)
    try:
        return read_token(token_path(address))
    except (FileNotFoundError, PermissionError):
        # A daemon that wants a token says so; older ones want none.
        return None
    except OSError as error:
        raise BadState(
            f"the token file {token_path(address)} cannot be read: {error.strerror or error}"
        ) from None


def token_metadata(token: bytes | None) -> tuple[tuple[str, str], ...]:
    """The metadata by which a client shows a token."""
    return () if token is None else ((TOKEN_KEY, token.hex()),)
