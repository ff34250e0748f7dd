"""System shared memory of clients: regions in `/dev/shm` that they name.

The region belongs to the client, who may truncate or change it at any time. So tensors are read
from the file and written to it, which reports a short file. Large tensors of a region that is used
again and again are copied through a mapping, by code that survives what the client does (see
`guarded_copy`), or used in place by workers (see `lane_windows`). Owner and size are checked at
every use. A region that requests use when it is unregistered stays until the last of them has
ended.

Regions outlive a front end that dies, if their files are still there: clients that have not noticed
go on. Others may register them again.
"""

import contextlib
import logging
import os
import re
import stat
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Final

from neurald.hal.open_file_limit import system_reason
from neurald.service.inference.mapping.guarded_copy import CopyOutcome, MappedRange, mapped_range
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.regions import PART_SIZE, REGION
from neurald.service.inference.protocol.tensors import Parameter, quoted, read_at
from neurald.service.inference.repository.folders import open_beneath
from neurald.service.inference.server.client_choices import RegionChoice

logger = logging.getLogger(__name__)

DIRECTORY: Final = "/dev/shm"  # noqa: S108 - where the kernel keeps shared memory
#: Instead of the descriptor of the folder, where there is none.
_NO_FOLDER: Final = -1
_KEY: Final = re.compile(r"/?([A-Za-z0-9_][A-Za-z0-9._-]{0,254})")
#: Keys that begin so belong to backends of Triton that run on this host.
_RESERVED: Final = "triton_python_backend_shm_region_"
_MAX_NAME: Final = 256
_MAX_REGIONS: Final = 1024
_MAX_SIZE: Final = 1 << 62
#: Smaller tensors are read and written as fast without a mapping.
_MIN_MAPPED_BYTES: Final = 1 << 16
#: How many large tensors have come before the region is mapped. The first copies through a mapping
#: take longer than this saves in so many.
_UNMAPPED_COPIES: Final = 16

_OFFSET: Final = "shared_memory_offset"


class _SharedFile:
    """A registered region. Its file is closed with the last reference to it."""

    def __init__(self, name: str, descriptor: int, choice: RegionChoice) -> None:
        self.name = name
        self.choice = choice
        self.offset = choice.offset
        self.size = choice.size
        #: Whether a client has registered it with the front end before, and not since.
        self.is_former = False
        self.descriptor = descriptor
        self._mapping: MappedRange | None = None
        #: How many large tensors come before it is mapped.
        self._copies_left = _UNMAPPED_COPIES
        self._may_be_mapped = True
        #: How many parts of it requests use now.
        self.uses = 0
        #: Whether it is unregistered as soon as no request uses it.
        self.is_leaving = False

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.descriptor)

    @property
    def file(self) -> int:
        """See `RegionFile.file`."""
        return self.choice.file

    def check(self) -> None:
        """Raises ServiceError if the file has another owner by now, or is shorter than it was."""
        status = os.fstat(self.descriptor)
        if status.st_uid != os.geteuid():
            raise _unusable(self.name, "it belongs to another user than the service")
        self._require_size(status.st_size)

    def check_size(self) -> None:
        """Raises ServiceError if the file is shorter than it was; takes less than `check`."""
        self._require_size(os.lseek(self.descriptor, 0, os.SEEK_END))

    def _require_size(self, found: int) -> None:
        if found < self.offset + self.size:
            raise _unusable(self.name, f"it has {found} bytes; {self.offset + self.size} are registered")

    def copy_into(self, target: memoryview, offset: int) -> None:
        """Copies bytes from an offset of the file; see `InputBytes.copy_into`."""
        try:
            self.check()
            mapping = self._mapping_for(target.nbytes)
            if mapping is not None and self._is_copied(mapping.read(target, offset)):
                return
            is_whole = read_at(self.descriptor, target, offset)
        except OSError as error:
            raise _unusable(self.name, error.strerror or "it cannot be read") from None
        if not is_whole:
            raise _unusable(self.name, "it was truncated")

    def write(self, data: memoryview, offset: int, size: int, name: str) -> None:
        """Writes an output to a part of the file; see `RegionPart.write`."""
        if data.nbytes > size:
            raise ServiceError(
                Status.INVALID,
                f"shared memory size specified with the request for output {quoted(name)} ({size} bytes) "
                f"should be at least {data.nbytes} bytes to hold the results",
            )
        try:
            self.check()
            mapping = self._mapping_for(data.nbytes)
            if mapping is not None and self._is_copied(mapping.write(data, offset)):
                return
            done = 0
            while done < data.nbytes:
                done += os.pwrite(self.descriptor, data[done:], offset + done)
        except OSError as error:
            raise _unusable(self.name, error.strerror or "it cannot be written") from None

    def _mapping_for(self, size: int) -> MappedRange | None:
        """Returns the mapping of this region for a copy, if it is worth it."""
        if size < _MIN_MAPPED_BYTES or not self._may_be_mapped:
            return None
        mapping = self._mapping
        if mapping is None:
            if self._copies_left:
                self._copies_left -= 1
                return None
            self._copies_left = _UNMAPPED_COPIES
            mapping = self._mapping = mapped_range(self.descriptor, self.offset, self.size)
        return mapping

    def _is_copied(self, outcome: CopyOutcome) -> bool:
        """Returns whether a mapping has copied; otherwise it is not used any more."""
        if outcome is CopyOutcome.COPIED:
            return True
        self._mapping = None
        # Another handler of SIGBUS remains.
        self._may_be_mapped = outcome is not CopyOutcome.UNGUARDED
        return False


