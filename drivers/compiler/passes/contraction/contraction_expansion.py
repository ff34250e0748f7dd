"""Expands contractions into reductions, for shapes and types without a dedicated kernel."""

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Expression, axis, load, reduce
from neurald.drivers.compiler.ir.graph import (
    Attention,
    Contraction,
    Convolution,
    DepthwiseConvolution,
    MatrixProduct,
    Pair,
    Selection,
    inside,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.traversal import rewrite
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.hal.records import replace


def expand_contraction(kernel: Kernel) -> Kernel:
    """Returns the kernel with its contraction expanded into a reduction in the body."""
    contraction = kernel.contraction
    if contraction is None:
        return kernel
    # A compiler either has kernels for all of these or has expanded them before.
    assert not isinstance(contraction, Selection | Attention)  # noqa: S101
    total = _sum_of_products(contraction, kernel.axes)

    def replacement(expression: Expression) -> Expression | None:
        return total if isinstance(expression, AccumulatorRef) else None

    memory: dict[Expression, Expression] = {}
    return replace(
        kernel,
        contraction=None,
        body=rewrite(kernel.body, replacement, memory),
        requirements=tuple((rewrite(each, replacement, memory), text) for each, text in kernel.requirements),
    )


def _sum_of_products(contraction: Contraction, at: tuple[Expression, ...]) -> Expression:
    """Returns the contraction's element at an index as a reduction."""
    if isinstance(contraction, Convolution):
        return _convolution(contraction, at)
    if isinstance(contraction, DepthwiseConvolution):
        return _depthwise(contraction, at)
    return _matrix_product(contraction, at)


def _operand(contraction: Contraction, element: Expression, zero: int) -> Expression:
    """Returns an element of the input or the weights, widened and minus its zero point."""
    wide = element.to(contraction.output.type)
    return wide - zero if zero else wide


def _image_index(
    index: Expression, tap: Expression, along: int, stride: Pair, dilation: Pair, padding: tuple[Pair, Pair]
) -> Expression:
    """Returns the image index of a window element, along height (0) or width (1)."""
    return index * stride[along] + tap * dilation[along] - padding[along][0]


def _image_element(
    contraction: Convolution | DepthwiseConvolution, position: tuple[Expression, ...]
) -> Expression:
    """Loads an element of the input; outside the image this is the zero point."""
    source = contraction.input
    guard = inside(position[1:3], source.shape[1:3])
    return load(source, position, guard, contraction.input_zero)


def _convolution(contraction: Convolution, at: tuple[Expression, ...]) -> Expression:
    n, y, x, o = at
    channels, rows, columns, depth = contraction.weights.shape
    i, j, c = axis(rows, "ky"), axis(columns, "kx"), axis(depth, "c")
    window = contraction.stride, contraction.dilation, contraction.padding
    channel = o // (channels // contraction.groups) * depth + c
    seen = _image_element(
        contraction, (n, _image_index(y, i, 0, *window), _image_index(x, j, 1, *window), channel)
    )
    weight = load(contraction.weights, (o, i, j, c))
    return reduce(ReductionOp.SUM, (i, j, c), _product(contraction, seen, contraction.input_zero, weight))


def _depthwise(contraction: DepthwiseConvolution, at: tuple[Expression, ...]) -> Expression:
    n, y, x, o = at
    rows, columns, _ = contraction.weights.shape
    i, j = axis(rows, "ky"), axis(columns, "kx")
    window = contraction.stride, contraction.dilation, contraction.padding
    channel = o // contraction.multiplier
    seen = _image_element(
        contraction, (n, _image_index(y, i, 0, *window), _image_index(x, j, 1, *window), channel)
    )
    weight = load(contraction.weights, (i, j, o))
    return reduce(ReductionOp.SUM, (i, j), _product(contraction, seen, contraction.input_zero, weight))


def _product(
    contraction: Convolution | DepthwiseConvolution, seen: Expression, zero: int, weight: Expression
) -> Expression:
    return _operand(contraction, seen, zero) * _operand(contraction, weight, contraction.weights_zero)


def _matrix_product(contraction: MatrixProduct, at: tuple[Expression, ...]) -> Expression:
    *batch, m, n = at
    k = axis(contraction.depth, "k")
    left = _element(contraction.left, batch, (k, m) if contraction.left_transposed else (m, k))
    right = _element(contraction.right, batch, (k, n) if contraction.right_transposed else (n, k))
    product = _operand(contraction, left, contraction.left_zero) * _operand(
        contraction, right, contraction.right_zero
    )
    return reduce(ReductionOp.SUM, (k,), product)


def _element(value: Value, batch: list[Expression], position: tuple[Expression, Expression]) -> Expression:
    """Loads an element of a matrix with broadcast batch dimensions."""
    lengths: Shape = value.shape[:-2]
    indexes = batch[len(batch) - len(lengths) :]
    return load(value, (*(b * 0 if n == 1 else b for b, n in zip(indexes, lengths, strict=True)), *position))
