"""Values that an epilogue reads by columns, or at the output's place, are found; others are not."""

from collections.abc import Callable

from support.compiler.graphs import GraphBuilder

from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.passes.contraction.product_stacking import stack_products
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.kernels.epilogue.epilogue_reads import EpilogueReads, epilogue_reads

_ROWS = 9


def product(
    builder: GraphBuilder, width: int, element: Callable[[Expression, Expression, Expression], Expression]
) -> Kernel:
    """Returns the kernel of a matrix product, with a function of a sum, its row and its column."""
    sums = builder.matrix_product(builder.input(_ROWS, 16), builder.weights(width, 16))
    output = builder.compute(sums.shape, lambda m, n: element(load(sums, (m, n)), m, n))
    (kernel,) = fuse(builder.finish(output)).kernels
    return kernel


def test_values_of_columns_and_elements() -> None:
    builder = GraphBuilder()
    factor, bias, added = builder.weights(12), builder.weights(12), builder.input(_ROWS, 12)
    kernel = product(
        builder,
        12,
        lambda sums, m, n: sums * load(factor, (n,)) + load(bias, (n,)) + load(added, (m, n)),
    )
    columns = {factor: False, bias: False}
    assert epilogue_reads(kernel, _ROWS) == EpilogueReads(columns=columns, element=added)


def test_values_that_are_also_read_elsewhere() -> None:
    """A vector of columns that is also read by rows, and a matrix that is also read transposed."""
    builder = GraphBuilder()
    vector, matrix = builder.weights(_ROWS), builder.input(_ROWS, _ROWS)

    def element(sums: Expression, m: Expression, n: Expression) -> Expression:
        return sums + load(vector, (n,)) + load(vector, (m,)) + load(matrix, (m, n)) * load(matrix, (n, m))

    kernel = product(builder, _ROWS, element)
    assert epilogue_reads(kernel, _ROWS) == EpilogueReads()


def test_values_of_rows_are_neither() -> None:
    builder = GraphBuilder()
    vector, one = builder.weights(_ROWS), builder.weights(1)
    kernel = product(builder, 12, lambda sums, m, n: sums * load(vector, (m,)) + load(one, (n * 0,)))
    assert epilogue_reads(kernel, _ROWS) == EpilogueReads()


def test_every_batch_may_have_values_of_columns() -> None:
    """Three products of the same rows become batches of one, and their biases a matrix."""
    builder = GraphBuilder()
    source, results = builder.input(_ROWS, 16), []
    for _ in range(3):
        sums, bias = builder.matrix_product(source, builder.weights(12, 16)), builder.weights(12)
        results.append(
            builder.compute(sums.shape, lambda m, n, s=sums, b=bias: load(s, (m, n)) + load(b, (n,)))
        )
    outputs = [
        builder.compute((_ROWS, 12), lambda m, n, each=each: load(each, (m, n)) * load(each, (m, n * 0)))
        for each in results
    ]
    fused = stack_products(fuse(builder.finish(*outputs), is_row_wise=lambda _: True), alignment=16)
    kernel = fused.kernels[0]
    assert kernel.shape == (3, _ROWS, 12)
    reads = epilogue_reads(kernel, _ROWS)
    assert [(value.shape, is_of_batch) for value, is_of_batch in reads.columns.items()] == [((3, 12), True)]
