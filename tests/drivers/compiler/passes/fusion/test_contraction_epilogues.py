"""The reader of a contraction becomes its epilogue if it computes the same elements."""

from support.compiler.fusing import exp, fused, only, padded, pointwise, row_sums
from support.compiler.graphs import GraphBuilder
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import (
    apply,
    constant,
    load,
)
from neurald.drivers.compiler.ir.graph import Contraction
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse


def test_the_reader_of_a_contraction_becomes_its_epilogue() -> None:
    builder = GraphBuilder()
    product = builder.matrix_product(builder.input(4, 5), builder.weights(6, 5))
    bias = builder.weights(6)
    biased = builder.compute((4, 6), lambda i, j: load(product, (i, j)) + load(bias, (j,)))
    flattened = builder.reshape(biased, (2, 12))
    end = pointwise(builder, flattened)
    graph = builder.finish(end)
    kernel = only(fused(graph))
    assert isinstance(kernel.contraction, Contraction)
    assert (kernel.output, kernel.shape) == (end, (4, 6))
    assert set(kernel.inputs) == {graph.inputs[0], product_weights(kernel), bias}


def product_weights(kernel: Kernel) -> Value:
    assert kernel.contraction is not None
    return kernel.contraction.inputs[1]


def test_a_residual_addition_joins_the_last_contraction() -> None:
    builder = GraphBuilder()
    source = builder.input(4, 5)
    first = builder.matrix_product(source, builder.weights(4, 5))
    second = builder.matrix_product(source, builder.weights(4, 5))
    end = builder.compute((4, 4), lambda *at: load(first, at) + load(second, at))
    found = fused(builder.finish(end))
    assert [kernel.output for kernel in found.kernels] == [first, end]
    assert all(kernel.contraction is not None for kernel in found.kernels)


@sweep("form", ["moved", "padded", "folded", "read twice", "an output"])
def test_other_readers_are_no_epilogues(form: str) -> None:
    builder = GraphBuilder()
    product = builder.matrix_product(builder.input(4, 5), builder.weights(4, 5))
    outputs = []
    if form == "moved":
        outputs = [builder.compute((4, 4), lambda i, j: exp(load(product, (j, i))))]
    elif form == "padded":
        outputs = [padded(builder, product)]
    elif form == "folded":
        outputs = [row_sums(builder, product)]
    elif form == "read twice":
        outputs = [pointwise(builder, product), pointwise(builder, product)]
    else:
        outputs = [product, pointwise(builder, product)]
    found = fused(builder.finish(*outputs))
    assert found.kernels[0].output is product
    assert [kernel.contraction is not None for kernel in found.kernels] == [True] + [False] * (
        len(found.kernels) - 1
    )


def test_a_reader_that_replaces_some_sums_is_no_epilogue() -> None:
    builder = GraphBuilder()
    product = builder.matrix_product(builder.input(4, 5), builder.weights(4, 5))
    end = builder.compute(
        product.shape, lambda i, j: load(product, (i, j), i >= 1, constant(7.0, product.type))
    )
    found = fused(builder.finish(end))
    assert [kernel.contraction is not None for kernel in found.kernels] == [True, False]


@sweep("is_sine", [False, True])
def test_operations_that_take_longer_in_epilogues_get_kernels_of_their_own(is_sine: bool) -> None:
    builder = GraphBuilder()
    product = builder.matrix_product(builder.input(4, 5), builder.weights(4, 5))
    doubled = builder.compute((4, 4), lambda *at: load(product, at) * 2.0)
    function = Op.SIN if is_sine else Op.EXP
    end = builder.compute((4, 4), lambda *at: apply(function, load(doubled, at)) + 1)
    found = fuse(builder.finish(end), apart=frozenset((Op.SIN,)))
    assert [kernel.contraction is not None for kernel in found.kernels] == [True] + [False] * is_sine


def test_the_operands_of_contractions_are_stored() -> None:
    builder = GraphBuilder()
    left = pointwise(builder, builder.input(4, 5))
    end = builder.matrix_product(left, builder.weights(3, 5))
    found = fused(builder.finish(end))
    assert [kernel.output for kernel in found.kernels] == [left, end]
