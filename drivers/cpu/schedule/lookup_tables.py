"""Replaces functions of a single 8-bit number by tables of 256 precomputed results.

Chains of quantised operations are such functions if all other operands are known. Each computes in
32 or 64 bits or in floats what a table yields at once. Functions of a constant's elements become
constants in the same way.
"""

from collections.abc import Callable, Iterator
from typing import TypeGuard

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array, Evaluate, evaluate_node
from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Linear, Load, axis, load
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.kernel import Kernel, op_cost
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import has_own_extents, rewrite, substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.byte_tables import has_cheap_lookups, is_permuted, permuted_lanes
from neurald.drivers.cpu.emit.op_table import stored
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

_BYTES = (Scalar.INT8, Scalar.UINT8)
_ENTRIES = 256
#: Cost of a lookup in additions: in registers, gathered from memory, of 32 bytes in registers at
#: once, and with few instructions.
_PERMUTED_WEIGHT, _GATHERED_WEIGHT, _WORDS_WEIGHT, _BYTES_WEIGHT = 12, 40, 8, 4
#: Smallest cost of a function of constants that is precomputed, in additions, and the largest
#: result. Larger ones take longer to load than to compute.
_MIN_CONSTANT_WEIGHT = 2
_MAX_CONSTANT_BYTES = 1 << 16


def use_lookup_tables(kernel: Kernel, target: Target, evaluate: Evaluate = evaluate_node) -> Kernel:
    """Replaces functions of a single number in a kernel by tables, where that is faster.

    Args:
        kernel: the kernel; the constants that it reads may change.
        target: the target of the code.
        evaluate: computes tables and constants.
    """
    sources = _Sources(kernel)
    is_quick = is_permuted(target, stored(Scalar.INT8), _ENTRIES)
    fits = has_cheap_lookups(target) or permuted_lanes(target) <= 2 * target.lanes(Scalar.INT32.size_bytes)
    if kernel.contraction is not None:
        # What follows a contraction computes a register of 32-bit numbers at a time.
        is_quick = is_quick and fits
    least = _PERMUTED_WEIGHT if is_quick else _GATHERED_WEIGHT
    if is_quick and fits and kernel.contraction is None:
        least = _BYTES_WEIGHT if has_cheap_lookups(target) else _WORDS_WEIGHT

    def found(expression: Expression) -> Expression | None:
        """Returns the number that an expression is a function of, if replacing it is worthwhile."""
        source = sources.of(expression)
        if source is None or source is expression or not isinstance(expression, Apply):
            return None
        if expression.type is Scalar.INDEX:
            return None
        if _is_of_constant(source):
            is_small = source.value.count * expression.type.size_bytes <= _MAX_CONSTANT_BYTES
            is_worthwhile = is_small and kernel.contraction is None
            return source if is_worthwhile and sources.weight(expression) >= _MIN_CONSTANT_WEIGHT else None
        is_byte = expression.type in _BYTES and source.type in _BYTES
        return source if is_byte and sources.weight(expression) >= least else None

    chosen = dict(_functions_of_one_number(kernel, found))
    if not chosen:
        return kernel
    memory: dict[Expression, Expression] = {}
    for expression in walk(*kernel.roots):
        if expression in chosen:
            source = chosen[expression]
            if _is_of_constant(source):
                memory[expression] = _from_constant(expression, source, evaluate)
            else:
                memory[expression] = _from_table(
                    expression, source, rewrite(source, _unchanged, memory), evaluate
                )
    return replace(
        kernel,
        body=rewrite(kernel.body, _unchanged, memory),
        requirements=tuple((rewrite(each, _unchanged, memory), text) for each, text in kernel.requirements),
    )


def _unchanged(_: Expression) -> None:
    return None


