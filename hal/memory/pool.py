"""Memory pools: host buffers, mapped files and sealed shared memory, with a common bounds check.

Memory that crosses a process boundary is a memfd whose size is sealed, so that the peer cannot
shrink it under a running kernel: touching a shrunk mapping kills the reader with SIGBUS.
"""

import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from neurald.hal.api_arguments import instance, integer, shown
from neurald.hal.errors import (
    BadData,
    BadState,
    Error,
    OutOfMemory,
    UnexpectedNull,
    Unmappable,
    WrongType,
)
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.alignment import align
from neurald.hal.memory.private_memory import buffer_address
from neurald.hal.open_file_limit import descriptor_shortage
from neurald.hal.process.fork import at_fork
from neurald.hal.process.memory.mappings import MAP_FIXED, map_memory
from neurald.hal.unpicklable import Unpicklable

#: Bytes that are read at a time of a memory whose pages are not kept; a multiple of any page size.
_PART_BYTES = 1 << 18
_SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def checked_range(offset: int, length: int, size: int, what: str) -> None:
    """Raises BadData unless `length` bytes from `offset` lie within `size` bytes."""
    if offset < 0 or length < 0 or offset + length > size:
        raise BadData(f"{what}: {length} bytes at offset {offset} do not lie inside {size} bytes")


def leave_pages(content: memoryview, offset: int, length: int) -> None:
    """Removes the pages of a file's mapping from this process; they come back when read.

    Args:
        content: all of a mapping that is not private, so that no byte is lost.
        offset, length: the offset and length of the range. Pages that are only in part in it are
            kept.
    """
    mapping = content.obj
    if not isinstance(mapping, mmap.mmap):
        return
    begin, end = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE, offset + length
    end = end if end == len(mapping) else end // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end:
        mapping.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def leave_all_pages(memory: "Memory") -> None:
    """Removes pages of a file or of sealed memory from this process; they come back when read."""
    memory._leave(0, memory.size)


