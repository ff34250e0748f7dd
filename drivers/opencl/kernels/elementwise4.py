"""Elementwise kernels with four elements per work-item, read together as texels of images.

Only the reads are vectors: the four elements are computed one by one, as in other kernels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, axis
from neurald.drivers.compiler.ir.graph import delinearize, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArguments, as_images
from neurald.drivers.opencl.codegen.dialect import memory_type, register_type, texel_vector
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.render import LOCAL_SIZE, arguments_of, render
from neurald.drivers.opencl.codegen.statements import Statements
from neurald.drivers.opencl.kernels.epilogue.vector4_loads import is_multiple_of_4
from neurald.drivers.opencl.platform.device_facts import DeviceFacts


@dataclass(frozen=True, slots=True)
class _VectorPlan:
    """Kernel whose output is viewed as a matrix.

    Attributes:
        body: the expression of the element at a row and a column.
        row, column: the axes that `body` depends on.
        loads: the loads that read four adjacent elements for four adjacent columns.
    """

    body: Expression
    row: Axis
    column: Axis
    loads: tuple[Load, ...]


def candidates(kernel: Kernel, facts: DeviceFacts) -> tuple[Source, ...]:
    """Returns a source with four elements per work-item and one with a single element.

    Returns nothing if no load reads four adjacent elements of an image.

    Args:
        kernel: without a contraction.
        facts: the device.
    """
    if facts.images is None or kernel.has_reduction or kernel.requirements or not kernel.inputs:
        return ()
    images = as_images(kernel.inputs, facts.images)
    # With all dimensions as one row, vectors of a value of the output's shape may span several
    # rows.
    plans = [_plan(kernel, count, images) for count in (0, len(kernel.shape) - 1)]
    best = max(plans, key=lambda plan: len(plan.loads))
    return (_source(kernel, best), render(kernel)) if best.loads else ()


def _plan(kernel: Kernel, leading: int, images: frozenset[Value]) -> _VectorPlan:
    """Returns the plan whose rows span all but the first `leading` dimensions.

    It has no loads if the rows' length is not a multiple of four.
    """
    shape = kernel.shape
    row, column = axis(math.prod(shape[:leading]), "row"), axis(math.prod(shape[leading:]), "column")
    place = (*delinearize(row, shape[:leading]), *delinearize(column, shape[leading:]))
    body = substitute(kernel.body, dict(zip(kernel.axes, place, strict=True)))
    is_whole = column.extent % 4 == 0
    loads = [each for each in walk(body) if isinstance(each, Load) and each.value in images]
    found = tuple(each for each in loads if is_whole and _is_side_by_side(each, column))
    return _VectorPlan(body, row, column, found)


def _is_side_by_side(load: Load, column: Axis) -> bool:
    """Returns True if a load at four columns from an aligned one reads exactly one texel."""
    start = linearize(load.index, load.value.shape) - column
    return load.guard is None and column not in walk(start) and is_multiple_of_4(start)


def _source(kernel: Kernel, plan: _VectorPlan) -> Source:
    values = KernelArguments(arguments_of(kernel), frozenset(each.value for each in plan.loads))
    length = plan.column.extent
    items = math.prod(kernel.shape) // 4
    lines = [
        f"  const int at = group * {LOCAL_SIZE} + lid;",
        f"  if (at >= {items}) return;",
        f"  const int row = at / {length // 4}, column = at % {length // 4} * 4;",
        *_texels(plan, values),
    ]
    elements = []
    for number in range(4):
        known: dict[Expression, str] = {plan.row: "row", plan.column: f"(column + {number})"}
        known |= {
            each: f"(({register_type(each.type)})v{texel}.s{number})" for texel, each in enumerate(plan.loads)
        }
        statements = Statements(values.by_value, known, prefix=f"e{number}_")
        elements.append(statements.value(plan.body))
        lines += statements.lines
    lines.append(_stored(elements, f"row * {length} + column", kernel.output.type))
    return Source(
        text="\n".join((f"static void {NAME}({values.parameters}) {{", *lines, "}", "")),
        arguments=values.values,
        images=values.image_positions,
        groups=-(-items // LOCAL_SIZE),
        local_size=LOCAL_SIZE,
        label="vectors of four elements",
        operations=kernel.operations,
    )


def _texels(plan: _VectorPlan, values: KernelArguments) -> list[str]:
    """Returns the statements that read each texel."""
    places = Statements(values.by_value, {plan.row: "row", plan.column: "column"})
    reads = []
    for number, each in enumerate(plan.loads):
        argument = values.by_value[each.value]
        place = places.value(linearize(each.index, each.value.shape))
        reads.append(f"  const {texel_vector(each.type)} v{number} = {argument.load4(place)};")
    return [*places.lines, *reads]


def _stored(elements: Sequence[str], place: str, kind: Scalar) -> str:
    """Returns the statement that stores four elements."""
    if kind is Scalar.FLOAT16:
        return f"  vstorea_half4_rte((float4)({', '.join(elements)}), ({place}) >> 2, a0);"
    memory = memory_type(kind)
    vector = ", ".join(f"({memory})({each})" for each in elements)
    return f"  *(__global {memory}4 *)(a0 + {place}) = ({memory}4)({vector});"
