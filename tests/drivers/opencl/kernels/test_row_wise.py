"""Kernels of rows compute the same as the interpreter."""

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from support.compiler.attention import softmax
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl import sources
from support.opencl.sources import Bench, opencl_facts, program_of
from support.opencl.warps import with_tensor_cores, without_warps

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Expression, apply, axis, clamp, load, reduce
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.render import arguments_of
from neurald.drivers.opencl.kernels import row_wise
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")


def mean(builder: GraphBuilder, source: Value, element: Callable[[Expression], Expression]) -> Value:
    """Appends the mean of a function of the elements of each row."""
    *outer, length = source.shape
    along = axis(length, "r")
    return builder.compute(
        tuple(outer),
        lambda *at: (
            reduce(ReductionOp.SUM, (along,), element(load(source, (*at, along)).to(Scalar.FLOAT32)))
            * (1 / length)
        ),
    )


def layer_norm(*shape: int, kind: Scalar = Scalar.FLOAT32) -> Graph:
    builder = GraphBuilder()
    source, scale, offset = (
        builder.input(*shape, type=kind),
        builder.input(shape[-1]),
        builder.input(shape[-1]),
    )
    means = mean(builder, source, lambda each: each)
    along = axis(shape[-1], "s")

    def variance(*at: Expression) -> Expression:
        difference = load(source, (*at, along)).to(Scalar.FLOAT32) - load(means, at)
        return reduce(ReductionOp.SUM, (along,), difference * difference) * (1 / shape[-1])

    variances = builder.compute(shape[:-1], variance)
    return builder.finish(
        builder.compute(
            shape,
            lambda *at: (
                (load(source, at).to(Scalar.FLOAT32) - load(means, at[:-1]))
                * apply(Op.RSQRT, load(variances, at[:-1]) + 1e-5)
                * load(scale, at[-1:])
                + load(offset, at[-1:])
            ).to(kind),
        )
    )


def rms_norm(*shape: int) -> Graph:
    builder = GraphBuilder()
    source = builder.input(*shape)
    squares = mean(builder, source, lambda each: each * each)
    return builder.finish(
        builder.compute(shape, lambda *at: load(source, at) * apply(Op.RSQRT, load(squares, at[:-1]) + 1e-6))
    )


def norm_of_chosen_rows(count: int, length: int) -> Graph:
    """Returns a graph that normalises rows of a constant table, which an input chooses."""
    builder = GraphBuilder()
    chosen, table = builder.input(count, type=Scalar.INT32), builder.weights(5, length)
    rows = builder.compute(
        (count, length),
        lambda y, x: load(table, (clamp(load(chosen, (y,)).to(Scalar.INDEX), 0, 4), x)),
    )
    squares, scale = mean(builder, rows, lambda each: each * each), builder.weights(length)
    return builder.finish(
        builder.compute(
            rows.shape,
            lambda y, x: load(rows, (y, x)) * apply(Op.RSQRT, load(squares, (y,)) + 1e-6) * load(scale, (x,)),
        )
    )


def softmax_of(*shape: int) -> Graph:
    builder = GraphBuilder()
    return builder.finish(softmax(builder, builder.input(*shape)))


GRAPHS = {
    "layer norm": lambda: layer_norm(2, 12, 192),
    "float16": lambda: layer_norm(24, 64, kind=Scalar.FLOAT16),
    "RMS norm": lambda: rms_norm(8, 1028),
    "softmax": lambda: softmax_of(3, 8, 132),
}


def gpu() -> DeviceFacts:
    assert FACTS is not None
    return with_tensor_cores(FACTS)


def kernel_of(graph: Graph) -> Kernel:
    (kernel,) = fuse(graph, is_row_wise=lambda _: True).kernels
    return kernel


