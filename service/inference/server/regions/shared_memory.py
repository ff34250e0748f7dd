"""System shared memory of clients: regions in `/dev/shm` that they name.

The region belongs to the client, who may truncate or change it at any time. So it is never mapped:
tensors are read from the file and written to it, which reports a short file where a mapping would
end the process. Owner and size are checked at every use. A region that requests use when it is
unregistered stays until the last of them has ended.
"""

import contextlib
import os
import re
import stat
import threading
import weakref
from collections.abc import Mapping
from typing import Final

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.regions import REGION
from neurald.service.inference.protocol.tensors import Parameter, quoted, read_at
from neurald.service.inference.repository.folders import open_beneath

DIRECTORY: Final = "/dev/shm"  # noqa: S108 - where the kernel keeps shared memory
_KEY: Final = re.compile(r"/?([A-Za-z0-9_][A-Za-z0-9._-]{0,254})")
#: Keys that begin so belong to backends of Triton that run on this host.
_RESERVED: Final = "triton_python_backend_shm_region_"
_MAX_NAME: Final = 256
_MAX_REGIONS: Final = 1024
_MAX_SIZE: Final = 1 << 62

_OFFSET: Final = "shared_memory_offset"
_SIZE: Final = "shared_memory_byte_size"


class _SharedFile:
    """A registered region. Its file is closed with the last reference to it."""

    def __init__(self, name: str, key: str, descriptor: int, offset: int, size: int) -> None:
        self.name = name
        self.key = key
        self.offset = offset
        self.size = size
        self._descriptor = descriptor
        #: How many parts of it requests use now.
        self.uses = 0
        #: Whether it is unregistered as soon as no request uses it.
        self.is_leaving = False

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def checked(self) -> int:
        """Returns the descriptor.

        Raises:
            ServiceError: the file has another owner by now, or is shorter than it was.
        """
        _check(self._descriptor, self.name, self.offset + self.size)
        return self._descriptor


class _Place:
    """Implements `RegionPlace`."""

    __slots__ = ("_offset", "_region", "_regions", "_size")

    def __init__(self, regions: "SharedMemoryRegions", region: _SharedFile, offset: int, size: int) -> None:
        self._regions = regions
        self._region = weakref.ref(region)
        self._offset = offset
        self._size = size

    def part(self) -> "_Part | None":
        """See `RegionPlace.part`."""
        region = self._region()
        if region is None or not self._regions.has(region):
            return None
        return _Part(self._regions, region, self._offset, self._size)


class _Part:
    """A part of a region, as a request names it. The region is in use until it is released."""

    def __init__(self, regions: "SharedMemoryRegions", region: _SharedFile, offset: int, size: int) -> None:
        self._regions = regions
        self._region = region
        self._offset = region.offset + offset
        self.size = size
        self._is_used = True
        with regions.lock:
            region.uses += 1

    @property
    def place(self) -> _Place:
        """See `RegionPart.place`."""
        region = self._region
        return _Place(self._regions, region, self._offset - region.offset, self.size)

    def release(self) -> None:
        """See `RegionPart.release`."""
        with self._regions.lock:
            if self._is_used:
                self._is_used = False
                self._region.uses -= 1
                self._regions.leave(self._region)

    def __del__(self) -> None:
        # A request that was not understood as a whole does not end.
        self.release()

    def copy_into(self, target: memoryview) -> None:
        """See `InputBytes.copy_into`."""
        try:
            is_whole = read_at(self._region.checked(), target, self._offset)
        except OSError as error:
            raise _unusable(self._region.name, error.strerror or "it cannot be read") from None
        if not is_whole:
            raise _unusable(self._region.name, "it was truncated")

    def write(self, data: memoryview, name: str) -> None:
        """See `RegionPart.write`."""
        if data.nbytes > self.size:
            raise ServiceError(
                Status.INVALID,
                f"shared memory size specified with the request for output {quoted(name)} ({self.size} bytes) "
                f"should be at least {data.nbytes} bytes to hold the results",
            )
        try:
            descriptor = self._region.checked()
            done = 0
            while done < data.nbytes:
                done += os.pwrite(descriptor, data[done:], self._offset + done)
        except OSError as error:
            raise _unusable(self._region.name, error.strerror or "it cannot be written") from None


