"""Elementwise kernels with four elements per work-item, read as vectors or texels of images.

Only the reads are vectors: the four elements are computed one by one, as in other kernels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, axis
from neurald.drivers.compiler.ir.extents.extent import is_multiple
from neurald.drivers.compiler.ir.graph import delinearize, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArguments, as_images
from neurald.drivers.opencl.codegen.dialect import memory_type, register_type, texel_vector
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.render import LOCAL_SIZE, arguments_of, render
from neurald.drivers.opencl.codegen.statements import Statements
from neurald.drivers.opencl.kernels.epilogue.epilogue import stored4_text
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

    Returns nothing if no load reads four adjacent elements, of an image where the device reads
    images.

    Args:
        kernel: without a contraction.
        facts: the device; on CPUs, compilers make vectors themselves.
    """
    is_unsuitable = kernel.has_reduction or kernel.requirements or kernel.output_offset is not None
    if is_unsuitable or not kernel.inputs or (facts.images is None and facts.is_cpu):
        return ()
    images = None if facts.images is None else as_images(kernel.inputs, facts.images)
    # With all dimensions as one row, vectors of a value of the output's shape may span several
    # rows.
    plans = [_plan(kernel, count, images) for count in (0, len(kernel.shape) - 1)]
    best = max(plans, key=lambda plan: len(plan.loads))
    if best.loads:
        return _source(kernel, best, images), render(kernel)
    return ()


def _plan(kernel: Kernel, leading: int, images: frozenset[Value] | None) -> _VectorPlan:
    """Returns the plan whose rows span all but the first `leading` dimensions.

    It has no loads if the rows' length is not a multiple of four.

    Args:
        kernel, leading: see above.
        images: the values that are images; None if all are read from buffers.
    """
    shape = kernel.shape
    row, column = axis(math.prod(shape[:leading]), "row"), axis(math.prod(shape[leading:]), "column")
    place = (*delinearize(row, shape[:leading]), *delinearize(column, shape[leading:]))
    body = substitute(kernel.body, dict(zip(kernel.axes, place, strict=True)))
    found: dict[Expression, Load] = {}
    if is_multiple(column.extent, 4):
        for each in walk(body):
            if isinstance(each, Load) and is_side_by_side(each, column, images, found):
                found[each] = each
    return _VectorPlan(body, row, column, tuple(found.values()))


def is_side_by_side(
    load: Load, column: Axis, images: frozenset[Value] | None, found: Mapping[Expression, Load]
) -> bool:
    """Returns True if a load at four columns from an aligned one reads exactly one vector.

    Args:
        load, column: see above.
        images: see `_plan`; texels are read without a condition.
        found: the loads before it for which this holds.
    """
    start = linearize(load.index, load.value.shape) - column
    if column in walk(start) or not is_multiple_of_4(start):
        return False
    if images is not None:
        return load.value in images and load.guard is None
    if load.guard is None or load.otherwise is None:
        return load.guard is None
    return column not in walk(load.guard) and (load.otherwise in found or column not in walk(load.otherwise))


def _source(kernel: Kernel, plan: _VectorPlan, images: frozenset[Value] | None) -> Source:
    read = frozenset(each.value for each in plan.loads)
    values = KernelArguments(arguments_of(kernel), frozenset() if images is None else read)
    length = plan.column.extent
    items = math.prod(kernel.shape) // 4
    lines = [
        f"  const int at = group * {LOCAL_SIZE} + lid;",
        f"  if (at >= {items}) return;",
        f"  const int row = at / {length // 4}, column = at % {length // 4} * 4;",
        *vector_reads(plan.loads, {plan.row: "row", plan.column: "column"}, values),
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
    lines.append(stored_elements_text(elements, f"row * {length} + column", kernel.output.type))
    return Source(
        code=LazyCode.of("\n".join((f"static void {NAME}({values.parameters}) {{", *lines, "}", ""))),
        arguments=values.values,
        images=values.image_positions,
        groups=-(-items // LOCAL_SIZE),
        local_size=LOCAL_SIZE,
        label="vectors of four elements",
        operations=kernel.operations,
    )


def vector_reads(loads: Sequence[Load], axes: Mapping[Expression, str], values: KernelArguments) -> list[str]:
    """Returns the statements that read each of these loads as a vector: `v0` and so on.

    Args:
        loads: the loads for which `is_side_by_side` holds.
        axes: the names of the axes that they depend on; that of the column is the first of four.
        values: the arguments of the function.
    """
    places = Statements(values.by_value, axes)
    names: dict[Expression, str] = {}
    reads = []
    for number, each in enumerate(loads):
        argument = values.by_value[each.value]
        kind = texel_vector(each.type) if argument.first else _vector(each.type)
        text = argument.load4(places.value(linearize(each.index, each.value.shape)))
        if each.guard is not None and each.otherwise is not None:
            other = names.get(each.otherwise) or f"({kind})({places.value(each.otherwise)})"
            text = f"({places.value(each.guard)}) ? {text} : {other}"
        names[each] = f"v{number}"
        # What a condition depends on may be a vector, too.
        reads += places.lines
        places.lines.clear()
        reads.append(f"  const {kind} v{number} = {text};")
    return reads


def _vector(kind: Scalar) -> str:
    """Returns the type of four elements that are read from a buffer."""
    return "float4" if kind.is_float and kind is not Scalar.FLOAT64 else f"{memory_type(kind)}4"


def stored_elements_text(elements: Sequence[str], place: str, kind: Scalar) -> str:
    """Returns the statement that stores four elements that were computed one by one."""
    if kind is Scalar.FLOAT16:
        vector = f"(float4)({', '.join(elements)})"
    else:
        memory = memory_type(kind)
        vector = f"({memory}4)({', '.join(f'({memory})({each})' for each in elements)})"
    return f"  {stored4_text(vector, place, kind)}"
