"""Renders epilogues: functions that compute elements from accumulators, and store one or four."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.analysis.integer_ranges import RangeAnalysis, range_of_accumulator
from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Axis,
    Expression,
    Load,
    Reduce,
)
from neurald.drivers.compiler.ir.extents.extent import is_multiple, same_length
from neurald.drivers.compiler.ir.graph import Attention, Contraction, Selection
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import memory_type, raw4_type, register_type, store_text
from neurald.drivers.opencl.codegen.kernel_source import NAME
from neurald.drivers.opencl.codegen.statements import Statements
from neurald.drivers.opencl.kernels.epilogue.epilogue_reads import as_matrix
from neurald.drivers.opencl.kernels.epilogue.float_vector import FloatVector
from neurald.drivers.opencl.kernels.epilogue.integer_vector import IntegerVector
from neurald.drivers.opencl.kernels.epilogue.vector4_loads import Vector4Loads

#: Limit on the numbers that a row has.
_MAX_ROW_NUMBERS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Epilogue:
    """Functions of a kernel whose output is viewed as a matrix, and the calls to them.

    Attributes:
        text: the text of the functions.
        has_fetch: whether the function exists that `fetch4` calls.
        arguments: the arguments of the kernel's function, which the calls pass on.
        row_length: the number of columns of the matrix.
        is_aligned: whether four columns from an aligned one are stored at once.
        numbers: sizes in the text besides the row length, with the constants that differ between
            layers.
    """

    text: str
    has_fetch: bool
    arguments: KernelArguments
    row_length: int
    is_aligned: bool
    numbers: Mapping[str, int]

    @property
    def call_arguments(self) -> str:
        """Pointers as arguments of a call."""
        return self.arguments.call_arguments

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that the text refers to."""
        return {"length": self.row_length, **self.numbers}

    def store(self, total: str, row: str, column: str) -> str:
        """Returns the statement that stores one element."""
        return f"{NAME}_store({total}, {row}, {column}, {self.call_arguments}$SIZE_ARGUMENTS);"

    def store4(self, total: str, row: str, column: str) -> str:
        """Returns the statement that stores up to four elements of a row from `column` on."""
        return f"{NAME}_store4({total}, {row}, {column}, {self.call_arguments}$SIZE_ARGUMENTS);"

    def fetch4(self, row: str, column: str, is_first: str = "1") -> str:
        """Returns the PTX prefetch of what `store4` will read; "" if there is none.

        Args:
            row, column: the first element.
            is_first: whether this is the first call for that column, which also prefetches what all
                rows share.
        """
        return (
            f"{NAME}_fetch4({row}, {column}, {is_first}, {self.call_arguments}$SIZE_ARGUMENTS);"
            if self.has_fetch
            else ""
        )


def used_values(kernel: Kernel) -> tuple[Value, ...]:
    """Returns the values that the epilogue of a kernel reads, each once.

    Values that are read elementwise with the output come last, so that kernels differ as little as
    possible when such a value appears earlier or later.
    """
    found = dict.fromkeys(each.value for each in walk(*kernel.roots) if isinstance(each, Load))
    return tuple(sorted(found, key=lambda value: same_length(value.count, kernel.output.count)))


def vector4_reads(kernel: Kernel) -> tuple[Value, ...]:
    """Returns the values that the vectorized epilogue of a kernel reads four elements at a time."""
    if not is_multiple(kernel.shape[-1], 4) or kernel.requirements:
        return ()
    return _writer(kernel, KernelArguments((kernel.output, *used_values(kernel)))).vector4_reads(
        kernel.shape[-1]
    )


def epilogue(
    kernel: Kernel, arguments: KernelArguments, *, is_vector: bool = False, is_fetched: bool = False
) -> Epilogue:
    """Returns the epilogue of a contraction's kernel.

    It has the functions `KERNEL_NAME_store` and `KERNEL_NAME_store4`, which take an accumulator (or
    a vector of four), a row and a column. The row is the linear index over all dimensions but the
    last; the column is the index in the last.

    Args:
        kernel: the kernel with a contraction.
        arguments: those of the kernel's function, including all of `used_values`.
        is_vector: whether four elements are stored at once wherever possible.
        is_fetched: whether to include a function that prefetches the inputs of four elements, in
            PTX.
    """
    length = kernel.shape[-1]
    writer = _writer(kernel, arguments)
    is_aligned = is_multiple(length, 4)
    four = writer.vector(length) if is_aligned and not writer.requirements else None
    fetch = ""
    if four is None:
        text = writer.scalar() + writer.one_by_one(is_aligned)
    elif is_vector:
        # Unused functions are omitted: they may contain sizes that only this kernel has.
        text, fetch = four.text, writer.fetch(length) if is_fetched else ""
    else:
        text = writer.scalar() + four.text
    return Epilogue(
        text=text + fetch,
        has_fetch=bool(fetch),
        arguments=arguments,
        row_length=length,
        is_aligned=is_aligned,
        numbers={} if four is None else four.sizes,
    )