class _Place:
    """Implements `RegionPlace`."""

    __slots__ = ("_region", "_regions", "offset", "size")

    def __init__(self, regions: "SharedMemoryRegions", region: _SharedFile, offset: int, size: int) -> None:
        self._regions = regions
        self._region = weakref.ref(region)
        #: The offset in the file.
        self.offset = offset
        self.size = size

    def part(self) -> "_Part | None":
        """See `RegionPlace.part`."""
        region = self._region()
        if region is None or not self._regions.has(region):
            return None
        return _Part(self._regions, region, self.offset, self.size)

    def is_beside(self, other: object) -> bool:
        """See `RegionPlace.is_beside`."""
        return isinstance(other, _Place) and other._region is self._region

    @property
    def region(self) -> _SharedFile:
        """See `RegionPlace.region`."""
        region = self._region()
        assert region is not None  # noqa: S101 - the table keeps a region that is in use
        return region

    def use(self) -> bool:
        """See `RegionPlace.use`."""
        region, regions = self._region(), self._regions
        with regions.lock:
            if region is None or not regions.has(region):
                return False
            region.uses += 1
        return True

    def release(self) -> None:
        """See `RegionPlace.release`."""
        self._regions.end_use(self.region)

    def copy_into(self, target: memoryview) -> None:
        """See `RegionPlace.copy_into`."""
        self.region.copy_into(target, self.offset)

    def write(self, data: memoryview, name: str) -> None:
        """See `RegionPlace.write`."""
        self.region.write(data, self.offset, self.size, name)


class _Part:
    """A part of a region, as a request names it. The region is in use until it is released."""

    def __init__(self, regions: "SharedMemoryRegions", region: _SharedFile, offset: int, size: int) -> None:
        self._regions = regions
        self._region = region
        #: The offset in the file.
        self._offset = offset
        self.size = size
        self._is_used = True
        with regions.lock:
            region.uses += 1

    @property
    def place(self) -> _Place:
        """See `RegionPart.place`."""
        return _Place(self._regions, self._region, self._offset, self.size)

    def release(self) -> None:
        """See `RegionPart.release`."""
        with self._regions.lock:
            if self._is_used:
                self._is_used = False
                self._regions.end_use(self._region)

    def __del__(self) -> None:
        # A request that was not understood as a whole does not end.
        if self._is_used:
            self.release()

    def copy_into(self, target: memoryview) -> None:
        """See `InputBytes.copy_into`."""
        self._region.copy_into(target, self._offset)

    def write(self, data: memoryview, name: str) -> None:
        """See `RegionPart.write`."""
        self._region.write(data, self._offset, self.size, name)


