"""What an epilogue reads for four columns, the first of which is a multiple of four."""

from collections.abc import Mapping
from dataclasses import dataclass

from neurald.drivers.compiler.ir.expression import Axis, Expression, Linear, Load
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import Argument
from neurald.drivers.opencl.codegen.statements import Statements


@dataclass(frozen=True, slots=True)
class FourElements:
    """What four columns read.

    Attributes:
        text: of four elements as they are stored (halves as floats), or of one.
        is_one: whether all four columns read the same element.
    """

    text: str
    is_one: bool


class FourLoads:
    """Loads at four columns of a row.

    Args:
        pointers: how each value is read.
        names: what axes and sums are called.
        row, column: the axes.
        length: of a row of the output.
    """

    def __init__(
        self,
        pointers: Mapping[Value, Argument],
        names: Mapping[Expression, str],
        row: Axis,
        column: Axis,
        length: int,
    ) -> None:
        self._pointers = pointers
        self._column, self._row, self._length = column, row, length
        self._places = Statements(pointers, names)
        #: Of what is loaded from global memory, each with whether rows differ in it.
        self.addresses: list[tuple[str, bool]] = []
        #: What four elements are loaded of at a time.
        self.by_fours: list[Value] = []

    @property
    def lines(self) -> list[str]:
        """The statements that the addresses need."""
        return self._places.lines

    def load(self, expression: Load) -> FourElements | None:
        """What the columns read; None: it neither lies side by side nor is the same for all of them."""
        if expression.guard is not None:
            return None
        place = linearize(expression.index, expression.value.shape)
        read = self._pointers[expression.value]
        if self._column not in walk(place):
            text = self._places.value(place)
            self._at(read, text, place)
            return FourElements(read.load(text), is_one=True)
        start = place - self._column
        if self._column in walk(start) or not is_multiple_of_4(start):
            return None
        text = self._matrix_place(start) or self._places.value(place)
        self._at(read, text, place)
        self.by_fours.append(expression.value)
        return FourElements(read.load4(text), is_one=False)

    def _at(self, read: Argument, text: str, place: Expression) -> None:
        if read.space == "__global":
            self.addresses.append((f"{read.name} + {text}", self._row in walk(place)))

    def _matrix_place(self, start: Expression) -> str | None:
        """The place of an element of a matrix like the output, by the size that texts name."""
        if start is self._row * self._length:
            return "(row * z_length + column)"
        return None


def is_multiple_of_4(place: Expression) -> bool:
    """Whether a position is known to be one."""
    if isinstance(place, Linear):
        return place.constant % 4 == 0 and all(factor % 4 == 0 for _, factor in place.terms)
    return place.low == place.high and place.low % 4 == 0
