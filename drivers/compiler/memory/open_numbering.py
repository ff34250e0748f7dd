"""Numbers the quantities that depend on open lengths, in a program that computes them."""

from collections.abc import Iterable, Sequence

from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment
from neurald.drivers.compiler.memory.extent_program import ProgramBuilder
from neurald.drivers.compiler.memory.open_step import OpenLocation, OpenPort, OpenValue


class OpenNumbering:
    """Makes the parts of an open step that are the same for every driver.

    Args:
        assignment: the values of the step, and the spans of those in the arena.
        scope: the open dimensions.

    Attributes:
        program: receives the numbers.
    """

    def __init__(self, assignment: BufferAssignment, scope: ExtentScope) -> None:
        self.program = ProgramBuilder(scope)
        self._assignment = assignment
        self._scope = scope
        self._numbers = {value: number for number, value in enumerate(assignment.spans)}

    def values(self) -> tuple[OpenValue, ...]:
        """Returns the values in the arena."""
        sizes, number = self._assignment.sizes, self.program.number
        return tuple(
            OpenValue(tuple(map(number, sizes[value])), first, last)
            for value, (first, last) in self._assignment.spans.items()
        )

    def location(self, value: Value) -> OpenLocation | None:
        """Returns where a value is in the arena; None for a constant."""
        graph = self._assignment.graph
        owner = graph.aliases.get(value, value)
        if owner.constant is not None:
            return None
        offset = graph.starts.get(value, 0) * value.type.size_bytes
        return OpenLocation(self._numbers[owner], self.program.number(offset))

    def ports(self, values: Sequence[Value], ranks: Iterable[int]) -> tuple[OpenPort, ...]:
        """Returns the ports of inputs or outputs, whose operands have these ranks."""
        number = self.program.number
        return tuple(
            OpenPort(
                value=self._numbers.get(value, -1),
                size_bytes=number(value.size_bytes),
                # A complex number is a pair, which is not a dimension of the operand.
                dimensions=tuple(number(length) for length in value.shape[:rank]),
            )
            for value, rank in zip(values, ranks, strict=True)
        )

    def symbols(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Returns, for each open dimension, the inputs and dimensions that have this length."""
        return tuple(
            tuple(
                (number, dimension)
                for number, value in enumerate(self._assignment.graph.inputs)
                for dimension, length in enumerate(value.shape)
                if length is symbol
            )
            for symbol in self._scope.symbols
        )

    def names(self, messages: Sequence[str]) -> dict[str, int]:
        """Returns the numbers of the extents that messages name, by their names."""
        return {
            name: self.program.number(extent)
            for name, extent in self._scope.named.items()
            if any(name in message for message in messages)
        }
