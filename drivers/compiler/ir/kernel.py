"""What a compiler makes one kernel of: a contraction or none, and the expression of every element that is stored."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, Reduce
from neurald.drivers.compiler.ir.graph import Compute, Contraction, Ranking
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.traversal import free_axes, walk
from neurald.drivers.compiler.ir.value import Shape, Value


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Kernel:
    """A value, element by element, in one go.

    Attributes:
        output: as many elements as positions of `axes`, in the same order; its shape may be another one.
        axes: where an element is computed. Those of a contraction's output, if there is one.
        body: the element; `Accumulated` in it is what the contraction gives at `axes`.
        contraction: what `body` goes on from; a ranking counts as one.
        requirements: see `Compute`.
        operations: the positions in the model of the operations that it stands for, ascending.
        place: where in the output an element lies, in elements, if the kernel computes only some of them; None: they lie in the
            order of their positions.
    """

    output: Value
    axes: tuple[Axis, ...]
    body: Expression
    contraction: Contraction | Ranking | None = None
    requirements: tuple[tuple[Expression, str], ...] = ()
    operations: tuple[int, ...] = ()
    place: Expression | None = None
    _expressions: list[Expression] = field(default_factory=list, init=False, repr=False)

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        return tuple(axis.extent for axis in self.axes)

    @property
    def roots(self) -> tuple[Expression, ...]:
        """The expressions that it computes."""
        placed = () if self.place is None else (self.place,)
        return (self.body, *(condition for condition, _ in self.requirements), *placed)

    @property
    def expressions(self) -> Sequence[Expression]:
        """All that its roots are made of, operands before what is computed from them."""
        if not self._expressions:
            # They are asked for again and again, and stay the same.
            self._expressions.extend(walk(*self.roots))
        return self._expressions

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads, each once: those of the contraction first."""
        contracted = () if self.contraction is None else self.contraction.inputs
        loaded = (each.value for each in self.expressions if isinstance(each, Load))
        return tuple(dict.fromkeys((*contracted, *loaded)))

    @property
    def has_reduction(self) -> bool:
        """Whether an element is folded from many, by the body."""
        return any(isinstance(each, Reduce) for each in self.expressions)

    @property
    def row_axes(self) -> int | None:
        """How many leading axes tell which row it is, where folds are the same for all elements of a row; None: they differ.

        Every fold is then worth computing once for each row.
        """
        folds = [each for each in self.expressions if isinstance(each, Reduce)]
        if self.contraction is not None or not folds:
            return None
        used = frozenset().union(*(free_axes(each) for each in folds))
        count = 1 + max((n for n, each in enumerate(self.axes) if each in used), default=-1)
        return count if positions(self.shape[count:]) > 1 else None

    @property
    def viewed(self) -> Value | None:
        """See `Compute.viewed`."""
        if self.contraction is not None or self.output.shape != self.shape:
            return None
        return Compute(
            output=self.output, axes=self.axes, body=self.body, requirements=self.requirements
        ).viewed


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FusedGraph:
    """The kernels of a graph, in an order in which they can run.

    Attributes:
        aliases: values that are another value's memory in another shape, or a part of it, to that value, which is no alias.
        starts: where in its value an alias begins, in elements; 0 for those that are not here. What begins elsewhere, or is
            shorter than its value, may be written by a kernel of its own.
        inputs, outputs: those of the graph. No output is an alias, an input, a constant, or another output.
    """

    kernels: tuple[Kernel, ...]
    aliases: Mapping[Value, Value]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    starts: Mapping[Value, int] = field(default_factory=dict)


#: What an operation costs, in additions; what is not here costs one.
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


def weight_of(op: Op) -> int:
    """About how many additions an operation costs."""
    return _WEIGHTS.get(op, 1)


def positions(shape: Shape) -> int:
    """How many positions a shape has."""
    return math.prod(shape)
