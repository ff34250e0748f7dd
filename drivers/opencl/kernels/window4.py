"""Reductions over windows, such as pools, with four channels per work-item.

Elements of adjacent channels are read together as vectors. The reductions of the four channels are
computed one by one, as in other kernels.
"""

import math
from collections.abc import Sequence

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, Reduce, axis
from neurald.drivers.compiler.ir.extents.extent import estimate, is_multiple
from neurald.drivers.compiler.ir.graph import delinearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import combine_text, identity_text, register_type
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.render import LOCAL_SIZE, arguments_of, render
from neurald.drivers.opencl.codegen.statements import Statements
from neurald.drivers.opencl.kernels.elementwise4 import is_side_by_side, stored_elements_text, vector_reads
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

#: Larger windows are left to other kernels, which distribute one over a work-group.
_MAX_WINDOW = 256
#: Loops over windows up to this size are unrolled, so that their loads overlap.
_MAX_UNROLLED = 16


def candidates(kernel: Kernel, facts: DeviceFacts) -> tuple[Source, ...]:
    """Returns a source with four channels per work-item, and one with a single one.

    Returns nothing unless each reduction reads four adjacent channels together, and on CPUs, where
    compilers make vectors, and where kernels read images.
    """
    is_unsuitable = kernel.requirements or kernel.output_offset is not None or kernel.limit is not None
    if is_unsuitable or facts.is_cpu or facts.images is not None or kernel.row_axes is not None:
        return ()
    length = kernel.shape[-1] if kernel.shape else 0
    # With few results, a work-group for each of them is faster.
    if (
        not is_multiple(length, 4)
        or estimate(math.prod(kernel.shape)) // 4 < LOCAL_SIZE * facts.compute_units
    ):
        return ()
    row, column = axis(math.prod(kernel.shape[:-1]), "row"), axis(length, "column")
    where = dict[Expression, Expression](
        zip(kernel.axes, (*delinearize(row, kernel.shape[:-1]), column), strict=True)
    )
    body = substitute(kernel.body, where)
    reductions = [each for each in walk(body) if isinstance(each, Reduce)]
    loads = [_loads(each, column) for each in reductions]
    if not reductions or not all(loads):
        return ()
    return (_source(kernel, body, (row, column), list(zip(reductions, loads, strict=True))), render(kernel))


def _loads(reduction: Reduce, column: Axis) -> Sequence[Load]:
    """Returns the loads of a reduction, each of which reads four channels together.

    Returns nothing if the reduction contains another one, is long, or reads single channels.
    """
    inner = list(walk(reduction.body))
    if any(isinstance(each, Reduce) for each in inner):
        return ()
    if math.prod(each.extent for each in reduction.axes) > _MAX_WINDOW:
        return ()
    found: dict[Expression, Load] = {}
    for each in inner:
        if not isinstance(each, Load):
            continue
        if not is_side_by_side(each, column, None, found):
            return ()
        found[each] = each
    return tuple(found.values())


def _source(
    kernel: Kernel,
    body: Expression,
    axes: tuple[Axis, Axis],
    reductions: Sequence[tuple[Reduce, Sequence[Load]]],
) -> Source:
    row, column = axes
    values = KernelArguments(arguments_of(kernel))
    length = kernel.shape[-1]
    items = math.prod(kernel.shape) // 4
    lines = [
        f"  const int at = group * {LOCAL_SIZE} + lid;",
        f"  if (at >= {items}) return;",
        f"  const int row = at / {length // 4}, column = at % {length // 4} * 4;",
    ]
    known: list[dict[Expression, str]] = [{row: "row", column: f"(column + {number})"} for number in range(4)]
    for number, (reduction, loads) in enumerate(reductions):
        lines += _reduction(reduction, loads, f"f{number}", {row: "row", column: "column"}, values)
        for element in range(4):
            known[element][reduction] = f"f{number}_{element}"
    elements = []
    for number in range(4):
        statements = Statements(values.by_value, known[number], prefix=f"e{number}_")
        elements.append(statements.value(body))
        lines += statements.lines
    lines.append(stored_elements_text(elements, f"row * {length} + column", kernel.output.type))
    return Source(
        code=LazyCode.of("\n".join((f"static void {NAME}({values.parameters}) {{", *lines, "}", ""))),
        arguments=values.values,
        groups=-(-items // LOCAL_SIZE),
        local_size=LOCAL_SIZE,
        label="windows of four channels",
        operations=kernel.operations,
    )


def _reduction(
    reduction: Reduce,
    loads: Sequence[Load],
    name: str,
    axes: dict[Expression, str],
    values: KernelArguments,
) -> list[str]:
    """Returns the statements that compute the variables `name`_0 to `name`_3."""
    kind = register_type(reduction.type)
    identity = identity_text(reduction.reduction, reduction.type)
    lines = [f"  {kind} {name}_{number} = {identity};" for number in range(4)]
    names = dict(axes)
    is_unrolled = math.prod(each.extent for each in reduction.axes) <= _MAX_UNROLLED
    for number, each in enumerate(reduction.axes):
        names[each] = f"{name}_r{number}"
        lines.append("#pragma unroll" if is_unrolled else "#pragma unroll 1")
        lines.append(f"  for (int {names[each]} = 0; {names[each]} < {each.extent}; ++{names[each]}) {{")
    lines += vector_reads(loads, names, values)
    column = next(each for each, text in axes.items() if text == "column")
    for number in range(4):
        known = dict(names)
        known[column] = f"(column + {number})"
        known |= {
            each: f"(({register_type(each.type)})v{place}.s{number})" for place, each in enumerate(loads)
        }
        statements = Statements(values.by_value, known, prefix=f"{name}e{number}_")
        value = statements.value(reduction.body)
        lines += statements.lines
        combined = combine_text(reduction.reduction, f"{name}_{number}", f"({value})", reduction.type)
        lines.append(f"  {combined}")
    return [*lines, *("  }" for _ in reduction.axes)]
