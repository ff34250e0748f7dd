"""Kernels that differ only in the values that they access, such as those of equal layers.

What one of them yields also serves for the others: their sources have the same text, and read other
values.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Axis,
    Constant,
    Expression,
    Linear,
    Load,
    Reduce,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.kernels.gemm.packing import packed_as
from neurald.hal.records import replace


@dataclass(frozen=True, kw_only=True, slots=True)
class _Structure:
    """Structure of kernels: all that they compute with, except the values that they access.

    Attributes:
        key: the same for kernels that differ only in the values that they access.
        values: the values, in an order that is the same in all kernels with this key.
        operations: the operations that the kernels implement, ascending.
    """

    key: Hashable
    values: tuple[Value, ...]
    operations: tuple[int, ...]


class EqualKernels:
    """Asks questions once for all equal kernels of a step.

    What is asked may depend on shapes, types, and which values are constant. It must not depend on
    names of values, nor on the elements of constants of floats. Kernels that read constants of
    integers are equal to no other kernel, because the ranges of integers decide how they are
    computed. No length is an extent.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._verdicts: dict[Hashable, bool] = {}
        self._sources: dict[Hashable, tuple[_Structure, Sequence[Source]]] = {}

    def verdict(self, kernel: Kernel, decide: Callable[[Kernel], bool]) -> bool:
        """Returns what a function decides about a kernel, or has decided about an equal one."""
        structure = self._structure((kernel,))
        if structure is None:
            return decide(kernel)
        key = decide, structure.key
        if key not in self._verdicts:
            self._verdicts[key] = decide(kernel)
        return self._verdicts[key]

    def sources(
        self, what: str, kernels: Sequence[Kernel], make: Callable[[], Sequence[Source]]
    ) -> Sequence[Source]:
        """Returns the sources of a kernel, or of a chain of kernels.

        Args:
            what: tells apart the functions that make sources.
            kernels: one, or those of the chain.
            make: returns the sources unless those of equal kernels are known.
        """
        structure = self._structure(kernels)
        if structure is None:
            return make()
        known = self._sources.get((what, structure.key))
        if known is None:
            sources = make()
            self._sources[what, structure.key] = structure, sources
            return sources
        return LazySources(_with_other_values(*known, structure, make))

    def _structure(self, kernels: Sequence[Kernel]) -> _Structure | None:
        """Returns the structure of kernels; None if the elements of constants may matter."""
        found = _Numbering(self._numbers)
        parts = tuple(found.of_fields(each) for each in kernels)
        if any(each.constant is not None and not each.type.is_float for each in found.values):
            return None
        values = tuple((each.shape, each.type, each.constant is not None) for each in found.values)
        operations = tuple(sorted({number for each in kernels for number in each.operations}))
        return _Structure(key=(parts, values), values=tuple(found.values), operations=operations)


class _Numbering:
    """Describes parts of kernels by numbers that are the same in equal kernels.

    Args:
        known: the numbers of expressions by their description, which is extended.
    """

    def __init__(self, known: dict[Hashable, int]) -> None:
        self._known = known
        self._axes: dict[Axis, int] = {}
        self._expressions: dict[Expression, int] = {}
        #: The position of each value that was met.
        self.values: dict[Value, int] = {}

    def of_fields(self, record: Struct) -> Hashable:
        """Describes a record by its fields, except those that do not affect its code."""
        names = (
            name for name in record.__struct_fields__ if name != "operations" and not name.startswith("_")
        )
        return type(record), *(self._of(getattr(record, name)) for name in names)

    def _of(self, part: Any) -> Hashable:
        if isinstance(part, Value):
            return "value", self._of_value(part)
        if isinstance(part, Expression):
            return "expression", self._of_expression(part)
        if isinstance(part, tuple):
            return tuple(map(self._of, part))
        if isinstance(part, Struct):
            return self.of_fields(part)
        # Numbers that are equal may have different text.
        return type(part), repr(part) if isinstance(part, float) else part

    def _of_value(self, value: Value) -> int:
        return self.values.setdefault(value, len(self.values))

    def _of_expression(self, root: Expression) -> int:
        numbers = self._expressions
        if root not in numbers:
            for each in walk(root):
                if each not in numbers:
                    described = self._described(each)
                    numbers[each] = self._known.setdefault(described, len(self._known))
        return numbers[root]

    def _described(self, expression: Expression) -> Hashable:
        """Describes an expression whose operands have numbers."""
        numbers = self._expressions
        if isinstance(expression, Constant):
            # Equal constants are the same object.
            return expression
        if isinstance(expression, Axis):
            place = self._axes.setdefault(expression, len(self._axes))
            return Axis, place, expression.extent, expression.name
        bounds = expression.type, expression.low, expression.high
        if isinstance(expression, Apply):
            return Apply, expression.op, bounds, *[numbers[each] for each in expression.arguments]
        if isinstance(expression, Linear):
            # The order of terms differs, but does not matter.
            terms = sorted((numbers[term], factor) for term, factor in expression.terms)
            return Linear, expression.constant, bounds, *terms
        operands = [numbers[each] for each in expression.operands]
        if isinstance(expression, Load):
            return Load, self._of_value(expression.value), bounds, *operands
        if isinstance(expression, Reduce):
            axes = tuple(map(self._of_expression, expression.axes))
            return Reduce, expression.reduction, bounds, axes, *operands
        assert isinstance(expression, AccumulatorRef)  # noqa: S101 - there are no others
        return AccumulatorRef, bounds


def _with_other_values(
    known: _Structure,
    sources: Sequence[Source],
    wanted: _Structure,
    make: Callable[[], Sequence[Source]],
) -> Iterator[Source]:
    """Yields the sources of equal kernels, with the values of others.

    Args:
        known, sources: the kernels that have these sources.
        wanted: the other kernels.
        make: returns their sources. It is called if a source reads a value that is computed
            otherwise than by packing a value of the kernels.
    """
    others = dict(zip(known.values, wanted.values, strict=True))
    for position, source in enumerate(sources):
        arguments = tuple(packed_as(each, others) for each in source.arguments)
        if source.operations != known.operations or None in arguments:
            yield from islice(make(), position, None)
            return
        yield replace(
            source,
            arguments=tuple(each for each in arguments if each is not None),
            operations=wanted.operations,
        )
