"""Reads of phases that come from memory rather than from caches, and what fetches them earlier.

If constants do not stay in caches from one run to the next, memory is idle while a phase computes.
So it fetches what later phases read.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.opencl.runtime.phase import Phase

#: How many ranges a phase fetches at most.
_MAX_FETCHES = 2
#: Constants of this many bytes fill the second-level caches of known devices.
_MIN_CONSTANTS_BYTES = 64 << 20
#: Values that are not worth fetching ahead, and the gaps that are fetched with what is around them.
_MIN_FETCHED_BYTES = 1 << 16
#: What a work-item reads at most of a value. Of larger ones, such as tables, only parts are read.
_MAX_READ_BYTES = 1 << 12


@dataclass(frozen=True, slots=True)
class ColdRead:
    """Memory that a phase reads and no phase writes before: a constant, or an input of the step.

    Attributes:
        base, start, stop: the buffer, the first byte, and the one after the last.
    """

    base: Base
    start: int
    stop: int


def may_fetch(constants_bytes: int) -> bool:
    """Returns True if the constants of a step do not stay in caches from one run to the next."""
    return constants_bytes >= _MIN_CONSTANTS_BYTES


def cold_reads(phase: Phase, inputs: Collection[Value]) -> tuple[ColdRead, ...]:
    """Returns what a phase reads from memory rather than from caches.

    Args:
        phase: the phase.
        inputs: the inputs of the step.
    """
    source = phase.source
    most = source.groups * source.local_size * _MAX_READ_BYTES
    values = zip(source.arguments, phase.locations, strict=True)
    return tuple(
        ColdRead(place.base, place.offset, place.offset + value.size_bytes)
        for position, (value, place) in enumerate(values)
        if position
        and _MIN_FETCHED_BYTES <= value.size_bytes <= most
        and (place.base is Base.CONSTANTS or value in inputs)
    )


def fetches(reads: Sequence[Sequence[ColdRead]], ahead_bytes: int) -> list[list[ColdRead]]:
    """Returns what each phase fetches for later ones.

    Args:
        reads: the cold reads of each phase.
        ahead_bytes: how much is fetched before it is read.
    """
    stream: list[ColdRead] = []
    ends: list[int] = []
    total = 0
    known: set[ColdRead] = set()
    for of_phase in reads:
        for each in of_phase:
            if each not in known:
                known.add(each)
                stream.append(each)
                total += each.stop - each.start
        ends.append(total)
    found: list[list[ColdRead]] = []
    fetched = 0
    for end in ends:
        # Its own reads are requested by the phase itself.
        start, stop = max(fetched, end), min(total, end + ahead_bytes)
        parts: list[ColdRead] = []
        for part in _parts(stream, start, stop):
            last = parts[-1] if parts else None
            if (
                last is not None
                and last.base is part.base
                and 0 <= part.start - last.stop <= _MIN_FETCHED_BYTES
            ):
                parts[-1] = ColdRead(last.base, last.start, part.stop)
            elif len(parts) < _MAX_FETCHES:
                parts.append(part)
            else:
                break
            start += part.stop - part.start
        fetched = max(fetched, start)
        found.append(parts)
    return found


def _parts(stream: Sequence[ColdRead], start: int, stop: int) -> Iterator[ColdRead]:
    """Yields the parts of reads that lie in a range of all of them, one after another."""
    at = 0
    for each in stream:
        size = each.stop - each.start
        first, last = max(start - at, 0), min(stop - at, size)
        if first < last:
            yield ColdRead(each.base, each.start + first, each.start + last)
        at += size
