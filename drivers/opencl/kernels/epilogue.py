"""What follows a sum of products: the functions that compute an element from it, and store one or four of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.expression import (
    Accumulated,
    Apply,
    Axis,
    Constant,
    Expression,
    Linear,
    Load,
    axis,
)
from neurald.drivers.compiler.graph import Value, flat, unflat
from neurald.drivers.compiler.kernel import Kernel
from neurald.drivers.compiler.op import Op
from neurald.drivers.compiler.rewriting import substitute, walk
from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.opencl.arguments import Arguments
from neurald.drivers.opencl.dialect import computed, constant_text, store_text, stored
from neurald.drivers.opencl.source import NAME
from neurald.drivers.opencl.statements import Statements

_FLOATS = (Scalar.FLOAT16, Scalar.FLOAT32)
_INFIX = {Op.ADD: "+", Op.SUBTRACT: "-", Op.MULTIPLY: "*", Op.DIVIDE: "/"}
_CALLS = {Op.ABSOLUTE: "fabs", Op.EXP: "exp", Op.TANH: "tanh", Op.SQRT: "sqrt"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Epilogue:
    """Functions of a kernel whose output is taken as a matrix, and how they are called.

    Attributes:
        text: of the functions.
        has_fetch: whether there is a function that `fetch4` calls.
        arguments: those of the kernel's function, which the calls hand on.
        row_length: columns of the matrix.
        is_aligned: whether four columns, the first of which is a multiple of four, are stored at once.
    """

    text: str
    has_fetch: bool
    arguments: Arguments
    row_length: int
    is_aligned: bool

    @property
    def handed_on(self) -> str:
        """The pointers, as arguments of a call."""
        return self.arguments.handed_on

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that the text names."""
        return {"length": self.row_length}

    def store(self, total: str, row: str, column: str) -> str:
        """The statement that stores one element of a sum."""
        return f"{NAME}_store({total}, {row}, {column}, {self.handed_on}@SIZES);"

    def store4(self, total: str, row: str, column: str) -> str:
        """The statement that stores the elements of four sums, at `column` and after it, as far as there are columns."""
        return f"{NAME}_store4({total}, {row}, {column}, {self.handed_on}@SIZES);"

    def fetch4(self, row: str, column: str) -> str:
        """The statement that brings near what `store4` will read there, for devices that run PTX; nothing if there is none."""
        return f"{NAME}_fetch4({row}, {column}, {self.handed_on}@SIZES);" if self.has_fetch else ""


def used_values(kernel: Kernel) -> tuple[Value, ...]:
    """What the epilogue of a kernel reads, each once."""
    return tuple(dict.fromkeys(each.value for each in walk(*kernel.roots) if isinstance(each, Load)))


def read_by_fours(kernel: Kernel) -> tuple[Value, ...]:
    """What the epilogue of a kernel reads four elements at a time, where it computes as many; each once."""
    if kernel.shape[-1] % 4 or kernel.requirements:
        return ()
    return _writer(kernel, Arguments((kernel.output, *used_values(kernel)))).read_by_fours(kernel.shape[-1])


def epilogue(
    kernel: Kernel, arguments: Arguments, *, is_vector: bool = False, is_fetched: bool = False
) -> Epilogue:
    """The epilogue of a contraction's kernel.

    It has the functions `KERNEL_NAME_store` and `KERNEL_NAME_store4`, of a sum (or a vector of four), a row and a column.
    A row is a position of all dimensions but the last, counted row by row; the column is that of the last.

    Args:
        kernel: with a contraction.
        arguments: those of the kernel's function; all that `used_values` names is among them.
        is_vector: whether four elements are stored at a time wherever that can be.
        is_fetched: whether there is to be a function that fetches what four elements need, in PTX.
    """
    length = kernel.shape[-1]
    writer = _writer(kernel, arguments)
    is_aligned = length % 4 == 0
    four = writer.vector(length) if is_aligned and not writer.requirements else None
    fetch = ""
    if four is None:
        text = writer.scalar() + writer.one_by_one(is_aligned)
    elif is_vector:
        # What is not called is left out: it may have sizes of this kernel only.
        text, fetch = four, writer.fetch(length) if is_fetched else ""
    else:
        text = writer.scalar() + four
    return Epilogue(
        text=text + fetch,
        has_fetch=bool(fetch),
        arguments=arguments,
        row_length=length,
        is_aligned=is_aligned,
    )


