"""Joins a kernel and a reader of its value to one kernel, which computes the value when read."""

from neurald.drivers.compiler.ir.expression import (
    Constant,
    Expression,
    Load,
    accumulator,
    axis,
    load,
    select,
)
from neurald.drivers.compiler.ir.graph import (
    Compute,
    Contraction,
    Node,
    Selection,
    delinearize,
    linearize,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.kernel_rewriting import rewrite_kernel
from neurald.drivers.compiler.ir.traversal import Replace, depth, rewrite, substitute
from neurald.hal.records import replace

#: Size of a kernel. Larger ones take long to compile, and need more registers than there are.
MAX_EXPRESSIONS = 400
_MAX_INPUTS = 16
#: Nesting depth of a kernel's expressions, which code generators process recursively.
_MAX_DEPTH = 100


def single_kernel(node: Node) -> Kernel:
    """Returns the kernel of a single node."""
    if isinstance(node, Compute):
        return Kernel(
            output=node.output,
            axes=node.axes,
            body=node.body,
            requirements=node.requirements,
            operations=node.operations,
            limit=node.limit,
        )
    return _plain(node)


def _plain(node: Contraction | Selection) -> Kernel:
    axes = tuple(axis(length, f"i{d}") for d, length in enumerate(node.output.shape))
    return Kernel(
        output=node.output,
        axes=axes,
        body=accumulator(node.output.type),
        contraction=node,
        operations=node.operations,
    )


def reshaped(producer: Kernel, reader: Kernel) -> Kernel:
    """Returns the producer with the output of a reader that only reshapes it."""
    operations = tuple(sorted({*producer.operations, *reader.operations}))
    return replace(producer, output=reader.output, operations=operations, limit=reader.limit)


def on_producer_axes(producer: Kernel, reader: Kernel) -> Kernel | None:
    """Fuses two kernels by rewriting the reader only.

    This is faster than `inlined`, since in a long chain the producer's body is the larger one.
    """
    where: dict[Expression, Expression] = dict(zip(reader.axes, producer.axes, strict=True))

    def replacement(expression: Expression) -> Expression | None:
        is_read = isinstance(expression, Load) and expression.value is producer.output
        return producer.body if is_read else where.get(expression)

    joined = substituted(producer, reader, replacement)
    return None if joined is None else replace(joined, axes=producer.axes)


def inlined(producer: Kernel, reader: Kernel) -> Kernel | None:
    """Replaces each load of the producer's value in the reader by the producer's body."""

    def replacement(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load) or expression.value is not producer.output:
            return None
        index = expression.index
        if producer.output.shape != producer.shape:
            index = delinearize(linearize(index, producer.output.shape), producer.shape)
        body = substitute(producer.body, dict(zip(producer.axes, index, strict=True)))
        if expression.guard is None or expression.otherwise is None:
            return body
        return guarded(body, expression.guard, expression.otherwise)

    return substituted(producer, reader, replacement)


def rearranged(reader: Kernel, before: Kernel, after: Kernel) -> Kernel:
    """Returns a reader of a value that loads it from another one, with its axes reordered."""
    positions = [before.axes.index(each) for each in after.axes]

    def replacement(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load) or expression.value is not before.output:
            return None
        index = expression.index
        if before.output.shape != before.shape:
            index = delinearize(linearize(index, before.output.shape), before.shape)
        permuted = tuple(index[position] for position in positions)
        return load(after.output, permuted, expression.guard, expression.otherwise)

    return rewrite_kernel(reader, replacement, reader.axes)


def substituted(producer: Kernel, reader: Kernel, replacement: Replace) -> Kernel | None:
    """Returns the rewritten reader, or None if it becomes too large."""
    memory: dict[Expression, Expression] = {}
    joined = replace(
        reader,
        body=rewrite(reader.body, replacement, memory),
        requirements=tuple(
            (rewrite(condition, replacement, memory), text) for condition, text in reader.requirements
        ),
        operations=tuple(sorted({*producer.operations, *reader.operations})),
    )
    is_small = len(joined.expressions) <= MAX_EXPRESSIONS and len(joined.inputs) <= _MAX_INPUTS
    return joined if is_small and _is_within_depth(joined) else None


def _is_within_depth(kernel: Kernel) -> bool:
    """Returns True if the kernel's expressions stay within the nesting limit."""
    return len(kernel.expressions) <= _MAX_DEPTH or depth(kernel.expressions) <= _MAX_DEPTH


def guarded(body: Expression, guard: Expression, otherwise: Expression) -> Expression:
    """Returns `body` where the guard holds, else `otherwise`. The body's loads are guarded too."""

    def protect(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load):
            return None
        if expression.guard is None:
            return load(expression.value, expression.index, guard)
        return load(expression.value, expression.index, guard & expression.guard, expression.otherwise)

    protected = rewrite(body, protect, {})
    if isinstance(body, Load) and isinstance(protected, Load):
        if body.guard is None:
            return load(protected.value, protected.index, guard, otherwise)
        if body.otherwise is otherwise and isinstance(otherwise, Constant):
            return protected
    return select(guard, protected, otherwise)
