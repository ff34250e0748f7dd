"""Memory with guard bytes, which detect and locate writes outside of outputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.model.graph import Location

#: Number of guard bytes before and after each range.
GUARD_BYTES = 64
#: Patterns have at least this length when they are generated, so that they can be reused.
_MIN_PATTERN_BYTES = 1 << 13


def pattern(seed: int, size: int) -> bytes:
    """Returns random bytes for a seed. The bytes for seeds 2n and 2n + 1 differ in every bit."""
    return _random(seed, max(_MIN_PATTERN_BYTES, size))[:size]


@lru_cache(maxsize=64)
def _random(seed: int, size: int) -> bytes:
    found = np.random.default_rng(seed // 2).integers(0, 256, size, np.uint8)
    return (~found if seed % 2 else found).tobytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedRange:
    """The range of an argument in a memory.

    Attributes:
        name: the name for messages, such as "input 0".
        start: the offset of the argument.
        end: the end of the argument, without its padding.
        padding: the number of bytes of padding after the argument.
        is_written: whether the device may write to the argument and its padding.
    """

    name: str
    start: int
    end: int
    padding: int = 0
    is_written: bool = False


class GuardedMemory:
    """A memory with the ranges of arguments, and its original contents.

    Args:
        memory: the memory, with the contents that the device gets.
        ranges: the ranges of the arguments in it.
    """

    def __init__(self, memory: Memory, ranges: Sequence[GuardedRange]) -> None:
        self.memory = memory
        self.ranges = tuple(ranges)
        self._before = bytes(memory.view())

    def before(self, guarded: GuardedRange) -> bytes:
        """Returns the original contents of a range."""
        return self._before[guarded.start : guarded.end]

    def damage(self) -> str:
        """Returns a description of forbidden writes, or ""."""
        if isinstance(self.memory, MarginMemory) and (damage := self.memory.damage()):
            return damage
        now = np.frombuffer(self.memory.view(), np.uint8)
        changed = now != np.frombuffer(self._before, np.uint8)
        for guarded in self.ranges:
            if guarded.is_written:
                changed[guarded.start : guarded.end + guarded.padding] = False
        offsets = np.flatnonzero(changed)
        return self._described(int(offsets[0]), offsets.size) if offsets.size else ""

    def _described(self, offset: int, count: int) -> str:
        """Describes writes of `count` bytes, the first of which is at an offset."""
        for guarded in self.ranges:
            if guarded.start <= offset < guarded.end + guarded.padding:
                first = offset - guarded.start
                return f"it wrote to {guarded.name}, which is read only: {count} bytes, the first at {first}"
        behind = [guarded for guarded in self.ranges if guarded.end + guarded.padding <= offset]
        ahead = [guarded for guarded in self.ranges if offset < guarded.start]
        distance = offset - behind[-1].end if behind else None
        if ahead and (distance is None or ahead[0].start - offset < distance):
            distance = ahead[0].start - offset
            return f"it wrote {count} bytes outside of its outputs, {distance} before {ahead[0].name}"
        name = behind[-1].name if behind else "nothing"
        return f"it wrote {count} bytes outside of its outputs, {distance} behind the end of {name}"


class MarginMemory(HostMemory):
    """Memory of this process between guard bytes.

    Args:
        size: the size in bytes, without the guard bytes.
    """

    def __init__(self, size: int) -> None:
        self._whole = aligned_zeros(size + 2 * GUARD_BYTES)
        self._margin = np.frombuffer(pattern(0, GUARD_BYTES), np.uint8)
        self._whole[:GUARD_BYTES] = self._margin
        self._whole[size + GUARD_BYTES :] = self._margin
        super().__init__(self._whole[GUARD_BYTES : size + GUARD_BYTES])

    def damage(self) -> str:
        """Returns a description of writes before or behind the memory, or ""."""
        for where, margin in (
            ("before", self._whole[:GUARD_BYTES]),
            ("behind", self._whole[self.size + GUARD_BYTES :]),
        ):
            count = int((margin != self._margin).sum())
            if count:
                return f"it wrote {count} bytes {where} a memory of {self.size} bytes"
        return ""


class ConstantPool:
    """Collects the constants of a model in one memory, with guard bytes around each."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._ranges: list[GuardedRange] = []

    def add(self, value: bytes) -> Location:
        """Adds a constant and returns its location."""
        seed = len(self._ranges)
        # The offset is a multiple of 64 plus 4, so that constants are not aligned by chance.
        self._content += pattern(seed, -len(self._content) % GUARD_BYTES + GUARD_BYTES + 4)
        start = len(self._content)
        self._content += value
        name = f"constant {len(self._ranges)}"
        self._ranges.append(GuardedRange(name=name, start=start, end=len(self._content)))
        return Location(pool=0, offset=start, length=len(value))

    def memories(self) -> tuple[Memory, ...]:
        """Returns the pools of the model."""
        if not self._ranges:
            return ()
        self._content += pattern(len(self._ranges), GUARD_BYTES)
        return (ConstantMemory(self._content, self._ranges),)


class ConstantMemory(HostMemory):
    """The constants of a model, which a device in this process must not modify."""

    def __init__(self, content: bytearray, ranges: Sequence[GuardedRange]) -> None:
        super().__init__(np.frombuffer(content, np.uint8))
        self._guarded = GuardedMemory(self, ranges)

    def damage(self) -> str:
        """See `GuardedMemory.damage`."""
        return self._guarded.damage()
