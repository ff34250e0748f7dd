"""Kernels, the units of code generation, and graphs of them."""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import force_setattr

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, Reduce
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.graph import (
    Attention,
    Compute,
    Contraction,
    RowLimit,
    Selection,
    linearize,
)
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.traversal import free_axes, walk
from neurald.drivers.compiler.ir.value import Shape, Value


class Kernel(Struct, frozen=True, kw_only=True, eq=False):
    """Computes a value by an optional contraction, and an expression for each stored element.

    Attributes:
        output: has one element for each index of `axes`, in the same order; its shape may differ.
        axes: the indices of the elements. With a contraction they are those of its output.
        body: the element at `axes`. An `AccumulatorRef` is the contraction's result at this index.
        contraction: the contraction, attention, top-k or procedure whose result `body` reads, if
            any.
        requirements: see `Compute`.
        operations: positions in the model of the operations that it implements, ascending.
        output_offset: the offset in the output at which an element is stored, in elements. None
            stores elements in the order of their indices.
        limit: see `Compute`.
    """

    output: Value
    axes: tuple[Axis, ...]
    body: Expression
    contraction: Contraction | Attention | Selection | None = None
    requirements: tuple[tuple[Expression, str], ...] = ()
    operations: tuple[int, ...] = ()
    output_offset: Expression | None = None
    limit: RowLimit | None = None
    _expressions: list[Expression] = field(default_factory=list)
    _inputs: list[tuple[Value, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Forgets what a copy with other fields has cached."""
        force_setattr(self, "_expressions", [])
        force_setattr(self, "_inputs", [])

    @property
    def shape(self) -> Shape:
        """The extents of the axes."""
        return tuple(axis.extent for axis in self.axes)

    @property
    def stored_at(self) -> Expression:
        """The offset in the output at which an element is stored, in elements."""
        return linearize(self.axes, self.shape) if self.output_offset is None else self.output_offset

    @property
    def roots(self) -> tuple[Expression, ...]:
        """The expressions that it computes."""
        offsets = () if self.output_offset is None else (self.output_offset,)
        return (self.body, *(condition for condition, _ in self.requirements), *offsets)

    @property
    def expressions(self) -> Sequence[Expression]:
        """All subexpressions of the roots, operands before their users."""
        if not self._expressions:
            # Cached, because it is read often and never changes.
            self._expressions.extend(walk(*self.roots))
        return self._expressions

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads, without duplicates; those of the contraction first."""
        if not self._inputs:
            contracted = () if self.contraction is None else self.contraction.inputs
            loaded = (each.value for each in self.expressions if isinstance(each, Load))
            limit = () if self.limit is None else (self.limit.count,)
            self._inputs.append(tuple(dict.fromkeys((*contracted, *loaded, *limit))))
        return self._inputs[0]

    @property
    def has_reduction(self) -> bool:
        """True if the body contains a reduction."""
        return any(isinstance(each, Reduce) for each in self.expressions)

    @property
    def row_axes(self) -> int | None:
        """The number of leading axes that identify a row within which all reductions are constant.

        Computing each reduction once per row then saves time. None if there is no such row.
        """
        reductions = [each for each in self.expressions if isinstance(each, Reduce)]
        if self.contraction is not None or not reductions:
            return None
        used = frozenset().union(*(free_axes(each) for each in reductions))
        count = 1 + max((n for n, each in enumerate(self.axes) if each in used), default=-1)
        row = element_count(self.shape[count:])
        return count if isinstance(row, Extent) or row > 1 else None

    @property
    def aliased_input(self) -> Value | None:
        """See `Compute.aliased_input`."""
        if self.contraction is not None or self.output.shape != self.shape:
            return None
        return Compute(
            output=self.output, axes=self.axes, body=self.body, requirements=self.requirements
        ).aliased_input


class FusedGraph(Struct, frozen=True, kw_only=True, eq=False):
    """The kernels of a graph, in topological order.

    Attributes:
        aliases: maps each value that shares the memory of another value, as a reshape or a part of
            it, to that owner. An owner is not an alias itself. An alias may be written by a kernel
            of its own.
        starts: the offset at which an alias begins in its owner, in elements; 0 if absent.
        inputs, outputs: those of the graph. No output is an alias, an input, a constant, or another
            output.
    """

    kernels: tuple[Kernel, ...]
    aliases: Mapping[Value, Value]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    starts: Mapping[Value, int] = field(default_factory=dict)


#: Cost of operations relative to an addition; 1 for operations not listed.
_WEIGHTS = {
    Op.DIVIDE: 4,
    Op.FLOOR_DIVIDE: 8,
    Op.MODULO: 8,
    Op.TRUNCATE_DIVIDE: 8,
    Op.SQRT: 4,
    Op.RSQRT: 4,
    Op.FIXED_POINT: 4,
    Op.FIXED_POINT_UP: 4,
    **dict.fromkeys(
        (
            Op.POWER,
            Op.ATAN2,
            Op.EXP,
            Op.EXPM1,
            Op.LOG,
            Op.LOG1P,
            Op.SIN,
            Op.COS,
            Op.TAN,
            Op.TANH,
            Op.LOGISTIC,
            Op.ERF,
        ),
        12,
    ),
}


def op_cost(op: Op) -> int:
    """Returns the approximate cost of an operation, in additions."""
    return _WEIGHTS.get(op, 1)


def element_count(shape: Shape) -> int:
    """Returns the number of elements of a shape."""
    return math.prod(shape)
