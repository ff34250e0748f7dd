"""Folds normalisations of rows into the matrix products that read them.

A product of normalised rows is the product of the rows as they are with scaled weights, times a
number for each row, plus products of a number for each row with one for each column. So nothing
need store normalised rows: the kernel that computes a matrix also computes the moments of its
rows, and those that read it normalise what they compute. Kernels that add normalised rows to their
result normalise the elements that they read.

The weights are multiplied by a power of two before they are rounded, so that scales of any size
keep their precision. What is subtracted for the mean of a row is computed from the rounded weights:
rows with a large mean lose no more precision than if they were normalised first.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Expression,
    Load,
    accumulator,
    constant,
    index,
    load,
)
from neurald.drivers.compiler.ir.graph import MatrixProduct, delinearize, linearize
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import loads, rewrite, substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.normalized.row_moments import MOMENT_COLUMNS, moments_kernel
from neurald.drivers.opencl.kernels.normalized.row_normalization import (
    RowNormalization,
    Term,
    row_normalization,
)
from neurald.drivers.opencl.platform.native_halves import converted
from neurald.hal.records import replace

#: The exponent of the largest scaled weight, which leaves 22 binary orders to the least normal one.
_EXPONENT: Final = 8


def fold_normalizations(graph: FusedGraph, is_suitable: Callable[[Kernel], bool]) -> FusedGraph:
    """Returns the graph with products that read rows as they are, instead of normalised ones.

    Args:
        graph: the graph, which is not changed.
        is_suitable: whether the routine for a product can compute moments of its output, and
            numbers for each row of its epilogue.
    """
    folding = _Folding(graph, is_suitable)
    for kernel in graph.kernels:
        if kernel.contraction is None and kernel.row_axes is not None:
            folding.fold(kernel)
    return replace(graph, kernels=tuple(folding.kernels.values()), aliases=folding.aliases)


class _Folding:
    """Kernels of a graph while normalisations are folded into them.

    Attributes:
        kernels: the present ones by output, in order.
        aliases: those of the graph, and reshapes of matrices that are read as they are.
    """

    def __init__(self, graph: FusedGraph, is_suitable: Callable[[Kernel], bool]) -> None:
        self._graph, self._is_suitable = graph, is_suitable
        self.kernels = {kernel.output: kernel for kernel in graph.kernels}
        self.aliases = dict(graph.aliases)

    def fold(self, kernel: Kernel) -> None:
        """Removes a normalisation, if all that read it can do without."""
        known = self._normalization(kernel)
        if known is None:
            return
        found, moments = known
        readers = [each for each in self.kernels.values() if self._reads(each, kernel.output)]
        folded = {each.output: self._folded(each, found) for each in readers}
        changed = {output: each for output, each in folded.items() if each is not None}
        if not readers or len(changed) < len(folded) or not all(map(self._is_suitable, changed.values())):
            return
        if all(each.contraction is self.kernels[output].contraction for output, each in changed.items()):
            # Without a product of normalised rows, nothing is gained.
            return
        matrix = self._owner(found.matrix)
        kernels: dict[Value, Kernel] = {}
        for output, each in self.kernels.items():
            if output is kernel.output:
                continue
            kernels[output] = changed.get(output, each)
            if output is matrix:
                kernels[moments.output] = moments
        self.kernels = kernels

    def _owner(self, value: Value) -> Value:
        return self.aliases.get(value, value)

    def _reads(self, kernel: Kernel, output: Value) -> bool:
        return any(self._owner(value) is output for value in kernel.inputs)

    def _normalization(self, kernel: Kernel) -> tuple[RowNormalization, Kernel] | None:
        """Returns what a kernel normalises, and the kernel of its moments; otherwise None."""
        is_part = any(
            owner is kernel.output and value in self.kernels for value, owner in self.aliases.items()
        )
        if kernel.output in self._graph.outputs or kernel.output in self.aliases or is_part:
            return None
        matrices = [value for value in kernel.inputs if value.constant is None]
        if len(matrices) != 1:
            return None
        (read,) = matrices
        producer = self.kernels.get(self._owner(read))
        if producer is None or self._graph.starts.get(read, 0) or read.count != producer.output.count:
            return None
        matrix = producer.output
        if matrix.type is not Scalar.FLOAT16 or matrix.shape[-1] != kernel.shape[-1]:
            return None
        if matrix.shape[-1] % MOMENT_COLUMNS or not self._is_suitable(producer):
            return None
        moments = moments_kernel(matrix, kernel.operations)
        found = row_normalization(kernel, {read: moments.output})
        return None if found is None else (found, moments)

    def _folded(self, kernel: Kernel, found: RowNormalization) -> Kernel | None:
        """Returns a kernel that does not read the normalised rows; None if there is none."""
        output = found.kernel.output
        node = kernel.contraction
        if not isinstance(node, MatrixProduct):
            return None
        body = _read_as_it_is(kernel.body, found, self._owner)
        if body is None or self._owner(node.right) is output:
            return None
        kernel = replace(kernel, body=body)
        if self._owner(node.left) is not output:
            return kernel
        weights = _scaled_weights(node, found.scaled)
        if weights is None or self._graph.starts.get(node.left, 0):
            return None
        right, unit = weights
        matrix = self._owner(found.matrix)
        left = (
            matrix
            if matrix.shape == node.left.shape
            else Value(node.left.shape, matrix.type, name=matrix.name)
        )
        if left is not matrix:
            self.aliases[left] = matrix
        row = _row(kernel, node)
        scaled = accumulator(Scalar.FLOAT32) * _of_row(found.scaled.row, found, row, unit)
        added: Expression | None = None
        constants: Value | None = None
        for term in found.others:
            products = _products(node, right, term, found.scaled, unit)
            if term.row is None:
                constants = products
                continue
            number = _of_row(term.row, found, row, 1.0)
            part = load(products, _column(kernel, products)) * number
            added = part if added is None else added + part
        body = _with_sum(kernel, scaled, added, constants)
        return replace(kernel, body=body, contraction=replace(node, left=left, right=right))


def _with_sum(
    kernel: Kernel, scaled: Expression, added: Expression | None, constants: Value | None
) -> Expression:
    """Returns the body of a product with another sum.

    Args:
        kernel: the product.
        scaled: replaces its sum, together with what is added to it.
        added: is added first, so that each sum takes one instruction.
        constants: are added for each column; where the body adds constants, both are one.
    """
    sums = accumulator(Scalar.FLOAT32)

    def total(more: np.ndarray | None) -> Expression:
        behind = added
        if constants is not None or more is not None:
            before = None if constants is None else constants.constant
            array = more if before is None else before if more is None else before + more
            assert array is not None  # noqa: S101 - one of them is
            value = Value(array.shape, Scalar.FLOAT32, array, "constants of columns")
            loaded = load(value, _column(kernel, value))
            behind = loaded if behind is None else behind + loaded
        return scaled if behind is None else scaled + behind

    known: dict[Expression, Expression] = {sums: total(None)}
    for each in walk(kernel.body):
        if isinstance(each, Apply) and each.op is Op.ADD and sums in each.operands:
            (other,) = set(each.operands) - {sums} or {sums}
            more = _column_constants(other, kernel)
            if more is not None:
                known[each] = total(more)
    return rewrite(kernel.body, lambda _: None, known)


def _column_constants(expression: Expression, kernel: Kernel) -> np.ndarray | None:
    """Returns the constants that an expression reads at a column; None for other expressions."""
    if isinstance(expression, Apply) and expression.op is Op.CONVERT and expression.type is Scalar.FLOAT32:
        expression = expression.operands[0]
    if not isinstance(expression, Load) or expression.guard is not None:
        return None
    array = expression.value.constant
    is_float = expression.type in (Scalar.FLOAT16, Scalar.FLOAT32)
    if not is_float or array is None or expression.index != _column(kernel, expression.value):
        return None
    return array.astype(np.float32)


def _of_row(number: Expression | None, found: RowNormalization, row: Expression, factor: float) -> Expression:
    """Returns the number for a row, times a factor."""
    times = constant(factor, Scalar.FLOAT32)
    if number is None:
        return times
    at = substitute(number, {found.row: row})
    return at if factor == 1.0 else at * times


def _row(kernel: Kernel, node: MatrixProduct) -> Expression:
    """Returns the number of the row of the left matrix at the axes of a product."""
    *batches, row, _ = kernel.axes
    shape = node.left.shape[:-2]
    own = batches[len(batches) - len(shape) :]
    places = [at * 0 if length == 1 else at for at, length in zip(own, shape, strict=True)]
    return linearize((*places, row), (*shape, node.left.shape[-2]))


def _column(kernel: Kernel, products: Value) -> tuple[Expression, ...]:
    """Returns the index of a number for a column at the axes of a product."""
    *batches, _, column = kernel.axes
    own = batches[len(batches) - len(products.shape) + 1 :]
    return (
        *(index(0) if length == 1 else at for at, length in zip(own, products.shape, strict=False)),
        column,
    )


def _by_column(node: MatrixProduct) -> np.ndarray:
    """Returns the numbers of the constant right matrix as (…, column, depth)."""
    array = node.right.constant
    assert array is not None  # noqa: S101 - see `_scaled_weights`
    numbers = converted(array, np.float32)
    return numbers.swapaxes(-1, -2) if node.right_transposed else numbers


def _scaled_weights(node: MatrixProduct, scaled: Term) -> tuple[Value, float] | None:
    """Returns the right matrix for rows that are not normalised, and what divides it.

    Returns None if the matrix is not a constant, or if its numbers are not finite.
    """
    array = node.right.constant
    if array is None or node.right.type is not Scalar.FLOAT16 or node.left_transposed or node.left_zero:
        return None
    if node.right_zero or node.depth != scaled.columns.size:
        return None
    columns = scaled.columns.astype(np.float32)
    factors = columns[:, None] if node.right_transposed else columns
    with np.errstate(over="ignore", invalid="ignore"):
        products = converted(array, np.float32)
        products *= factors
        largest = max(float(np.max(products, initial=0.0)), -float(np.min(products, initial=0.0)))
    if not math.isfinite(largest):
        return None
    scale = math.ldexp(1.0, _EXPONENT - math.frexp(largest)[1]) if largest else 1.0
    if not math.isfinite(scale) or not math.isfinite(1.0 / scale):
        return None
    products *= np.float32(scale)
    value = Value(array.shape, Scalar.FLOAT16, converted(products, np.float16), node.right.name)
    return value, 1.0 / scale


def _products(node: MatrixProduct, right: Value, term: Term, scaled: Term, scale: float) -> Value:
    """Returns the products of the numbers for columns of a term with the weights: (…, column)."""
    factor = _common_factor(term.columns, scaled.columns)
    if factor is not None:
        rounded = _by_column(replace(node, right=right)).sum(axis=-1)
        array = rounded.astype(np.float64) * (scale * factor)
    else:
        array = _by_column(node) @ term.columns.astype(np.float32)
    numbers = array.astype(np.float32)
    return Value(numbers.shape, Scalar.FLOAT32, numbers, node.right.name)


def _common_factor(columns: np.ndarray, others: np.ndarray) -> float | None:
    """Returns the number by which the columns differ; None if there is none."""
    place = int(np.argmax(np.abs(others)))
    if not others[place]:
        return None
    factor = float(columns[place] / others[place])
    return factor if np.array_equal(columns, others * factor) else None


def _read_as_it_is(
    body: Expression, found: RowNormalization, owner: Callable[[Value], Value]
) -> Expression | None:
    """Returns a body that normalises what it read normalised; None if it cannot."""
    output = found.kernel.output

    def normalised(expression: Expression) -> Expression | None:
        is_widened = isinstance(expression, Apply) and expression.op is Op.CONVERT
        if not is_widened or expression.type is not Scalar.FLOAT32:
            return None
        read = expression.operands[0]
        if not isinstance(read, Load) or owner(read.value) is not output or read.guard is not None:
            return None
        if read.value.shape[-1:] != output.shape[-1:] or read.value.count != output.count:
            return None
        row = linearize(read.index[:-1], read.value.shape[:-1])
        at = _index_of(found.kernel, row, read.index[-1])
        return found.element(row, at)

    changed = rewrite(body, normalised, {})
    is_read = any(owner(each.value) is output for each in loads(changed))
    return None if is_read else changed


def _index_of(kernel: Kernel, row: Expression, column: Expression) -> tuple[Expression, ...]:
    """Returns the index of an element at a kernel's axes."""
    return (*delinearize(row, kernel.shape[:-1]), column)