class SharedMemoryRegions:
    """The regions that clients of this user have registered. Implements `Regions`.

    Regions are registered and unregistered in one thread; any thread may use them.
    """

    def __init__(self) -> None:
        #: Protects regions and their uses. A part that nobody refers to is released wherever that
        #: is.
        self.lock = threading.RLock()
        self._root = os.open(DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._regions: dict[str, _SharedFile] = {}

    def close(self) -> None:
        """Unregisters all regions."""
        self._regions.clear()
        os.close(self._root)

    def status(self) -> dict[str, tuple[str, int, int]]:
        """See `Regions.status`."""
        with self.lock:
            regions = tuple(self._regions.items())  # collected garbage may be parts of some of them
        return {name: (each.key, each.offset, each.size) for name, each in regions}

    def register(self, name: str, key: str, offset: int, size: int) -> None:
        """See `Regions.register`."""
        if not name or len(name) > _MAX_NAME:
            raise ServiceError(Status.INVALID, f"a region has a name of 1 to {_MAX_NAME} characters")
        if name in self._regions:
            raise ServiceError(Status.INVALID, f"shared memory region {quoted(name)} already in manager")
        if len(self._regions) >= _MAX_REGIONS:
            raise ServiceError(Status.EXHAUSTED, f"{_MAX_REGIONS} regions are registered already")
        if key.lstrip("/").startswith(_RESERVED):
            raise ServiceError(
                Status.INVALID,
                f"cannot register shared memory region {quoted(name)} with key {quoted(key)} as the key contains "
                f"the reserved prefix '{_RESERVED}'",
            )
        match = _KEY.fullmatch(key)
        if match is None:
            raise ServiceError(
                Status.INVALID,
                f"cannot register shared memory region {quoted(name)} - invalid shm key {quoted(key)}: the name "
                "of an object of shared memory is expected",
            )
        try:
            descriptor = open_beneath(self._root, match.group(1), os.O_RDWR)
        except OSError:
            raise ServiceError(
                Status.INVALID, f"Unable to open shared memory region: {quoted(key)}"
            ) from None
        region = _SharedFile(name, key, descriptor, offset, size)
        is_part = 0 <= offset < _MAX_SIZE and 0 < size < _MAX_SIZE
        if not is_part or os.fstat(descriptor).st_size < offset + size:
            raise _invalid_part(name, offset, size)
        region.checked()
        self._regions[name] = region

    def unregister(self, name: str) -> None:
        """See `Regions.unregister`."""
        with self.lock:
            if name and name not in self._regions:
                return
            for region in (self._regions[name],) if name else tuple(self._regions.values()):
                region.is_leaving = True
                self.leave(region)

    def has(self, region: _SharedFile) -> bool:
        """Returns whether this very region is registered."""
        return self._regions.get(region.name) is region

    def leave(self, region: _SharedFile) -> None:
        """Removes a region that is to be unregistered, unless requests use it."""
        if region.is_leaving and not region.uses and self.has(region):
            del self._regions[region.name]

    def part_of(self, tensor: str, parameters: Mapping[str, Parameter]) -> _Part | None:
        """See `RegionTable.part_of`."""
        name = parameters.get(REGION)
        if name is None:
            return None
        region = self._regions.get(name) if isinstance(name, str) else None
        if region is None:
            raise ServiceError(Status.INVALID, f"Unable to find shared memory region: {quoted(str(name))}")
        offset, size = parameters.get(_OFFSET, 0), parameters.get(_SIZE, 0)
        for value in (offset, size):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ServiceError(
                    Status.INVALID,
                    f"{quoted(tensor)} has {offset!r} and {size!r} for the offset and the size of shared memory",
                )
        assert isinstance(offset, int)  # noqa: S101 - checked above
        assert isinstance(size, int)  # noqa: S101 - checked above
        if offset < region.size and offset + size >= _MAX_SIZE:
            raise ServiceError(
                Status.INVALID,
                f"Integer overflow detected: byte_size ({size}) + offset ({offset}) exceeds every region, such as "
                f"{quoted(region.name)}",
            )
        if offset >= region.size or offset + size > region.size:
            what = "offset" if offset >= region.size else "offset + byte size"
            raise ServiceError(
                Status.INVALID,
                f"Invalid {what} for shared memory region: {quoted(region.name)}: {size} bytes at {offset} do "
                f"not lie inside {region.size}",
            )
        return _Part(self, region, offset, size)


def _check(descriptor: int, name: str, end: int) -> None:
    """Raises ServiceError unless a file is shared memory of this user, and long enough."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _unusable(name, "it is not a regular file")
    if status.st_uid != os.geteuid():
        raise _unusable(name, "it belongs to another user than the service")
    if status.st_size < end:
        raise _unusable(name, f"it has {status.st_size} bytes; {end} are registered")


def _invalid_part(name: str, offset: int, size: int) -> ServiceError:
    return ServiceError(
        Status.INVALID,
        f"failed to register shared memory region {quoted(name)}: invalid args: {size} bytes at {offset} are "
        "not a part of it",
    )


def _unusable(name: str, reason: str) -> ServiceError:
    return ServiceError(Status.INVALID, f"shared memory region {quoted(name)} cannot be used: {reason}")
