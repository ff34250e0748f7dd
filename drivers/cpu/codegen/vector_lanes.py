"""The lanes of vectors: elements along an axis that are computed together."""

from msgspec import Struct, field

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Axis, Expression
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.cpu.emit.vector import Vector


class VectorLanes(Struct, eq=False):
    """Elements that are computed together.

    Attributes:
        v: instructions of that width.
        along: the axis of the lanes; None for a single element.
        mask: i1 per lane, true if the element exists; None if all do.
        varying: whether an expression differs between lanes, of those that were asked for.
        known: names of the expressions that are computed.
    """

    v: Vector
    along: Axis | None = None
    mask: str | None = None
    varying: dict[Expression, bool] = field(default_factory=dict)
    known: dict[Expression, str] = field(default_factory=dict)

    @classmethod
    def across(
        cls,
        v: Vector,
        along: Axis,
        mask: str | None = None,
        varying: dict[Expression, bool] | None = None,
    ) -> "VectorLanes":
        """Returns the lanes of elements along an axis, which may be a single element.

        Args:
            v, along, mask: see the attributes.
            varying: what other lanes of the same axis have found; None for nothing.
        """
        if v.lanes == 1:
            return cls(v, mask=mask)
        return cls(v, along, mask, {} if varying is None else varying)

    def varies(self, expression: Expression) -> bool:
        """Returns True if an expression differs between lanes."""
        if self.along is None:
            return False
        if expression not in self.varying:
            for each in walk(expression):
                if each not in self.varying:
                    self.varying[each] = (
                        each is self.along
                        or isinstance(each, AccumulatorRef)
                        or any(self.varying[operand] for operand in each.operands)
                    )
        return self.varying[expression]