def _functions_of_one_number(
    kernel: Kernel, found: Callable[[Expression], Expression | None]
) -> Iterator[tuple[Expression, Expression]]:
    """Yields maximal expressions that are functions of a single number, with that number."""
    seen: set[Expression] = set()
    stack = list(kernel.roots)
    while stack:
        expression = stack.pop()
        if expression in seen:
            continue
        seen.add(expression)
        source = found(expression)
        if source is None:
            stack.extend(expression.operands)
        else:
            yield expression, source
            stack.append(source)


class _Sources:
    """The single number that each expression of a kernel is a function of."""

    def __init__(self, kernel: Kernel) -> None:
        #: None for functions of several numbers or of none.
        self._sources: dict[Expression, Expression | None] = {}
        self._known: set[Expression] = set()
        for each in walk(*kernel.roots):
            self._add(each)

    def of(self, expression: Expression) -> Expression | None:
        """Returns the number, or the expression itself if functions may be of it."""
        return self._sources[expression]

    def weight(self, expression: Expression) -> int:
        """Returns the approximate cost of the function, in additions."""
        source, total = self.of(expression), 0
        seen, stack = {source}, [expression]
        while stack:
            each = stack.pop()
            if each in seen:
                continue
            seen.add(each)
            if isinstance(each, Apply) and each.type is not Scalar.INDEX and each not in self._known:
                total += op_cost(each.op)
            stack.extend(each.operands)
        return total

    def _add(self, expression: Expression) -> None:
        if has_own_extents(expression):
            # Tables have the results for known numbers.
            self._sources[expression] = None
            return
        is_element = _is_of_constant(expression)
        is_function = is_element or isinstance(expression, Apply | Linear)
        operands = [each for each in expression.operands if each not in self._known]
        if isinstance(expression, Constant) or (is_function and not is_element and not operands):
            self._known.add(expression)
            self._sources[expression] = None
            return
        found = {self._sources[each] for each in operands} if is_function else set()
        source = found.pop() if len(found) == 1 else None
        is_number = is_element or expression.type in _BYTES
        self._sources[expression] = expression if source is None and is_number else source


def _is_of_constant(expression: Expression) -> TypeGuard[Load]:
    """Returns True for an unconditional load from a constant."""
    return isinstance(expression, Load) and expression.guard is None and expression.value.constant is not None


def _from_constant(expression: Expression, source: Load, evaluate: Evaluate) -> Expression:
    """Turns a function of a constant's element into an element of another constant."""
    array = _values(expression, source, source.value, evaluate)
    integers = expression.type.is_integer and expression.type.size_bytes > Scalar.INT32.size_bytes
    are_short = integers and np.array_equal(array, array.astype(np.int32))
    kind = Scalar.INT32 if are_short else expression.type
    value = Value(source.value.shape, kind, array.astype(kind.dtype), source.value.name)
    return load(value, source.index).to(expression.type)


def _from_table(
    expression: Expression, source: Expression, number: Expression, evaluate: Evaluate
) -> Expression:
    """Turns a function of an 8-bit number into a table lookup.

    Args:
        expression: the function.
        source: its argument, as in the expression.
        number: its argument, as it is computed.
        evaluate: computes the table.
    """
    limits = np.iinfo(source.type.value)
    every = Value((_ENTRIES,), source.type, np.arange(limits.min, limits.max + 1).astype(source.type.dtype))
    table = Value((_ENTRIES,), expression.type, _values(expression, source, every, evaluate))
    return load(table, (number.to(Scalar.INDEX) - int(limits.min),))


def _values(expression: Expression, source: Expression, numbers: Value, evaluate: Evaluate) -> Array:
    """Computes a function of each element of a constant."""
    axes = tuple(axis(length) for length in numbers.shape)
    body = substitute(expression, {source: load(numbers, axes)})
    node = Compute(output=Value(numbers.shape, expression.type), axes=axes, body=body)
    arrays = {value: value.constant for value in node.inputs if value.constant is not None}
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(evaluate(node, arrays))
