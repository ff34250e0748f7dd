"""Phases of a persistent kernel: the memory that they access, and which of them must wait."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.opencl.codegen.kernel_source import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryRange:
    """Range of the arena.

    Attributes:
        start, stop: the first byte, and the one after the last.
    """

    start: int
    stop: int

    def overlaps(self, other: "MemoryRange") -> bool:
        """Returns True if both have a byte in common."""
        return self.start < other.stop and other.start < self.stop


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """Source and the memory that it accesses.

    Attributes:
        locations: where the values of its arguments are, the written one first.
        status: the offset of its status word in the arena.
        workspace: the offset of its workspace in the arena, if the source needs one.
    """

    source: Source
    locations: tuple[BufferLocation, ...]
    status: int
    workspace: int | None = None

    @property
    def written(self) -> tuple[MemoryRange, ...]:
        """Memory that the phase writes."""
        return (*self._ranges(self.source.written), *self._workspace_range())

    @property
    def touched(self) -> tuple[MemoryRange, ...]:
        """Memory that the phase reads or writes, except constants, which no phase writes."""
        return (*self._ranges(range(len(self.locations))), *self._workspace_range())

    def _ranges(self, positions: Iterable[int]) -> tuple[MemoryRange, ...]:
        found = ((self.source.arguments[each], self.locations[each]) for each in positions)
        return tuple(
            MemoryRange(start=place.offset, stop=place.offset + value.size_bytes)
            for value, place in found
            if place.base is Base.ARENA
        )

    def _workspace_range(self) -> tuple[MemoryRange, ...]:
        if self.workspace is None:
            return ()
        return (MemoryRange(start=self.workspace, stop=self.workspace + self.source.workspace_bytes),)


def barriers(phases: Sequence[Phase]) -> tuple[bool, ...]:
    """Returns, for each phase, whether a grid barrier precedes it.

    A barrier is needed if the phase conflicts with one since the last barrier.
    """
    found = []
    running: list[Phase] = []
    for phase in phases:
        needs_barrier = any(_conflict(earlier, phase) for earlier in running)
        if needs_barrier:
            running = []
        running.append(phase)
        found.append(needs_barrier)
    return tuple(found)


def _conflict(first: Phase, second: Phase) -> bool:
    return any(w.overlaps(t) for w in first.written for t in second.touched) or any(
        w.overlaps(t) for w in second.written for t in first.touched
    )
