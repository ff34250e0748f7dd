"""Fusion: which nodes become one kernel, which do not, and equal results of both."""

import numpy as np
from support.compiler.fusing import exp, fused, only, padded, pointwise, row_sums
from support.compiler.graphs import GraphBuilder, random_array
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate, evaluate_fused
from neurald.drivers.compiler.ir.algorithm import RunningSum
from neurald.drivers.compiler.ir.expression import (
    Apply,
    Expression,
    Load,
    apply,
    axis,
    constant,
    index,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import depth, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.evaluation_cost import memory_order
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.compiler.passes.fusion.kernel_joining import guarded


def long(value: Expression) -> Expression:
    """Returns a function of more than sixty operations with a small depth."""
    terms = [apply(Op.TANH, value * 0.5 + number) for number in range(16)]
    while len(terms) > 1:
        terms = [first + second for first, second in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0]


def reversed_rows(builder: GraphBuilder, source: Value) -> Value:
    """Returns data movement."""
    rows, _ = source.shape
    return builder.compute(source.shape, lambda i, j: load(source, (rows - 1 - i, j)))


def test_a_chain_becomes_one_kernel_with_all_operations() -> None:
    builder = GraphBuilder()
    value = builder.input(2, 3)
    for position in range(4):
        builder.begin(position)
        value = pointwise(builder, value)
    graph = builder.finish(value)
    kernel = only(fused(graph))
    assert kernel.inputs == (graph.inputs[0],)
    assert kernel.operations == (0, 1, 2, 3)
    assert len(fuse(graph, enabled=False).kernels) == 4


def test_nodes_are_not_fused_across_a_graph_output() -> None:
    builder = GraphBuilder()
    middle = pointwise(builder, builder.input(2, 3))
    end = pointwise(builder, middle)
    found = fused(builder.finish(middle, end))
    assert [kernel.output for kernel in found.kernels] == [middle, end]
    assert found.kernels[1].inputs == (middle,)


def test_nodes_with_two_consumers_are_not_fused() -> None:
    builder = GraphBuilder()
    middle = pointwise(builder, builder.input(2, 3))
    first, second = pointwise(builder, middle), pointwise(builder, middle)
    found = fused(builder.finish(first, second))
    assert [kernel.output for kernel in found.kernels] == [middle, first, second]


def test_both_branches_of_a_diamond_become_one_kernel() -> None:
    builder = GraphBuilder()
    middle = pointwise(builder, builder.input(2, 3))
    one, other = pointwise(builder, middle), pointwise(builder, middle)
    end = builder.compute((2, 3), lambda *at: load(one, at) * load(other, at))
    found = fused(builder.finish(end))
    # Once both branches are in one kernel, it is the only reader.
    assert only(found).inputs == (builder.graph.inputs[0],)


def test_data_movement_is_fused_into_all_readers() -> None:
    builder = GraphBuilder()
    source = builder.input(4, 3)
    moved = reversed_rows(builder, source)
    first, second = pointwise(builder, moved), row_sums(builder, moved)
    found = fused(builder.finish(first, second))
    assert [kernel.inputs for kernel in found.kernels] == [(source,), (source,)]


def test_data_movement_that_is_an_output_is_stored_too() -> None:
    builder = GraphBuilder()
    source = builder.input(4, 3)
    moved = reversed_rows(builder, source)
    end = pointwise(builder, moved)
    found = fused(builder.finish(moved, end))
    assert [kernel.output for kernel in found.kernels] == [moved, end]


def test_nodes_that_say_so_are_stored_unless_elements_are_recomputed() -> None:
    builder = GraphBuilder()
    source = builder.input(4, 3)
    doubled = builder.compute((4, 3), lambda *at: load(source, at) * 2, is_stored=True)
    end = pointwise(builder, doubled)
    graph = builder.finish(end)
    assert [kernel.output for kernel in fused(graph).kernels] == [doubled, end]
    assert only(fuse(graph, recomputes=True)).inputs == (source,)


def test_an_index_with_a_reduction_is_not_data_movement() -> None:
    builder = GraphBuilder()
    table, keys = builder.input(4, 3), builder.input(50)
    along = axis(50, "r")
    count = reduce(ReductionOp.MAXIMUM, (along,), load(keys, (along,)))
    row = select(count < 0.0, index(0), index(3))
    found = builder.compute((4, 3), lambda _, j: load(table, (row, j)))
    ends = [pointwise(builder, found), pointwise(builder, found)]
    kernels = fused(builder.finish(*ends)).kernels
    assert [kernel.has_reduction for kernel in kernels] == [True, False, False]


def test_expensive_elements_are_not_recomputed() -> None:
    builder = GraphBuilder()
    source = builder.input(3)
    costly, cheap = (
        pointwise(builder, source),
        builder.compute((3,), lambda i: load(source, (i,)) + 1),
    )
    repeated = [
        builder.compute((5, 3), lambda _, j, each=each: exp(load(each, (j,)))) for each in (costly, cheap)
    ]
    found = fused(builder.finish(*repeated))
    assert [kernel.output for kernel in found.kernels] == [costly, *repeated]


def test_reductions_are_fused_with_their_bodies_but_not_with_each_other() -> None:
    builder = GraphBuilder()
    costly = pointwise(builder, builder.input(4, 6))
    assert len(fused(builder.finish(row_sums(builder, costly))).kernels) == 1

    builder = GraphBuilder()
    sums = row_sums(builder, builder.input(4, 6))
    as_rows = builder.reshape(sums, (2, 2))
    end = row_sums(builder, as_rows)
    found = fused(builder.finish(end))
    assert [kernel.output for kernel in found.kernels] == [as_rows, end]


def test_reductions_are_stored_for_readers_that_would_gather_each_term() -> None:
    for is_transposed in (False, True):
        builder = GraphBuilder()
        parts, along = builder.input(32, 4, 128), axis(4, "r")
        sums = builder.compute(
            (32, 128),
            lambda i, j, parts=parts, along=along: reduce(
                ReductionOp.SUM, (along,), load(parts, (i, along, j))
            ),
        )
        # Heads of 16 elements, which move before the rows, as queries and keys of an attention do.
        if is_transposed:
            end = builder.compute((8, 16, 32), lambda h, d, i, sums=sums: load(sums, (i, h * 16 + d)))
        else:
            end = builder.compute((8, 32, 16), lambda h, i, d, sums=sums: load(sums, (i, h * 16 + d)))
        shapes = [kernel.shape for kernel in fused(builder.finish(end)).kernels]
        assert shapes == ([sums.shape, end.shape] if is_transposed else [end.shape])


def test_row_reductions_are_recomputed_only_in_row_wise_kernels() -> None:
    builder = GraphBuilder()
    source = builder.input(4, 6)
    sums = row_sums(builder, source)
    end = builder.compute((4, 6), lambda i, j: load(source, (i, j)) / load(sums, (i,)))
    graph = builder.finish(end)
    assert len(fused(graph).kernels) == 2
    kernel = only(fused(graph, is_row_wise=lambda _: True))
    assert kernel.row_axes == 1


def test_row_reductions_are_not_fused_into_kernels_that_are_not_row_wise() -> None:
    builder = GraphBuilder()
    source = builder.input(4, 6)
    sums = row_sums(builder, source)
    end = builder.compute((4, 6), lambda i, j: load(source, (i, j)) / load(sums, (i,)))
    assert len(fused(builder.finish(end), is_row_wise=lambda _: False).kernels) == 2


@sweep("is_transposed", [False, True])
def test_fusion_keeps_kernels_row_wise(is_transposed: bool) -> None:
    builder = GraphBuilder()
    source = builder.input(4, 6)
    sums = row_sums(builder, source)
    scaled = builder.compute((4, 6), lambda i, j: load(source, (i, j)) / load(sums, (i,)))
    if is_transposed:
        end = builder.compute((6, 4), lambda i, j: load(scaled, (j, i)))
    else:
        end = builder.compute((4, 6), lambda i, j: load(scaled, (i, j)) + 1)
    found = fused(builder.finish(end), is_row_wise=lambda kernel: kernel.row_axes is not None)
    assert len(found.kernels) == (2 if is_transposed else 1)


def test_a_reshape_does_not_change_the_index_arithmetic() -> None:
    builder = GraphBuilder()
    table = builder.input(3, 2)
    looked_up = builder.compute((4, 6), lambda i, j: exp(load(table, (i % 3, j // 3))))
    kernel = only(fused(builder.finish(builder.reshape(looked_up, (2, 12)))))
    assert (kernel.shape, kernel.output.shape) == ((4, 6), (2, 12))


def test_nodes_with_requirements_are_not_recomputed() -> None:
    builder = GraphBuilder()
    source = builder.input(4)
    checked = builder.compute(
        (4,), lambda i: load(source, (i,)), lambda i: [(load(source, (i,)) < 100.0, "is too large")]
    )
    found = fused(builder.finish(pointwise(builder, checked)))
    assert [len(kernel.requirements) for kernel in found.kernels] == [1, 0]


def test_reshapes_are_aliases() -> None:
    builder = GraphBuilder()
    product = builder.matrix_product(builder.input(4, 6), builder.weights(6, 6))
    flat = builder.reshape(product, (24,))
    again = builder.reshape(flat, (2, 12))
    end = builder.matrix_product(again, builder.weights(3, 12))
    found = fused(builder.finish(end))
    assert [kernel.output for kernel in found.kernels][-1] is end
    assert len(found.kernels) == 2
    assert set(found.aliases.values()) <= {product}


def test_outputs_that_are_inputs_constants_or_repeated_are_copied() -> None:
    builder = GraphBuilder()
    source, number = builder.input(2), builder.weights(2)
    result = pointwise(builder, source)
    graph = builder.finish(result, result, source, number, source)
    found = fused(graph)
    assert found.outputs[0] is result
    assert not {source, number} & set(found.outputs)


def test_kernels_stay_within_limits() -> None:
    builder = GraphBuilder()
    value = builder.input(3)
    for _ in range(20):
        value = builder.compute((3,), lambda *at, value=value: long(load(value, at)))
    found = fused(builder.finish(value))
    assert 1 < len(found.kernels) < 6
    assert all(sum(1 for _ in walk(*kernel.roots)) <= 400 for kernel in found.kernels)

    builder = GraphBuilder()
    value = builder.input(3)
    for _ in range(350):
        value = builder.compute((3,), lambda *at, value=value: apply(Op.TANH, load(value, at)))
    found = fused(builder.finish(value))
    assert 3 < len(found.kernels) < 6
    assert all(depth(walk(*kernel.roots)) <= 100 for kernel in found.kernels)

    builder = GraphBuilder()
    total = builder.input(3)
    for _ in range(40):
        other = builder.input(3)
        total = builder.compute(
            (3,), lambda i, total=total, other=other: exp(load(total, (i,)) + load(other, (i,)))
        )
    found = fused(builder.finish(total))
    assert 1 < len(found.kernels) < 6
    assert all(len(kernel.inputs) <= 16 for kernel in found.kernels)


def test_padding_of_a_cheap_value_reads_nothing_outside() -> None:
    builder = GraphBuilder()
    source = builder.input(3, 3)
    cheap = builder.compute((3, 3), lambda *at: load(source, at) + 5)
    kernel = only(fused(builder.finish(padded(builder, cheap))))
    (read,) = [each for each in walk(kernel.body) if isinstance(each, Load)]
    assert read.guard is not None


def test_nested_guards() -> None:
    builder = GraphBuilder()
    source, edge = builder.input(3, 3), builder.input(7, 7)
    once = padded(builder, source)
    end = builder.compute(
        (7, 7),
        lambda i, j: load(once, (i - 1, j - 1), inside((i - 1, j - 1), once.shape), load(edge, (i, j))),
    )
    kernel = only(fused(builder.finish(end)))
    assert set(kernel.inputs) == {source, edge}
    for each in walk(kernel.body):
        assert not (isinstance(each, Load) and each.value is source and each.guard is None)


def test_loaded_indices_are_guarded() -> None:
    builder = GraphBuilder()
    table, rows = builder.input(9), builder.input(4, type=Scalar.UINT8)
    picked = builder.compute((4,), lambda i: load(table, (load(rows, (i,)).to(Scalar.INDEX) % 9,)))
    kernel = only(fused(builder.finish(padded(builder, picked))))
    assert all(each.guard is not None for each in walk(kernel.body) if isinstance(each, Load))


def test_guarded() -> None:
    value = Value((4,), Scalar.FLOAT32)
    at = axis(8)
    holds = at < 4
    seven = constant(7, Scalar.FLOAT32)
    plain = load(value, (at,))
    # A load that must not execute becomes a guarded load.
    assert guarded(plain, holds, seven) is load(value, (at,), holds, seven)
    # A guarded load with the same alternative gets both guards.
    inner = load(value, (at,), at > 1, 7)
    assert guarded(inner, holds, seven) is load(value, (at,), holds & (at > 1), 7)
    # Other expressions are selected.
    other = guarded(inner, holds, constant(8, Scalar.FLOAT32))
    assert isinstance(other, Apply)
    assert other.op is Op.SELECT
    assert guarded(exp(plain), holds, seven) is select(holds, exp(load(value, (at,), holds)), seven)
    along = axis(3)
    total = reduce(ReductionOp.SUM, (along,), load(value, (along,)))
    assert guarded(total, holds, seven) is select(
        holds, reduce(ReductionOp.SUM, (along,), load(value, (along,), holds)), seven
    )


def test_zero_sizes() -> None:
    builder = GraphBuilder()
    source = builder.input(0, 3)
    total = builder.compute(
        (3,), lambda j: reduce(ReductionOp.SUM, (along := axis(0, "r"),), load(source, (along, j)))
    )
    empty = pointwise(builder, source)
    fused(builder.finish(total, empty, padded(builder, source)))


@sweep("seed", range(40))
def test_fused_random_graphs_equal_their_nodes(seed: int) -> None:
    fused(random_compute_graph(seed))


def random_compute_graph(seed: int) -> Graph:
    """Returns a graph with every kind of node that fusion distinguishes, and several outputs."""
    generator = np.random.default_rng(seed)
    builder = GraphBuilder(seed)
    values = [builder.input(4, 4), builder.input(4, 4)]

    def pick() -> Value:
        return values[generator.integers(len(values))]

    for position in range(int(generator.integers(3, 14))):
        builder.begin(position)
        one, other = pick(), pick()
        kind = generator.integers(9)
        if kind == 0:
            value = builder.compute((4, 4), lambda *at, one=one: apply(Op.TANH, load(one, at)))
        elif kind == 1:
            value = builder.compute(
                (4, 4), lambda *at, one=one, other=other: load(one, at) * 0.5 + load(other, at)
            )
        elif kind == 2:
            value = builder.compute((4, 4), lambda i, j, one=one: load(one, (j, i)))
        elif kind == 3:
            shift = int(generator.integers(-2, 3))
            value = builder.compute(
                (4, 4),
                lambda i, j, one=one, other=other, shift=shift: load(
                    one,
                    (i + shift, j),
                    inside((i + shift,), (4,)),
                    load(other, (i, j)) if shift > 0 else None,
                ),
            )
        elif kind == 4:
            value = builder.compute(
                (4, 4),
                lambda i, j, one=one: (
                    reduce(ReductionOp.SUM, (r := axis(4, "r"),), load(one, (i, r)) * 0.25) + 1
                ),
            )
        elif kind == 5:
            value = builder.matrix_product(one, other)
        elif kind == 6:
            value = builder.reshape(builder.reshape(one, (2, 8)), (4, 4))
        elif kind == 7:
            value = builder.compute(
                (4, 4),
                lambda *at, one=one, other=other: select(load(one, at) < 0.0, load(one, at), load(other, at)),
            )
        else:
            sums = builder.compute(
                (4,), lambda i, one=one: reduce(ReductionOp.MAXIMUM, (r := axis(4, "r"),), load(one, (i, r)))
            )
            value = builder.compute(
                (4, 4), lambda i, j, one=one, sums=sums: exp(load(one, (i, j)) - load(sums, (i,)))
            )
        values.append(value)
    count = int(generator.integers(1, 4))
    outputs = [values[-1], *(pick() for _ in range(count))]
    builder.graph.outputs = outputs
    builder.graph.remove_unused()
    return builder.finish(*outputs)


def shuffled(builder: GraphBuilder, first: Value, second: Value) -> Value:
    """Concatenates columns, and interleaves both halves."""
    rows, columns = first.shape
    whole = builder.compute(
        (rows, 2 * columns),
        lambda i, j: load(first, (i, j), j < columns, load(second, (i, j - columns), j >= columns, 0)),
    )
    return builder.compute(whole.shape, lambda i, j: load(whole, (i, j % 2 * columns + j // 2)))


def test_what_a_contraction_reads_is_not_evaluated_again() -> None:
    builder = GraphBuilder()
    parts = [pointwise(builder, builder.input(100, 20)) for _ in range(2)]
    whole = shuffled(builder, *parts)
    product = builder.matrix_product(whole, builder.weights(8, 40))
    other = builder.compute((100, 40), lambda *at: load(whole, at) * 2.0)
    found = fused(builder.finish(product, other))
    (reader,) = (kernel for kernel in found.kernels if kernel.output is found.outputs[1])
    assert reader.inputs == (whole,)


def test_a_chain_of_shuffles_is_not_evaluated_again_by_each_reader() -> None:
    builder = GraphBuilder()
    left, outputs = builder.input(200, 32), []
    for _ in range(6):
        right = builder.matrix_product(builder.input(200, 8), builder.weights(32, 8))
        whole = shuffled(builder, left, right)
        left = builder.compute((200, 32), lambda i, j, of=whole: load(of, (i, j)))
        half = builder.compute((200, 32), lambda i, j, of=whole: load(of, (i, j + 32)))
        outputs.append(builder.matrix_product(half, builder.weights(8, 32)))
    found = fused(builder.finish(*outputs))
    assert max(len(kernel.inputs) for kernel in found.kernels) <= 3
    assert max(len(kernel.expressions) for kernel in found.kernels) < 30


def test_values_are_stored_in_the_order_of_what_they_load() -> None:
    builder = GraphBuilder()
    images = [builder.matrix_product(builder.input(600, 8), builder.weights(16, 8)) for _ in range(2)]
    # Channels come first, as in a model whose layout was changed around each operation.
    whole = builder.compute(
        (32, 600),
        lambda c, p: load(images[0], (p, c), c < 16, load(images[1], (p, c - 16), c >= 16, 0)),
    )
    halves = [builder.compute((600, 16), lambda p, c, by=by: load(whole, (c * 2 + by, p))) for by in (0, 1)]
    products = [builder.matrix_product(half, builder.weights(4, 16)) for half in halves]
    found = fused(builder.finish(*products))
    assert all(kernel.shape[0] != 32 for kernel in found.kernels)


def test_rows_of_what_is_stored_in_another_order_are_reduced_once() -> None:
    builder = GraphBuilder()
    image = builder.matrix_product(builder.input(600, 8), builder.weights(16, 8))
    pixels = axis(600, "r")
    # Instance normalisation of channels that come first, although they are stored last.
    means = builder.compute(
        (16,), lambda c: reduce(ReductionOp.SUM, (pixels,), load(image, (pixels, c))) * (1 / 600)
    )
    centred = builder.compute((16, 600), lambda c, p: load(image, (p, c)) - load(means, (c,)))
    squares = builder.compute(
        (16,),
        lambda c: reduce(ReductionOp.SUM, (pixels,), load(centred, (c, pixels)) * load(centred, (c, pixels))),
    )
    scaled = builder.compute(
        (16, 600), lambda c, p: load(centred, (c, p)) * apply(Op.RSQRT, load(squares, (c,)))
    )
    back = builder.compute((600, 16), lambda p, c: load(scaled, (c, p)))
    graph = builder.finish(builder.matrix_product(back, builder.weights(4, 16)))
    found = fused(
        graph, is_row_wise=lambda kernel: kernel.row_axes is not None and memory_order(kernel) is None
    )
    assert [kernel.shape for kernel in found.kernels if kernel.has_reduction] == [(16,), (16,)]


def test_reductions_are_not_moved_into_parts_of_a_contraction() -> None:
    builder = GraphBuilder()
    sums = builder.input(60, 16, 4)
    along = axis(4, "r")
    pooled = builder.compute(
        (60, 16), lambda i, j: reduce(ReductionOp.MAXIMUM, (along,), load(sums, (i, j, along)))
    )
    product = builder.matrix_product(builder.input(60, 8), builder.weights(32, 8))
    added = builder.compute((60, 32), lambda i, j: load(product, (i, j)) + load(pooled, (i, j), j < 16, 0))
    found = fused(builder.finish(added))
    assert [kernel.has_reduction for kernel in found.kernels] == [True, False]


def test_procedures_write_to_outputs_that_reshape_their_result() -> None:
    """One such output is written in place; others, and a result that is an output, are copies."""
    for reshapes, is_output in ((1, False), (2, False), (1, True)):
        builder = GraphBuilder()
        source = builder.input(2, 5, 3)
        rule = RunningSum(is_exclusive=False, is_reverse=False)
        sums = builder.procedure(rule, source, output=source.shape, type=source.type)
        flat = builder.reshape(sums, (30,))
        outputs = [builder.reshape(sums, shape) for shape in ((10, 3), (6, 5))[:reshapes]]
        read = builder.compute((30,), lambda i, flat=flat: exp(load(flat, (i,))))
        graph = builder.finish(*outputs, read, *((sums,) if is_output else ()))
        fused = fuse(graph)
        copies = [kernel for kernel in fused.kernels if kernel.aliased_input is not None]
        assert len(copies) == (reshapes if is_output else reshapes - 1)
        assert (fused.aliases.get(sums) is outputs[0]) is not is_output
        assert not set(fused.aliases) & set(fused.outputs)
        assert not set(fused.aliases) & set(fused.aliases.values())
        given = [random_array(np.random.default_rng(3), source.shape, source.type)]
        for found, expected in zip(evaluate_fused(fused, given), evaluate(graph, given), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_long_chains_of_reductions_take_no_longer_for_each() -> None:
    """There are exponentially many ways to the first sum, so counting each would never end."""
    builder = GraphBuilder()
    value = builder.input(4, 64)
    for _ in range(80):
        sums = row_sums(builder, value)
        value = builder.compute(
            value.shape, lambda i, j, value=value, sums=sums: load(value, (i, j)) * load(sums, (i,))
        )
    assert 1 < len(fuse(builder.finish(value), is_row_wise=lambda _: True).kernels) < 20
