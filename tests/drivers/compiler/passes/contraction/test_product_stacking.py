"""Products of one matrix with several constants become one batched product."""

from support.compiler.graphs import GraphBuilder, expect_equal_results
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import apply, load
from neurald.drivers.compiler.ir.graph import Graph, MatrixProduct
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.contraction.product_stacking import stack_products
from neurald.drivers.compiler.passes.fusion.fusion import fuse


def stacked(graph: Graph, alignment: int = 4) -> FusedGraph:
    return stack_products(fuse(graph, is_row_wise=lambda _: True), alignment=alignment)


def products(fused: FusedGraph) -> list[tuple[int, ...]]:
    """Returns the shapes of products."""
    nodes = [kernel.contraction for kernel in fused.kernels]
    return [node.output.shape for node in nodes if isinstance(node, MatrixProduct)]


def projections(builder: GraphBuilder, source: Value, widths: tuple[int, ...]) -> list[Value]:
    """Appends products with different epilogues, whose results are also reshaped."""
    found = []
    for number, width in enumerate(widths):
        sums = builder.matrix_product(source, builder.weights(width, source.shape[1]))
        bias = builder.weights(width)

        def element(m, n, number: int = number, sums: Value = sums, bias: Value = bias):  # type: ignore[no-untyped-def]
            biased = load(sums, (m, n)) + load(bias, (n,))
            return biased * 0.5 if number == 0 else apply(Op.TANH, biased) if number == 1 else biased

        whole = builder.compute(sums.shape, element)
        found.append(builder.reshape(whole, (source.shape[0], 2, width // 2)) if number else whole)
    return found


def summed(builder: GraphBuilder, values: list[Value]) -> Graph:
    """Finishes with values that read single results in other orders."""
    shape = values[0].shape
    outputs = [
        builder.compute(
            shape,
            lambda m, n, each=each: (
                load(each, (m, n) if len(each.shape) == 2 else (m, n // each.shape[2], n % each.shape[2]))
                * load(each, (m, n * 0) if len(each.shape) == 2 else (m, n * 0, n * 0))
            ),
        )
        for each in values
    ]
    return builder.finish(*outputs)


@sweep("count", [2, 3, 9])
def test_products_of_one_matrix_are_one(count: int) -> None:
    builder = GraphBuilder()
    graph = summed(builder, projections(builder, builder.input(5, 8), (6,) * count))
    fused = stacked(graph)
    assert products(fused) == ([(count, 5, 6)] if count <= 8 else [(8, 5, 6), (5, 6)])
    expect_equal_results(graph, fused)


def test_biases_become_rows_of_one_matrix() -> None:
    builder = GraphBuilder()
    graph = summed(builder, projections(builder, builder.input(5, 8), (6, 6, 6)))
    fused = stacked(graph)
    (kernel,) = (each for each in fused.kernels if isinstance(each.contraction, MatrixProduct))
    constants = [each.shape for each in kernel.inputs if each.constant is not None]
    assert constants == [(3, 6, 8), (3, 6)]
    expect_equal_results(graph, fused)


def test_others_stay_apart() -> None:
    def found(change: str) -> list[tuple[int, ...]]:
        builder = GraphBuilder()
        source = builder.input(4, 8)
        other = builder.input(4, 8) if change == "left" else source
        width = 4 if change == "shape" else 6
        first = builder.matrix_product(source, builder.weights(6, 8))
        right = builder.input(width, 8) if change == "variable" else builder.weights(width, 8)
        second = builder.matrix_product(other, right)
        extra = builder.input(4, width)
        second = builder.compute(
            second.shape,
            lambda *at: load(second, at) + (load(extra, at) if change == "operand" else 1.0),
        )
        outputs = [
            builder.compute(
                each.shape, lambda *at, each=each: load(each, at) * load(each, (at[0], at[1] * 0))
            )
            for each in (first, second)
        ]
        if change == "output":
            outputs.append(first)
        graph = builder.finish(*outputs)
        fused = stacked(graph)
        expect_equal_results(graph, fused)
        return products(fused)

    assert found("") == [(2, 4, 6)]
    for change in ("left", "shape", "variable", "operand", "output"):
        assert len(found(change)) == 2


def test_parts_are_aligned() -> None:
    builder = GraphBuilder()
    graph = summed(builder, projections(builder, builder.input(3, 8), (6, 6)))
    assert products(stacked(graph, alignment=8)) == [(2, 3, 6)]
    assert products(stacked(graph, alignment=16)) == [(3, 6), (3, 6)]


def test_values_are_rounded_after_the_selection() -> None:
    builder = GraphBuilder()
    source = builder.input(4, 8)
    halves = []
    for factor in (1.0, 2.0):
        sums = builder.matrix_product(source, builder.weights(6, 8))
        halves.append(
            builder.compute(
                sums.shape,
                lambda *at, sums=sums, factor=factor: (load(sums, at) * factor + 1.0).to(Scalar.FLOAT16),
            )
        )
    outputs = [
        builder.compute((4, 6), lambda m, n, each=each: load(each, (m, n)) * load(each, (m, n * 0)))
        for each in halves
    ]
    graph = builder.finish(*outputs)
    fused = stacked(graph)
    assert fused.kernels[0].body.type is Scalar.FLOAT16
    assert fused.kernels[0].body.operands[0].type is Scalar.FLOAT32
    expect_equal_results(graph, fused)