class Memory(Unpicklable):
    """A block of bytes that holds operands, inputs or outputs.

    `allocate` and `from_fd` create the kinds that an application needs; `HostMemory` wraps an
    existing buffer.

    Args:
        buffer: a view of single bytes.

    Raises:
        WrongType: it is something else, such as an array.
    """

    instead_of_pickling = "Memory.copy copies its bytes, and bytes(memory.view()) can be pickled"
    _address: int | None = None

    def __init__(self, buffer: memoryview) -> None:
        # Offsets and sizes of other views would be those of elements.
        if not isinstance(buffer, memoryview) or buffer.format != "B":
            raise WrongType(
                f"the buffer of a memory is {shown(buffer)}; a memoryview of single bytes is expected. "
                "Memory.allocate creates memory, and numpy.asarray(memory.view()) reads and writes it"
            )
        self._buffer = buffer

    @staticmethod
    def allocate(size: int) -> "SharedMemory":
        """Allocates zeroed shared memory, which drivers on this host use without a copy.

        Raises:
            BadData: `size` is not positive.
            OutOfMemory: the system has not enough memory.
        """
        return SharedMemory.create(integer(size, "the size"))

    @staticmethod
    def from_fd(fd: int, size: int, offset: int = 0) -> "Memory":
        """Maps `size` bytes of the file behind `fd`, from `offset`; writable if `fd` is.

        The descriptor is duplicated, so the caller may close it. The file must not shrink while the
        memory is used. Drivers on this host use a whole memfd without a copy if its size is sealed;
        they get a copy of anything else.

        Raises:
            BadData: the range exceeds the file, or `fd` is not an open descriptor.
            Unmappable: the file cannot be mapped (a pipe, for example).
            OutOfMemory, ResourceExhaustedTransient: this process has reached its limit for memory
                or descriptors.
        """
        size, offset = integer(size, "the size"), integer(offset, "the offset")
        try:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            status = os.fstat(fd)
        except TypeError:
            raise WrongType(
                f"the descriptor is {shown(fd)}; an integer or an open file is expected"
            ) from None
        except (OSError, ValueError, OverflowError) as error:
            raise BadData(f"descriptor {fd}: {error}") from None
        if not stat.S_ISREG(status.st_mode):
            raise Unmappable(f"descriptor {fd} is not a regular file, and cannot be mapped")
        if size <= 0:
            raise BadData(f"a memory has {size} bytes; a positive size is expected")
        checked_range(offset, size, status.st_size, f"descriptor {fd}")
        seals = _seals(fd)
        writable = flags & os.O_ACCMODE == os.O_RDWR and not seals & fcntl.F_SEAL_WRITE
        demanded = _SIZE_SEALS | (0 if writable else fcntl.F_SEAL_WRITE)
        if size == status.st_size and seals & demanded == demanded:
            try:
                return SharedMemory.received(os.dup(fd), size, constant=not writable)
            except OSError as error:
                raise _mapping_failure(error) or Unmappable(
                    f"descriptor {fd} cannot be mapped: {error}"
                ) from None
            except BadData as error:
                raise Unmappable(f"descriptor {fd} cannot be mapped: {error}") from None
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        try:
            mapping = mmap.mmap(
                fd,
                offset - start + size,
                access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ,
                offset=start,
            )
        except (OSError, ValueError) as error:
            raise _mapping_failure(error) or Unmappable(
                f"descriptor {fd} cannot be mapped: {error}"
            ) from None
        return Memory(memoryview(mapping)[offset - start :])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.size} bytes{', read-only' if self.readonly else ''}>"

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._buffer.nbytes

    @property
    def address(self) -> int:
        """Address of its first byte in this process, constant for its lifetime.

        0 if it is empty.
        """
        if self._address is None:
            self._address = buffer_address(self._buffer)
        return self._address

    @property
    def readonly(self) -> bool:
        """True if it cannot be written."""
        return self._buffer.readonly

    def view(self, offset: int = 0, length: int | None = None) -> memoryview:
        """Returns a view of the bytes from `offset`, all or `length` of them.

        Raises:
            BadData: the range exceeds the memory.
            WrongType: the offset or the length is no integer.
        """
        try:
            count = self.size - offset if length is None else length
            checked_range(offset, count, self.size, "memory range")
            return self._buffer[offset : offset + count]
        except (TypeError, ValueError):
            raise WrongType(
                f"the memory range has the offset {shown(offset)} and the length {shown(length)}; integers are expected"
            ) from None

    def parts(self, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
        """Yields the bytes from `offset`, all or `length` of them, in parts that are read once.

        Parts of files and of sealed memory do not stay in the memory of this process.

        Raises:
            BadData: the range exceeds the memory.
        """
        content, start = self.view(offset, length), 0
        while start < content.nbytes:
            # They end at multiples of their size, since a read maps the pages around it as well.
            end = start + _PART_BYTES - (offset + start) % _PART_BYTES
            part = content[start:end]
            yield part
            self._leave(offset + start, part.nbytes)
            start = end

    def _leave(self, offset: int, length: int) -> None:
        """Notes that a part has been read."""

    @staticmethod
    def copy(source: "Memory", target: "Memory") -> None:
        """Copies the whole of one memory to another; either may be device memory.

        Args:
            source: the memory to read.
            target: the memory to write, of the same size.

        Raises:
            UnexpectedNull: a memory is None.
            BadData: their sizes differ, the target is read-only, or device memories hold no values
                or values of different types or dimensions.
            BadState: device memory is in use.
            Error: a device failed; its memory then holds no value.
        """
        if source is None or target is None:
            raise UnexpectedNull("a memory to copy is None; a Memory is expected")
        for memory in (source, target):
            instance(memory, Memory, "a memory to copy")
        if source is not target:
            target.write(source)

    def write(self, source: "Memory", dimensions: tuple[int, ...] | None = None) -> None:
        """Copies all bytes of a memory of the same size to this one.

        Args:
            source: readable memory.
            dimensions: shape of the value; used only by device memory.

        Raises:
            BadData: the sizes differ, or this memory is read-only.
        """
        instance(source, Memory, "a memory to copy").read(self)

    def read(self, target: "Memory") -> None:
        """Copies all its bytes to host memory; see `write`.

        Args:
            target: memory of the host, of the same size.
        """
        instance(target, Memory, "a memory to copy")
        if target.readonly:
            raise BadData("the memory to copy to is read-only; one that can be written is expected")
        if target.size != self.size:
            raise BadData(
                f"{self.size} bytes are copied to a memory of {target.size}; equal sizes are expected"
            )
        # NumPy releases the GIL here.
        np.asarray(target.view())[...] = np.asarray(self.view())


class HostMemory(Memory):
    """The bytes of a contiguous object with the buffer protocol (array, bytes, mmap)."""

    def __init__(self, source: Any) -> None:
        view = memoryview(source)
        if not view.c_contiguous:
            raise BadData("a buffer is not C-contiguous; pass a copy: numpy.ascontiguousarray(array)")
        # memoryview.cast() rejects shapes that contain 0; there are no bytes to view then.
        empty = memoryview(b"" if view.readonly else bytearray())
        super().__init__(view.cast("B") if view.nbytes else empty)


class SharedMemory(Memory):
    """A sealed memfd. Closed when no longer referenced, or by `close`.

    Attributes:
        is_abandoned: True if a driver failed during an execution with this memory and may still
            write to it.
    """

    def __init__(self, fd: int, buffer: memoryview) -> None:
        super().__init__(buffer)
        self._fd = fd
        self.is_abandoned = False

    @classmethod
    def create(cls, size: int, name: str = "neurald") -> Self:
        """Creates zeroed memory that both sides may write."""
        fd = _new_memfd(size, name)
        try:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SIZE_SEALS)
            return cls(fd, memoryview(mmap.mmap(fd, size)))
        except OSError as error:
            os.close(fd)
            raise _allocation_failure(size, error) from None

    @classmethod
    def working(cls, size: int, name: str = "neurald working memory") -> Self:
        """Does what `create` does, for internal data of the library.

        After a fork the child has its own copy.
        """
        memory = cls.create(size, name)
        at_fork(memory)
        return memory

    def forked(self) -> None:
        """Replaces `working` memory in a forked child by a copy at the same address.

        If the copy fails the child is terminated: it would write to memory that its parent and a
        daemon compute with.
        """
        try:
            copy = _new_memfd(self.size, "neurald working memory")
            written = 0
            while written < self.size:
                written += os.pwrite(copy, self._buffer[written:], written)
            fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SIZE_SEALS)
            _map_over(self.address, self.size, copy)
            if self._fd >= 0:
                os.dup2(copy, self._fd, inheritable=False)
            os.close(copy)
        except (OSError, OutOfMemory) as error:
            os.write(
                2, f"neurald: {self.size} bytes cannot be copied for a forked process: {error}\n".encode()
            )
            os._exit(os.EX_OSERR)

    @classmethod
    def constant(cls, content: memoryview, name: str = "neurald constants") -> Self:
        """Creates a copy of `content` that is sealed against writing."""
        fd = _new_memfd(content.nbytes, name)
        try:
            written = 0
            while written < content.nbytes:
                written += os.pwrite(fd, content[written:], written)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SIZE_SEALS | fcntl.F_SEAL_WRITE)
            return cls(fd, memoryview(mmap.mmap(fd, content.nbytes, access=mmap.ACCESS_READ)))
        except OSError as error:
            os.close(fd)
            raise _allocation_failure(content.nbytes, error) from None

    @classmethod
    def constants(cls, ranges: Sequence[tuple[Memory, int, int]], name: str = "neurald constants") -> Self:
        """Copies ranges of memories, each a memory with offset and length, one after the other.

        Each begins at a multiple of `ALIGNMENT`. The copy is sealed against writing.

        Raises:
            OutOfMemory: there is no memory for it.
        """
        *before, (_, _, last) = ranges
        size = sum(align(length) for _, _, length in before) + last
        fd = _new_memfd(size, name)
        try:
            start = 0
            for memory, offset, length in ranges:
                end = start
                for part in memory.parts(offset, length):
                    written = 0
                    while written < part.nbytes:
                        written += os.pwrite(fd, part[written:], end + written)
                    end += written
                start += align(length)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SIZE_SEALS | fcntl.F_SEAL_WRITE)
            return cls(fd, memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_READ)))
        except OSError as error:
            os.close(fd)
            raise _allocation_failure(size, error) from None

    def _leave(self, offset: int, length: int) -> None:
        leave_pages(self._buffer, offset, length)

    @classmethod
    def received(cls, fd: int, size: int, *, constant: bool) -> Self:
        """Maps memory whose descriptor another process sent.

        Takes over `fd`, and closes it on failure.

        Raises:
            BadData: it is not a memfd, seals are missing, the size differs, or it uses huge pages.
            OutOfMemory, ResourceExhaustedTransient: this process has reached its limit for memory
                or descriptors.
        """
        try:
            cls.check(fd, size, constant=constant)
            access = mmap.ACCESS_READ if constant else mmap.ACCESS_WRITE
            return cls(fd, memoryview(mmap.mmap(fd, size, access=access)))
        except Error:
            os.close(fd)
            raise
        except (OSError, ValueError) as error:
            os.close(fd)
            raise _mapping_failure(error) or _no_shared_memory(error) from None

    @staticmethod
    def check(fd: int, size: int, *, constant: bool) -> None:
        """Checks that `received` can map a descriptor; the seals keep the result valid.

        Raises:
            BadData: see `received`.
        """
        demanded = _SIZE_SEALS | (fcntl.F_SEAL_WRITE if constant else 0)
        try:
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
            actual = os.fstat(fd).st_size
            page_bytes = os.fstatvfs(fd).f_bsize
        except OSError as error:
            raise _no_shared_memory(error) from None
        if seals & demanded != demanded:
            raise BadData(f"shared memory has the seals {seals:#x}; {demanded:#x} are required")
        if actual != size or size <= 0:
            raise BadData(f"shared memory has {actual} bytes; {size} were announced")
        if page_bytes != mmap.PAGESIZE:
            # The kernel may run out of huge pages on first access, which kills the process.
            raise BadData("shared memory has huge pages; memory with ordinary pages is expected")

    @property
    def fd(self) -> int:
        """The descriptor, still owned by this object.

        Raises:
            BadState: the memory is closed.
        """
        if self._fd < 0:
            raise BadState(
                f"the shared memory of {self.size} bytes is closed; it can only be used before `close`"
            )
        return self._fd

    @property
    def is_closed(self) -> bool:
        """True if the descriptor is closed."""
        return self._fd < 0

    def alias(self) -> "SharedMemory":
        """Returns another memory for the same bytes, without its own descriptor."""
        return SharedMemory(-1, self._buffer)

    def close(self) -> None:
        """Closes the descriptor; existing views stay valid."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # A default, since the names of this module may be gone when the interpreter ends.
        if getattr(self, "_fd", -1) >= 0:
            close(self._fd)
            self._fd = -1


def _no_shared_memory(error: Exception) -> BadData:
    return BadData(f"the descriptor received is not shared memory: {error}")


def _mapping_failure(error: Exception) -> Error | None:
    """Returns the error for a mapping that failed for lack of resources.

    None for any other reason.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOMEM:
        return OutOfMemory("shared memory cannot be mapped: the process has reached its limit of memory")
    return descriptor_shortage("shared memory cannot be mapped", error)


def _map_over(address: int, size: int, fd: int) -> None:
    """Maps a file over an existing mapping, readable, writable and shared."""
    map_memory(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, fd, 0)


def _seals(fd: int) -> int:
    """Returns the seals of a file; 0 if it is not a memfd."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        return 0


def _new_memfd(size: int, name: str) -> int:
    if size <= 0:
        raise BadData(f"shared memory of {size} bytes; a positive size is expected")
    fd = -1
    try:
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
    except (OSError, OverflowError) as error:
        if fd >= 0:
            os.close(fd)
        raise _allocation_failure(size, error) from None
    return fd


def _allocation_failure(size: int, error: Exception) -> Error:
    what = f"{size} bytes of shared memory cannot be allocated"
    return descriptor_shortage(what, error) or OutOfMemory(f"{what}: {error}")