def _writer(kernel: Kernel, arguments: KernelArguments) -> "_EpilogueWriter":
    contraction = kernel.contraction
    assert contraction is not None  # noqa: S101 - callers render a contraction
    assert not isinstance(contraction, Selection | Attention)  # noqa: S101 - which has no sums
    row, column, where = as_matrix(kernel)
    body = substitute(kernel.body, where)
    requirements = [substitute(condition, where) for condition, _ in kernel.requirements]
    return _EpilogueWriter(
        body=body,
        requirements=requirements,
        row=row,
        column=column,
        contraction=contraction,
        arguments=arguments,
        stored_as=kernel.output.type,
    )


def value4_function(
    kernel: Kernel, arguments: KernelArguments, ahead: Value | None = None
) -> "Vector4Function | None":
    """Returns a function `KERNEL_NAME_value4` from four accumulators to four elements.

    Returns None if not possible.

    Floats are not yet rounded to the stored type; integers have the stored type. The text also
    refers to the row length as a size. If there are sums over a row's moments or the like, another
    function `KERNEL_NAME_rows` computes up to four numbers from a row, which are the argument
    before the kernel's.

    Args:
        kernel: the kernel with a contraction.
        arguments: those of the calling function, including all of `used_values`.
        ahead: a value shaped like the output, of which the caller has loaded the four elements.
            They are the argument before the kernel's, and before the numbers of the row, as they
            are stored, see `raw4_type`.
    """
    writer = _writer(kernel, arguments)
    if not is_multiple(kernel.shape[-1], 4) or writer.requirements:
        return None
    return writer.value4(kernel.shape[-1], ahead)


def fetch4_function(kernel: Kernel, arguments: KernelArguments) -> str:
    """Returns a PTX function `KERNEL_NAME_fetch4` that prefetches the inputs of `value4_function`.

    Returns "" if it reads nothing.

    Args:
        kernel, arguments: see `value4_function`.
    """
    return _writer(kernel, arguments).fetch(kernel.shape[-1])


def stored4_text(value: str, place: str, kind: Scalar) -> str:
    """Returns the statement that stores four elements at an aligned place of the output."""
    if kind is Scalar.FLOAT16:
        return f"*(__global uint2 *)(a0 + {place}) = neurald_halves_of_float4({value});"
    return f"*(__global {memory_type(kind)}4 *)(a0 + {place}) = {value};"


