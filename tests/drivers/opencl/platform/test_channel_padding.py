"""Images with few channels are padded without a change of results."""

from unittest.mock import patch

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl import sources as opencl_sources
from support.opencl.sources import Bench, opencl_facts, program_of
from support.opencl.warps import with_tensor_cores, without_warps

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.analysis.verifier import verify
from neurald.drivers.compiler.ir.graph import Compute, Convolution, Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.kernels.gemm import tensor_core
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform import channel_padding
from neurald.drivers.opencl.platform.channel_padding import pad_channels
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")


def gpu() -> DeviceFacts:
    assert FACTS is not None
    return replace(with_tensor_cores(FACTS), compute_capability=(8, 0))


def convolution(
    kind: Scalar, *, channels: int = 3, window: int = 3, stride: int = 2, outputs: int = 12, zero: int = 0
) -> Graph:
    """Returns a convolution of 2 × 9 × 10 positions, whose windows extend beyond the image."""
    builder, generator = GraphBuilder(), np.random.default_rng(window)
    source = builder.input(2, 9, 10, channels, type=kind)
    right = Scalar.INT8 if kind is Scalar.UINT8 else kind
    weights = builder.constant(random_array(generator, (outputs, window, window, channels), right))
    before = window // 2
    after = before - 1 + window % 2
    size = [(length + before + after - window) // stride + 1 for length in (9, 10)]
    sums = builder.convolution(
        source,
        weights,
        output=(2, *size, outputs),
        type=Scalar.FLOAT32 if kind.is_float else Scalar.INT32,
        stride=(stride, stride),
        padding=((before, after), (before, after)),
        input_zero=zero,
    )
    return builder.finish(sums)


def padded(graph: Graph, facts: DeviceFacts | None = None) -> bool:
    """Pads the images of a graph however small; returns whether there were any."""
    with patch.object(channel_padding, "_MIN_ELEMENTS", 1), patch.object(channel_padding, "_MIN_TAPS", 9):
        pad_channels(graph, facts or gpu())
    verify(graph)
    return any(isinstance(node, Compute) for node in graph.nodes)


@pytest.mark.parametrize("kind", [Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT8, Scalar.UINT8])
@pytest.mark.parametrize(("window", "stride"), [(7, 2), (3, 1), (4, 3)])
def test_windows_are_vectors(kind: Scalar, window: int, stride: int) -> None:
    """Of 16 bytes, and every kernel gives the same sums; some tilings are tried."""
    assert FACTS is not None
    zero = 0 if kind.is_float else 5
    graph = convolution(kind, window=window, stride=stride, zero=zero)
    array = random_array(np.random.default_rng(0), graph.inputs[0].shape, kind)
    (expected,) = evaluate(graph, [array])
    assert padded(graph)
    (found,) = evaluate(graph, [array])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    copying, kernel = fuse(graph).kernels
    product = gemm_view(kernel)
    assert product is not None
    assert product.run * kind.size_bytes % 16 == 0
    images, _ = Bench(FACTS.handle).run(render(copying), {graph.inputs[0]: array})
    portable = replace(gpu(), is_nvidia=False)
    with patch.object(tensor_core, "_is_too_large", lambda *_: False):
        cores = list(tensor_core.candidates(kernel, product, gpu(), relaxed=False, has_workspace=False))
    for source in (candidates(kernel, portable, relaxed=False)[0], *cores[:1]):
        is_emulated = "tensor cores" in source.label and not FACTS.is_nvidia

        def text(each: Source, is_emulated: bool = is_emulated) -> str:
            return without_warps(program_of(each)) if is_emulated else program_of(each)

        with patch.object(opencl_sources, "program_of", text):
            result, _ = Bench(FACTS.handle).run(source, {product.left: images})
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=2e-3, err_msg=source.label)


def test_copies_that_kernels_cannot_index_are_not_made() -> None:
    """A copy of four times as many bytes may be too large although the image is not."""
    graph = convolution(Scalar.INT8, window=3, stride=1, channels=1)
    assert padded(graph)
    (copying, _) = graph.nodes
    elements = copying.output.count
    assert elements > 8 * 2 * 9 * 10
    for limit, is_padded in ((elements, True), (elements - 1, False)):
        with patch.object(channel_padding, "_MAX_COPIED", limit):
            assert padded(convolution(Scalar.INT8, window=3, stride=1, channels=1)) is is_padded
        facts = replace(gpu(), max_allocation_bytes=limit)
        assert padded(convolution(Scalar.INT8, window=3, stride=1, channels=1), facts) is is_padded


def test_other_convolutions_stay() -> None:
    assert not padded(convolution(Scalar.FLOAT16, channels=16))
    assert not padded(convolution(Scalar.FLOAT16, window=1))
    assert not padded(convolution(Scalar.FLOAT16), replace(gpu(), is_nvidia=False))
    graph = convolution(Scalar.FLOAT16)
    pad_channels(graph, gpu())
    assert isinstance(graph.nodes[0], Convolution)
