"""The names of what the instructions at one place can refer to."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.expression import Expression
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes


class Scope(Struct, eq=False):
    """The lanes in which expressions are computed at present, and the names of their values.

    Attributes:
        lanes: the lanes.
        names: names of axes and accumulators.
        scalars: names of the expressions that are computed as scalars.
        window: the start of the contiguous elements that are reduced, relative to those of the
            row; None outside of such reductions.
    """

    lanes: VectorLanes
    names: dict[Expression, str] = field(default_factory=dict)
    scalars: dict[Expression, str] = field(default_factory=dict)
    window: int | None = None

    @contextmanager
    def with_lanes(self, lanes: VectorLanes) -> Iterator[None]:
        """Computes in other lanes during the context."""
        kept, self.lanes = self.lanes, lanes
        yield
        self.lanes = kept

    def of_lanes(self, values: Array) -> Array:
        """Selects the values of the lanes from those of all indices of their axis.

        The name of the first lane's index is a number.
        """
        begin = int(self.names[self.lanes.along]) if self.lanes.along is not None else 0
        return values[begin : begin + self.lanes.v.lanes]

    def forget_varying(self) -> None:
        """Forgets what was computed for the present index of the lanes' axis."""
        self.scalars = {each: name for each, name in self.scalars.items() if not self.lanes.varies(each)}
        self.lanes.known.clear()
