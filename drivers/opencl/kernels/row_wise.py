"""Rows whose elements depend on reductions of the row, such as normalisations and softmax.

Adjacent work-items compute four adjacent elements each. A row has a whole work-group or, on NVIDIA
GPUs, whose warps exchange values without local memory, a warp.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, Reduce, axis
from neurald.drivers.compiler.ir.extents.extent import estimate, highest, is_multiple, same_length
from neurald.drivers.compiler.ir.graph import delinearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import EXTREMES, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, substitute, walk
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import combine_text, identity_text
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.render import arguments_of
from neurald.drivers.opencl.codegen.template import fill, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import stored4_text
from neurald.drivers.opencl.kernels.epilogue.float_vector import FloatVector
from neurald.drivers.opencl.kernels.epilogue.vector4_loads import Vector4Loads
from neurald.drivers.opencl.kernels.group_exchange import (
    WARP,
    GroupExchange,
    group_exchange,
    warp_exchange,
)
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "row_wise.cl")
#: Lengths of rows for which these kernels are worthwhile.
_MIN_LENGTH, _MAX_LENGTH = 64, 1 << 16
_ITEMS = 256
#: Turns of a loop over a row that are unrolled.
_MAX_UNROLLED = 8
_REDUCTIONS = EXTREMES | {ReductionOp.SUM}
_FLOATS = (Scalar.FLOAT16, Scalar.FLOAT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Kernel viewed as rows.

    Attributes:
        row, column: the axes of `body`.
        reductions: those of the body, each after those that it depends on.
    """

    kernel: Kernel
    row: Axis
    column: Axis
    body: Expression
    reductions: Sequence[Reduce]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowText:
    """Statements that compute a row.

    Attributes:
        before: those that depend neither on the row nor on earlier kernels.
        statements: all others.
        helpers: functions that they call.
    """

    before: str
    statements: str
    helpers: str


