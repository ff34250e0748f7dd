"""Values that are stored in place, values that are copied, and equal results of both."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate, evaluate_fused
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import concatenated
from neurald.drivers.compiler.passes.concatenation.concat_elimination import Alignment, eliminate_concat
from neurald.drivers.compiler.passes.concatenation.in_place_concat import concat_in_place
from neurald.drivers.compiler.passes.fusion.fusion import fuse

pytestmark = pytest.mark.quick


def product(builder: GraphBuilder, rows: int, columns: int) -> Value:
    """Returns a matrix product, which is not fused into its reader."""
    return builder.matrix_product(builder.input(rows, 5), builder.weights(columns, 5))


def is_product(kernel: Kernel) -> bool:
    assert kernel.output_offset is not None
    return kernel.contraction is not None


def checked(graph: Graph) -> tuple[FusedGraph, int]:
    """Returns the changed graph, and the number of eliminated kernels.

    Asserts that the results are the same and that every operation is attributed to a kernel.
    """
    fused = eliminate_concat(fuse(graph), Alignment())
    found = concat_in_place(fused, is_product)
    generator = np.random.default_rng(0)
    inputs = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    for one, other in zip(evaluate(graph, inputs), evaluate_fused(found, inputs), strict=True):
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-5, atol=1e-5)
    assert {p for k in fused.kernels for p in k.operations} == {
        p for k in found.kernels for p in k.operations
    }
    return found, len(fused.kernels) - len(found.kernels)


def test_columns_are_stored_in_place() -> None:
    builder = GraphBuilder()
    parts = [product(builder, 3, columns) for columns in (8, 16, 9)]
    found, fewer = checked(builder.finish(concatenated(builder, parts, axis=1)))
    assert fewer == 1
    assert [found.starts[part] for part in parts] == [0, 8, 24]
    assert set(found.aliases.values()) == set(found.outputs)


def test_runs_may_have_several_dimensions() -> None:
    builder = GraphBuilder()
    parts = [builder.reshape(product(builder, 6, rows * 4), (2, 3, rows, 4)) for rows in (2, 5)]
    assert checked(builder.finish(concatenated(builder, parts, axis=2)))[1] == 1


@sweep("axis", [0, 1])
def test_parts_without_elements(axis: int) -> None:
    builder = GraphBuilder()
    shapes = ((3, 0), (2, 0)) if axis == 0 else ((0, 3), (0, 2))
    parts = [builder.input(*shape) for shape in shapes]
    assert checked(builder.finish(concatenated(builder, parts, axis=axis)))[1] == 0


def test_values_with_other_readers_are_copied() -> None:
    builder = GraphBuilder()
    parts = [product(builder, 40, columns) for columns in (64, 80)]
    read = builder.matrix_product(parts[0], builder.weights(3, 64))
    found, fewer = checked(builder.finish(concatenated(builder, parts, axis=1), read))
    assert not fewer
    assert parts[0] not in found.aliases
    assert found.starts[parts[1]] == 64


def test_results_may_be_concatenated_again() -> None:
    builder = GraphBuilder()
    # There are too many inputs for fusion to make one kernel of both.
    inner = concatenated(builder, [product(builder, 2, 8) for _ in range(17)], axis=1)
    read = builder.matrix_product(inner, builder.weights(4, 136))
    whole = concatenated(builder, [inner, product(builder, 2, 136), product(builder, 1, 136)])
    found, fewer = checked(builder.finish(whole, read))
    assert fewer == 1
    assert set(found.aliases.values()) == {found.outputs[0]}


def test_other_readers_load_from_the_result() -> None:
    builder = GraphBuilder()
    parts = [product(builder, 40, columns) for columns in (64, 80)]
    read = builder.compute((40, 64), lambda *at: load(parts[0], at) * 2.0)
    whole = concatenated(builder, parts, axis=1)
    result = builder.matrix_product(whole, builder.weights(3, 144))
    found, fewer = checked(builder.finish(result, read))
    assert fewer == 1
    assert [found.starts[part] for part in parts] == [0, 64]
    assert set(found.aliases.values()) == {whole}


@pytest.mark.parametrize(
    ("parts", "columns", "kernels"), [(17, 4, 17), (16, 4, 1), (16, 16, 16), (15, 16, 1)]
)
def test_many_parts_are_copied_one_by_one(parts: int, columns: int, kernels: int) -> None:
    builder = GraphBuilder()
    copied = [builder.input(80, columns) for _ in range(parts)]
    found, _ = checked(builder.finish(concatenated(builder, copied, axis=1)))
    assert len(found.kernels) == kernels


def test_parts_may_be_computed() -> None:
    builder = GraphBuilder()
    source, part = builder.input(80, 64), product(builder, 80, 48)
    order = builder.compute((80, 64), lambda i, j: load(source, (i, j % 2 * 32 + j // 2)) + 1.0)
    whole = concatenated(builder, [order, part], axis=1)
    # A second reader keeps the concatenation from being computed where it is read.
    found, _ = checked(builder.finish(whole, builder.matrix_product(whole, builder.weights(3, 112))))
    assert found.starts[part] == 64
    assert [kernel.output_offset is not None for kernel in found.kernels].count(True) == 2


@sweep("is_output", [False, True])
@sweep("columns", [8, 64])
def test_parts_may_be_computed_from_other_parts(columns: int, is_output: bool) -> None:
    builder = GraphBuilder()
    part = product(builder, 160, columns)
    half = builder.compute((160, 32), lambda i, j: load(part, (159 - i, j * (columns // 32 or 1) % columns)))
    whole = concatenated(builder, [product(builder, 160, 48), part, half], axis=1)
    results = [builder.matrix_product(whole, builder.weights(3, columns + 80))]
    found, _ = checked(builder.finish(*results, *([whole] if is_output else [])))
    assert (part in found.aliases) == (columns == 64 and not is_output)


def short_runs(builder: GraphBuilder) -> Value:
    return concatenated(builder, [product(builder, 3, 3), product(builder, 3, 20)], axis=1)


def mostly_inputs(builder: GraphBuilder) -> Value:
    return concatenated(builder, [builder.input(40, 100), product(builder, 40, 20)], axis=1)


def small_with_an_input(builder: GraphBuilder) -> Value:
    return concatenated(builder, [builder.input(4, 10), product(builder, 4, 20)], axis=1)


def twice_the_same(builder: GraphBuilder) -> Value:
    part = product(builder, 3, 16)
    return concatenated(builder, [part, product(builder, 3, 16), part], axis=1)


def changed_on_the_way(builder: GraphBuilder) -> Value:
    together = concatenated(builder, [product(builder, 3, 16), product(builder, 3, 16)], axis=1)
    return builder.compute((3, 32), lambda *at: load(together, at).to(Scalar.FLOAT16))


def only_some_of_it(builder: GraphBuilder) -> Value:
    together = concatenated(builder, [product(builder, 3, 16), product(builder, 3, 16)], axis=1)
    return builder.compute((3, 20), lambda i, j: load(together, (i, j + 9)))


@sweep(
    "make",
    [short_runs, mostly_inputs, small_with_an_input, twice_the_same, changed_on_the_way, only_some_of_it],
)
def test_other_concatenations_are_kept(make: object) -> None:
    assert callable(make)
    builder = GraphBuilder()
    found, fewer = checked(builder.finish(make(builder)))
    assert not fewer
    assert not any(kernel.output_offset is not None for kernel in found.kernels)


def test_kernels_that_cannot_store_runs_are_kept() -> None:
    builder = GraphBuilder()
    fused = fuse(
        builder.finish(concatenated(builder, [product(builder, 3, 16), product(builder, 3, 16)], axis=1))
    )
    assert concat_in_place(fused, lambda _: False).kernels == fused.kernels
