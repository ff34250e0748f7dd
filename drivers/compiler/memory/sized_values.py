"""Evaluates an open step for shapes of its inputs, and plans its memory.

A new length must not take longer than a small model runs, so similar lengths share a plan of the
arena.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import msgspec

from neurald.drivers.compiler.memory.extent_evaluation import ExtentEvaluation
from neurald.drivers.compiler.memory.open_step import OpenStep
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.arena_planner import MemoryPlan
from neurald.hal.process.fork import forkable_lock

_Shape: TypeAlias = tuple[int, ...]
_Shapes: TypeAlias = tuple[_Shape | None, ...]

#: The numbers of bits of a length that a shared plan keeps: one, for which there is memory for up to
#: twice as much, if the arena is small, since planning takes longer than a small model; else memory
#: for up to an eighth more.
_COARSE_BITS: Final = 1
_FINE_BITS: Final = 4
_SMALL_BYTES: Final = 1 << 20
#: Maximum number of plans that are kept.
_MAX_PLANS: Final = 64


class SizedPlan(msgspec.Struct, frozen=True, eq=False):
    """A plan of the arena.

    Attributes:
        plan: as the planner gives it.
        sizes: for which each value has memory, in bytes.
        offsets: of each value.
    """

    plan: MemoryPlan
    sizes: Array
    offsets: Array

    def has_room(self, sizes: Array) -> bool:
        """Returns whether no value has more than its memory."""
        return True not in (sizes > self.sizes).tolist()


class SizedValues:
    """See this module.

    Args:
        opened: the step, whose lengths do not change while it runs. It has been checked.
        alignment: of each value in the arena, in bytes.
        not_negative: numbers that must not be negative, apart from those of values and dimensions.
    """

    def __init__(self, opened: OpenStep, alignment: int, not_negative: Iterable[int]) -> None:
        self._opened = opened
        self._alignment = alignment
        self._evaluation = ExtentEvaluation(opened.program)
        #: The numbers of the sizes of all values, one value after the other, and where each of them
        #: begins. A value without any, which has no bytes, has a number that is multiplied by 0.
        sizes = [size for value in opened.values for size in value.sizes or (-1,)]
        self._sizes = np.array(sizes, np.intp)
        self._factors = np.array([size >= 0 for size in sizes], np.int64)
        counts = (max(1, len(value.sizes)) for value in opened.values)
        self._first_sizes = np.array([*accumulate(counts, initial=0)][:-1], np.intp)
        self._input_ranks = [len(port.dimensions) for port in opened.inputs]
        self._input_dimensions = np.array(
            [each for port in opened.inputs for each in port.dimensions], np.intp
        )
        ports = (*opened.inputs, *opened.outputs)
        checked = {
            *not_negative,
            *(size for value in opened.values for size in value.sizes),
            *(each for port in ports for each in port.dimensions),
        }
        self._not_negative = np.array(sorted(checked), np.intp)
        #: By the largest lengths.
        self._plans: dict[tuple[int, ...], SizedPlan] = {}
        self._lock = forkable_lock()
        #: The last shapes, with what follows from them.
        self._last: tuple[_Shapes, tuple[tuple[int, ...], Array] | None] | None = None

    def output_shapes(self, shapes: Sequence[_Shape | None]) -> tuple[_Shape, ...] | None:
        """Returns the shapes of the outputs for given shapes of the inputs.

        Returns None if the code does not support them.
        """
        found = self.numbers(shapes)
        return None if found is None else tuple(port.shape(found[1]) for port in self._opened.outputs)

    def numbers(self, shapes: Sequence[_Shape | None]) -> tuple[tuple[int, ...], Array] | None:
        """Returns the lengths of the open dimensions, and the numbers of the program for them.

        Returns None if the code does not support shapes of the inputs.
        """
        key, last = tuple(shapes), self._last
        if last is None or last[0] != key:
            self._last = last = key, self._evaluated(key)
        return last[1]

    def _evaluated(self, shapes: _Shapes) -> tuple[tuple[int, ...], Array] | None:
        """Evaluates the program; see `numbers`."""
        lengths = self._opened.lengths(shapes)
        numbers = None if lengths is None else self._evaluation.evaluate(lengths)
        if lengths is None or numbers is None:
            return None
        # For the numbers of most models, lists are faster than reductions by NumPy.
        if min(numbers[self._not_negative].tolist(), default=0) < 0:
            return None
        given = [shape for shape in shapes if shape is not None]
        if [len(shape) for shape in given] != self._input_ranks:
            return None
        if [length for shape in given for length in shape] != numbers[self._input_dimensions].tolist():
            return None
        return lengths, numbers

    def planned(self, lengths: Sequence[int], numbers: Array) -> SizedPlan:
        """Returns the places of the values in the arena, for these lengths and numbers.

        The plan is that of slightly larger lengths if their values are not smaller.
        """
        sizes = self._value_sizes(numbers)
        coarse = self._shared(lengths, _COARSE_BITS)
        if coarse is not None and coarse.plan.size_bytes <= _SMALL_BYTES and coarse.has_room(sizes):
            return coarse
        fine = self._shared(lengths, _FINE_BITS)
        return fine if fine is not None and fine.has_room(sizes) else self._plan(sizes)

    def _shared(self, lengths: Sequence[int], bits: int) -> SizedPlan | None:
        """Returns the plan for lengths that are rounded up; None if the code is not valid for them."""
        largest = tuple([_rounded(length, bits) for length in lengths])
        known = self._plans.get(largest)
        if known is None:
            numbers = self._evaluation.evaluate(largest)
            if numbers is None:
                return None
            known = self._plan(self._value_sizes(numbers))
            with self._lock:
                while len(self._plans) >= _MAX_PLANS:
                    del self._plans[next(iter(self._plans))]
                self._plans[largest] = known
        return known

    def _value_sizes(self, numbers: Array) -> Array:
        """Returns the size of each value in bytes."""
        if not self._first_sizes.size:
            return np.zeros(0, np.int64)
        found: Array = numbers[self._sizes] * self._factors
        if found.size > self._first_sizes.size:
            found = np.maximum.reduceat(found, self._first_sizes)
        return found

    def _plan(self, sizes: Array) -> SizedPlan:
        """Returns a plan for values of these sizes."""
        plan = self._opened.planned(sizes.tolist(), self._alignment)
        offsets = [plan.offsets[number] for number in range(len(self._opened.values))]
        return SizedPlan(plan=plan, sizes=sizes, offsets=np.array(offsets, np.int64))


def _rounded(length: int, bits: int) -> int:
    """Rounds a length up to one of few bits."""
    unit = 1 << max(0, length.bit_length() - bits)
    return -(-length // unit) * unit
