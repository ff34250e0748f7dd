"""Transpositions are folded into the flags of matrix products."""

from support.compiler.graphs import GraphBuilder, changes, kinds, node_of
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.graph import MatrixProduct
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.contraction.transpose_folding import fold_transpositions


def swapped(b: GraphBuilder, value: Value) -> Value:
    *batches, rows, columns = value.shape
    return b.compute((*batches, columns, rows), lambda *at: load(value, (*at[:-2], at[-1], at[-2])))


@sweep("batches", [(), (3,), (2, 1)])
@sweep("flags", [(True, False), (False, True), (True, True)])
def test_transpositions_of_either_operand_are_folded(
    batches: tuple[int, ...], flags: tuple[bool, bool]
) -> None:
    b = GraphBuilder()
    left = b.input(*batches, *((5, 4) if flags[0] else (4, 5)))
    right = b.input(*batches, *((5, 6) if flags[1] else (6, 5)))
    product = b.matrix_product(
        swapped(b, left) if flags[0] else left, swapped(b, right) if flags[1] else right
    )
    graph = b.finish(product)
    assert changes(graph, fold_transpositions)
    node = node_of(graph, MatrixProduct)
    assert kinds(graph) == ["MatrixProduct"]
    assert (node.left, node.right) == (left, right)
    assert (node.left_transposed, node.right_transposed) == flags
    assert not changes(graph, fold_transpositions)


def test_one_transposed_value_as_both_operands() -> None:
    b = GraphBuilder()
    source = b.input(4, 4)
    once = swapped(b, source)
    graph = b.finish(b.matrix_product(once, swapped(b, once), right_transposed=True), once)
    assert changes(graph, fold_transpositions)
    assert changes(graph, fold_transpositions)
    node = node_of(graph, MatrixProduct)
    assert (node.left, node.right) == (source, source)
    assert (node.left_transposed, node.right_transposed) == (True, True)
    assert graph.outputs[1] is once


def test_transpositions_of_other_dimensions_are_kept() -> None:
    b = GraphBuilder()
    source = b.input(3, 5, 5)
    turned = b.compute((5, 3, 5), lambda i, j, k: load(source, (j, i, k)))
    doubled = b.compute((3, 5, 5), lambda i, j, k: load(source, (i, k, j)) * 2.0)
    graph = b.finish(b.matrix_product(turned, b.input(4, 5)), b.matrix_product(doubled, b.input(4, 5)))
    assert not changes(graph, fold_transpositions)


def test_slices_and_broadcasts_are_kept() -> None:
    b = GraphBuilder()
    source = b.input(5, 5)
    part = b.compute((4, 5), lambda i, j: load(source, (j, i)))
    diagonal = b.compute((5, 5), lambda i, _: load(source, (i, i)))
    graph = b.finish(b.matrix_product(part, b.input(4, 5)), b.matrix_product(diagonal, b.input(4, 5)))
    assert not changes(graph, fold_transpositions)
