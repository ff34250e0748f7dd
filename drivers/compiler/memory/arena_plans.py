"""Plans the arena of an open step for lengths of its inputs.

A new length must not take longer than a small model runs, so similar lengths share a plan.
"""

import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from neurald.drivers.compiler.memory.open_step import OpenStep
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.arena_planner import MemoryPlan
from neurald.hal.process.fork import forkable_lock

#: The numbers of bits of a length that a shared plan keeps: one, for which there is memory for up
#: to twice as much, if the arena is small, since planning takes longer than a small model; else
#: memory for up to an eighth more.
_COARSE_BITS: Final = 1
_FINE_BITS: Final = 4
_SMALL_BYTES: Final = 1 << 20
#: Maximum number of plans that are kept.
_MAX_PLANS: Final = 64


class SizedPlan(msgspec.Struct, frozen=True, eq=False):
    """A plan of the arena.

    Attributes:
        plan: as the planner gives it.
        sizes: the sizes for which each value has memory, in bytes.
        offsets: the offsets of each value.
        words: bytes of the arena, offsets and sizes, for native code.
    """

    plan: MemoryPlan
    sizes: Array
    offsets: Array
    words: "array.array[int]"

    def has_room(self, sizes: Array) -> bool:
        """Returns whether no value has more than its memory."""
        return True not in (sizes > self.sizes).tolist()


class ArenaPlans:
    """The plans of the arena of one step, each for a range of lengths.

    Args:
        opened: the step, whose lengths do not change while it runs. It has been checked.
        alignment: the alignment of each value in the arena, in bytes.
        evaluate: returns the numbers of the program for lengths; None if the code is not valid for
            them.
    """

    def __init__(
        self, opened: OpenStep, alignment: int, evaluate: Callable[[Sequence[int]], Array | None]
    ) -> None:
        self._opened = opened
        self._alignment = alignment
        self._evaluate = evaluate
        #: The numbers of the sizes of all values, one value after the other, and where each of them
        #: begins. A value without any, which has no bytes, has a number that is multiplied by 0.
        sizes = [size for value in opened.values for size in value.sizes or (-1,)]
        self._sizes = np.array(sizes, np.intp)
        self._factors = np.array([size >= 0 for size in sizes], np.int64)
        counts = (max(1, len(value.sizes)) for value in opened.values)
        self._first_sizes = np.array([*accumulate(counts, initial=0)][:-1], np.intp)
        #: The plans that were made, by the largest lengths.
        self._plans: dict[tuple[int, ...], SizedPlan] = {}
        self._lock = forkable_lock()

    def planned(self, lengths: Sequence[int], numbers: Array) -> SizedPlan:
        """Returns the places of the values in the arena, for these lengths and numbers.

        The plan is that of slightly larger lengths if their values are not smaller.
        """
        sizes = self.value_sizes(numbers)
        for plan in self.shared(lengths):
            if plan.has_room(sizes):
                return plan
        return self.plan(sizes)

    def shared(self, lengths: Sequence[int]) -> Iterator[SizedPlan]:
        """Yields plans for slightly larger lengths, the best one first."""
        coarse = self._shared(lengths, _COARSE_BITS)
        if coarse is not None and coarse.plan.size_bytes <= _SMALL_BYTES:
            yield coarse
        fine = self._shared(lengths, _FINE_BITS)
        if fine is not None:
            yield fine

    def _shared(self, lengths: Sequence[int], bits: int) -> SizedPlan | None:
        """Returns the plan for lengths that are rounded up; None if they are invalid."""
        largest = tuple([_rounded(length, bits) for length in lengths])
        known = self._plans.get(largest)
        if known is None:
            numbers = self._evaluate(largest)
            if numbers is None:
                return None
            known = self.plan(self.value_sizes(numbers))
            with self._lock:
                while len(self._plans) >= _MAX_PLANS:
                    del self._plans[next(iter(self._plans))]
                self._plans[largest] = known
        return known

    def value_sizes(self, numbers: Array) -> Array:
        """Returns the size of each value in bytes."""
        if not self._first_sizes.size:
            return np.zeros(0, np.int64)
        found: Array = numbers[self._sizes] * self._factors
        if found.size > self._first_sizes.size:
            found = np.maximum.reduceat(found, self._first_sizes)
        return found

    def plan(self, sizes: Array) -> SizedPlan:
        """Returns a plan for values of these sizes."""
        plan = self._opened.planned(sizes.tolist(), self._alignment)
        offsets = [plan.offsets[number] for number in range(len(self._opened.values))]
        words = array.array("q", [plan.size_bytes, *offsets, *sizes.tolist()])
        return SizedPlan(plan=plan, sizes=sizes, offsets=np.array(offsets, np.int64), words=words)


def _rounded(length: int, bits: int) -> int:
    """Rounds a length up to one of few bits."""
    unit = 1 << max(0, length.bit_length() - bits)
    return -(-length // unit) * unit
