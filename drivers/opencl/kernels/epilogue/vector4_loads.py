"""Renders an epilogue's loads for four columns that start at a multiple of four."""

from collections.abc import Mapping
from dataclasses import dataclass

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Axis, Expression, Linear, Load
from neurald.drivers.compiler.ir.extents.extent import is_multiple, same_length
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArgument
from neurald.drivers.opencl.codegen.dialect import widened4_text
from neurald.drivers.opencl.codegen.statements import Statements


@dataclass(frozen=True, slots=True)
class Vector4:
    """Elements that four columns read.

    Attributes:
        text: four elements as stored (FLOAT16 as floats), or a single one.
        is_uniform: whether all four columns read the same element.
    """

    text: str
    is_uniform: bool


class Vector4Loads:
    """Renders the loads at four columns of a row.

    Args:
        pointers: the argument for each value.
        names: names of axes and accumulators.
        row, column: the axes.
        length: the row length of the output.
        is_literal: whether indices contain the row length as a number instead of a size.
        ahead: a value shaped like the output; the variable `ahead` has its elements as they are
            stored.
    """

    def __init__(
        self,
        pointers: Mapping[Value, KernelArgument],
        names: Mapping[Expression, str],
        row: Axis,
        column: Axis,
        length: int,
        *,
        is_literal: bool = False,
        ahead: Value | None = None,
    ) -> None:
        self._pointers = pointers
        self._column, self._row, self._length = column, row, length
        self._is_literal, self._ahead = is_literal, ahead
        self._places = Statements(pointers, names)
        #: Addresses of loads from global memory, and whether they depend on the row.
        self.addresses: list[tuple[str, bool]] = []
        #: Values of which four elements are loaded at a time.
        self.vector4_values: list[Value] = []

    @property
    def lines(self) -> list[str]:
        """Statements that the addresses need."""
        return self._places.lines

    def load(self, expression: Load) -> Vector4 | None:
        """Returns the elements for the columns.

        Returns None if they are neither adjacent nor all the same, or are looked up by what is
        accumulated.
        """
        if expression.guard is not None:
            return None
        place = linearize(expression.index, expression.value.shape)
        if any(isinstance(each, AccumulatorRef) for each in walk(place)):
            return None
        read = self._pointers[expression.value]
        if self._column not in walk(place):
            text = self._places.value(place)
            self._at(read, text, place)
            return Vector4(read.load(text), is_uniform=True)
        start = place - self._column
        if self._column in walk(start) or not is_multiple_of_4(start):
            return None
        if expression.value is self._ahead and start is self._row * self._length:
            return Vector4(widened4_text("ahead", expression.type), is_uniform=False)
        text = self._matrix_place(start) or self._places.value(place)
        self._at(read, text, place)
        self.vector4_values.append(expression.value)
        return Vector4(read.load4(text), is_uniform=False)

    def uniform(self, expression: Expression) -> str | None:
        """Returns the text of an expression that all four columns share; None for others."""
        parts = set(walk(expression))
        if self._column in parts or any(isinstance(each, AccumulatorRef | Load) for each in parts):
            return None
        return self._places.value(expression)

    def _at(self, read: KernelArgument, text: str, place: Expression) -> None:
        if read.space == "__global":
            self.addresses.append((f"{read.name} + {text}", self._row in walk(place)))

    def _matrix_place(self, start: Expression) -> str | None:
        """Returns the index of an element of a matrix shaped like the output, by its size."""
        if not self._is_literal and start is self._row * self._length:
            return "(row * $length + column)"
        return None


def is_multiple_of_4(place: Expression) -> bool:
    """Returns True if an index is known to be a multiple of four."""
    if isinstance(place, Linear):
        return is_multiple(place.constant, 4) and all(is_multiple(factor, 4) for _, factor in place.terms)
    return same_length(place.low, place.high) and is_multiple(place.low, 4)