def candidates(kernel: Kernel, facts: DeviceFacts) -> Iterator[Source]:
    """Yields sources for a kernel of rows; none for rows that are not read as vectors.

    Args:
        kernel: without a contraction.
        facts: the device; on CPUs, work-groups of one work-item are faster.
    """
    rows = None if facts.is_cpu or facts.max_work_group_size < _ITEMS else rows_of(kernel)
    if rows is None:
        return
    values = KernelArguments(arguments_of(kernel))
    widths = [_ITEMS]
    if facts.has_nvidia_capability((7, 0)):
        # A warp for each row leaves units idle if there are few rows.
        many = estimate(rows.row.extent) >= 2 * _ITEMS // WARP * facts.compute_units
        widths = [WARP, _ITEMS] if many else [_ITEMS, WARP]
    for width in widths:
        text = _text(rows, values, width, facts)
        if text is None:
            return
        yield Source(
            code=LazyCode.of(text),
            arguments=values.values,
            groups=-(-rows.row.extent * width // _ITEMS),
            local_size=_ITEMS,
            scratch_bytes=4 * _ITEMS if width == _ITEMS else 0,
            has_barriers=width == _ITEMS,
            label=f"{width} work-items for each row, by vectors",
            operations=kernel.operations,
        )


def rows_of(kernel: Kernel) -> Rows | None:
    """Returns the rows of a kernel without a contraction; None if it has no suitable ones."""
    count = kernel.row_axes
    if count is None or kernel.requirements or kernel.output_offset is not None or kernel.limit is not None:
        return None
    length = math.prod(kernel.shape[count:])
    if not is_multiple(length, 4) or kernel.output.type not in _FLOATS:
        return None
    if not _MIN_LENGTH <= estimate(length) <= _MAX_LENGTH:
        return None
    row, column = axis(math.prod(kernel.shape[:count]), "row"), axis(length, "column")
    at = (*delinearize(row, kernel.shape[:count]), *delinearize(column, kernel.shape[count:]))
    body = substitute(kernel.body, dict(zip(kernel.axes, at, strict=True)))
    reductions = [each for each in walk(body) if isinstance(each, Reduce)]
    if not all(free_axes(each) <= {row} and each.reduction in _REDUCTIONS for each in reductions):
        return None
    return Rows(
        kernel=kernel,
        row=row,
        column=column,
        body=body,
        reductions=reductions,
    )


def row_text(
    rows: Rows, values: KernelArguments, width: int, store: str, facts: DeviceFacts
) -> RowText | None:
    """Returns the statements that compute `row`; None if elements cannot be computed as vectors.

    They need the number `item` of a work-item among those of the row and, where a row has a whole
    work-group, four bytes of local memory at `scratch` for each work-item.

    Args:
        rows: the rows.
        values: the arguments of the function, including all that the rows load.
        width: the number of work-items of a row: those of a work-group, or of a warp.
        store: the statement that stores the four elements `value` from `column` on.
        facts: the device.
    """
    extents = {math.prod(each.extent for each in reduction.axes) for reduction in rows.reductions}
    if not all(is_multiple(each, 4) for each in extents):
        return None
    if any(reduction.type is not Scalar.FLOAT32 for reduction in rows.reductions):
        return None
    exchange = warp_exchange() if width == WARP else group_exchange(width, facts)
    is_short = extents <= {rows.column.extent} and highest(rows.column.extent) <= 4 * width
    found = (_short_row if is_short else _long_row)(rows, values, width, store, exchange)
    if found is None:
        return None
    return RowText(before=found[0], statements=found[1], helpers=exchange.helpers)


def _long_row(
    rows: Rows, values: KernelArguments, width: int, store: str, exchange: GroupExchange
) -> tuple[str, str] | None:
    """Implements `row_text` by a loop for each reduction, and one for the elements."""
    known: dict[Expression, str] = {}
    reductions = []
    for number, reduction in enumerate(rows.reductions):
        along = axis(math.prod(each.extent for each in reduction.axes), "along")
        found = _vector(rows, values, _along(reduction, along), along, known)
        if found is None:
            return None
        known[reduction] = f"f{number}"
        reductions.append(
            _reduction_text(
                "reduction",
                reduction,
                f"f{number}",
                exchange,
                LINES="\n".join(found[1]),
                VALUE=found[0],
                **_turns(along.extent, width),
            )
        )
    found = _vector(rows, values, _unrounded(rows), rows.column, known)
    if found is None:
        return None
    return "", fill(
        _TEMPLATES["row"],
        REDUCTIONS="".join(reductions),
        LINES="\n".join(found[1]),
        VALUE=found[0],
        STORE=store,
        **_turns(rows.column.extent, width),
    )


def _short_row(
    rows: Rows, values: KernelArguments, width: int, store: str, exchange: GroupExchange
) -> tuple[str, str] | None:
    """Implements `row_text` for rows of which a work-item has four elements at most."""
    length = rows.column.extent
    is_whole = same_length(length, 4 * width)
    guard = "1" if is_whole else f"item * 4 < {length}"
    vector = FloatVector(_loads(rows, values, rows.column))
    texts = _NewLines(vector)
    bodies = [_along(each, rows.column) for each in rows.reductions]
    # Constants are loaded first, and other loads do not wait for reductions. Numbers by which
    # elements are found are loaded with their indices.
    whole = _unrounded(rows)
    parts = [
        each
        for each in walk(*bodies, whole)
        if isinstance(each, Load) and each.type in _FLOATS and free_axes(each) <= {rows.row, rows.column}
    ]
    constants = [each for each in parts if _is_known(each) and rows.row not in free_axes(each)]
    column = "item * 4" if is_whole else f"min(item * 4, {length} - 4)"
    if any(vector.value(each) is None for each in constants):
        return None
    before = f"  const int column = {column};\n" + texts.take()
    if any(vector.value(each) is None for each in parts):
        return None
    loaded = texts.take()
    reductions = []
    for number, (reduction, body) in enumerate(zip(rows.reductions, bodies, strict=True)):
        value = vector.value(body)
        if value is None:
            return None
        reductions.append(
            _reduction_text(
                "short_reduction",
                reduction,
                f"f{number}",
                exchange,
                LINES=texts.take(),
                VALUE=f"(float4)({value})",
                GUARD=guard,
            )
        )
        vector.learn(reduction, f"f{number}")
    value = vector.value(whole)
    if value is None:
        return None
    return before, fill(
        _TEMPLATES["short_row"],
        LOADS=loaded,
        REDUCTIONS="".join(reductions),
        LINES=texts.take(),
        VALUE=f"(float4)({value})",
        GUARD=guard,
        STORE=store,
    )


def _is_known(element: Load) -> bool:
    """Returns True if an element and what its index depends on are those of constants."""
    return all(each.value.constant is not None for each in walk(element) if isinstance(each, Load))


class _NewLines:
    """Statements of a vector that were added since they were last taken."""

    def __init__(self, vector: FloatVector) -> None:
        self._vector = vector
        self._taken: set[str] = set()

    def take(self) -> str:
        """Returns them in order."""
        found = [each for each in self._vector.lines if each not in self._taken]
        self._taken.update(found)
        return "\n".join(found)


def _along(reduction: Reduce, along: Axis) -> Expression:
    """Returns what a reduction combines, at a place along its elements."""
    places = delinearize(along, tuple(each.extent for each in reduction.axes))
    where: dict[Expression, Expression] = dict(zip(reduction.axes, places, strict=True))
    return substitute(reduction.body, where)


def _reduction_text(
    template: str, reduction: Reduce, name: str, exchange: GroupExchange, **names: object
) -> str:
    """Returns the statements that compute a reduction.

    Args:
        template: the name of their template.
        reduction: the reduction.
        name: the name of the variable.
        exchange: how the work-items of a row combine their numbers.
        names: the other placeholders of the template.
    """
    combined = [combine_text(reduction.reduction, name, f"value.s{i}", reduction.type) for i in range(4)]
    return fill(
        _TEMPLATES[template],
        NAME=name,
        IDENTITY=identity_text(reduction.reduction, reduction.type),
        COMBINE="\n".join(f"    {each}" for each in combined),
        EXCHANGE=exchange.combined(name, reduction.reduction),
        **names,
    )


def _text(rows: Rows, values: KernelArguments, width: int, facts: DeviceFacts) -> str | None:
    """Returns the text of the function, or None if elements cannot be computed as vectors."""
    stored = stored4_text("value", f"row * {rows.column.extent} + column", rows.kernel.output.type)
    parts = row_text(rows, values, width, stored, facts)
    if parts is None:
        return None
    return fill(
        _TEMPLATES["function"],
        HELPERS=parts.helpers,
        PARAMETERS=values.parameters,
        WIDTH=width,
        ROW="group" if width == _ITEMS else f"(group * {_ITEMS // width} + lid / {width})",
        ROWS=rows.row.extent,
        BEFORE=parts.before,
        STATEMENTS=parts.statements,
    )


def _turns(length: int, width: int) -> dict[str, object]:
    """Returns the placeholders of a loop over a row."""
    turns = -(-length // (4 * width))
    return {
        "WIDTH": width,
        "TURNS": turns,
        "GUARD": "1" if same_length(length, 4 * width * turns) else f"column < {length}",
        "UNROLL": "#pragma unroll" if highest(turns) <= _MAX_UNROLLED else "",
    }


def _loads(rows: Rows, values: KernelArguments, along: Axis) -> Vector4Loads:
    """Returns what renders the loads of four elements of a row."""
    names: dict[Expression, str] = {rows.row: "row", along: "column"}
    return Vector4Loads(values.by_value, names, rows.row, along, along.extent, is_literal=True)


def _vector(
    rows: Rows, values: KernelArguments, body: Expression, along: Axis, known: dict[Expression, str]
) -> tuple[str, list[str]] | None:
    """Returns the text of four elements of a row, and the statements that they need."""
    vector = FloatVector(_loads(rows, values, along), known)
    text = vector.value(body)
    return None if text is None else (f"(float4)({text})", vector.lines)


def _unrounded(rows: Rows) -> Expression:
    """Returns the element before it is rounded to what is stored."""
    body = rows.body
    is_rounded = body.type is Scalar.FLOAT16 and len(body.operands) == 1
    return body.operands[0] if is_rounded and body.operands[0].type is Scalar.FLOAT32 else body
