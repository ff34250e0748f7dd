"""Rewrites contractions as products of two matrices, which have the fastest kernels.

- A convolution whose window covers the whole image has one output pixel per image. It multiplies a
  matrix with a row for each image.
- A batch of products with the same right matrix is one product with the rows of all left matrices.
- A product of a column and a row has one term for each element, which is not a sum.

1×1 convolutions over larger images are not rewritten. Their kernels treat them as matrix products.
"""

import math

from neurald.drivers.compiler.ir.expression import axis, index, load
from neurald.drivers.compiler.ir.extents.extent import is_one
from neurald.drivers.compiler.ir.graph import (
    Compute,
    Convolution,
    Graph,
    MatrixProduct,
    Node,
    Pair,
    delinearize,
    load_broadcast,
)
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.node_rewriting import reshaped, view
from neurald.hal.records import replace


def canonicalize_matrix_products(graph: Graph) -> bool:
    """Replaces convolutions and batched products by reshaped products of two matrices.

    Returns True if there were any, or products without sums.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        replacement: tuple[Node, ...] | None = None
        if isinstance(node, Convolution):
            replacement = _convolution_as_product(node)
        elif isinstance(node, MatrixProduct):
            replacement = (_outer_product(node),) if is_one(node.depth) else _unbatched(node)
        nodes += replacement or (node,)
    is_changed = nodes != graph.nodes
    graph.nodes = nodes
    return is_changed


def _convolution_as_product(node: Convolution) -> tuple[Node, ...] | None:
    """Returns the nodes that replace a convolution, or None if it is not a matrix product."""
    images, height, width, depth = node.input.shape
    first = _first_taps(node)
    if first is None:
        return None
    channels = node.weights.shape[0]
    rows, before = reshaped(node.input, (images, height * width * depth), node.operations)
    # Weights outside of the image only multiply padding, so they are dropped.
    o, k = axes = axis(channels, "i0"), axis(height * width * depth, "i1")
    y, x, c = delinearize(k, (height, width, depth))
    columns = Value((channels, height * width * depth), node.weights.type, name=node.weights.name)
    transposed = Compute(
        output=columns,
        axes=axes,
        body=load(node.weights, (o, y + first[0], x + first[1], c)),
        operations=node.operations,
    )
    product = MatrixProduct(
        output=Value((images, channels), node.output.type, name=node.output.name),
        left=rows,
        right=columns,
        left_zero=node.input_zero,
        right_zero=node.weights_zero,
        operations=node.operations,
    )
    return (*before, transposed, product, view(product.output, node.output, node.operations))


def _first_taps(node: Convolution) -> Pair | None:
    """Returns the window element at the image's origin, or None if the window does not cover it."""
    if node.groups != 1 or node.output.shape[1:3] != (1, 1):
        return None
    first = []
    for length, kernel, dilation, (before, _) in zip(
        node.input.shape[1:3], node.kernel, node.dilation, node.padding, strict=True
    ):
        tap, between = divmod(before, dilation)
        if between or tap + length > kernel or (dilation > 1 and length > 1):
            return None
        first.append(tap)
    return first[0], first[1]


def _outer_product(node: MatrixProduct) -> Compute:
    """Returns the node that multiplies elements of a column and a row."""
    kind = node.output.type
    *batches, row, column = axes = tuple(
        axis(length, f"i{place}") for place, length in enumerate(node.output.shape)
    )
    inner = index(0)
    first = (inner, row) if node.left_transposed else (row, inner)
    second = (inner, column) if node.right_transposed else (column, inner)
    left = load_broadcast(node.left, batches, first).to(kind)
    right = load_broadcast(node.right, batches, second).to(kind)
    if not kind.is_float:
        left, right = left - node.left_zero, right - node.right_zero
    return Compute(output=node.output, axes=axes, body=left * right, operations=node.operations)


def _unbatched(node: MatrixProduct) -> tuple[Node, ...] | None:
    """Returns the nodes that replace a batched product, or None if it must stay."""
    *batches, height, width = node.left.shape
    count = math.prod(batches)
    is_one_matrix = all(map(is_one, node.right.shape[:-2]))
    if len(node.output.shape) == 2 or not is_one_matrix or (node.left_transposed and not is_one(count)):
        return None
    left, of_left = reshaped(node.left, (count * height, width), node.operations)
    right, of_right = reshaped(node.right, node.right.shape[-2:], node.operations)
    shape = math.prod(node.output.shape[:-1]), node.output.shape[-1]
    product = replace(
        node, output=Value(shape, node.output.type, name=node.output.name), left=left, right=right
    )
    return (*of_left, *of_right, product, view(product.output, node.output, node.operations))
