"""Narrows INT64 computations to INT32, which has twice as many lanes and more instructions."""

from functools import lru_cache

import numpy as np

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Load, apply, constant
from neurald.drivers.compiler.ir.extents.extent import highest, surely_lowest
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.kernel_rewriting import rewrite_kernel
from neurald.drivers.compiler.ir.nesting import BoundedRecursion
from neurald.drivers.compiler.ir.op import COMPARISONS, Op
from neurald.drivers.compiler.ir.scalar import Scalar

_INT32 = (-(2**31), 2**31 - 1)
_FIXED_POINT = (Op.FIXED_POINT, Op.FIXED_POINT_UP)
#: Operations that are well defined modulo 2^32, as are left shifts by less than 32.
_MODULAR = frozenset((Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.NEGATE, Op.SELECT))
#: Larger constants are not scanned.
_MAX_SCANNED_ELEMENTS = 1 << 16
_EXTREMES = (Op.MINIMUM, Op.MAXIMUM)


@lru_cache(maxsize=16)
def narrow_int64(kernel: Kernel) -> Kernel:
    """Replaces INT64 by INT32 in a kernel wherever every number fits.

    Fixed-point products become INT32, which they never are otherwise.
    """
    return rewrite_kernel(kernel, _Narrowing().replacement, kernel.axes)


def bounds_of(expression: Expression) -> tuple[int, int]:
    """Returns inclusive bounds of an integer, from its expression."""
    return _Narrowing().bounds(expression)


