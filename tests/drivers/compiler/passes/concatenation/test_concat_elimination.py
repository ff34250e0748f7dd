"""Concatenations that are eliminated, those that are kept, and equal results of both."""

from itertools import pairwise

import numpy as np
from support.compiler.graphs import GraphBuilder, random_array
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate, evaluate_fused
from neurald.drivers.compiler.ir.expression import Expression, apply, load
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import concatenated
from neurald.drivers.compiler.memory.buffer_assignment import assign_buffers
from neurald.drivers.compiler.passes.concatenation.concat_elimination import (
    Alignment,
    ConcatPart,
    concat_parts,
    eliminate_concat,
)
from neurald.drivers.compiler.passes.fusion.fusion import fuse

ANYWHERE = Alignment()


def product(builder: GraphBuilder, rows: int, columns: int) -> Value:
    """Returns a matrix product, which is not fused into its reader."""
    return builder.matrix_product(builder.input(rows, 5), builder.weights(columns, 5))


def checked(graph: Graph, alignment: Alignment = ANYWHERE) -> tuple[FusedGraph, int]:
    """Returns the graph without concatenations, and the number of eliminated kernels.

    Asserts that the results are the same and that the parts of each result do not overlap.
    """
    fused = fuse(graph)
    found = eliminate_concat(fused, alignment)
    generator = np.random.default_rng(0)
    inputs = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    for one, other in zip(evaluate(graph, inputs), evaluate_fused(found, inputs), strict=True):
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-5, atol=1e-5)
    uses = [[kernel.output, *kernel.inputs] for kernel in found.kernels]
    placement = assign_buffers(found, uses, alignment=64)
    for owner in set(found.aliases.values()):
        written = [k.output for k in found.kernels if found.aliases.get(k.output) is owner]
        spans = sorted(
            (where.offset, where.offset + value.size_bytes)
            for value, where in zip(written, placement.of(written), strict=True)
        )
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        if written:
            (whole,) = placement.of([owner])
            assert (spans[0][0], spans[-1][1]) == (whole.offset, whole.offset + owner.size_bytes)
    assert {p for k in fused.kernels for p in k.operations} == {
        p for k in found.kernels for p in k.operations
    }
    return found, len(fused.kernels) - len(found.kernels)


def test_contiguous_values_are_written_into_the_result() -> None:
    builder = GraphBuilder()
    parts = [product(builder, rows, 7) for rows in (2, 1, 3)]
    found, fewer = checked(builder.finish(concatenated(builder, parts)))
    assert fewer == 1
    assert [found.starts[part] for part in parts] == [0, 14, 21]
    assert set(found.aliases.values()) == set(found.outputs)


def test_leading_dimensions_of_length_1_and_reshaped_values() -> None:
    builder = GraphBuilder()
    parts = [builder.reshape(product(builder, rows * 2, 3), (1, rows, 6)) for rows in (2, 4)]
    seen = builder.reshape(concatenated(builder, parts, axis=1), (2, 18))
    assert checked(builder.finish(builder.matrix_product(seen, builder.weights(2, 18))))[1] == 1


def test_results_may_be_concatenated_again_and_read_in_between() -> None:
    builder = GraphBuilder()
    # There are too many inputs for fusion to make one kernel of both.
    first = concatenated(builder, [product(builder, 1, 4) for _ in range(17)])
    second = concatenated(builder, [product(builder, 1, 4), first, product(builder, 2, 4)])
    read = builder.matrix_product(first, builder.weights(6, 4))
    found, fewer = checked(builder.finish(second, read))
    assert fewer == 2
    assert set(found.aliases.values()) == {found.outputs[0]}


def along_columns(builder: GraphBuilder) -> Value:
    return concatenated(builder, [product(builder, 3, 4), product(builder, 3, 2)], axis=1)


def with_an_input(builder: GraphBuilder) -> Value:
    return concatenated(builder, [builder.input(2, 4), product(builder, 3, 4)])


def with_a_constant(builder: GraphBuilder) -> Value:
    return concatenated(builder, [builder.weights(2, 4), product(builder, 3, 4)])


def twice_the_same(builder: GraphBuilder) -> Value:
    part = product(builder, 3, 4)
    return concatenated(builder, [part, product(builder, 3, 4), part])


def changed_on_the_way(builder: GraphBuilder) -> Value:
    together = concatenated(builder, [product(builder, 2, 4), product(builder, 3, 4)])
    return builder.compute((5, 4), lambda *at: load(together, at).to(Scalar.FLOAT16))


