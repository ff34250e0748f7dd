"""Evaluates an open step for shapes of its inputs."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from neurald.drivers.compiler.memory.arena_plans import ArenaPlans
from neurald.drivers.compiler.memory.extent_evaluation import ExtentEvaluation
from neurald.drivers.compiler.memory.open_step import OpenStep
from neurald.hal.lazy_numpy import Array, np

_Shape: TypeAlias = tuple[int, ...]
_Shapes: TypeAlias = tuple[_Shape | None, ...]


class SizedValues:
    """The shapes, numbers and memory of one step for shapes of its inputs.

    Args:
        opened: the step, whose lengths do not change while it runs. It has been checked.
        alignment: the alignment of each value in the arena, in bytes.
        not_negative: numbers that must not be negative, apart from those of values and dimensions.
    """

    def __init__(self, opened: OpenStep, alignment: int, not_negative: Iterable[int]) -> None:
        self._opened = opened
        self._evaluation = ExtentEvaluation(opened.program)
        #: The plans of its memory.
        self.plans: Final = ArenaPlans(opened, alignment, self._evaluation.evaluate)
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