class _Narrowing:
    def __init__(self) -> None:
        self._bounds: dict[Expression, tuple[int, int]] = {}
        self._bounding = BoundedRecursion[tuple[int, int]](_arguments)
        self._shorter: dict[Expression, Expression | None] = {}
        self._shortening = BoundedRecursion[Expression | None](self._narrowed_arguments)
        self._remainders: dict[Expression, Expression] = {}
        self._reducing = BoundedRecursion[Expression](self._modular_arguments)

    def replacement(self, expression: Expression) -> Expression | None:
        if not isinstance(expression, Apply):
            return None
        if expression.op in _EXTREMES and expression.type is Scalar.INT64:
            return self._with_offset_last(expression)
        if expression.op in _FIXED_POINT:
            # By contract the value fits in 32 bits.
            arguments = tuple(self._modulo(each) for each in expression.arguments)
            return apply(expression.op, *arguments, type=expression.type)
        if expression.arguments[0].type is not Scalar.INT64:
            return None
        if expression.op is Op.CONVERT or expression.op in COMPARISONS:
            short = [self._narrow(each) for each in expression.arguments]
            if all(each is not None for each in short):
                arguments = tuple(each for each in short if each is not None)
                if expression.op is Op.CONVERT:
                    return arguments[0].to(expression.type)
                return apply(expression.op, *arguments, type=expression.type)
        return None

    def _with_offset_last(self, expression: Apply) -> Expression | None:
        """Rewrites max(a + c, d) as max(a, d - c) + c, since a + c may not fit in 32 bits."""
        total, limit = expression.arguments
        if not isinstance(limit, Constant) or not isinstance(total, Apply) or total.op is not Op.ADD:
            return None
        value, offset = total.arguments
        if not isinstance(offset, Constant) or any(
            surely_lowest(each.value) < -(2**31) or highest(each.value) > 2**31 for each in (offset, limit)
        ):
            return None
        low, high = self.bounds(value)
        if low < -(2**62) or high > 2**62:
            return None
        cut = apply(expression.op, value, constant(limit.value - offset.value, Scalar.INT64))
        return apply(Op.ADD, cut, offset)

    def bounds(self, expression: Expression) -> tuple[int, int]:
        """Returns inclusive bounds of an integer."""
        if expression not in self._bounds:
            self._bounds[expression] = self._bounding.compute(expression, self._found_bounds, self.bounds)
        return self._bounds[expression]

    def _found_bounds(self, expression: Expression) -> tuple[int, int]:
        low, high = _limits(expression.type)
        if isinstance(expression, Constant) and not expression.type.is_float:
            return int(surely_lowest(expression.value)), int(highest(expression.value))
        if isinstance(expression, Load) and expression.guard is None:
            return self._known_bounds(expression)
        if not isinstance(expression, Apply):
            return low, high
        if expression.op in _FIXED_POINT:
            return self._rescaled_bounds(expression)
        found = self._computed_bounds(expression)
        return found if found is not None and low <= found[0] and found[1] <= high else (low, high)

    def _known_bounds(self, load: Load) -> tuple[int, int]:
        known = load.value.constant
        if load.type.is_float or known is None or not 0 < known.size <= _MAX_SCANNED_ELEMENTS:
            return _limits(load.type)
        return int(known.min()), int(known.max())

    def _rescaled_bounds(self, expression: Apply) -> tuple[int, int]:
        value, mantissa, exponent = expression.arguments
        if self.bounds(mantissa)[0] < 0 or self.bounds(exponent)[1] > 0:
            return _INT32
        # The multiplier is below 1.
        low, high = self.bounds(value)
        return max(_INT32[0], min(0, low)), min(_INT32[1], max(0, high))

    def _computed_bounds(self, expression: Apply) -> tuple[int, int] | None:
        if any(each.type.is_float or each.type is Scalar.INDEX for each in expression.arguments):
            return None
        ranges = [self.bounds(each) for each in expression.arguments]
        first, last = ranges[0], ranges[-1]
        if expression.op is Op.CONVERT:
            return first
        if expression.op is Op.ADD:
            return first[0] + last[0], first[1] + last[1]
        if expression.op is Op.SUBTRACT:
            return first[0] - last[1], first[1] - last[0]
        if expression.op is Op.SHIFT_LEFT and 0 <= last[0] == last[1] < 32:
            return first[0] << last[0], first[1] << last[0]
        if expression.op is Op.MULTIPLY:
            corners = [a * b for a in first for b in last]
            return min(corners), max(corners)
        if expression.op is Op.MINIMUM:
            return min(first[0], last[0]), min(first[1], last[1])
        if expression.op is Op.MAXIMUM:
            return max(first[0], last[0]), max(first[1], last[1])
        if expression.op is Op.SELECT:
            return min(ranges[1][0], last[0]), max(ranges[1][1], last[1])
        return None

    def _fits(self, expression: Expression) -> bool:
        low, high = self.bounds(expression)
        return low >= _INT32[0] and high <= _INT32[1]

    def _narrow(self, expression: Expression) -> Expression | None:
        """Returns the number as INT32; None if it may not fit or gets no simpler."""
        if expression not in self._shorter:
            found = self._shortening.compute(expression, self._new_narrow, self._narrow)
            self._shorter[expression] = found
        return self._shorter[expression]

    def _new_narrow(self, expression: Expression) -> Expression | None:
        if not self._fits(expression):
            return None
        if isinstance(expression, Constant):
            return constant(expression.value, Scalar.INT32)
        if not isinstance(expression, Apply):
            return None
        if expression.op is Op.CONVERT:
            return expression.arguments[0].to(Scalar.INT32)
        if expression.op in _FIXED_POINT:
            return apply(expression.op, *expression.arguments, type=Scalar.INT32)
        parts = self._narrowed_arguments(expression)
        short = [each for each in map(self._narrow, parts) if each is not None]
        if not parts or len(short) < len(parts):
            return None
        return apply(expression.op, *expression.arguments[: -len(parts)], *short)

    def _narrowed_arguments(self, expression: Expression) -> tuple[Expression, ...]:
        """Returns the arguments to narrow with the expression; empty if it is not narrowed."""
        if not isinstance(expression, Apply) or not self._fits(expression):
            return ()
        if expression.op not in _EXTREMES and not self._is_modular(expression):
            return ()
        return _numbers(expression)

    def _is_modular(self, expression: Apply) -> bool:
        """Returns True if the operation is well defined modulo 2^32."""
        if expression.op is Op.SHIFT_LEFT:
            low, high = self.bounds(expression.arguments[1])
            return low >= 0 and high < 32
        return expression.op in _MODULAR

    def _modulo(self, expression: Expression) -> Expression:
        """Returns an INT32 that is equal modulo 2^32."""
        if expression not in self._remainders:
            found = self._reducing.compute(expression, self._new_modulo, self._modulo)
            self._remainders[expression] = found
        return self._remainders[expression]

    def _new_modulo(self, expression: Expression) -> Expression:
        if expression.type is not Scalar.INT64:
            return expression
        parts = self._modular_arguments(expression)
        if isinstance(expression, Apply) and parts:
            kept = expression.arguments[: -len(parts)]
            return apply(expression.op, *kept, *map(self._modulo, parts))
        if isinstance(expression, Apply) and expression.op is Op.CONVERT:
            source = expression.arguments[0]
            if source.type.is_integer and source.type is not Scalar.INDEX:
                return source.to(Scalar.INT32)
        if isinstance(expression, Constant):
            if surely_lowest(expression.value) >= _INT32[0] and highest(expression.value) <= _INT32[1]:
                return constant(expression.value, Scalar.INT32)
            return constant((int(expression.value) + 2**31) % 2**32 - 2**31, Scalar.INT32)
        short = self._narrow(expression)
        return expression.to(Scalar.INT32) if short is None else short

    def _modular_arguments(self, expression: Expression) -> tuple[Expression, ...]:
        """Returns the arguments that suffice modulo 2^32; empty if the operation is not modular."""
        if expression.type is not Scalar.INT64 or not isinstance(expression, Apply):
            return ()
        return _numbers(expression) if self._is_modular(expression) else ()


def _arguments(expression: Expression) -> tuple[Expression, ...]:
    return expression.arguments if isinstance(expression, Apply) else ()


def _numbers(expression: Apply) -> tuple[Expression, ...]:
    """Returns the arguments without the condition of a SELECT."""
    return expression.arguments[1:] if expression.op is Op.SELECT else expression.arguments


def _limits(kind: Scalar) -> tuple[int, int]:
    """Returns the range of a type; an INDEX has its own bounds."""
    if kind is Scalar.BOOL:
        return 0, 1
    if kind.is_float:
        return -(2**63), 2**63 - 1
    info = np.iinfo(kind.dtype.name)
    return int(info.min), int(info.max)
