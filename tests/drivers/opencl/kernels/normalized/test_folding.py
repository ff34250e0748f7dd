"""Products of normalised rows give the same when they read the rows as they are."""

from itertools import product

import numpy as np
import pytest
from support.compiler.graphs import random_array
from support.opencl.normalized import FORMS, Network
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.ir.graph import MatrixProduct
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.opencl.kernels.normalized.folding import fold_normalizations
from neurald.drivers.opencl.kernels.normalized.row_moments import measured_matrix
from neurald.hal.records import replace


def folded(graph: FusedGraph) -> FusedGraph:
    return fold_normalizations(graph, lambda kernel: isinstance(kernel.contraction, MatrixProduct))


def is_normalizing(kernel: Kernel) -> bool:
    return kernel.row_axes is not None and measured_matrix(kernel) is None


def results(graph: FusedGraph, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return evaluate_fused(graph, [random_array(generator, each.shape, each.type) for each in graph.inputs])


def expect_folded(network: Network, tolerance: float = 4e-3) -> FusedGraph:
    """Asserts that nothing is normalised, and results differ by FLOAT16's rounding only."""
    graph = network.fused()
    found = folded(graph)
    assert any(map(is_normalizing, graph.kernels))
    assert not any(map(is_normalizing, found.kernels))
    for one, other in zip(results(graph), results(found), strict=True):
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance * float(np.abs(one).max()))
    return found


@sweep("form,added,products", list(product(FORMS, (False, True), (1, 3))))
def test_every_form_is_folded(form: str, added: bool, products: int) -> None:
    found = expect_folded(Network(form=form, is_added=added, products=products))
    # A product, its moments, and the products that read it.
    assert [measured_matrix(each) is not None for each in found.kernels][:2] == [False, True]
    operations = {each for kernel in found.kernels for each in kernel.operations}
    assert operations == {each for kernel in Network(form=form).fused().kernels for each in kernel.operations}


@pytest.mark.parametrize("gain", [1e-6, 1.0, 1e3])
def test_scales_of_any_size_keep_their_precision(gain: float) -> None:
    """Scaled weights would be denormal numbers or infinite."""
    expect_folded(Network(form="rms", gain=gain), tolerance=1e-2 if gain < 1e-5 else 4e-3)


@pytest.mark.parametrize("form", ["layer", "factors first"])
def test_rows_with_a_large_mean(form: str) -> None:
    """The mean is subtracted from sums of rounded weights, which lose only what FLOAT16 loses."""
    expect_folded(Network(form=form, offset=30.0), tolerance=2e-2)


def test_rows_without_variance_are_finite() -> None:
    network = Network(scale=0.0, offset=3.0)
    for each in results(folded(network.fused())):
        assert np.isfinite(each).all()


def test_weights_that_are_not_finite_are_left_alone() -> None:
    graph = Network().fused()
    for kernel in graph.kernels:
        node = kernel.contraction
        if isinstance(node, MatrixProduct) and node.depth == 128:
            assert node.right.constant is not None
            node.right.constant[0, 0] = np.inf
    assert any(map(is_normalizing, folded(graph).kernels))


@sweep(
    "change",
    [
        {"is_kept": True},
        {"width": 96},
        {"products": 0, "is_kept": True},
    ],
)
def test_others_are_normalised_first(change: dict[str, int | bool]) -> None:
    """Other readers of normalised rows need them, and rows have whole parts of 64 columns."""
    graph = replace(Network(), **change).fused()
    assert folded(graph).kernels == graph.kernels


def test_products_that_cannot_have_moments_are_left_alone() -> None:
    graph = Network().fused()
    assert fold_normalizations(graph, lambda _: False).kernels == graph.kernels
