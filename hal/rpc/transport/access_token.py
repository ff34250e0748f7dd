"""Access tokens: 32 random bytes in a file that only the daemon's own user can read.

A daemon creates a new token each time that it starts, and removes it when it stops, so that a
process that takes over the address of a dead daemon learns nothing of use. Beside a UNIX socket the
file is `PATH.token`; for TCP it is in the runtime directory and named after host and port. A client
of the same user finds it there; any other client needs a copy. Names are not resolved for clients
on this host: `localhost` is 127.0.0.1, so that a process that listens at ::1 is never sent a token.
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
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.private_directory import make_directory, open_private
from neurald.hal.process.files.runtime_directory import runtime_directory

logger = logging.getLogger(__name__)

#: The metadata key with which calls carry the token.
TOKEN_KEY = "neurald-token"  # noqa: S105 - the name of a field
#: The environment variable that names the token file for daemons on TCP.
TOKEN_VARIABLE = "NEURALD_TOKEN_FILE"  # noqa: S105 - the name of a variable
TOKEN_BYTES = 32
TOKEN_SUFFIX = ".token"  # noqa: S105 - a suffix of file names
#: Non-blocking, because opening a pipe would wait for its writer.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def token_path(address: Address) -> Path:
    """Returns the path of the token file of the daemon at an address."""
    if address.path is not None:
        return address.path.with_name(address.path.name + TOKEN_SUFFIX)
    host = address.numeric.host
    with contextlib.suppress(ValueError):
        host = ipaddress.ip_address(host).compressed
    return runtime_directory() / f"tcp-{host.replace(':', '_')}-{address.port}{TOKEN_SUFFIX}"


def create_token(address: Address) -> bytes:
    """Creates a new token for the daemon that has bound an address; replaces that of a dead one.

    Raises:
        BadState: the file cannot be created, or its directory is not safe.
    """
    path = token_path(address)
    token = secrets.token_bytes(TOKEN_BYTES)
    try:
        make_directory(path.parent)
        directory = open_private(path.parent, may_be_link=address.path is not None)
        try:
            # The file gets its name when it is complete, since a client may read it at any moment.
            draft = f".{path.name}-{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(draft, flags, 0o600, dir_fd=directory)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    os.fchmod(descriptor, 0o600)
                    file.write(token)
                os.replace(draft, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=directory)
                raise
        finally:
            os.close(directory)
    except OSError as error:
        raise BadState(f"the token file {path} cannot be created: {error.strerror or error}") from None
    return token


def remove_token(address: Address, token: bytes) -> None:
    """Removes the token file of a daemon that stops, unless it now belongs to another daemon."""
    path = token_path(address)
    with contextlib.suppress(OSError, BadState):
        if read_token(path) == token:
            path.unlink()


def read_token(path: Path) -> bytes:
    """Reads the token of a daemon of this user from a file that only it and root can access.

    Root may read the tokens of all daemons.

    Raises:
        BadState: the file is not private, or does not hold a token.
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


def read_token_copy(path: Path) -> bytes:
    """Reads a token from a copy, which may be shared with a group, and reached through links.

    Logs a warning if every user can read it.

    Raises:
        BadState: it cannot be read, or does not hold a token.
    """
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IROTH:
                logger.warning("every user of this machine can read the token file %s (chmod 600)", path)
            return _content(path, file)
    except OSError as error:
        raise BadState(f"the token file {path} cannot be read: {error.strerror or error}") from None


def _content(path: Path, file: BinaryIO) -> bytes:
    """Returns the token in an open file; raises BadState if there is none."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise BadState(f"the token file {path} is not a regular file")
    content = file.read(TOKEN_BYTES + 1)
    if len(content) != TOKEN_BYTES:
        raise BadState(
            f"the token file {path} has {status.st_size} bytes; {TOKEN_BYTES} are expected, as written by the "
            "daemon"
        )
    return content


def client_token(address: Address, token_file: Path | None = None) -> bytes | None:
    """Returns the token that a client sends to a daemon; None if it has none.

    Tokens are not sent to other hosts, because the connection is not encrypted.

    Args:
        address: the address of the daemon.
        token_file: a copy of the daemon's token file. By default the file that NEURALD_TOKEN_FILE
            names, for TCP, or else the token file of a daemon of this user.

    Raises:
        BadData: `token_file` is given for an address on another host.
        BadState: the file cannot be read, or does not hold a token; or the file of this user's
            daemon is not private.
    """
    if not address.is_loopback:
        if token_file is not None:
            raise BadData(
                f"the token would travel to {address} unencrypted; use a daemon with certificates (tls=), "
                "or forward a port of this host to it (ssh -L) and connect to that"
            )
        return None
    if token_file is None and address.path is None and (named := environment_variable(TOKEN_VARIABLE)):
        token_file = Path(named)
    if token_file is not None:
        return read_token_copy(token_file)
    try:
        return read_token(token_path(address))
    except (FileNotFoundError, PermissionError):
        # A daemon that needs a token reports that; older ones need none.
        return None
    except OSError as error:
        raise BadState(
            f"the token file {token_path(address)} cannot be read: {error.strerror or error}"
        ) from None


def token_metadata(token: bytes | None) -> tuple[tuple[str, str], ...]:
    """Returns the metadata with which a client presents a token."""
    return () if token is None else ((TOKEN_KEY, token.hex()),)
