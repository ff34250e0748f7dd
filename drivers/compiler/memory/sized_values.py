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

#: The numbers of bits of a length that a shared plan keeps: memory for up to an eighth more.
_PLANNED_BITS: Final = 4
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
        #: begins. A value without any, which has no bytes, has -1.
        self._sizes = np.array([size for value in opened.values for size in value.sizes or (-1,)], np.intp)
        counts = (max(1, len(value.sizes)) for value in opened.values)
        self._first_sizes = np.array([*accumulate(counts, initial=0)][:-1], np.intp)
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
        if lengths is None or numbers is None or numbers[self._not_negative].min(initial=0) < 0:
            return None
        known = [port.shape(numbers) for port in self._opened.inputs]
        if any(shape is None or tuple(shape) != each for shape, each in zip(shapes, known, strict=True)):
            return None
        return lengths, numbers

    def planned(self, lengths: Sequence[int], numbers: Array) -> SizedPlan:
        """Returns the places of the values in the arena, for these lengths and numbers.

        The plan is that of slightly larger lengths if their values are not smaller.
        """
        sizes = self._value_sizes(numbers)
        largest = tuple([_rounded(length) for length in lengths])
        known = self._plans.get(largest)
        if known is None:
            most = self._evaluation.evaluate(largest)
            known = self._plan(sizes if most is None else self._value_sizes(most))
            with self._lock:
                while len(self._plans) >= _MAX_PLANS:
                    del self._plans[next(iter(self._plans))]
                self._plans[largest] = known
        return self._plan(sizes) if (sizes > known.sizes).any() else known

    def _value_sizes(self, numbers: Array) -> Array:
        """Returns the size of each value in bytes."""
        if not self._first_sizes.size:
            return np.zeros(0, np.int64)
        sizes: Array = np.maximum.reduceat(numbers[self._sizes] * (self._sizes >= 0), self._first_sizes)
        return sizes

    def _plan(self, sizes: Array) -> SizedPlan:
        """Returns a plan for values of these sizes."""
        plan = self._opened.planned(sizes.tolist(), self._alignment)
        offsets = [plan.offsets[number] for number in range(len(self._opened.values))]
        return SizedPlan(plan=plan, sizes=sizes, offsets=np.array(offsets, np.int64))


def _rounded(length: int) -> int:
    """Rounds a length up to one of few bits."""
    unit = 1 << max(0, length.bit_length() - _PLANNED_BITS)
    return -(-length // unit) * unit
