"""What follows from a single number of 8 bits is looked up in a table of all 256 results, computed ahead.

Quantised operations one after another are such functions where all operands but one are known: each computes in 32 or 64 bits, or
in floats, what a table gives at once. What follows from an element of a constant is a constant of its own in the same way.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array, Evaluate, evaluate_node
from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Linear, Load, axis, load
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.kernel import Kernel, weight_of
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite, substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.op_table import stored
from neurald.drivers.cpu.emit.vector_memory import is_permuted
from neurald.drivers.cpu.target.target import Target

_BYTES = (Scalar.INT8, Scalar.UINT8)
_ENTRIES = 256
#: A look-up takes about as long as so many additions: in registers, and where the table's elements are gathered.
_PERMUTED_WEIGHT, _GATHERED_WEIGHT = 12, 40
#: What so many additions make of a constant is a constant, up to a size: larger ones take longer to read than to compute.
_CONSTANT_WEIGHT = 2
_MOST_CONSTANT_BYTES = 1 << 16


def tabulated(kernel: Kernel, target: Target, evaluate: Evaluate = evaluate_node) -> Kernel:
    """The same kernel with functions of a single number as tables, where that is faster.

    Args:
        kernel: what it reads from constants may change.
        target: what it is computed with.
        evaluate: computes tables and constants.
    """
    sources = _Sources(kernel)
    is_quick = is_permuted(target, stored(Scalar.INT8), _ENTRIES)
    least = _PERMUTED_WEIGHT if is_quick else _GATHERED_WEIGHT

    def found(expression: Expression) -> Expression | None:
        """What an expression is a function of, if it is worth a table or a constant."""
        source = sources.of(expression)
        if source is None or source is expression or not isinstance(expression, Apply):
            return None
        if expression.type is Scalar.INDEX:
            return None
        if _is_of_constant(source):
            is_small = source.value.count * expression.type.size_bytes <= _MOST_CONSTANT_BYTES
            is_worthwhile = is_small and kernel.contraction is None
            return source if is_worthwhile and sources.weight(expression) >= _CONSTANT_WEIGHT else None
        is_byte = expression.type in _BYTES and source.type in _BYTES
        return source if is_byte and sources.weight(expression) >= least else None

    chosen = dict(_chosen(kernel, found))
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
                    expression, source, rewrite(source, _as_it_is, memory), evaluate
                )
    return replace(
        kernel,
        body=rewrite(kernel.body, _as_it_is, memory),
        requirements=tuple((rewrite(each, _as_it_is, memory), text) for each, text in kernel.requirements),
    )


def _as_it_is(_: Expression) -> None:
    return None


def _chosen(
    kernel: Kernel, found: Callable[[Expression], Expression | None]
) -> Iterator[tuple[Expression, Expression]]:
    """The largest parts of a kernel's expressions that are functions of a single number, and what they are functions of."""
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
    """Which single number each expression of a kernel is a function of."""

    def __init__(self, kernel: Kernel) -> None:
        #: None where it is a function of several numbers, or of none.
        self._sources: dict[Expression, Expression | None] = {}
        self._known: set[Expression] = set()
        for each in walk(*kernel.roots):
            self._add(each)

    def of(self, expression: Expression) -> Expression | None:
        """The number; the expression itself where it is one that functions may be of."""
        return self._sources[expression]

    def weight(self, expression: Expression) -> int:
        """About how many additions the function takes."""
        source, total = self.of(expression), 0
        seen, stack = {source}, [expression]
        while stack:
            each = stack.pop()
            if each in seen:
                continue
            seen.add(each)
            if isinstance(each, Apply) and each.type is not Scalar.INDEX and each not in self._known:
                total += weight_of(each.op)
            stack.extend(each.operands)
        return total

    def _add(self, expression: Expression) -> None:
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
    """Whether it is an element of a constant, without conditions."""
    return isinstance(expression, Load) and expression.guard is None and expression.value.constant is not None


def _from_constant(expression: Expression, source: Load, evaluate: Evaluate) -> Expression:
    """A function of a constant's element as an element of another constant."""
    array = _values(expression, source, source.value, evaluate)
    integers = expression.type.is_integer and expression.type.size_bytes > Scalar.INT32.size_bytes
    is_short = integers and np.array_equal(array, array.astype(np.int32))
    kind = Scalar.INT32 if is_short else expression.type
    value = Value(source.value.shape, kind, array.astype(kind.dtype), source.value.name)
    return load(value, source.index).to(expression.type)


def _from_table(
    expression: Expression, source: Expression, number: Expression, evaluate: Evaluate
) -> Expression:
    """A function of a number of 8 bits as an element of a table.

    Args:
        expression: the function.
        source: what it is of, in its expression.
        number: the same, as it is computed.
        evaluate: computes the table.
    """
    limits = np.iinfo(source.type.value)
    every = Value((_ENTRIES,), source.type, np.arange(limits.min, limits.max + 1).astype(source.type.dtype))
    table = Value((_ENTRIES,), expression.type, _values(expression, source, every, evaluate))
    return load(table, (number.to(Scalar.INDEX) - int(limits.min),))


def _values(expression: Expression, source: Expression, numbers: Value, evaluate: Evaluate) -> Array:
    """A function of each element of a constant."""
    axes = tuple(axis(length) for length in numbers.shape)
    body = substitute(expression, {source: load(numbers, axes)})
    node = Compute(output=Value(numbers.shape, expression.type), axes=axes, body=body)
    arrays = {value: value.constant for value in node.inputs if value.constant is not None}
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(evaluate(node, arrays))
