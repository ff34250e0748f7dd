"""Lets attention read keys and values from where a concatenation reads them.

A step with cached keys and values appends new ones, and the results are its outputs as well. An
attention that reads what is concatenated does not wait for the copies, which run beside it as
phases of a persistent kernel. If nothing else reads a concatenation, it is not needed at all.
"""

from collections.abc import Callable

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Load, load
from neurald.drivers.compiler.ir.graph import Attention, delinearize
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.offsets import offset_of
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace


def read_appended(graph: FusedGraph, fits: Callable[[Kernel], bool]) -> FusedGraph:
    """Returns the graph with attention kernels that read what is concatenated.

    Args:
        graph: the graph, which is not changed.
        fits: returns True if there is a routine for an attention kernel.
    """
    kernels = {kernel.output: kernel for kernel in graph.kernels}
    for kernel in graph.kernels:
        node = kernel.contraction
        if not isinstance(node, Attention):
            continue
        _, _, column, _, _ = node.axes
        key, value = (_appended(graph, kernels, each, column) for each in (node.key, node.value))
        if key is None or value is None:
            continue
        reading = replace(kernel, contraction=replace(node, key=key, value=value))
        if not fits(reading):
            continue
        kernels[kernel.output] = reading
        copied = {graph.aliases.get(each, each) for each in (node.key.value, node.value.value)}
        kernels = _with_copies_behind(graph, kernels, kernel.output, copied)
    return replace(graph, kernels=tuple(kernels.values()))


def _with_copies_behind(
    graph: FusedGraph, kernels: dict[Value, Kernel], output: Value, copied: set[Value]
) -> dict[Value, Kernel]:
    """Returns the kernels without copies that nothing reads, and with others behind an attention.

    Args:
        graph: the graph.
        kernels: its kernels, by output.
        output: the output of the attention.
        copied: the results of concatenations that it does not read any more.
    """
    read = [
        {graph.aliases.get(value, value) for value in kernel.inputs} & copied for kernel in kernels.values()
    ]
    place = list(kernels).index(output)
    is_read_before = set[Value]().union(*read[:place])
    is_needed = set[Value]().union(*read) | copied & set(graph.outputs)
    found: dict[Value, Kernel] = {}
    for written, kernel in kernels.items():
        if written not in copied or written in is_read_before:
            found[written] = kernel
        if written is output:
            unneeded = [kernels[each] for each in copied - is_needed]
            operations = {*kernel.operations, *(each for other in unneeded for each in other.operations)}
            found[output] = replace(kernel, operations=tuple(sorted(operations)))
            found.update(
                (each, other)
                for each, other in kernels.items()
                if each in copied & is_needed and each not in is_read_before
            )
    return found


def _appended(graph: FusedGraph, kernels: dict[Value, Kernel], loaded: Load, column: Axis) -> Load | None:
    """Returns the load of a concatenation's elements from where it reads them.

    Returns None if the load is not of two values that are concatenated along a column of scores.
    """
    owner = graph.aliases.get(loaded.value, loaded.value)
    kernel = kernels.get(owner)
    is_shared = any(other is owner and part in kernels for part, other in graph.aliases.items())
    if kernel is None or is_shared or kernel.contraction is not None or kernel.requirements:
        return None
    if kernel.output_offset is not None or kernel.limit is not None:
        return None
    offset = offset_of(loaded) + graph.starts.get(loaded.value, 0)
    where: dict[Expression, Expression] = dict(
        zip(kernel.axes, delinearize(offset, kernel.shape), strict=True)
    )
    body = substitute(kernel.body, where)
    return body if isinstance(body, Load) and appended_rows(body, column) is not None else None


def appended_rows(loaded: Load, column: Axis) -> tuple[int, Load] | None:
    """Returns the first of two concatenated values' columns, and the load of the second's rows.

    Args:
        loaded: an element of keys or values.
        column: the axis of columns of scores, along which values are concatenated.

    Returns:
        None if it is not an element of two such values of floats, which are multiplied as FLOAT32.
    """
    guard, rest = loaded.guard, loaded.otherwise
    if not isinstance(guard, Apply) or guard.op is not Op.LESS or guard.operands[0] is not column:
        return None
    limit = guard.operands[1]
    if isinstance(rest, Apply) and rest.op is Op.CONVERT and rest.type is Scalar.FLOAT32:
        rest = rest.operands[0]
    if not isinstance(limit, Constant) or not isinstance(rest, Load):
        return None
    if rest.guard is not None and not _is_behind(rest.guard, column, limit):
        return None
    are_floats = {loaded.type, rest.type} <= {Scalar.FLOAT16, Scalar.FLOAT32}
    second = load(rest.value, rest.index)
    return (int(limit.value), second) if are_floats and isinstance(second, Load) else None


def _is_behind(guard: Expression, column: Axis, limit: Constant) -> bool:
    """Returns True if a guard holds where a column is not below a limit."""
    return isinstance(guard, Apply) and guard.op is Op.LESS_EQUAL and guard.operands == (limit, column)