@dataclass(frozen=True, slots=True)
class Vector4Function:
    """Function of four elements, and the sizes that it refers to besides the row length.

    Attributes:
        row_numbers: how many numbers of the row it takes, see `value4_function`.
    """

    text: str
    sizes: Mapping[str, int]
    row_numbers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpilogueWriter:
    body: Expression
    requirements: Sequence[Expression]
    row: Axis
    column: Axis
    contraction: Contraction
    arguments: KernelArguments
    stored_as: Scalar

    @property
    def kind(self) -> str:
        """C type of an accumulator."""
        return register_type(self.contraction.output.type)

    def _head(self, name: str, kind: str, result: str = "void", given: str = "") -> str:
        parameters = f"const {kind} sum, const int row, const int column, {given}{self.arguments.pointers}"
        return f"static inline {result} {NAME}_{name}({parameters}$SIZE_PARAMETERS) {{"

    @property
    def _row_numbers(self) -> tuple[Expression, ...]:
        """The largest parts of the body that contain sums, but are the same in a whole row."""
        differs: dict[Expression, bool] = {}
        has_sum: dict[Expression, bool] = {}
        for each in walk(self.body):
            differs[each] = (
                each is self.column
                or isinstance(each, AccumulatorRef)
                or any(differs[part] for part in each.operands)
            )
            has_sum[each] = isinstance(each, Reduce) or any(has_sum[part] for part in each.operands)
        found: dict[Expression, None] = {}
        pending, seen = [self.body], {self.body}
        while pending:
            each = pending.pop()
            if not has_sum[each]:
                continue
            if not differs[each] and each.type is Scalar.FLOAT32:
                found[each] = None
                continue
            parts = [part for part in each.operands if part not in seen]
            seen.update(parts)
            pending += reversed(parts)
        return tuple(found)

    def _rows_function(self, numbers: Sequence[Expression]) -> str:
        """Returns the function that computes the numbers of a row."""
        statements = Statements(self.arguments.by_value, {self.row: "row"})
        texts = [statements.value(each) for each in numbers]
        texts += ["0"] * (_MAX_ROW_NUMBERS - len(texts))
        head = (
            f"static inline float4 {NAME}_rows(const int row, {self.arguments.pointers}$SIZE_PARAMETERS) {{"
        )
        return "\n".join((head, *statements.lines, f"  return (float4)({', '.join(texts)});", "}", ""))

    @property
    def _names(self) -> dict[Expression, str]:
        sums = [each for each in walk(self.body, *self.requirements) if isinstance(each, AccumulatorRef)]
        return {self.row: "row", self.column: "column", **dict.fromkeys(sums, "sum")}

    def scalar(self) -> str:
        """Returns a function that computes one element, and one that stores it."""
        statements = Statements(self.arguments.by_value, self._names)
        for code, condition in enumerate(self.requirements, start=1):
            holds = statements.value(condition)
            statements.lines.append(f"  if (!{holds}) *status = {code};")
        element = statements.value(self.body)
        call = f"{NAME}_element(sum, row, column, {self.arguments.call_arguments}$SIZE_ARGUMENTS)"
        return "\n".join(
            (
                self._head("element", self.kind, register_type(self.stored_as)),
                *statements.lines,
                f"  return {element};",
                "}",
                self._head("store", self.kind),
                f"  {store_text('a0', 'row * $length + column', call, self.stored_as)}",
                "}",
                "",
            )
        )

    def one_by_one(self, is_aligned: bool) -> str:
        """Computes four elements one by one."""
        arguments = f"{self.arguments.call_arguments}$SIZE_ARGUMENTS"
        elements = [f"{NAME}_element(sum.s{i}, row, column + {i}, {arguments})" for i in range(4)]
        if is_aligned:
            lines = [self._stored4(f"({register_type(self.stored_as)}4)({', '.join(elements)})")]
        else:
            lines = [
                f"  if (column + {i} < $length) {NAME}_store(sum.s{i}, row, column + {i}, {arguments});"
                for i in range(4)
            ]
        return "\n".join((self._head("store4", f"{self.kind}4"), *lines, "}", ""))

    def _stored4(self, value: str) -> str:
        return f"  {stored4_text(value, 'row * $length + column', self.stored_as)}"

    def vector(self, length: int) -> Vector4Function | None:
        """Computes four elements as a vector; returns None if the body cannot be vectorized."""
        found = self._computed(length)
        if found is None:
            return None
        element, texts = found
        lines = (self._head("store4", f"{self.kind}4"), *texts.lines, self._stored4(element), "}", "")
        return Vector4Function("\n".join(lines), texts.sizes)

    def value4(self, length: int, ahead: Value | None) -> Vector4Function | None:
        """Returns a function that computes four elements; None if the body cannot be vectorized."""
        numbers = self._row_numbers
        found = None if len(numbers) > _MAX_ROW_NUMBERS else self._computed(length, numbers, ahead)
        if found is None:
            return None
        element, texts = found
        kind = "float" if self.kind == "float" else memory_type(self.stored_as)
        given = "" if ahead is None else f"const {raw4_type(ahead.type)} ahead, "
        given += "const float4 numbers, " if numbers else ""
        head = self._head("value4", f"{self.kind}4", f"{kind}4", given)
        text = "\n".join((head, *texts.lines, f"  return {element};", "}", ""))
        before = self._rows_function(numbers) if numbers else ""
        return Vector4Function(before + text, texts.sizes, row_numbers=len(numbers))

    def _computed(
        self, length: int, numbers: Sequence[Expression] = (), ahead: Value | None = None
    ) -> tuple[str, FloatVector | IntegerVector] | None:
        """Returns the text of four elements in stored form, and their statements.

        Returns None if not possible.

        Args:
            length: the row length.
            numbers: those of the row that are in the variable `numbers`.
            ahead: the value whose elements are in the variable `ahead`.
        """
        loads = Vector4Loads(self.arguments.by_value, self._names, self.row, self.column, length, ahead=ahead)
        if self.kind == "float":
            known = {each: f"numbers.s{place}" for place, each in enumerate(numbers)}
            floats = FloatVector(loads, known, is_rounded=self.stored_as is Scalar.FLOAT16)
            element = floats.value(self._unrounded)
            return None if element is None else (f"(float4)({element})", floats)
        if self.kind == "int":
            integers = IntegerVector(loads, RangeAnalysis(range_of_accumulator(self.contraction)))
            element = integers.stored(self.body)
            return None if element is None else (element, integers)
        return None

    def vector4_reads(self, length: int) -> tuple[Value, ...]:
        """Returns the values of which `vector` loads four elements at a time.

        The result is empty if the body cannot be vectorized.
        """
        found = self._computed(length)
        return () if found is None else tuple(dict.fromkeys(found[1].loads.vector4_values))

    def fetch(self, length: int) -> str:
        """Returns a function that prefetches the vector's loads; "" if there are none."""
        found = self._computed(length)
        if found is None or not found[1].loads.addresses:
            return ""
        loads = found[1].loads
        of_row, of_column = (
            [
                f'  asm volatile("prefetch.global.L1 [%0];" :: "l"((ulong)({address})));'
                for address, is_of_row in loads.addresses
                if is_of_row is wanted
            ]
            for wanted in (True, False)
        )
        if of_column:
            of_column = ["  if (is_first) {", *of_column, "  }"]
        head = self._head("fetch4", "int").replace("const int sum, ", "")
        head = head.replace("const int column, ", "const int column, const int is_first, ")
        return "\n".join((head, *loads.lines, *of_row, *of_column, "}", ""))

    @property
    def _unrounded(self) -> Expression:
        """Element before the final rounding to float16, if the store itself rounds."""
        body = self.body
        is_rounded = isinstance(body, Apply) and body.op is Op.CONVERT and body.type is Scalar.FLOAT16
        return body.operands[0] if is_rounded and body.operands[0].type is Scalar.FLOAT32 else body
