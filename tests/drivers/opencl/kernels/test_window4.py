"""Windows of four channels per work-item equal those of single channels."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl.kernels import kernels
from support.opencl.sources import Bench, opencl_facts

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Expression, axis, load, reduce
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.kernels import window4
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")


def gpu() -> DeviceFacts:
    assert FACTS is not None
    return replace(FACTS, kind=DeviceKind.GPU, compute_units=2, images=None)


def pool(
    kind: Scalar, *, channels: int = 12, window: int = 3, stride: int = 2, is_mean: bool = False
) -> Graph:
    """Returns a pool of 2 × 9 × 11 positions, whose windows extend beyond the image."""
    builder = GraphBuilder()
    height, width = 9, 11
    source = builder.input(2, height, width, channels, type=kind)
    total = Scalar.INT32 if is_mean and kind.is_integer else Scalar.FLOAT32 if is_mean else kind
    outside = 0 if is_mean or kind is Scalar.UINT8 else -100

    def body(n: Expression, y: Expression, x: Expression, c: Expression) -> Expression:
        i, j = axis(window, "i"), axis(window, "j")
        row, column = y * stride + i - 1, x * stride + j - 1
        guard = inside((row, column), (height, width))
        element = load(source, (n, row, column, c), guard, outside).to(total)
        if not is_mean:
            return reduce(ReductionOp.MAXIMUM, (i, j), element)
        found = reduce(ReductionOp.SUM, (i, j), element)
        return found // (window * window) if kind.is_integer else found * (1 / window**2)

    shape = (2, -(-height // stride), -(-width // stride), channels)
    return builder.finish(builder.compute(shape, body))


@pytest.mark.parametrize("kind", [Scalar.INT8, Scalar.UINT8, Scalar.FLOAT16, Scalar.FLOAT32])
@pytest.mark.parametrize(("is_mean", "window", "stride"), [(False, 3, 2), (True, 2, 1), (True, 5, 1)])
def test_pools(kind: Scalar, is_mean: bool, window: int, stride: int) -> None:
    assert FACTS is not None
    graph = pool(kind, window=window, stride=stride, is_mean=is_mean)
    (kernel,) = kernels(graph)
    array = random_array(np.random.default_rng(window), graph.inputs[0].shape, kind)
    (expected,) = evaluate(graph, [array])
    sources = window4.candidates(kernel, gpu())
    assert len(sources) == 2
    for source in sources:
        result, status = Bench(FACTS.handle).run(source, {graph.inputs[0]: array})
        if kind.is_float:
            np.testing.assert_allclose(result, expected, rtol=2e-3, atol=1e-3)
        else:
            np.testing.assert_array_equal(result, expected)
        assert status == 0
    assert sources[0].groups * 3 < sources[1].groups


def test_selection_prefers_vectors() -> None:
    (kernel,) = kernels(pool(Scalar.INT8))
    assert "four channels" in candidates(kernel, gpu(), relaxed=False)[0].label


def test_other_windows_are_left_to_the_generic_kernel() -> None:
    (single,) = kernels(pool(Scalar.INT8, channels=10))
    assert window4.candidates(single, gpu()) == ()
    (kernel,) = kernels(pool(Scalar.INT8))
    assert window4.candidates(kernel, replace(gpu(), kind=DeviceKind.CPU)) == ()
    # Few results are better computed by a work-group each.
    assert window4.candidates(kernel, replace(gpu(), compute_units=100)) == ()
