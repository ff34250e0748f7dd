"""Views an attention kernel as three matrices for each batch, and renders its functions in C.

`KERNEL_NAME_query(batch)`, `..._key` and `..._value` give the index at which a batch's matrix
begins, and `..._key_rest` and `..._value_rest` that for rows which are appended; those of such a
matrix are numbered on. `KERNEL_NAME_exponent(sum, batch, m, n, ...)` gives the exponent of a
weight, and `KERNEL_NAME_store(sum, batch, m, d, ...)` stores an element of the result.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Axis, Expression, Load, constant
from neurald.drivers.compiler.ir.graph import Attention, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArgument, KernelArguments
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import Code, LazyCode
from neurald.drivers.opencl.codegen.render import finish_lines
from neurald.drivers.opencl.codegen.statements import Statements
from neurald.drivers.opencl.codegen.template import fill, resolved
from neurald.drivers.opencl.kernels.attention.appended import appended_rows
from neurald.drivers.opencl.kernels.attention.softmax_form import softmax_form
from neurald.hal.records import replace

#: Limit on the elements of a matrix, such that byte offsets fit in an INT32.
_MAX_ELEMENTS = ((1 << 31) - 1) // 8
#: Limit on the depth and on the features.
_MAX_WIDTH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionOperand:
    """Matrix of queries, keys or values.

    Attributes:
        base: the index at which a batch's matrix begins.
        row, inner: the strides between its rows, and between elements of a row.
        rows: how many rows come before those of `rest`.
        rest: the rows that are appended to it (see `appended`), if any.
    """

    value: Value
    base: Expression
    row: int
    inner: int
    rows: int = 0
    rest: "AttentionOperand | None" = None

    @property
    def is_aligned(self) -> bool:
        """True if rows are contiguous, and begin at multiples of 16 bytes."""
        each = 16 // self.value.type.size_bytes
        return self.inner == 1 and self.row % each == 0 and _is_multiple(self.base, each)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionView:
    """Attention as matrices.

    Attributes:
        rows, columns: the rows and columns of the scores of a batch.
        depth: the length of queries and keys.
        features: the length of values.
        arguments: the arguments of the kernel's function.
        text: the text of the functions.
    """

    kernel: Kernel
    batches: int
    rows: int
    columns: int
    depth: int
    features: int
    query: AttentionOperand
    key: AttentionOperand
    value: AttentionOperand
    arguments: KernelArguments
    text: str

    def argument(self, operand: AttentionOperand) -> KernelArgument:
        """Returns the argument of the function that an operand is."""
        return self.arguments.by_value[operand.value]

    @property
    def is_appended(self) -> bool:
        """True if keys or values are two values each, one after the other."""
        return self.key.rest is not None or self.value.rest is not None

    @property
    def names(self) -> Mapping[str, object]:
        """Placeholders that every template of attention has."""
        return {
            "ARGUMENTS": self.arguments.call_arguments,
            "M": self.rows,
            "N": self.columns,
            "K": self.depth,
            "D": self.features,
            "QUERY": self.argument(self.query).name,
            "KEY": self.argument(self.key).name,
            "VALUE": self.argument(self.value).name,
            **{
                f"{name}_{side}": stride
                for name, operand in (("QUERY", self.query), ("KEY", self.key), ("VALUE", self.value))
                for side, stride in (("ROW", operand.row), ("INNER", operand.inner))
            },
        }

    def source(
        self,
        template: str,
        *,
        rows: int,
        local_size: int,
        scratch_bytes: int,
        label: str,
        names: Mapping[str, object],
        is_retargeted: bool = False,
    ) -> Source:
        """Returns the source of a function whose work-groups compute blocks of rows.

        Args:
            template: the template of the function.
            rows: the rows of a block.
            local_size: work-items of a group.
            scratch_bytes, label, is_retargeted: see `Source`.
            names: placeholders of the template, besides those that every template has.
        """
        blocks = math.ceil(self.rows / rows)

        def code() -> Code:
            known = {"TEXT": self.text, "BM": rows, "ITEMS": local_size, "BLOCKS": blocks}
            whole = fill(template, **{**self.names, **known, **names})
            return Code(resolved(whole, self.arguments.parameters, {}, is_shared=False))

        return Source(
            code=LazyCode(code),
            arguments=self.arguments.values,
            groups=self.batches * blocks,
            local_size=local_size,
            scratch_bytes=scratch_bytes,
            has_barriers=True,
            is_retargeted=is_retargeted,
            label=label,
            operations=self.kernel.operations,
        )


def attention_view(kernel: Kernel) -> AttentionView | None:
    """Returns the view of an attention kernel; None if no kernel supports it."""
    node = kernel.contraction
    if not isinstance(node, Attention) or kernel.requirements or kernel.limit is not None:
        return None
    form = softmax_form(node)
    batch, row, column, inner, feature = node.axes
    if form is None or not 0 < max(inner.extent, feature.extent) <= _MAX_WIDTH:
        return None
    query = _operand(node.query, row, inner)
    key = _operand(node.key, column, inner)
    value = _operand(node.value, column, feature)
    if query is None or key is None or value is None:
        return None
    exponent = form.exponent * constant(form.scale, Scalar.FLOAT32) if form.scale != 1 else form.exponent
    operands = {"query": query, "key": key, "value": value}
    for name in ("key", "value"):
        if (rest := operands[name].rest) is not None:
            operands[f"{name}_rest"] = rest
    loaded = [each.value for each in walk(exponent, *kernel.roots) if isinstance(each, Load)]
    read = dict.fromkeys((*(each.value for each in operands.values()), *loaded))
    if max(each.count for each in (kernel.output, *read)) > _MAX_ELEMENTS:
        return None
    arguments = KernelArguments((kernel.output, *read))
    text = "".join(
        (
            *(_base(name, operand, batch) for name, operand in operands.items()),
            _exponent(exponent, (batch, row, column), arguments),
            _store(kernel, arguments),
        )
    )
    return AttentionView(
        kernel=kernel,
        batches=batch.extent,
        rows=row.extent,
        columns=column.extent,
        depth=inner.extent,
        features=feature.extent,
        query=query,
        key=key,
        value=value,
        arguments=arguments,
        text=text,
    )


def _operand(load: Load, row: Axis, inner: Axis) -> AttentionOperand | None:
    offset = offset_of(load)
    strides = [stride_along(offset, each) for each in (row, inner)]
    if strides[0] is None or strides[1] is None:
        return None
    base = offset - row * strides[0] - inner * strides[1]
    operand = AttentionOperand(value=load.value, base=base, row=strides[0], inner=strides[1])
    if load.guard is None:
        return operand
    appended = appended_rows(load, row)
    if appended is None:
        return None
    rows, second = appended
    rest = _operand(second, row, inner)
    # Its first row is number `rows`.
    return None if rest is None else replace(operand, rows=rows, rest=rest)


def _is_multiple(index: Expression, divisor: int) -> bool:
    """Returns True if an index is known to be a multiple of a number."""
    if index.low == index.high:
        return index.low % divisor == 0
    return index is (index // divisor) * divisor


def _base(name: str, operand: AttentionOperand, batch: Axis) -> str:
    statements = Statements({}, {batch: "batch"})
    place = statements.value(operand.base)
    head = f"static inline int {NAME}_{name}(const int batch) {{"
    return "\n".join((head, *statements.lines, f"  return {place};", "}", ""))


def _known(names: Mapping[Axis, str], *roots: Expression) -> dict[Expression, str]:
    sums = [each for each in walk(*roots) if isinstance(each, AccumulatorRef)]
    return dict[Expression, str]((*((each, "sum") for each in sums), *names.items()))


def _head(name: str, kind: str, last: str, arguments: KernelArguments) -> str:
    places = f"const int batch, const int m, const int {last}"
    return f"static inline {kind} {NAME}_{name}(const float sum, {places}, {arguments.pointers}) {{"


def _exponent(exponent: Expression, axes: tuple[Axis, Axis, Axis], arguments: KernelArguments) -> str:
    names = dict(zip(axes, ("batch", "m", "n"), strict=True))
    statements = Statements(arguments.by_value, _known(names, exponent))
    found = statements.value(exponent)
    return "\n".join(
        (_head("exponent", "float", "n", arguments), *statements.lines, f"  return {found};", "}", "")
    )


def _store(kernel: Kernel, arguments: KernelArguments) -> str:
    names = dict(zip(kernel.axes, ("batch", "m", "d"), strict=True))
    statements = Statements(arguments.by_value, _known(names, *kernel.roots))
    offset = kernel.output_offset
    place = statements.value(linearize(kernel.axes, kernel.shape) if offset is None else offset)
    lines = finish_lines(statements, kernel, place)
    return "\n".join((_head("store", "void", "d", arguments), *lines, "}", ""))


def store2_text(view: AttentionView) -> str:
    """Returns a function `KERNEL_NAME_store2(first, second, batch, m, d, ...)` for two features.

    It stores them at once where they lie side by side as FLOAT16.
    """
    kernel, arguments = view.kernel, view.arguments
    batch, row, feature = kernel.axes
    offset = kernel.output_offset
    place = linearize(kernel.axes, kernel.shape) if offset is None else offset
    head = _head("store2", "void", "d", arguments).replace(
        "const float sum", "const float first, const float second"
    )
    start = place - feature
    is_pair = kernel.output.type is Scalar.FLOAT16 and stride_along(place, feature) == 1
    if not is_pair or not _is_multiple(start, 2):
        calls = [
            f"  {NAME}_store({total}, batch, m, {at}, {arguments.call_arguments});"
            for total, at in (("first", "d"), ("second", "d + 1"))
        ]
        return "\n".join((head, *calls, "}", ""))
    lines, elements = [], []
    for total, at in (("first", "d"), ("second", "(d + 1)")):
        known = _known({batch: "batch", row: "m", feature: at}, *kernel.roots)
        known = {each: total if isinstance(each, AccumulatorRef) else name for each, name in known.items()}
        statements = Statements(arguments.by_value, known, prefix=f"{total}_")
        elements.append(statements.value(kernel.body))
        lines += statements.lines
    places = Statements(arguments.by_value, {batch: "batch", row: "m", feature: "d"}, prefix="place_")
    at = places.value(place)
    pair = f"neurald_halves_of_float2((float2)({', '.join(elements)}))"
    stored = f"  *(__global uint *)(a0 + {at}) = {pair};"
    return "\n".join((head, *lines, *places.lines, stored, "}", ""))
