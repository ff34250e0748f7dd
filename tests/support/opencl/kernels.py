"""Kernels of every form that the OpenCL driver renders, small enough to be read and interpreted."""

from collections.abc import Callable, Mapping

from support.compiler.graphs import GraphBuilder

from neurald.drivers.compiler.ir.expression import apply, axis, load, reduce, select
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse


def elementwise() -> Graph:
    """Creates a broadcasting bias and an activation."""
    builder = GraphBuilder()
    source, bias = builder.input(5, 7), builder.input(7)
    return builder.finish(
        builder.compute((5, 7), lambda i, j: apply(Op.TANH, (load(source, (i, j)) + load(bias, (j,))) * 0.5))
    )


def padded() -> Graph:
    """Creates padding: reads inside of the tensor only, with another value outside."""
    builder = GraphBuilder()
    source, edge = builder.input(3, 4), builder.input(6)
    return builder.finish(
        builder.compute(
            (5, 6),
            lambda i, j: load(source, (i - 1, j - 1), inside((i - 1, j - 1), (3, 4)), load(edge, (j,))),
        )
    )


def transposed() -> Graph:
    """Creates data movement through two shapes."""
    builder = GraphBuilder()
    source = builder.input(2, 3, 4)
    turned = builder.compute((4, 2, 3), lambda i, j, k: load(source, (j, k, i)))
    return builder.finish(builder.reshape(turned, (6, 4)))


def gathered() -> Graph:
    """Creates a gather with indexes that are checked and clamped."""
    builder = GraphBuilder()
    table, places = builder.input(6, 3), builder.input(5, type=Scalar.INT32)
    picked = builder.compute(
        (5, 3),
        lambda i, j: load(
            table,
            (select(load(places, (i,)) < 0, 0, load(places, (i,))).to(Scalar.INDEX) % 6, j),
        ),
        lambda i, j: [(load(places, (i,)) < 6, "a place is not one of 6")],
    )
    return builder.finish(picked)


def pooled() -> Graph:
    """Creates short guarded reductions, in a storage-only type."""
    builder = GraphBuilder()
    source = builder.input(1, 5, 5, 2, type=Scalar.INT8)
    rows, columns = axis(3, "ky"), axis(3, "kx")

    def body(n, y, x, c):  # type: ignore[no-untyped-def]
        place = (y * 2 + rows - 1, x * 2 + columns - 1)
        return reduce(
            ReductionOp.MAXIMUM, (rows, columns), load(source, (n, *place, c), inside(place, (5, 5)), -128)
        )

    return builder.finish(builder.compute((1, 3, 3, 2), body))


def reduced() -> Graph:
    """Creates a long reduction, which a work-group computes together."""
    builder = GraphBuilder()
    source = builder.input(3, 300)
    along = axis(300, "r")

    def body(i):  # type: ignore[no-untyped-def]
        element = load(source, (i, along))
        return apply(Op.SQRT, reduce(ReductionOp.SUM, (along,), element * element))

    return builder.finish(builder.compute((3,), body))


def softmax(rows: int = 3, columns: int = 9) -> Graph:
    """Creates reductions of whole rows, followed by operations on their elements."""
    builder = GraphBuilder()
    source = builder.input(rows, columns)
    first, second = axis(columns, "r"), axis(columns, "s")
    largest = builder.compute(
        (rows,), lambda i: reduce(ReductionOp.MAXIMUM, (first,), load(source, (i, first)))
    )
    raised = builder.compute(
        (rows, columns), lambda i, j: apply(Op.EXP, load(source, (i, j)) - load(largest, (i,)))
    )
    total = builder.compute((rows,), lambda i: reduce(ReductionOp.SUM, (second,), load(raised, (i, second))))
    return builder.finish(
        builder.compute((rows, columns), lambda i, j: load(raised, (i, j)) / load(total, (i,)))
    )


def many_rows() -> Graph:
    """Creates the same with a work-item for each row."""
    return softmax(2100, 3)


def float16() -> Graph:
    """Creates values stored as FLOAT16 and BOOL."""
    builder = GraphBuilder()
    source, holds = builder.input(3, 3, type=Scalar.FLOAT16), builder.input(3, 3, type=Scalar.BOOL)
    return builder.finish(
        builder.compute((3, 3), lambda *at: select(load(holds, at), load(source, at) * 3.0, load(source, at)))
    )


def convolution() -> Graph:
    """Creates a convolution with bias and activation."""
    builder = GraphBuilder()
    source, weights, bias = builder.input(1, 6, 6, 4), builder.input(8, 3, 3, 4), builder.input(8)
    total = builder.convolution(source, weights, output=(1, 6, 6, 8), padding=((1, 1), (1, 1)))
    return builder.finish(
        builder.compute((1, 6, 6, 8), lambda *at: apply(Op.TANH, load(total, at) + load(bias, (at[3],))))
    )


def depthwise() -> Graph:
    """Creates a depthwise convolution."""
    builder = GraphBuilder()
    source, weights = builder.input(1, 6, 6, 4), builder.input(3, 3, 4)
    total = builder.depthwise_convolution(
        source, weights, output=(1, 3, 3, 4), stride=(2, 2), padding=((0, 1), (0, 1))
    )
    return builder.finish(builder.compute((1, 3, 3, 4), lambda *at: load(total, at) * 0.5))


def quantised_product() -> Graph:
    """Creates an INT8 product with zero points and requantization."""
    builder = GraphBuilder()
    left, right = builder.input(5, 12, type=Scalar.INT8), builder.input(6, 12, type=Scalar.INT8)
    total = builder.matrix_product(left, right, type=Scalar.INT32, left_zero=3, right_zero=-1)
    return builder.finish(
        builder.compute((5, 6), lambda *at: (load(total, at).to(Scalar.FLOAT32) * 0.01).to(Scalar.INT8))
    )


#: The graphs by name.
GRAPHS: Mapping[str, Callable[[], Graph]] = {
    each.__name__: each
    for each in (
        elementwise,
        padded,
        transposed,
        gathered,
        pooled,
        reduced,
        softmax,
        many_rows,
        float16,
        convolution,
        depthwise,
        quantised_product,
    )
}


def kernels(graph: Graph) -> tuple[Kernel, ...]:
    """Returns the kernels that the driver renders for a graph."""
    return fuse(graph, is_row_wise=lambda _: True).kernels
