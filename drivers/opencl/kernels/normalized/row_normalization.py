"""Recognises kernels that normalise rows: layer and RMS norms, however they are written.

Such a kernel computes sums of products of a number for each row and one for each column. In one of
them, the matrix itself is a factor. The numbers for rows depend on the row's mean, variance or
other polynomials of the second degree, which its moments tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Constant,
    Expression,
    Load,
    Reduce,
    axis,
    constant,
    maximum,
)
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, loads, rewrite, substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.normalized.row_moments import MOMENT_COLUMNS, row_sum

#: Limit on the products that are added up.
_MAX_TERMS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Product of a number for each row and one for each column.

    Attributes:
        row: the number for a row; None for 1.
        columns: the numbers for columns.
        has_element: whether the element of the matrix is a factor, too.
    """

    row: Expression | None
    columns: np.ndarray
    has_element: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNormalization:
    """Kernel that normalises the rows of a matrix.

    Attributes:
        kernel: computes it.
        matrix: as the kernel reads it.
        moments: the moments of the matrix.
        row: stands for the number of a row in the expressions.
        scaled: the term with the matrix.
        others: the other terms.
        body: the FLOAT32 result at the kernel's axes, with moments instead of reductions.
    """

    kernel: Kernel
    matrix: Value
    moments: Value
    row: Axis
    scaled: Term
    others: tuple[Term, ...]
    body: Expression

    def element(self, row: Expression, at: Sequence[Expression]) -> Expression:
        """Returns a normalised element before it is rounded.

        Args:
            row: the number of its row.
            at: its index.
        """
        where: dict[Expression, Expression] = dict(zip(self.kernel.axes, at, strict=True))
        return substitute(self.body, {**where, self.row: row})


def row_normalization(kernel: Kernel, moments_of: Mapping[Value, Value]) -> RowNormalization | None:
    """Returns what a kernel normalises; None for other kernels.

    Args:
        kernel: the kernel.
        moments_of: the moments of matrices, by the values that kernels read.
    """
    *rows, column = kernel.axes or (axis(1),)
    if kernel.row_axes != len(rows) or kernel.requirements or kernel.limit is not None:
        return None
    if kernel.output_offset is not None or kernel.output.type is not Scalar.FLOAT16:
        return None
    read = {each.value for each in loads(kernel.body) if each.value.constant is None}
    matrix = next(iter(read)) if len(read) == 1 else None
    moments = None if matrix is None else moments_of.get(matrix)
    body = _unrounded(kernel.body)
    if matrix is None or moments is None or body is None or column.extent % MOMENT_COLUMNS:
        return None
    row = axis(moments.shape[1], "row")
    view = _View(kernel=kernel, matrix=matrix, moments=moments, row=row)
    body = rewrite(body, view.without_reduction, {})
    if any(isinstance(each, Reduce) and not _reads_only(each, moments) for each in walk(body)):
        return None
    terms = _terms(body, view)
    if terms is None:
        return None
    scaled = [each for each in terms if each.has_element]
    if len(scaled) != 1:
        return None
    return RowNormalization(
        kernel=kernel,
        matrix=matrix,
        moments=moments,
        row=row,
        scaled=scaled[0],
        others=tuple(each for each in terms if not each.has_element),
        body=body,
    )


def _unrounded(body: Expression) -> Expression | None:
    """Returns the FLOAT32 that is rounded to the stored FLOAT16."""
    is_rounded = isinstance(body, Apply) and body.op is Op.CONVERT and body.type is Scalar.FLOAT16
    if not is_rounded or body.operands[0].type is not Scalar.FLOAT32:
        return None
    return body.operands[0]


