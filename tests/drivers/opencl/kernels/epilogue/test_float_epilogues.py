"""Float epilogues compute four elements at once, in every function that networks use."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl.sources import Bench, opencl_facts

from neurald.drivers.compiler.analysis.interpreter import evaluate_kernel
from neurald.drivers.compiler.ir.expression import Expression, apply, load, select
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.contraction.product_stacking import stack_products
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")


def gpu() -> DeviceFacts:
    assert FACTS is not None
    return replace(FACTS, kind=DeviceKind.GPU, compute_units=16)


def stacked() -> Kernel:
    """Returns the kernel of products whose epilogues differ."""
    builder = GraphBuilder()
    source, functions = builder.input(9, 16), []
    for number in range(3):
        sums, bias = builder.matrix_product(source, builder.weights(12, 16)), builder.weights(12)

        def element(m: Expression, n: Expression, number: int = number) -> Expression:
            biased = load(sums, (m, n)) + load(bias, (n,))  # noqa: B023
            halved = biased * 0.5
            functions = {
                0: lambda: biased * 0.25,
                1: lambda: halved * (apply(Op.ERF, biased * 0.7) + 1.0),
                2: lambda: apply(Op.SIN, biased) * apply(Op.RSQRT, biased * biased + 1.0),
            }
            return functions[number]()

        functions.append(builder.compute(sums.shape, element))
    # Values that are outputs would not be merged.
    graph = builder.finish(
        *(
            builder.compute((9, 12), lambda m, n, each=each: load(each, (m, n)) * load(each, (m, n * 0)))
            for each in functions
        )
    )
    fused = stack_products(fuse(graph, is_row_wise=lambda _: True), alignment=16)
    return fused.kernels[0]


def test_every_batch_has_its_epilogue() -> None:
    assert FACTS is not None
    kernel, bench = stacked(), Bench(FACTS.handle)
    assert kernel.shape == (3, 9, 12)
    source = candidates(kernel, gpu(), relaxed=False)[0]
    # The functions are vectors: there is none of a single element.
    assert "_element(" not in source.text
    (given,) = (value for value in kernel.inputs if value.constant is None)
    array = random_array(np.random.default_rng(0), given.shape, given.type)
    constants = {value: value.constant for value in kernel.inputs if value.constant is not None}
    expected = evaluate_kernel(kernel, {given: array, **constants})
    result, _ = bench.run(source, {given: array})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_the_error_function_of_values_that_are_rounded() -> None:
    """It may be less exact, but not by more than the rounding."""
    assert FACTS is not None
    builder, bench = GraphBuilder(), Bench(FACTS.handle)
    source = builder.input(64, 4)
    sums = builder.matrix_product(source, builder.constant(np.eye(4, dtype=np.float32)))
    graph = builder.finish(
        builder.compute(sums.shape, lambda *at: apply(Op.ERF, load(sums, at)).to(Scalar.FLOAT16))
    )
    (kernel,) = fuse(graph, is_row_wise=lambda _: True).kernels
    array = np.linspace(-6, 6, 256, dtype=np.float32).reshape(64, 4)
    found = candidates(kernel, gpu(), relaxed=False)[0]
    assert "neurald_erf4" in found.text
    constants = {value: value.constant for value in kernel.inputs if value.constant is not None}
    expected = evaluate_kernel(kernel, {source: array, **constants})
    result, _ = bench.run(found, {source: array})
    np.testing.assert_allclose(result, expected, rtol=2**-10, atol=1e-6)


def test_conditions_that_differ_between_columns_are_computed_one_by_one() -> None:
    assert FACTS is not None
    builder, bench = GraphBuilder(), Bench(FACTS.handle)
    source = builder.input(9, 16)
    sums = builder.matrix_product(source, builder.weights(12, 16))
    graph = builder.finish(
        builder.compute(
            sums.shape,
            lambda m, n: select(load(sums, (m, n)) > 0.0, load(sums, (m, n)), load(sums, (m, n)) * 0.1),
        )
    )
    (kernel,) = fuse(graph, is_row_wise=lambda _: True).kernels
    array = random_array(np.random.default_rng(0), source.shape, source.type)
    constants = {value: value.constant for value in kernel.inputs if value.constant is not None}
    expected = evaluate_kernel(kernel, {source: array, **constants})
    result, _ = bench.run(candidates(kernel, gpu(), relaxed=False)[0], {source: array})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