def _writer(kernel: Kernel, arguments: Arguments) -> "_Writer":
    assert kernel.contraction is not None  # noqa: S101 - callers render a contraction
    length = kernel.shape[-1]
    row, column = axis(math.prod(kernel.shape[:-1]), "row"), axis(length, "column")
    position = (*unflat(row, kernel.shape[:-1]), column)
    where: dict[Expression, Expression] = dict(zip(kernel.axes, position, strict=True))
    body = substitute(kernel.body, where)
    requirements = [substitute(condition, where) for condition, _ in kernel.requirements]
    kind = computed(kernel.contraction.output.type)
    return _Writer(body, requirements, row, column, kind, arguments, kernel.output.type)


def computing4(kernel: Kernel, arguments: Arguments) -> str | None:
    """A function `KERNEL_NAME_value4` that gives four elements of a kernel from their sums, as floats; None: there is none.

    Args:
        kernel: with a contraction.
        arguments: those of the function that calls it, with all that `used_values` names.
    """
    writer = _writer(kernel, arguments)
    if kernel.shape[-1] % 4 or writer.requirements:
        return None
    return writer.vector(kernel.shape[-1], is_stored=False)


@dataclass(frozen=True, slots=True)
class _Writer:
    body: Expression
    requirements: Sequence[Expression]
    row: Axis
    column: Axis
    kind: str
    arguments: Arguments
    stored_as: Scalar

    def _head(self, name: str, kind: str, result: str = "void") -> str:
        places = "const int row, const int column"
        return f"static inline {result} {NAME}_{name}(const {kind} sum, {places}, {self.arguments.pointers}@PARAMETERS) {{"

    @property
    def _names(self) -> dict[Expression, str]:
        sums = [each for each in walk(self.body, *self.requirements) if isinstance(each, Accumulated)]
        return {self.row: "row", self.column: "column", **dict.fromkeys(sums, "sum")}

    def scalar(self) -> str:
        """The element as a number, and the function that stores it."""
        statements = Statements(self.arguments.by_value, self._names)
        for code, condition in enumerate(self.requirements, start=1):
            holds = statements.value(condition)
            statements.lines.append(f"  if (!{holds}) *status = {code};")
        element = statements.value(self.body)
        call = f"{NAME}_element(sum, row, column, {self.arguments.handed_on}@SIZES)"
        return "\n".join(
            (
                self._head("element", self.kind, computed(self.stored_as)),
                *statements.lines,
                f"  return {element};",
                "}",
                self._head("store", self.kind),
                f"  {store_text('a0', 'row * z_length + column', call, self.stored_as)}",
                "}",
                "",
            )
        )

    def one_by_one(self, is_aligned: bool) -> str:
        """Four elements, each computed by itself."""
        elements = [
            f"{NAME}_element(sum.s{i}, row, column + {i}, {self.arguments.handed_on}@SIZES)" for i in range(4)
        ]
        if is_aligned:
            lines = [self._stored4(f"({computed(self.stored_as)}4)({', '.join(elements)})")]
        else:
            lines = [
                f"  if (column + {i} < z_length) {NAME}_store(sum.s{i}, row, column + {i}, {self.arguments.handed_on}@SIZES);"
                for i in range(4)
            ]
        return "\n".join((self._head("store4", f"{self.kind}4"), *lines, "}", ""))

    def _stored4(self, value: str) -> str:
        place = "row * z_length + column"
        if self.stored_as is Scalar.FLOAT16:
            return f"  vstorea_half4_rte({value}, ({place}) >> 2, a0);"
        return f"  *(__global {stored(self.stored_as)}4 *)(a0 + {place}) = {value};"

    def vector(self, length: int, *, is_stored: bool = True) -> str | None:
        """Four elements computed as a vector; None where the body has something that has no such form."""
        if self.kind != "float":
            return None
        texts = _Vector(self, length)
        element = texts.value(self._unrounded)
        if element is None:
            return None
        value = f"(float4)({element})"
        if is_stored:
            lines = [self._head("store4", "float4"), *texts.lines, self._stored4(value)]
        else:
            lines = [self._head("value4", "float4", "float4"), *texts.lines, f"  return {value};"]
        return "\n".join((*lines, "}", ""))

    def read_by_fours(self, length: int) -> tuple[Value, ...]:
        """What `vector` loads four elements of at a time, each once; nothing where there is no vector."""
        texts = _Vector(self, length)
        is_there = self.kind == "float" and texts.value(self._unrounded) is not None
        return tuple(dict.fromkeys(texts.by_fours)) if is_there else ()

    def fetch(self, length: int) -> str:
        """A function that fetches what the vector loads."""
        texts = _Vector(self, length)
        texts.value(self._unrounded)
        lines = [
            f'  asm volatile("prefetch.global.L1 [%0];" :: "l"((ulong)({each})));' for each in texts.addresses
        ]
        head = self._head("fetch4", "int").replace("const int sum, ", "")
        return "\n".join((head, *texts.lines_of_places, *lines, "}", ""))

    @property
    def _unrounded(self) -> Expression:
        """The element; where the store itself rounds it to a half, before that."""
        body = self.body
        is_rounded = isinstance(body, Apply) and body.op is Op.CONVERT and body.type is Scalar.FLOAT16
        return body.operands[0] if is_rounded and body.operands[0].type is Scalar.FLOAT32 else body