def _reads_only(expression: Expression, value: Value) -> bool:
    return all(each.value is value for each in loads(expression))


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """A kernel of rows of one matrix."""

    kernel: Kernel
    matrix: Value
    moments: Value
    row: Axis

    def is_element(self, expression: Expression, column: Axis) -> bool:
        """Returns True for the element of the matrix in the kernel's row at a column."""
        if not isinstance(expression, Load) or expression.value is not self.matrix:
            return False
        if expression.guard is not None:
            return False
        place = linearize(expression.index, self.matrix.shape)
        return place is linearize((*self.kernel.axes[:-1], column), self.kernel.shape)

    def without_reduction(self, expression: Expression) -> Expression | None:
        """Returns a sum over a row as an expression of its moments; None for all else."""
        if not isinstance(expression, Reduce) or expression.reduction is not ReductionOp.SUM:
            return None
        if len(expression.axes) != 1 or expression.axes[0].extent != self.kernel.shape[-1]:
            return None
        (column,) = expression.axes
        factors = self._polynomial(expression.body, column)
        if factors is None:
            return None
        count = constant(float(column.extent), Scalar.FLOAT32)
        sums = (count, *(row_sum(self.moments, self.row, power) for power in (1, 2)))
        total: Expression | None = None
        for power, factor in sorted(factors.items()):
            part = sums[power] if factor is None else factor * sums[power]
            total = part if total is None else total + part
        assert total is not None  # noqa: S101 - there is a factor
        body = expression.body
        is_square = (
            isinstance(body, Apply) and body.op is Op.MULTIPLY and body.operands[0] is body.operands[1]
        )
        # Rounding must not make a sum of squares negative.
        return maximum(total, 0.0) if is_square else total

    def _polynomial(self, body: Expression, column: Axis) -> dict[int, Expression | None] | None:
        """Returns the factors of the powers of an element, None for 1; None if it has none."""
        found: dict[Expression, dict[int, Expression | None] | None] = {}
        for each in walk(body):
            found[each] = self._powers(each, column, found)
        return found[body]

    def _powers(
        self,
        expression: Expression,
        column: Axis,
        found: Mapping[Expression, dict[int, Expression | None] | None],
    ) -> dict[int, Expression | None] | None:
        if self.is_element(expression, column):
            return {1: None}
        if expression.type is Scalar.FLOAT32 and column not in free_axes(expression):
            return {0: expression} if self._is_of_row(expression) else None
        if not isinstance(expression, Apply):
            return None
        parts = [found.get(each) for each in expression.operands]
        known = [each for each in parts if each is not None]
        if len(known) < len(parts):
            return None
        if expression.op is Op.CONVERT and expression.type is Scalar.FLOAT32:
            return known[0]
        if expression.op in (Op.ADD, Op.SUBTRACT):
            return _added(known[0], known[1], is_negative=expression.op is Op.SUBTRACT)
        if expression.op is Op.MULTIPLY:
            return _multiplied(known[0], known[1])
        return None

    def _is_of_row(self, expression: Expression) -> bool:
        """Returns True if a number depends on nothing but the moments of the row and constants."""
        known = {self.moments}
        if any(each.value.constant is None and each.value not in known for each in loads(expression)):
            return False
        return free_axes(expression) <= {self.row}

    def term(self, expression: Expression) -> Term | None:
        """Returns a number that is a single term; None for others."""
        column = self.kernel.axes[-1]
        ones = np.ones(column.extent)
        if self.is_element(expression, column):
            return Term(row=None, columns=ones, has_element=True)
        if expression.type is not Scalar.FLOAT32 and expression.type is not Scalar.FLOAT16:
            return None
        if isinstance(expression, Constant):
            return Term(row=None, columns=ones * float(expression.value))
        if isinstance(expression, Load):
            array = expression.value.constant
            is_column = expression.guard is None and array is not None and array.size == column.extent
            if is_column and linearize(expression.index, expression.value.shape) is column:
                return Term(row=None, columns=np.asarray(array, np.float64).reshape(-1))
        if expression.type is Scalar.FLOAT32 and self._is_of_row(expression):
            return Term(row=expression, columns=ones)
        return None


