"""What is computed element by element, four elements to a work-item: so many are read at once, as texels of images.

The four elements are computed one by one, as anywhere else; only what all of them read side by side is loaded together.
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
from neurald.drivers.opencl.codegen.arguments import Arguments, as_images
from neurald.drivers.opencl.codegen.dialect import computed, stored, texel_vector
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.render import LOCAL_SIZE, arguments_of, render
from neurald.drivers.opencl.codegen.statements import Statements
from neurald.drivers.opencl.kernels.epilogue.four_loads import is_multiple_of_4
from neurald.drivers.opencl.platform.device_facts import DeviceFacts


@dataclass(frozen=True, slots=True)
class _Plan:
    """An element at a row and a column.

    Attributes:
        body: what it is.
        row, column: where.
        loads: those in the body that read four elements of an image side by side, where those of the output are.
    """

    body: Expression
    row: Axis
    column: Axis
    loads: tuple[Load, ...]


def candidates(kernel: Kernel, facts: DeviceFacts) -> tuple[Source, ...]:
    """A work-item for every four elements, or one for each; nothing where no four elements are read through an image.

    Args:
        kernel: without a contraction.
        facts: where.
    """
    if facts.images is None or kernel.has_reduction or kernel.requirements or not kernel.inputs:
        return ()
    images = as_images(kernel.inputs, facts.images)
    # In one row, what has the output's shape can be read in fours even if its rows end in between.
    plans = [_plan(kernel, count, images) for count in (0, len(kernel.shape) - 1)]
    best = max(plans, key=lambda plan: len(plan.loads))
    return (_source(kernel, best), render(kernel)) if best.loads else ()


def _plan(kernel: Kernel, leading: int, images: frozenset[Value]) -> _Plan:
    """The plan with rows along all dimensions but so many leading ones; without loads where rows are no multiple of four."""
    shape = kernel.shape
    row, column = axis(math.prod(shape[:leading]), "row"), axis(math.prod(shape[leading:]), "column")
    place = (*delinearize(row, shape[:leading]), *delinearize(column, shape[leading:]))
    body = substitute(kernel.body, dict(zip(kernel.axes, place, strict=True)))
    is_whole = column.extent % 4 == 0
    loads = [each for each in walk(body) if isinstance(each, Load) and each.value in images]
    found = tuple(each for each in loads if is_whole and _is_side_by_side(each, column))
    return _Plan(body, row, column, found)


def _is_side_by_side(load: Load, column: Axis) -> bool:
    """Whether elements at columns that follow a multiple of four are those of a texel."""
    start = linearize(load.index, load.value.shape) - column
    return load.guard is None and column not in walk(start) and is_multiple_of_4(start)


def _source(kernel: Kernel, plan: _Plan) -> Source:
    values = Arguments(arguments_of(kernel), frozenset(each.value for each in plan.loads))
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
            each: f"(({computed(each.type)})v{texel}.s{number})" for texel, each in enumerate(plan.loads)
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
        label="four elements by four",
        operations=kernel.operations,
    )


def _texels(plan: _Plan, values: Arguments) -> list[str]:
    """Statements that read each texel."""
    places = Statements(values.by_value, {plan.row: "row", plan.column: "column"})
    reads = []
    for number, each in enumerate(plan.loads):
        argument = values.by_value[each.value]
        place = places.value(linearize(each.index, each.value.shape))
        reads.append(f"  const {texel_vector(each.type)} v{number} = {argument.load4(place)};")
    return [*places.lines, *reads]


def _stored(elements: Sequence[str], place: str, kind: Scalar) -> str:
    """The statement that stores four elements."""
    if kind is Scalar.FLOAT16:
        return f"  vstorea_half4_rte((float4)({', '.join(elements)}), ({place}) >> 2, a0);"
    memory = stored(kind)
    vector = ", ".join(f"({memory})({each})" for each in elements)
    return f"  *(__global {memory}4 *)(a0 + {place}) = ({memory}4)({vector});"
