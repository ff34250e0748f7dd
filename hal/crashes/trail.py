"""Reads the breadcrumbs of a process that may have run wild before it died."""

import os
import zlib
from dataclasses import dataclass
from typing import Final

from neurald.hal.crashes.breadcrumbs import (
    HANGS,
    HEADER,
    HELPER,
    HELPERS,
    HELPERS_AT,
    MAGIC,
    MAX_VERSION_BYTES,
    MEMORY_BYTES,
    RECORD,
    RECORD_BYTES,
    RECORDS,
    RECORDS_AT,
    SLOT,
    SLOTS,
    SLOTS_AT,
    VERSION_AT,
    CrashPhase,
    CrumbRecord,
)
from neurald.hal.decoding import from_msgpack
from neurald.hal.errors import BadData
from neurald.hal.records import DECODE_ERRORS

_MAX_TEXT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The work of a thread of the process.

    Attributes:
        phase: what it did with the model.
        thread: its identifier, as Python names it.
        session: the session of the client.
        hangs: it had exceeded its limit.
        record: the record of the model.
    """

    phase: CrashPhase
    thread: int
    session: int
    hangs: bool
    record: CrumbRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperDeath:
    """A process that died while it compiled a model for the driver's process."""

    signal: int
    record: CrumbRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """The content of the breadcrumbs of a process.

    Attributes:
        version: the version of the driver; empty if it created no device.
        activities: what its threads did.
    """

    version: str = ""
    activities: tuple[Activity, ...] = ()


def read_trail(descriptor: int) -> Trail:
    """Reads breadcrumbs. What is not valid is left out; nothing raises an error.

    Args:
        descriptor: the descriptor of the memory.
    """
    page = _read(descriptor, 0, SLOTS_AT)
    if len(page) < SLOTS_AT:
        return Trail()
    slots = _read(descriptor, SLOTS_AT, SLOTS * SLOT.size)
    activities = []
    for offset in range(0, len(slots) - SLOT.size + 1, SLOT.size):
        number, flags, record, generation, thread, session = SLOT.unpack_from(slots, offset)
        if not number or number not in CrashPhase.__members__.values():
            continue
        found = _record(descriptor, record, generation)
        if found is not None:
            activities.append(
                Activity(
                    phase=CrashPhase(number),
                    thread=thread,
                    session=session,
                    hangs=bool(flags & HANGS),
                    record=found,
                )
            )
    return Trail(version=_version(page), activities=tuple(activities))


def read_helper_deaths(descriptor: int, known: int) -> tuple[int, tuple[HelperDeath, ...]]:
    """Reads the deaths of helpers.

    Args:
        descriptor: the descriptor of the memory.
        known: how many deaths were read before.

    Returns:
        How many there are now, and those that are new, or the latest of them.
    """
    page = _read(descriptor, 0, SLOTS_AT)
    if len(page) < SLOTS_AT:
        return known, ()
    magic, count, _ = HEADER.unpack_from(page)
    if magic != MAGIC or count <= known:
        return known, ()
    deaths = []
    for number in range(max(known, count - HELPERS), count):
        record, generation, signal = HELPER.unpack_from(page, HELPERS_AT + number % HELPERS * HELPER.size)
        found = _record(descriptor, record, generation)
        if found is not None and signal < 1 << 8:
            deaths.append(HelperDeath(signal=signal, record=found))
    return count, tuple(deaths)


def read_version(descriptor: int) -> str:
    """Reads the version of the driver; empty if it is not known."""
    page = _read(descriptor, 0, SLOTS_AT)
    return _version(page) if len(page) == SLOTS_AT else ""


def _version(page: bytes) -> str:
    magic, _, length = HEADER.unpack_from(page)
    if magic != MAGIC or length > MAX_VERSION_BYTES:
        return ""
    text = page[VERSION_AT : VERSION_AT + length].decode("utf-8", "replace")
    return text if text.isprintable() else ""


def _record(descriptor: int, number: int, generation: int) -> CrumbRecord | None:
    if number >= RECORDS:
        return None
    start = RECORDS_AT + number * RECORD_BYTES
    head = _read(descriptor, start, RECORD.size)
    if len(head) != RECORD.size:
        return None
    found, length, checksum = RECORD.unpack(head)
    if found != generation or length > RECORD_BYTES - RECORD.size:
        return None
    content = _read(descriptor, start + RECORD.size, length)
    if zlib.crc32(content) != checksum:
        return None
    try:
        record = from_msgpack(content, CrumbRecord)
        record.pattern.check()
    except (BadData, *DECODE_ERRORS):
        return None
    texts = (record.model, record.step)
    return record if all(len(text) <= _MAX_TEXT and text.isprintable() for text in texts) else None


def _read(descriptor: int, offset: int, size: int) -> bytes:
    if offset + size > MEMORY_BYTES:
        return b""
    try:
        return os.pread(descriptor, size, offset)
    except OSError:
        return b""
