"""Batches of products whose right matrices are broadcast constants."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl.sources import Bench, opencl_facts
from support.tiers import one_in

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.graph import MatrixProduct
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceKind
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

#: The batches of both matrices.
BATCHES = (((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)))


def graph_of(
    left_batch: tuple[int, ...], right_batch: tuple[int, ...], kind: Scalar, *, transposed: bool
) -> FusedGraph:
    """Returns products of 5 x 20 and 20 x 12 matrices."""
    builder = GraphBuilder()
    left = builder.input(*left_batch, 5, 20, type=kind)
    right = builder.weights(*right_batch, *((20, 12) if transposed else (12, 20)), type=kind)
    is_integer = kind.is_integer
    sums = builder.matrix_product(
        left,
        right,
        type=Scalar.INT32 if is_integer else kind,
        right_transposed=transposed,
        left_zero=3 if is_integer else 0,
        right_zero=-4 if is_integer else 0,
    )
    return fuse(builder.finish(builder.compute(sums.shape, lambda *at: load(sums, at) * 2)))


@pytest.mark.parametrize("transposed", one_in(2, [True, False]))
@pytest.mark.parametrize("kind", [Scalar.INT8, Scalar.FLOAT32], ids=lambda kind: kind.name)
def test_every_kernel_uses_the_matrix_of_the_batch(kind: Scalar, transposed: bool) -> None:
    assert FACTS is not None
    bench = Bench(FACTS.handle)
    # NVIDIA's have dot products of their own.
    as_gpu = replace(FACTS, kind=DeviceKind.GPU, compute_units=16, has_dot_product=not FACTS.is_nvidia)
    for left_batch, right_batch in BATCHES:
        graph = graph_of(left_batch, right_batch, kind, transposed=transposed)
        array = random_array(np.random.default_rng(0), graph.inputs[0].shape, kind)
        (expected,) = evaluate_fused(graph, [array])
        kinds: dict[str, Source] = {}
        for facts in (FACTS, as_gpu):
            for source in candidates(graph.kernels[0], facts, relaxed=False):
                kinds.setdefault(source.label.split(",")[0].rstrip("0123456789x "), source)
        # Those for processors are one more.
        assert len(kinds) > (2 if FACTS.is_cpu else 1)
        for label, source in kinds.items():
            result, _ = bench.run(source, {graph.inputs[0]: array})
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=label)


def test_large_broadcasts_are_not_copied() -> None:
    graph = graph_of((2,), (1,), Scalar.INT8, transposed=False)
    kernel = graph.kernels[0]
    assert gemm_view(kernel) is not None
    right = Value((2, 1 << 10, 1 << 10), Scalar.INT8, np.zeros((1, 1, 1), np.int8))
    left, output = (Value((1 << 8, 2, 1, 1 << 10), each) for each in (Scalar.INT8, Scalar.INT32))
    long = MatrixProduct(output=output, left=left, right=right)
    assert gemm_view(replace(kernel, contraction=long, output=output)) is None
