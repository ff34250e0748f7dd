"""Files of the cache: opened by name in an open directory, and never through a link.

Content to be verified is first copied to memory that no other process can change and hashed there,
so that the verified bytes are the used ones, whatever happens to the file meanwhile. Nothing is
synced to disk: a digest detects data lost in a crash.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from neurald.hal.digests import hex_digest_of, new_digest
from neurald.hal.errors import BadData, OutOfMemory
from neurald.hal.memory.mapped_file import FileState
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.memory.private_memory import anonymous_whole
from neurald.hal.process.files.private_directory import make_directory

if TYPE_CHECKING:
    from hashlib import blake2b

_OPEN = os.O_NOFOLLOW | os.O_CLOEXEC
#: How many bytes of a memory are copied at once to be written.
_COPIED_BYTES = 1 << 16


class Fingerprint(Struct, frozen=True, kw_only=True):
    """Expected size and digest (in hexadecimal) of some bytes."""

    size_bytes: int
    digest: str

    @classmethod
    def of(cls, content: memoryview) -> Self:
        """Returns the fingerprint of bytes, which must not change during the call."""
        return cls(size_bytes=content.nbytes, digest=hex_digest_of(content))


def open_directory(path: Path | str) -> int:
    """Opens a directory in which only this user can replace files; returns the descriptor.

    Raises:
        BadData: it belongs to another user, or others may write to it.
        OSError: it does not exist, is not a directory, or cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(descriptor)
        raise BadData(f"other users can write to {path}; a directory that is yours is expected (chmod 700)")
    return descriptor


def open_file(directory: int | None, name: str) -> tuple[int, os.stat_result]:
    """Opens a regular file of this user; returns the descriptor and the status.

    Args:
        directory: descriptor of its directory; None if the name is a path.
        name: the name of the file.

    Raises:
        BadData: it is not a regular file of this user.
        OSError: it cannot be opened.
    """
    # Non-blocking, in case it is a pipe.
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _OPEN, dir_fd=directory)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(descriptor)
        raise BadData(f"{name} is not a regular file of this user")
    return descriptor, status


def read_bytes(directory: int, name: str, limit: int) -> bytes:
    """Reads a small file.

    Raises:
        BadData: it has more than `limit` bytes, or is not a regular file of this user.
        OSError: it cannot be read.
    """
    descriptor, status = open_file(directory, name)
    try:
        if status.st_size > limit:
            raise BadData(f"{name} has {status.st_size} bytes; at most {limit} are expected")
        content, size = b"", status.st_size
        # As much memory is allocated as is asked for.
        while len(content) <= size and (part := os.read(descriptor, size + 1 - len(content))):
            content += part
    finally:
        os.close(descriptor)
    if len(content) > size:
        raise BadData(f"{name} grew while it was read")
    return content


def read_small(path: Path, limit: int) -> bytes:
    """Reads a small file in a directory of this user alone.

    Raises:
        BadData: it has more than `limit` bytes, or it or the directory is not of this user.
        OSError: it cannot be read.
    """
    directory = open_directory(path.parent)
    try:
        return read_bytes(directory, path.name, limit)
    finally:
        os.close(directory)


def write_small(path: Path, content: bytes) -> None:
    """Writes a small file atomically in a directory of this user alone, created if missing.

    Raises:
        BadData: the directory is not of this user.
        OSError: the file cannot be written.
    """
    make_directory(path.parent)
    directory = open_directory(path.parent)
    try:
        replace_file(directory, path.name, content)
    finally:
        os.close(directory)


def copy_verified(
    directory: int,
    name: str,
    expected: Fingerprint,
    is_attested: Callable[[FileState], bool],
    *,
    is_shared: bool,
) -> tuple[Memory, FileState | None]:
    """Copies a file to memory that no other process can change, and verifies the copy.

    A mapped file could be overwritten or truncated while it is used. So it is copied even if it is
    in a state in which it is known to have the content; then the copy is not hashed.

    Args:
        directory: descriptor of its directory.
        name: the name of the file.
        expected: its content.
        is_attested: returns whether it is known to have that content in a state.
        is_shared: whether another process is to map the memory, which is then sealed. Memory of
            this process alone takes half of the time.

    Returns:
        The memory; and the state of the file, if that state proves the content from now on and is
            not attested, else None.

    Raises:
        BadData: the content is not the expected one, or it is not a regular file of this user.
        OutOfMemory, OSError: it cannot be read.
    """
    descriptor, status = open_file(directory, name)
    try:
        if status.st_size != expected.size_bytes:
            raise BadData(f"{name} has {status.st_size} bytes; {expected.size_bytes} are expected")
        before = FileState.of(status)
        copy = _sealed_copy if is_shared else read_whole
        memory = copy(descriptor, status.st_size)
        state = before if before == FileState.of(os.fstat(descriptor)) else None
    finally:
        os.close(descriptor)
    if state is not None and is_attested(state):
        return memory, None
    if Fingerprint.of(memory.view()) != expected:
        raise BadData(f"{name} has changed since it was written")
    return memory, state if state is not None and state.is_at_rest else None


def read_whole(descriptor: int, size: int) -> Memory:
    """Reads the beginning of a file to memory of this process; bytes beyond its end are zero.

    Raises:
        OutOfMemory, OSError: it cannot be read.
    """
    if not size:
        return HostMemory(b"")
    try:
        content = anonymous_whole(size)
    except OSError as error:
        raise OutOfMemory(f"there is no memory for {size} bytes of an entry: {error.strerror}") from None
    done = 0
    while done < size and (count := os.preadv(descriptor, [content[done:]], done)):
        done += count
    return HostMemory(content.toreadonly())


def _sealed_copy(source: int, size: int) -> SharedMemory:
    """Copies the beginning of a file to memory that no process can change, padded with zeros."""
    target = os.memfd_create("neurald artifact", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.truncate(target, size)
        copied = 0
        while copied < size and (count := os.sendfile(target, source, copied, size - copied)):
            copied += count
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(target, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(target)
        raise
    return SharedMemory.received(target, size, constant=True)


def write_file(directory: int, name: str, content: Memory) -> Fingerprint:
    """Creates a file with access for this user only; returns its fingerprint.

    Raises:
        OSError: it cannot be written.
    """
    digest = new_digest()
    with created_file(directory, name) as descriptor:
        write_memory(descriptor, content, digest)
    return Fingerprint(size_bytes=content.size, digest=digest.hexdigest())


@contextlib.contextmanager
def created_file(directory: int, name: str) -> Iterator[int]:
    """Creates a file with access for this user only; yields its descriptor, which is closed then.

    Raises:
        OSError: it cannot be created.
    """
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_memory(descriptor: int, content: Memory, digest: "blake2b") -> None:
    """Writes all bytes of a memory where a file is, and adds them to a digest.

    Raises:
        OSError: they cannot be written.
    """
    for part in content.parts():
        for begin in range(0, part.nbytes, _COPIED_BYTES):
            # Copied, so that the hashed bytes are the written ones even if the owner changes them.
            chunk = bytes(part[begin : begin + _COPIED_BYTES])
            digest.update(chunk)
            written = 0
            while written < len(chunk):
                written += os.write(descriptor, chunk[written:])


def replace_file(directory: int, name: str, content: bytes) -> None:
    """Writes a small file atomically with access for this user only; replaces an existing one.

    Raises:
        OSError: it cannot be written.
    """
    draft = f".draft-{os.urandom(8).hex()}"
    try:
        write_file(directory, draft, HostMemory(content))
        os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=directory)
        raise
