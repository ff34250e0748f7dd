"""Renders any kernel as OpenCL C, from the expressions of its elements.

The text depends on the kernel only. `kernels` has faster ones, mainly for contractions.
"""

import math
from collections.abc import Mapping, Sequence

from neurald.drivers.compiler.ir.expression import Expression, Reduce, axis
from neurald.drivers.compiler.ir.extents.extent import (
    Extent,
    at_least,
    estimate,
    has_extents,
    is_zero,
    same_length,
)
from neurald.drivers.compiler.ir.graph import delinearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import free_axes, substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.contraction.contraction_expansion import expand_contraction
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import combine_text, identity_text, register_type, store_text
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.statements import Statements

#: Work-items of a group.
LOCAL_SIZE = 64
#: Work-items of a group that reduces to one element.
_REDUCTION_SIZE = 256
#: Minimum length of a reduction that is distributed over a work-group.
_MIN_LONG_REDUCTION = 128
#: Maximum number of results of such a reduction: with more, a work-item per result suffices.
_MAX_RESULTS = 4096
#: Each work-item computes a whole row if there are at least this many rows of at most this length.
_MIN_ROWS = 2048
_MAX_ROW_LENGTH = 128


def arguments_of(kernel: Kernel) -> tuple[Value, ...]:
    """Returns the arguments of a kernel's function: its output, and each value that it reads."""
    return (kernel.output, *kernel.inputs)


def finish_lines(statements: Statements, kernel: Kernel, place: str) -> list[str]:
    """Returns the statements that check and store the element, after those that compute it.

    Args:
        statements: the statements with the names of the axes.
        kernel: the kernel whose element is computed.
        place: the index of the element in the output.
    """
    for code, (condition, _) in enumerate(kernel.requirements, start=1):
        holds = statements.value(condition)
        statements.lines.append(f"  if (!{holds}) *status = {code};")
    element = statements.value(kernel.body)
    return [*statements.lines, f"  {store_text('a0', place, element, kernel.output.type)}"]


def render(kernel: Kernel) -> Source:
    """Returns the source of a kernel; a contraction is computed like any other reduction."""
    kernel = expand_contraction(kernel)
    total = math.prod(kernel.shape)
    count = kernel.row_axes
    if count is not None:
        return _rows(kernel, count)
    reduction = _long_reduction(kernel, total)
    return _by_group(kernel, reduction, total) if reduction is not None else _plain(kernel, total)


def _by_place(kernel: Kernel, place: Expression) -> Kernel:
    """Returns the kernel with its axes expressed by the linear index of the element."""
    return _moved(kernel, delinearize(place, kernel.shape))


def _moved(kernel: Kernel, position: Sequence[Expression]) -> Kernel:
    """Returns the kernel with its axes replaced by other expressions."""
    where: dict[Expression, Expression] = dict(zip(kernel.axes, position, strict=True))
    return Kernel(
        output=kernel.output,
        axes=kernel.axes,
        body=substitute(kernel.body, where),
        requirements=tuple((substitute(each, where), text) for each, text in kernel.requirements),
        operations=kernel.operations,
    )