def _added(
    first: Mapping[int, Expression | None], second: Mapping[int, Expression | None], *, is_negative: bool
) -> dict[int, Expression | None]:
    one = constant(1.0, Scalar.FLOAT32)
    found = dict(first)
    for power, factor in second.items():
        added = one if factor is None else factor
        if power in found:
            before = found[power]
            before = one if before is None else before
            found[power] = before - added if is_negative else before + added
        else:
            found[power] = -added if is_negative else factor
    return found


def _multiplied(
    first: Mapping[int, Expression | None], second: Mapping[int, Expression | None]
) -> dict[int, Expression | None] | None:
    found: dict[int, Expression | None] = {}
    for power, factor in first.items():
        for other, more in second.items():
            if power + other > 2:
                return None
            both = _product(factor, more)
            found = _added(found, {power + other: both}, is_negative=False)
    return found


def _product(first: Expression | None, second: Expression | None) -> Expression | None:
    """Multiplies numbers of which None stands for 1."""
    if first is None or second is None:
        return second if first is None else first
    return first * second


def _terms(body: Expression, view: _View) -> list[Term] | None:
    """Returns the terms whose sum a body is; None if it is something else."""
    found: dict[Expression, list[Term] | None] = {}
    for each in walk(body):
        single = view.term(each)
        found[each] = [single] if single is not None else _combined(each, found)
    return found[body]


def _combined(expression: Expression, found: Mapping[Expression, list[Term] | None]) -> list[Term] | None:
    if not isinstance(expression, Apply):
        return None
    parts = [found.get(each) for each in expression.operands]
    known = [each for each in parts if each is not None]
    if len(known) < len(parts):
        return None
    if expression.op is Op.CONVERT and expression.type is Scalar.FLOAT32:
        return known[0]
    if expression.op is Op.NEGATE:
        return _merged(_negative(known[0]))
    if expression.op is Op.ADD:
        return _merged([*known[0], *known[1]])
    if expression.op is Op.SUBTRACT:
        return _merged([*known[0], *_negative(known[1])])
    if expression.op is Op.MULTIPLY:
        products = [_term_product(one, other) for one in known[0] for other in known[1]]
        kept = [each for each in products if each is not None]
        return _merged(kept) if len(kept) == len(products) else None
    if expression.op is Op.DIVIDE and len(known[1]) == 1:
        inverse = _inverse(known[1][0])
        products = [None if inverse is None else _term_product(one, inverse) for one in known[0]]
        kept = [each for each in products if each is not None]
        return _merged(kept) if len(kept) == len(products) else None
    return None


def _inverse(term: Term) -> Term | None:
    """Returns the reciprocal of a term; None for the element, and for numbers that may be 0."""
    if term.has_element or not np.all(term.columns):
        return None
    row = None if term.row is None else constant(1.0, Scalar.FLOAT32) / term.row
    return Term(row=row, columns=1.0 / term.columns)


def _negative(terms: Sequence[Term]) -> list[Term]:
    return [Term(row=each.row, columns=-each.columns, has_element=each.has_element) for each in terms]


def _term_product(one: Term, other: Term) -> Term | None:
    """Returns the product of two terms; None if it is quadratic in the element."""
    if one.has_element and other.has_element:
        return None
    return Term(
        row=_product(one.row, other.row),
        columns=one.columns * other.columns,
        has_element=one.has_element or other.has_element,
    )


def _merged(terms: Sequence[Term]) -> list[Term] | None:
    """Adds up terms with the same number for rows; returns None if too many remain."""
    found: dict[tuple[Expression | None, bool], Term] = {}
    for each in terms:
        key = each.row, each.has_element
        before = found.get(key)
        columns = each.columns if before is None else before.columns + each.columns
        found[key] = Term(row=each.row, columns=columns, has_element=each.has_element)
    return list(found.values()) if len(found) <= _MAX_TERMS else None
