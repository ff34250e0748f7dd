"""Attention kernels give the results of the kernels that they replace."""

from support.compiler.attention import MASKS, Form, attention, softmax
from support.compiler.graphs import GraphBuilder, expect_equal_results
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.graph import Attention, Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.passes.contraction.attention_merging import merge_attention
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.row_wise.rows import is_row_by_row


def merged(graph: Graph) -> FusedGraph:
    return merge_attention(fuse(graph, is_row_wise=is_row_by_row), lambda _: True)


def count(graph: FusedGraph) -> int:
    return sum(isinstance(kernel.contraction, Attention) for kernel in graph.kernels)


@sweep("is_split", [False, True])
@sweep("mask", MASKS)
@sweep("scales", ["queries", "scores", "nothing"])
def test_attention_in_every_form_is_one_kernel(scales: str, mask: str, *, is_split: bool) -> None:
    graph = attention(Form(mask=mask, scales=scales, is_split=is_split))
    fused = merged(graph)
    kernels = [kernel for kernel in fused.kernels if kernel.has_reduction or kernel.contraction is not None]
    assert [isinstance(kernel.contraction, Attention) for kernel in kernels] == [True]
    # A scaled query is stored; everything else is read and written in place.
    assert len(fused.kernels) == 1 + (scales == "queries")
    expect_equal_results(graph, fused)


@sweep("has_columns_last", [False, True])
@sweep("key_heads", [1, 2, 4])
def test_heads_share_keys_and_values(key_heads: int, *, has_columns_last: bool) -> None:
    graph = attention(Form(heads=4, key_heads=key_heads, has_columns_last=has_columns_last))
    fused = merged(graph)
    assert len(fused.kernels) == 1
    expect_equal_results(graph, fused)


@sweep("sizes", [(1, 1, 1, 1, 1), (1, 1, 9, 4, 3), (3, 6, 1, 2, 5), (2, 3, 4, 1, 1)])
def test_small_sizes(sizes: tuple[int, int, int, int, int]) -> None:
    heads, rows, columns, depth, features = sizes
    graph = attention(Form(heads=heads, rows=rows, columns=columns, depth=depth, features=features))
    expect_equal_results(graph, merged(graph))


@sweep("is_key", [True, False])
def test_products_with_constants_stay_apart(*, is_key: bool) -> None:
    builder = GraphBuilder()
    query, other = builder.input(3, 4), builder.input(3, 4)
    weights = builder.weights(3, 4)
    key, value = (weights, other) if is_key else (other, weights)
    scores = builder.matrix_product(query, key)
    graph = builder.finish(builder.matrix_product(softmax(builder, scores), value, right_transposed=True))
    fused = merged(graph)
    assert not count(fused)
    expect_equal_results(graph, fused)


def products(*, reads_scores: bool = False, reads_weights: bool = False, is_output: bool = False) -> Graph:
    """Returns an attention whose scores or weights are also used elsewhere."""
    builder = GraphBuilder()
    query, key, value = (builder.input(2, 3, 4) for _ in range(3))
    scores = builder.matrix_product(query, key)
    weights = softmax(builder, scores)
    outputs = [builder.matrix_product(weights, value, right_transposed=True)]
    if reads_scores:
        outputs.append(
            scores if is_output else builder.compute(scores.shape, lambda *at: load(scores, at) + 1.0)
        )
    if reads_weights:
        outputs.append(
            weights if is_output else builder.compute(weights.shape, lambda *at: load(weights, at) + 1.0)
        )
    return builder.finish(*outputs)


def test_scores_and_weights_that_others_read_are_stored() -> None:
    assert count(merged(products())) == 1
    for reads_scores, reads_weights in ((True, False), (False, True), (True, True)):
        for is_output in (False, True):
            graph = products(reads_scores=reads_scores, reads_weights=reads_weights, is_output=is_output)
            fused = merged(graph)
            assert count(fused) == 0
            expect_equal_results(graph, fused)


def test_weights_that_depend_on_other_rows_are_stored() -> None:
    builder = GraphBuilder()
    query, key, value = (builder.input(6, 6) for _ in range(3))
    scores = builder.matrix_product(query, key)
    turned = builder.compute((6, 6), lambda m, n: load(scores, (n, m)))
    weights = softmax(builder, turned)
    graph = builder.finish(builder.matrix_product(weights, value, right_transposed=True))
    fused = merged(graph)
    assert count(fused) == 0
    expect_equal_results(graph, fused)


def test_a_moved_operand_that_others_read_is_kept() -> None:
    builder = GraphBuilder()
    source, key, value = (builder.input(3, 8) for _ in range(3))
    query = builder.compute((2, 3, 4), lambda h, m, k: load(source, (m, h * 4 + k)))
    heads = [
        builder.compute((2, 3, 4), lambda h, m, k, each=each: load(each, (m, h * 4 + k)))
        for each in (key, value)
    ]
    weights = softmax(builder, builder.matrix_product(query, heads[0]))
    result = builder.matrix_product(weights, heads[1], right_transposed=True)
    graph = builder.finish(result, query)
    fused = merged(graph)
    assert count(fused) == 1
    expect_equal_results(graph, fused)


def test_two_readers_of_the_result_prevent_only_moving_it() -> None:
    builder = GraphBuilder()
    query, key, value = (builder.input(2, 3, 4) for _ in range(3))
    weights = softmax(builder, builder.matrix_product(query, key))
    result = builder.matrix_product(weights, value, right_transposed=True)
    moved = builder.compute((3, 2, 4), lambda m, h, d: load(result, (h, m, d)))
    graph = builder.finish(moved, builder.compute((2, 3, 4), lambda *at: load(result, at) + 1.0))
    fused = merged(graph)
    assert count(fused) == 1
    assert len(fused.kernels) == 3
    expect_equal_results(graph, fused)


def test_only_forms_with_a_routine_are_merged() -> None:
    fused = fuse(attention(Form()), is_row_wise=is_row_by_row)
    assert count(merge_attention(fused, lambda _: False)) == 0