def _plain(kernel: Kernel, total: int) -> Source:
    """Uses one work-item per element."""
    values = KernelArguments(arguments_of(kernel))
    place = axis(total, "at")
    placed = _by_place(kernel, place)
    statements = Statements(values.by_value, {place: "at"})
    lines = finish_lines(statements, placed, "at")
    text = "\n".join(
        (
            f"static void {NAME}({values.parameters}) {{",
            f"  const int at = group * {LOCAL_SIZE} + lid;",
            f"  if (at >= {total}) return;",
            *lines,
            "}",
            "",
        )
    )
    return Source(
        code=LazyCode.of(text),
        arguments=values.values,
        groups=-(-total // LOCAL_SIZE),
        local_size=LOCAL_SIZE,
        label="a work-item for each element",
        operations=kernel.operations,
    )


def _long_reduction(kernel: Kernel, total: int) -> Reduce | None:
    """Returns the only reduction of a kernel, if it is long and there are few results."""
    reductions = [each for each in walk(*kernel.roots) if isinstance(each, Reduce)]
    if len(reductions) != 1 or estimate(total) > _MAX_RESULTS:
        return None
    extent = math.prod(each.extent for each in reductions[0].axes)
    return reductions[0] if estimate(extent) >= _MIN_LONG_REDUCTION else None


def _by_group(kernel: Kernel, reduction: Reduce, total: int) -> Source:
    """Uses one work-group per element.

    Each work-item reduces a part of the elements, and a tree reduction combines the results.
    """
    values = KernelArguments(arguments_of(kernel))
    place = axis(total, "at")
    placed = _by_place(kernel, place)
    reduction = next(each for each in walk(*placed.roots) if isinstance(each, Reduce))
    after = Statements(values.by_value, {place: "at", reduction: "total"}, indent="    ")
    lines = finish_lines(after, placed, "at")
    size = _REDUCTION_SIZE
    text = "\n".join(
        (
            f"static void {NAME}({values.parameters}) {{",
            "  const int at = group;",
            *_group_reduction(values, reduction, "total", {place: "at"}, size),
            "  if (lid == 0) {",
            *(f"  {line}" for line in lines),
            "  }",
            "}",
            "",
        )
    )
    return Source(
        code=LazyCode.of(text),
        arguments=values.values,
        groups=total,
        local_size=size,
        scratch_bytes=8 * size,
        has_barriers=True,
        label="a work-group for each reduction",
        operations=kernel.operations,
    )


def _group_reduction(
    values: KernelArguments,
    reduction: Reduce,
    name: str,
    known: Mapping[Expression, str],
    size: int,
    *,
    is_open: bool = False,
) -> list[str]:
    """Returns the statements of a reduction by a whole group; each work-item gets the result.

    Args:
        values: the arguments of the function.
        reduction: the reduction.
        name: the name of the result.
        known: names of the expressions that the reduction depends on.
        size: the size of the group, a power of two.
        is_open: whether it is known at run time only that the whole group reduces together: the
            number `item` of a work-item counts among `width` ones.
    """
    shape = tuple(each.extent for each in reduction.axes)
    along = axis(math.prod(shape), "along")
    body = substitute(reduction.body, dict(zip(reduction.axes, delinearize(along, shape), strict=True)))
    inner = Statements(values.by_value, {**known, along: "along"}, indent="    ")
    value = inner.value(body)
    kind = register_type(reduction.type)
    first, step = ("item", "width") if is_open else ("lid", size)
    combined = _exchange(reduction, name, kind) if is_open else _tree(reduction, name, kind, size)
    return [
        f"  {kind} {name} = {identity_text(reduction.reduction, reduction.type)};",
        "  {",
        f"    __local {kind} *parts = (__local {kind} *)scratch;",
        f"    for (int along = {first}; along < {along.extent}; along += {step}) {{",
        *inner.lines,
        f"      {combine_text(reduction.reduction, name, value, reduction.type)}",
        "    }",
        *combined,
        "  }",
    ]


def _tree(reduction: Reduce, name: str, kind: str, size: int) -> list[str]:
    """Returns the statements that combine what the work-items of a group have."""
    return [
        f"    parts[lid] = {name};",
        "    barrier(CLK_LOCAL_MEM_FENCE);",
        f"    for (int half_size = {size // 2}; half_size > 0; half_size >>= 1) {{",
        "      if (lid < half_size) {",
        f"        const {kind} other = parts[lid + half_size];",
        f"        {combine_text(reduction.reduction, name, 'other', reduction.type)}",
        f"        parts[lid] = {name};",
        "      }",
        "      barrier(CLK_LOCAL_MEM_FENCE);",
        "    }",
        f"    {name} = parts[0];",
        "    barrier(CLK_LOCAL_MEM_FENCE);",
    ]


def _exchange(reduction: Reduce, name: str, kind: str) -> list[str]:
    """Returns the statements that combine what `width` work-items have; one alone executes none."""
    return [
        "    for (int half_size = width / 2; half_size > 0; half_size >>= 1) {",
        f"      parts[lid] = {name};",
        "      barrier(CLK_LOCAL_MEM_FENCE);",
        f"      const {kind} other = parts[lid ^ half_size];",
        f"      {combine_text(reduction.reduction, name, 'other', reduction.type)}",
        "      barrier(CLK_LOCAL_MEM_FENCE);",
        "    }",
    ]


def _is_shared(rows: int, lengths: Sequence[int]) -> int:
    """Returns 1 if a group computes a row, and 0 if a work-item does, for many short rows."""
    is_short = at_least(rows, _MIN_ROWS)
    found: list[int] = []
    for each in lengths:
        if not any(same_length(each, other) for other in found):
            found.append(each)
            is_short *= 1 - at_least(each, _MAX_ROW_LENGTH + 1)
    return 1 - is_short


def _rows(kernel: Kernel, count: int) -> Source:
    """Uses one group per row, or one work-item if rows are many and short.

    The group computes the reductions of the row first, then its elements. Where that depends on
    lengths that are known at run time, one text does both.
    """
    values = KernelArguments(arguments_of(kernel))
    rows, length = math.prod(kernel.shape[:count]), math.prod(kernel.shape[count:])
    row, column = axis(rows, "row"), axis(length, "column")
    at = (*delinearize(row, kernel.shape[:count]), *delinearize(column, kernel.shape[count:]))
    placed = _moved(kernel, at)
    # Inner reductions stay inside outer ones, unless they are constant for the whole row.
    reductions = [
        each for each in walk(*placed.roots) if isinstance(each, Reduce) and free_axes(each) <= {row, column}
    ]
    lengths = (length, *(math.prod(axis.extent for axis in each.axes) for each in reductions))
    longest = max(map(estimate, lengths))
    is_shared = _is_shared(rows, lengths)
    # Examples of open lengths are longer than many others.
    shortest = _REDUCTION_SIZE if has_extents(lengths) else LOCAL_SIZE
    size = LOCAL_SIZE if is_zero(is_shared) or longest <= shortest else _REDUCTION_SIZE
    known: dict[Expression, str] = {row: "row"}
    first, step, end = "lid", str(size), str(length)
    is_open = isinstance(is_shared, Extent)
    if is_open:
        first, step, end = "item", "width", "end"
        lines = [
            f"  const int width = {is_shared} ? {size} : 1, item = {is_shared} ? lid : 0;",
            f"  const int place = {is_shared} ? group : group * {size} + lid;",
            # Every work-item takes part in the barriers.
            f"  const int row = min(place, {rows} - 1), end = place < {rows} ? {length} : 0;",
        ]
    else:
        lines = ["  const int row = group;"]
    if not is_zero(is_shared):
        for number, reduction in enumerate(reductions):
            lines += _group_reduction(values, reduction, f"f{number}", known, size, is_open=is_open)
            known[reduction] = f"f{number}"
    else:
        first, step = "0", "1"
        lines = [f"  const int row = group * {size} + lid;", f"  if (row >= {rows}) return;"]
        before = Statements(values.by_value, known, prefix="f")
        known.update([(reduction, before.value(reduction)) for reduction in reductions])
        lines += before.lines
    inner = Statements(values.by_value, {**known, column: "column"}, indent="  ")
    elements = finish_lines(inner, placed, f"row * {length} + column")
    text = "\n".join(
        (
            f"static void {NAME}({values.parameters}) {{",
            *lines,
            f"  for (int column = {first}; column < {end}; column += {step}) {{",
            *(f"  {line}" for line in elements),
            "  }",
            "}",
            "",
        )
    )
    return Source(
        code=LazyCode.of(text),
        arguments=values.values,
        groups=is_shared * rows + (1 - is_shared) * -(-rows // size),
        local_size=size,
        scratch_bytes=0 if is_zero(is_shared) else 8 * size,
        has_barriers=not is_zero(is_shared),
        label=f"a work-{'group' if estimate(is_shared) else 'item'} for each row",
        operations=kernel.operations,
    )
