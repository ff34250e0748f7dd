"""Memory with guard bytes, which detect and locate writes outside of outputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from neurald.hal.memory.pool import HostMemory, Memory, aligned_zeros
from neurald.hal.model.types import Location

#: Guard bytes before and after each window. Odd amounts of them leave the next window unaligned.
GUARD_BYTES = 64
#: Patterns up to this length are generated once per seed.
_SHORT = 1 << 13


def pattern(seed: int, size: int) -> bytes:
    """Returns random bytes for a seed; those of seeds 2n and 2n + 1 differ in every bit."""
    return _random(seed, max(_SHORT, size))[:size]


@lru_cache(maxsize=64)
def _random(seed: int, size: int) -> bytes:
    found = np.random.default_rng(seed // 2).integers(0, 256, size, np.uint8)
    return (~found if seed % 2 else found).tobytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Range of one argument in a memory.

    Attributes:
        name: such as "input 0".
        start, end: the argument without its padding.
        padding: the number of bytes of padding behind it.
        is_written: whether a device may write to it.
    """

    name: str
    start: int
    end: int
    padding: int = 0
    is_written: bool = False


class GuardedMemory:
    """Memory with its windows, and its original contents.

    Args:
        memory: filled with the contents that the device gets.
        windows: the arguments in it.
    """

    def __init__(self, memory: Memory, windows: Sequence[Window]) -> None:
        self.memory = memory
        self.windows = tuple(windows)
        self._before = bytes(memory.view())

    def before(self, window: Window) -> bytes:
        """Returns the original contents of a window."""
        return self._before[window.start : window.end]

    def damage(self) -> str:
        """Describes forbidden writes; "" if there are none."""
        if isinstance(self.memory, MarginMemory) and (damage := self.memory.damage()):
            return damage
        now = np.frombuffer(self.memory.view(), np.uint8)
        changed = now != np.frombuffer(self._before, np.uint8)
        for window in self.windows:
            if window.is_written:
                changed[window.start : window.end + window.padding] = False
        places = np.flatnonzero(changed)
        return self._described(int(places[0]), places.size) if places.size else ""

    def _described(self, place: int, count: int) -> str:
        for window in self.windows:
            if window.start <= place < window.end + window.padding:
                return f"it wrote to {window.name}, which is read only: {count} bytes, the first at {place - window.start}"
        behind = [window for window in self.windows if window.end + window.padding <= place]
        ahead = [window for window in self.windows if place < window.start]
        distance = place - behind[-1].end if behind else None
        if ahead and (distance is None or ahead[0].start - place < distance):
            return f"it wrote {count} bytes outside of its outputs, {ahead[0].start - place} before {ahead[0].name}"
        name = behind[-1].name if behind else "nothing"
        return f"it wrote {count} bytes outside of its outputs, {distance} behind the end of {name}"


class MarginMemory(HostMemory):
    """In-process memory between guard bytes, which detect wrong address computations.

    Args:
        size: in bytes.
    """

    def __init__(self, size: int) -> None:
        self._whole = aligned_zeros(size + 2 * GUARD_BYTES)
        self._margin = np.frombuffer(pattern(0, GUARD_BYTES), np.uint8)
        self._whole[:GUARD_BYTES] = self._margin
        self._whole[size + GUARD_BYTES :] = self._margin
        super().__init__(self._whole[GUARD_BYTES : size + GUARD_BYTES])

    def damage(self) -> str:
        """Describes writes before or after the memory; "" if there are none."""
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
        self._windows: list[Window] = []

    def add(self, value: bytes) -> Location:
        """Adds a constant; returns its location."""
        seed = len(self._windows)
        # The offset is 4 more than a multiple of 64, so that no constant is aligned by chance.
        self._content += pattern(seed, -len(self._content) % GUARD_BYTES + GUARD_BYTES + 4)
        start = len(self._content)
        self._content += value
        name = f"constant {len(self._windows)}"
        self._windows.append(Window(name=name, start=start, end=len(self._content)))
        return Location(pool=0, offset=start, length=len(value))

    def memories(self) -> tuple[Memory, ...]:
        """Returns the model's pools."""
        if not self._windows:
            return ()
        self._content += pattern(len(self._windows), GUARD_BYTES)
        return (ConstantMemory(self._content, self._windows),)


class ConstantMemory(HostMemory):
    """Constants of a model, which an in-process device could modify but must not."""

    def __init__(self, content: bytearray, windows: Sequence[Window]) -> None:
        super().__init__(np.frombuffer(content, np.uint8))
        self._guarded = GuardedMemory(self, windows)

    def damage(self) -> str:
        """See `GuardedMemory.damage`."""
        return self._guarded.damage()
