"""Files of the cache: opened by name in an open directory, never through a link, and read once.

Content to be verified is first copied to memory that nobody else can change and hashed there, so
that the verified bytes are the used ones, whatever happens to the file meanwhile. Nothing is synced
to disk: a digest detects data lost in a crash.
"""

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import Self

from msgspec import Struct

from neurald.hal.digests import hex_digest_of, new_digest
from neurald.hal.errors import BadData
from neurald.hal.memory.mapped_file import FileState
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory

_OPEN = os.O_NOFOLLOW | os.O_CLOEXEC
#: Files of up to this size are read into memory of this process, which takes less time than a
#: sealed copy that another process may be given.
_SMALL_BYTES = 1 << 16


class Fingerprint(Struct, frozen=True, kw_only=True):
    """Expected size and digest (in hexadecimal) of some bytes."""

    size_bytes: int
    digest: str

    @classmethod
    def of(cls, content: memoryview) -> Self:
        """Returns the fingerprint of bytes, which must not change during the call."""
        return cls(size_bytes=content.nbytes, digest=hex_digest_of(content))


def open_directory(path: Path) -> int:
    """Opens the directory of an entry; returns the descriptor.

    Raises:
        BadData: it belongs to another user.
        OSError: it does not exist, is not a directory, or cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN)
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise BadData("it belongs to another user")
    return descriptor


def _open_file(directory: int, name: str) -> tuple[int, int]:
    """Opens a regular file of this user; returns the descriptor and the size."""
    # Non-blocking, in case it is a pipe.
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _OPEN, dir_fd=directory)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(descriptor)
        raise BadData(f"{name} is not a regular file of this user")
    return descriptor, status.st_size


def read_bytes(directory: int, name: str, limit: int) -> bytes:
    """Reads a small file.

    Raises:
        BadData: it has more than `limit` bytes, or is not a regular file of this user.
        OSError: it cannot be read.
    """
    descriptor, size = _open_file(directory, name)
    with os.fdopen(descriptor, "rb") as file:
        if size > limit:
            raise BadData(f"{name} has {size} bytes; at most {limit} are expected")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise BadData(f"{name} grew while it was read")
    return content


def read_sealed(directory: int, name: str, expected: Fingerprint) -> tuple[Memory, FileState | None]:
    """Copies a file to sealed memory, or to memory of this process if it is small.

    Returns:
        The memory, and the state of the file if that state proves the content, else None.

    Raises:
        BadData: the content is not the expected one, or it is not a regular file of this user.
        OSError: it cannot be read.
    """
    source, found = _open_file(directory, name)
    try:
        before = FileState.of(os.fstat(source))
        if found != expected.size_bytes:
            raise BadData(f"{name} has {found} bytes; {expected.size_bytes} are expected")
        is_small = found <= _SMALL_BYTES
        memory = HostMemory(os.read(source, found)) if is_small else _sealed_copy(source, found)
        is_same = before == FileState.of(os.fstat(source))
    finally:
        os.close(source)
    if Fingerprint.of(memory.view()) != expected:
        raise BadData(f"{name} has changed since it was written")
    return memory, before if is_same and before is not None and before.is_at_rest else None


def copy_known(directory: int, name: str, state: FileState) -> Memory | None:
    """Copies a file that is still in a known state to sealed memory; None if its state has changed.

    The content of the file in that state was verified before and is not hashed again. It is still
    copied: a mapped file could be overwritten or truncated during use.

    Raises:
        BadData: it is not a regular file of this user, or is truncated meanwhile.
        OSError: it cannot be read.
    """
    descriptor, size = _open_file(directory, name)
    try:
        if FileState.of(os.fstat(descriptor)) != state:
            return None
        memory = _sealed_copy(descriptor, size)
        return memory if FileState.of(os.fstat(descriptor)) == state else None
    finally:
        os.close(descriptor)


def _sealed_copy(source: int, size: int) -> SharedMemory:
    target = os.memfd_create("neurald artifact", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
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
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600, dir_fd=directory)
    try:
        for part in content.parts():
            # Copied, so that the hashed bytes are the written ones even if the owner changes them.
            chunk = bytes(part)
            digest.update(chunk)
            written = 0
            while written < len(chunk):
                written += os.write(descriptor, chunk[written:])
    finally:
        os.close(descriptor)
    return Fingerprint(size_bytes=content.size, digest=digest.hexdigest())


def replace_file(directory: int, name: str, content: bytes) -> None:
    """Atomically writes a small file with access for this user only; replaces an existing one.

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