class SharedMemoryRegions:
    """The regions that clients of this user have registered. Implements `Regions`.

    Regions are registered and unregistered in one thread; any thread may use them.

    Args:
        before: the regions that were registered with the front end before, by name.

    Attributes:
        report: the function that is called when a region was registered or unregistered.
    """

    def __init__(self, before: Mapping[str, RegionChoice]) -> None:
        #: Protects regions and their uses. A part that nobody refers to is released wherever that
        #: is.
        self.lock = threading.RLock()
        try:
            self._root = os.open(DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            # As in a container that has none. Each region is refused then.
            self._root = _NO_FOLDER
            text = "clients can register no shared memory: %s cannot be opened: %s"
            logger.warning(text, DIRECTORY, system_reason(error))
        self._regions: dict[str, _SharedFile] = {}
        self.report: Callable[[], None] = lambda: None
        for name, choice in before.items():
            try:
                self._take(name, choice)
            except ServiceError as error:
                logger.warning("a region that a client had registered is not there any more: %s", error)

    def _take(self, name: str, choice: RegionChoice) -> None:
        """Registers a region again; raises ServiceError if its file is not there any more."""
        region = _opened(self._root, name, choice.key, choice.offset, choice.size)
        if region.choice != choice:
            raise _unusable(name, "there is another file of that name")
        region.is_former = True
        self._regions[name] = region

    def choices(self) -> dict[str, RegionChoice]:
        """Returns the regions that clients have registered, by name."""
        return {each.name: each.choice for each in self._listed() if not each.is_leaving}

    def close(self) -> None:
        """Unregisters all regions."""
        self._regions.clear()
        if self._root != _NO_FOLDER:
            os.close(self._root)

    def status(self) -> dict[str, tuple[str, int, int]]:
        """See `Regions.status`."""
        return {each.name: (each.choice.key, each.offset, each.size) for each in self._listed()}

    def _listed(self) -> tuple[_SharedFile, ...]:
        with self.lock:
            return tuple(self._regions.values())  # collected garbage may be parts of some of them

    def register(self, name: str, key: str, offset: int, size: int) -> None:
        """See `Regions.register`."""
        if not name or len(name) > _MAX_NAME:
            raise ServiceError(Status.INVALID, f"a region has a name of 1 to {_MAX_NAME} characters")
        known = self._regions.get(name)
        if known is not None and not known.is_former:
            raise _exists(name)
        if known is None and len(self._regions) >= _MAX_REGIONS:
            raise ServiceError(Status.EXHAUSTED, f"{_MAX_REGIONS} regions are registered already")
        region = _opened(self._root, name, key, offset, size)
        with self.lock:
            known = self._regions.get(name)
            if known is not None and known.choice == region.choice and not known.is_leaving:
                known.is_former = False
                return
            if known is not None and known.uses:
                raise _exists(name)
            self._regions[name] = region
        self.report()

    def unregister(self, name: str) -> None:
        """See `Regions.unregister`."""
        with self.lock:
            if name and name not in self._regions:
                return
            for region in (self._regions[name],) if name else tuple(self._regions.values()):
                region.is_leaving = True
                self._leave(region)
        self.report()

    def has(self, region: _SharedFile) -> bool:
        """Returns whether this very region is registered."""
        return self._regions.get(region.name) is region

    def end_use(self, region: _SharedFile) -> None:
        """Counts one use less."""
        with self.lock:
            region.uses -= 1
            if region.is_leaving:
                self._leave(region)

    def _leave(self, region: _SharedFile) -> None:
        """Removes a region that is to be unregistered, unless requests use it."""
        if not region.uses and self.has(region):
            del self._regions[region.name]

    def part_of(self, tensor: str, parameters: Mapping[str, Parameter]) -> _Part | None:
        """See `RegionTable.part_of`."""
        name = parameters.get(REGION)
        if name is None:
            return None
        region = self._regions.get(name) if isinstance(name, str) else None
        if region is None:
            raise ServiceError(Status.NOT_FOUND, f"Unable to find shared memory region: {quoted(str(name))}")
        offset, size = parameters.get(_OFFSET, 0), parameters.get(PART_SIZE, 0)
        for value in (offset, size):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ServiceError(
                    Status.INVALID,
                    f"{quoted(tensor)} has {offset!r} and {size!r} for the offset and the size of shared memory; "
                    "integers of at least 0 are expected",
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
        return _Part(self, region, region.offset + offset, size)


def _opened(root: int, name: str, key: str, offset: int, size: int) -> _SharedFile:
    """Opens a region of shared memory.

    Args:
        root: descriptor of the folder of shared memory, or -1.
        name, key, offset, size: see `Regions.register`.

    Raises:
        ServiceError: it cannot be used.
    """
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
    if root == _NO_FOLDER:
        raise ServiceError(
            Status.UNAVAILABLE,
            f"Unable to open shared memory region: {quoted(key)}: the service has no {DIRECTORY}",
        )
    try:
        descriptor = open_beneath(root, match.group(1), os.O_RDWR)
    except OSError:
        raise ServiceError(Status.INVALID, f"Unable to open shared memory region: {quoted(key)}") from None
    status = os.fstat(descriptor)
    region = _SharedFile(
        name, descriptor, RegionChoice(key=key, offset=offset, size=size, file=status.st_ino)
    )
    if not stat.S_ISREG(status.st_mode):
        raise _unusable(name, "it is not a regular file")
    is_part = 0 <= offset < _MAX_SIZE and 0 < size < _MAX_SIZE
    if not is_part or status.st_size < offset + size:
        raise _invalid_part(name, offset, size)
    region.check()
    return region


def _exists(name: str) -> ServiceError:
    return ServiceError(Status.EXISTS, f"shared memory region {quoted(name)} already in manager")


def _invalid_part(name: str, offset: int, size: int) -> ServiceError:
    return ServiceError(
        Status.INVALID,
        f"failed to register shared memory region {quoted(name)}: invalid args: {size} bytes at {offset} are "
        "not a part of it",
    )


def _unusable(name: str, reason: str) -> ServiceError:
    return ServiceError(Status.INVALID, f"shared memory region {quoted(name)} cannot be used: {reason}")