class _Vector:
    """Expressions at four columns."""

    def __init__(self, writer: _Writer, length: int) -> None:
        self._pointers = writer.arguments.by_value
        self._column, self._row, self._length = writer.column, writer.row, length
        self._places = Statements(self._pointers, writer._names)
        self._texts: dict[Expression, str | None] = {}
        self._lines: list[str] = []
        #: Of what is loaded from pointers.
        self.addresses: list[str] = []
        #: What four elements are loaded of at a time.
        self.by_fours: list[Value] = []

    @property
    def lines_of_places(self) -> list[str]:
        """The statements that the addresses need."""
        return self._places.lines

    @property
    def lines(self) -> list[str]:
        """The statements that the value needs."""
        return [*self._places.lines, *self._lines]

    def value(self, root: Expression) -> str | None:
        """The text of a vector, or of a number that stands for four; None: there is none."""
        text = self._texts.get(root)
        if root not in self._texts:
            text = self._text(root)
            if text is not None and isinstance(root, Apply | Load):
                name = f"v{len(self._lines)}"
                self._lines.append(f"  const float4 {name} = {text};")
                text = name
            self._texts[root] = text
        return text

    def _text(self, expression: Expression) -> str | None:
        if expression.type not in _FLOATS:
            return None
        if isinstance(expression, Accumulated):
            return "sum"
        if isinstance(expression, Constant):
            return None if math.isnan(expression.value) else constant_text(expression.value, Scalar.FLOAT32)
        if isinstance(expression, Load):
            return self._load(expression)
        if isinstance(expression, Apply):
            return self._apply(expression)
        return None

    def _load(self, expression: Load) -> str | None:
        if expression.guard is not None:
            return None
        place = flat(expression.index, expression.value.shape)
        read = self._pointers[expression.value]
        if not self._varies(place):
            text = self._places.value(place)
            self.addresses.append(f"{read.name} + {text}")
            return f"(float4)({read.load(text)})"
        start = place - self._column
        if self._varies(start) or not is_multiple_of_4(start):
            return None
        text = self._matrix_place(start) or self._places.value(place)
        self.addresses.append(f"{read.name} + {text}")
        self.by_fours.append(expression.value)
        return read.load4(text)

    def _matrix_place(self, start: Expression) -> str | None:
        """The place of an element of a matrix like the output, by the size that texts name."""
        if start is self._row * self._length:
            return "(row * z_length + column)"
        return None

    def _varies(self, expression: Expression) -> bool:
        return self._column in walk(expression)

    def _apply(self, expression: Apply) -> str | None:
        op = expression.op
        if op is Op.CONVERT:
            is_widened = expression.type is Scalar.FLOAT32 and expression.operands[0].type in _FLOATS
            return self.value(expression.operands[0]) if is_widened else None
        if expression.type is not Scalar.FLOAT32:
            return None
        texts = [self.value(each) for each in expression.operands]
        if any(text is None for text in texts):
            return None
        wide = [f"(float4)({text})" for text in texts]
        if op in _INFIX:
            return f"{wide[0]} {_INFIX[op]} {wide[1]}"
        if op in _CALLS:
            return f"{_CALLS[op]}({wide[0]})"
        if op is Op.NEGATE:
            return f"-{wide[0]}"
        if op is Op.LOGISTIC:
            return f"1.0f / (1.0f + exp(-{wide[0]}))"
        if op in (Op.MINIMUM, Op.MAXIMUM):
            return _extreme(op, expression.operands, wide)
        return None


def _extreme(op: Op, operands: Sequence[Expression], texts: Sequence[str]) -> str:
    """The smaller or larger of two, NaN where one is; one comparison less where one is known to be none."""
    sign = "<" if op is Op.MINIMUM else ">"
    first, second = texts
    if isinstance(operands[0], Constant):
        first, second = second, first
    if any(isinstance(each, Constant) for each in operands):
        return f"select({first}, {second}, {second} {sign}= {first})"
    return f"select({second}, {first}, ({first} {sign} {second}) | ({first} != {first}))"


def is_multiple_of_4(place: Expression) -> bool:
    """Whether a position is known to be one."""
    if isinstance(place, Linear):
        return place.constant % 4 == 0 and all(factor % 4 == 0 for _, factor in place.terms)
    return place.low == place.high and place.low % 4 == 0
