"""Elementwise kernels whose output has many short rows of narrow elements.

Images with few channels that are padded are an example. A work-item computes a few whole rows,
whose loads are unconditional and overlap, and stores each of them at once where vectors are long
enough.
"""

import math

from neurald.drivers.compiler.ir.expression import Apply, Expression, Load, axis
from neurald.drivers.compiler.ir.expression_nodes import index
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.graph import delinearize, is_data_movement, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import memory_type, register_type
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.render import LOCAL_SIZE, arguments_of, render
from neurald.drivers.opencl.codegen.statements import Statements
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

#: Types whose elements are too small to be stored one by one, if there are many.
_TYPES = (Scalar.INT8, Scalar.UINT8, Scalar.FLOAT16)
_MAX_LENGTH, _MIN_ELEMENTS = 16, 1 << 18
#: Rows that a work-item computes. Adjacent work-items compute adjacent rows.
_ROWS = 4
#: Limit on the expressions of an element: the text contains each as often as a work-item has
#: elements.
_MAX_EXPRESSIONS = 64
#: Limit on the bytes of a vector that is stored.
_MAX_VECTOR_BYTES = 16


def candidates(kernel: Kernel, facts: DeviceFacts) -> tuple[Source, ...]:
    """Returns a source with rows per work-item, and one with an element if it computes much.

    Returns nothing if the output has another form, on CPUs, where compilers make vectors, and where
    kernels read images.

    Args:
        kernel: without a contraction.
        facts: the device.
    """
    is_unsuitable = kernel.has_reduction or kernel.requirements or kernel.output_offset is not None
    if is_unsuitable or facts.is_cpu or facts.images is not None or not _is_narrow(kernel):
        return ()
    if not all(each.count for each in kernel.inputs):
        return ()
    body = kernel.body
    while isinstance(body, Apply) and body.op is Op.CONVERT:
        (body,) = body.operands
    # Which of them is faster is clear if elements are only moved.
    return (_source(kernel),) if is_data_movement(body) else (_source(kernel), render(kernel))


def _is_narrow(kernel: Kernel) -> bool:
    if any(isinstance(each, Extent) for each in kernel.shape) or kernel.output.type not in _TYPES:
        return False
    if sum(1 for _ in walk(kernel.body)) > _MAX_EXPRESSIONS:
        return False
    length = kernel.shape[-1] if kernel.shape else 0
    return 0 < length <= _MAX_LENGTH and length % 4 == 0 and kernel.output.count >= _MIN_ELEMENTS


def _source(kernel: Kernel) -> Source:
    values = KernelArguments(arguments_of(kernel))
    length, rows = kernel.shape[-1], math.prod(kernel.shape[:-1])
    row = axis(rows, "row")
    place = delinearize(row, kernel.shape[:-1])
    elements = [
        substitute(kernel.body, dict(zip(kernel.axes, (*place, index(number)), strict=True)))
        for number in range(length)
    ]
    lines, stores = [f"  const int first = group * {LOCAL_SIZE * _ROWS} + lid;"], []
    for number in range(_ROWS):
        name = f"row{number}"
        # What is beyond the last row is computed as the last one, and not stored.
        lines.append(f"  const int {name} = min(first + {number * LOCAL_SIZE}, {rows - 1});")
        statements = Statements(values.by_value, {row: name}, prefix=f"e{number}_")
        known = _loads(elements, statements, f"v{number}_", values)
        lines += statements.lines
        statements = Statements(values.by_value, {row: name, **known}, prefix=f"f{number}_")
        texts = [statements.value(each) for each in elements]
        lines += statements.lines
        stores.append(f"  if (first + {number * LOCAL_SIZE} < {rows}) {{")
        stores += [f"    {each}" for each in _stored(texts, f"{name} * {length}", kernel.output.type)]
        stores.append("  }")
    return Source(
        code=LazyCode.of(
            "\n".join((f"static void {NAME}({values.parameters}) {{", *lines, *stores, "}", ""))
        ),
        arguments=values.values,
        groups=-(-rows // (LOCAL_SIZE * _ROWS)),
        local_size=LOCAL_SIZE,
        label="rows of narrow elements",
        operations=kernel.operations,
    )


def _loads(
    elements: list[Expression], statements: Statements, prefix: str, values: KernelArguments
) -> dict[Expression, str]:
    """Adds loads that do not wait for their conditions; returns the names of what they yield.

    Where a condition does not hold, the first element is loaded and not used.
    """
    found: dict[Expression, str] = {}
    for each in walk(*elements):
        if not isinstance(each, Load) or each.guard is None or each.otherwise is None:
            continue
        parts = (*each.index, each.guard, each.otherwise)
        if any(isinstance(part, Load) for part in walk(*parts)):
            continue
        at = statements.value(linearize(each.index, each.value.shape))
        holds, otherwise = statements.value(each.guard), statements.value(each.otherwise)
        name, kind = f"{prefix}{len(found)}", register_type(each.type)
        loaded = values.by_value[each.value].load(f"({holds} ? {at} : 0)")
        statements.lines.append(f"  const {kind} {name}_loaded = {loaded};")
        statements.lines.append(f"  const {kind} {name} = {holds} ? {name}_loaded : ({kind}){otherwise};")
        found[each] = name
    return found


def _stored(elements: list[str], place: str, kind: Scalar) -> list[str]:
    """Returns the statements that store a row, in vectors as long as the output is aligned for."""
    fours = _vectors(elements, place, kind, 4)
    width = next(each for each in (16, 8, 4) if len(elements) % each == 0)
    width = min(width, _MAX_VECTOR_BYTES // kind.size_bytes)
    if width == 4:
        return fours
    # Outputs that are part of another value may be aligned to four elements only.
    return [
        f"if (((size_t)a0 & {width * kind.size_bytes - 1}) == 0) {{",
        *_vectors(elements, place, kind, width),
        "} else {",
        *fours,
        "}",
    ]


def _vectors(elements: list[str], place: str, kind: Scalar, width: int) -> list[str]:
    stores = []
    for start in range(0, len(elements), width):
        part = elements[start : start + width]
        if kind is Scalar.FLOAT16:
            fours = [", ".join(part[first : first + 4]) for first in range(0, width, 4)]
            vector = f"uint{width // 2}"
            numbers = [f"neurald_halves_of_float4((float4)({each}))" for each in fours]
        else:
            vector = f"{memory_type(kind)}{width}"
            numbers = [f"({memory_type(kind)})({each})" for each in part]
        stores.append(f"*(__global {vector} *)(a0 + {place} + {start}) = ({vector})({', '.join(numbers)});")
    return stores