def in_another_order(builder: GraphBuilder) -> Value:
    together = concatenated(builder, [product(builder, 2, 4), product(builder, 3, 4)])
    return builder.compute((5, 4), lambda i, j: load(together, (4 - i, j)))


def only_some_of_it(builder: GraphBuilder) -> Value:
    together = concatenated(builder, [product(builder, 2, 4), product(builder, 3, 4)])
    return builder.compute((4, 4), lambda i, j: load(together, (i + 1, j)))


def with_a_gap(builder: GraphBuilder) -> Value:
    first, second = product(builder, 2, 4), product(builder, 2, 4)

    def body(i: Expression, j: Expression) -> Expression:
        rest = load(second, (i - 3, j), i >= 3, 1.0)
        return load(first, (i, j), i < 2, rest)

    return builder.compute((5, 4), body)


@sweep(
    "make",
    [
        along_columns,
        with_an_input,
        with_a_constant,
        twice_the_same,
        changed_on_the_way,
        in_another_order,
        only_some_of_it,
        with_a_gap,
    ],
    ids=lambda make: make.__name__,
)
def test_other_concatenations_are_kept(make) -> None:  # type: ignore[no-untyped-def]
    builder = GraphBuilder()
    assert checked(builder.finish(make(builder)))[1] == 0


def test_outputs_of_the_graph_are_copied() -> None:
    builder = GraphBuilder()
    part = product(builder, 2, 4)
    together = concatenated(builder, [part, product(builder, 3, 4)])
    assert checked(builder.finish(together, part))[1] == 0


def test_a_value_is_part_of_one_result_only() -> None:
    builder = GraphBuilder()
    part = product(builder, 2, 4)
    first = concatenated(builder, [part, product(builder, 3, 4)])
    second = concatenated(builder, [product(builder, 1, 4), part])
    assert checked(builder.finish(first, second))[1] == 1


@sweep(("columns", "fewer"), [(1, 0), (3, 0), (4, 1), (8, 1)])
def test_alignment_of_values_that_no_other_kernel_reads(columns: int, fewer: int) -> None:
    builder = GraphBuilder()
    parts = [product(builder, 1, columns) for _ in range(3)]
    assert checked(builder.finish(concatenated(builder, parts)), Alignment(written_elements=4))[1] == fewer


@sweep(("columns", "fewer"), [(4, 0), (8, 1)])
def test_alignment_of_values_that_another_kernel_reads(columns: int, fewer: int) -> None:
    builder = GraphBuilder()
    parts = [product(builder, 1, columns) for _ in range(3)]
    reader = builder.matrix_product(parts[1], builder.weights(2, columns))
    graph = builder.finish(concatenated(builder, parts), reader)
    assert checked(graph, Alignment(read_bytes=32, written_elements=4))[1] == fewer


def test_parts_are_listed_in_the_order_of_the_result() -> None:
    builder = GraphBuilder()
    first, second = product(builder, 2, 4), product(builder, 3, 4)
    *_, kernel = fuse(builder.finish(concatenated(builder, [second, first]))).kernels
    assert concat_parts(kernel) == (ConcatPart(second, 0), ConcatPart(first, 12))


@sweep("seed", range(60))
def test_random_graphs(seed: int) -> None:
    """Concatenates products and their epilogues in random order."""
    generator = np.random.default_rng(seed)
    builder = GraphBuilder(seed)
    width = int(generator.integers(1, 6))
    values: list[Value] = []
    for _ in range(int(generator.integers(3, 12))):
        way = int(generator.integers(0, 4))
        if way == 0 or len(values) < 2:
            values.append(product(builder, int(generator.integers(1, 4)), width))
        elif way == 1:
            source = values[int(generator.integers(len(values)))]
            values.append(
                builder.compute(source.shape, lambda *at, source=source: apply(Op.TANH, load(source, at)))
            )
        else:
            count = int(generator.integers(2, 4))
            values.append(
                concatenated(builder, [values[int(generator.integers(len(values)))] for _ in range(count)])
            )
    outputs = [value for value in values[:-1] if generator.random() < 0.2]
    alignment = Alignment(
        read_bytes=int(generator.choice([1, 16])), written_elements=int(generator.choice([1, 4]))
    )
    found, _ = checked(builder.finish(*outputs, values[-1]), alignment)
    for value, start in found.starts.items():
        assert start % alignment.written_elements == 0
        assert found.aliases[value] not in found.aliases