@pytest.mark.parametrize("name", GRAPHS)
def test_rows_of_warps_and_of_groups(name: str) -> None:
    assert FACTS is not None
    graph, bench = GRAPHS[name](), Bench(FACTS.handle)
    generator = np.random.default_rng(3)
    arrays = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    (expected,) = evaluate(graph, arrays)
    found = list(row_wise.candidates(kernel_of(graph), gpu()))
    assert [each.has_barriers for each in found] == [True, False]
    for source in found:

        def text(each: Source) -> str:
            program = program_of(each)
            return program if FACTS.is_nvidia else without_warps(program)

        with patch.object(sources, "program_of", text):
            result, status = bench.run(source, dict(zip(graph.inputs, arrays, strict=True)))
        tolerance = 2e-3 if result.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(
            result.astype(np.float32), expected.astype(np.float32), rtol=tolerance, atol=tolerance
        )
        assert status == 0


def test_special_values_propagate() -> None:
    assert FACTS is not None
    graph, bench = softmax_of(4, 64), Bench(FACTS.handle)
    rows = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    rows[0, 5], rows[1, 6], rows[2] = np.nan, np.inf, -np.inf
    (source, *_) = row_wise.candidates(kernel_of(graph), replace(gpu(), is_nvidia=False))
    result, _ = bench.run(source, dict(zip(graph.inputs, [rows], strict=True)))
    (expected,) = evaluate(graph, [rows])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_the_largest_number_leaves_out_nan() -> None:
    assert FACTS is not None
    builder, along = GraphBuilder(), axis(64, "r")
    source = builder.input(4, 64)
    largest = builder.compute(
        (4,), lambda y: reduce(ReductionOp.MAXIMUM_NUMBER, (along,), load(source, (y, along)))
    )
    graph = builder.finish(
        builder.compute(source.shape, lambda y, x: load(source, (y, x)) - load(largest, (y,)))
    )
    rows = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32) - 5
    rows[0, 5], rows[1, ::2], rows[2, :63] = np.nan, np.nan, np.nan
    expected = rows - np.nanmax(rows, axis=1, keepdims=True)
    (interpretation,) = evaluate(graph, [rows])
    np.testing.assert_array_equal(interpretation, expected)
    (kernel_source, *_) = row_wise.candidates(kernel_of(graph), replace(gpu(), is_nvidia=False))
    result, _ = Bench(FACTS.handle).run(kernel_source, {source: rows})
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("count", [1, 3])
def test_only_constants_are_loaded_before_earlier_kernels_end(count: int) -> None:
    assert FACTS is not None
    graph, bench = norm_of_chosen_rows(count, 128), Bench(FACTS.handle)
    kernel = kernel_of(graph)
    rows, values = row_wise.rows_of(kernel), KernelArguments(arguments_of(kernel))
    assert rows is not None
    text = row_wise.row_text(rows, values, 256, "", gpu())
    assert text is not None
    # Elements are loaded once, without a loop over turns.
    assert "turn" not in text.statements
    names = {value.shape: argument.name for value, argument in values.by_value.items()}
    assert [each for each in names.values() if f"{each} +" in text.before or f"{each}[" in text.before] == [
        names[(128,)]
    ]
    (source, *_) = row_wise.candidates(kernel, replace(gpu(), is_nvidia=False))
    arrays = [np.arange(count, dtype=np.int32) * 3 + 1]
    result, _ = bench.run(source, dict(zip(graph.inputs, arrays, strict=True)))
    np.testing.assert_allclose(result, evaluate(graph, arrays)[0], rtol=1e-5, atol=1e-6)


def test_many_rows_have_a_warp_each() -> None:
    few, many = (row_wise.candidates(kernel_of(rms_norm(count, 64)), gpu()) for count in (8, 4096))
    assert next(few).has_barriers
    assert not next(many).has_barriers


def test_other_rows_are_left_to_the_generic_kernel() -> None:
    assert FACTS is not None
    for shape in ((8, 60), (8, 66)):
        assert not list(row_wise.candidates(kernel_of(rms_norm(*shape)), gpu()))
    kernel = kernel_of(rms_norm(8, 64))
    assert not list(row_wise.candidates(kernel, replace(FACTS, kind=DeviceKind.CPU)))
    assert candidates(kernel, gpu(), relaxed=False)
