"""Moves FLOAT16 as integers of the same bits.

Computing with FLOAT16 converts each element to FLOAT32 and back, which moving it does not need.
"""

from collections.abc import Callable, Iterable

import numpy as np

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Load, constant, load, select
from neurald.drivers.compiler.ir.graph import is_data_movement
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.target.routine import Routine
from neurald.hal.records import replace


def routine(kernel: Kernel, generate: Callable[[Kernel], Routine]) -> Routine | None:
    """Returns the routine of a kernel that only moves FLOAT16, or None for other kernels.

    Args:
        kernel: has no contraction.
        generate: makes the routine of a kernel that moves INT16.
    """
    if kernel.output.type is not Scalar.FLOAT16 or not is_data_movement(kernel.body) or _computes(kernel):
        return None
    bits = _Bits()
    output = bits.value(kernel.output)
    moved = generate(replace(kernel, output=output, body=bits.body(kernel.body)))
    originals = {each: value for value, each in bits.values.items()}
    return replace(moved, arguments=tuple(originals.get(each, each) for each in moved.arguments))


def _computes(kernel: Kernel) -> bool:
    """Returns True if anything is computed from FLOAT16, such as a condition."""
    return any(
        each.type is not Scalar.FLOAT16 and _has_float16(each.operands) for each in walk(*kernel.roots)
    )


def _has_float16(expressions: Iterable[Expression]) -> bool:
    return any(each.type is Scalar.FLOAT16 for each in expressions)


class _Bits:
    """Replaces FLOAT16 by INT16.

    Attributes:
        values: what replaces each value. Its elements are not known, so that the code does not
            depend on them.
    """

    def __init__(self) -> None:
        self.values: dict[Value, Value] = {}
        self._bodies: dict[Expression, Expression] = {}

    def value(self, value: Value) -> Value:
        """Returns what replaces a value."""
        if value not in self.values:
            self.values[value] = Value(value.shape, Scalar.INT16, name=value.name)
        return self.values[value]

    def body(self, body: Expression) -> Expression:
        """Returns what replaces an element that is moved."""
        # Operands precede their users, so that chains of any length need no recursion.
        for each in walk(body):
            if each.type is Scalar.FLOAT16 and each not in self._bodies:
                self._bodies[each] = self._body(each)
        return self._bodies[body]

    def _body(self, body: Expression) -> Expression:
        if isinstance(body, Constant):
            with np.errstate(over="ignore"):
                return constant(int(np.float16(body.value).view(np.int16)), Scalar.INT16)
        if isinstance(body, Load):
            otherwise = None if body.otherwise is None else self._bodies[body.otherwise]
            return load(self.value(body.value), body.index, body.guard, otherwise)
        assert isinstance(body, Apply)  # noqa: S101 - a selection, see `is_data_movement`
        condition, *sides = body.arguments
        return select(condition, *(self._bodies[each] for each in sides))
