"""Products that stream a constant matrix compute the same as the interpreter."""

import numpy as np
import pytest
from support.compiler.contractions import Cases
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl.sources import Bench
from support.tiers import one_in

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Axis, Expression, apply, axis, load, reduce
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.kernels.equal_kernels import EqualKernels
from neurald.drivers.opencl.kernels.fused.chains import KernelChain, chains_of
from neurald.drivers.opencl.kernels.gemm import gemv_stream
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.hal.records import replace


def gpu(opencl: DeviceContext) -> DeviceFacts:
    facts = replace(opencl.facts, images=None)
    return facts if facts.is_nvidia else replace(facts, kind=DeviceKind.GPU, compute_units=16)


@pytest.mark.parametrize("kind", [Scalar.FLOAT32, Scalar.FLOAT16], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    one_in(2, [(1, 1024, 72), (3, 77, 9), (8, 8, 1), (1, 1, 100), (2, 2100, 16), (5, 64, 130)]),
)
def test_every_distribution_of_the_work(
    rows: int, depth: int, columns: int, kind: Scalar, opencl: DeviceContext
) -> None:
    """Also vectors that are not requested before the grid barrier, and sizes that do not divide."""
    builder, generator = GraphBuilder(), np.random.default_rng(depth)
    source = builder.input(rows, depth, type=kind)
    right = builder.constant(random_array(generator, (columns, depth), kind))
    bias = builder.constant(random_array(generator, (columns,), Scalar.FLOAT32))
    sums = builder.matrix_product(source, right, type=Scalar.FLOAT32)
    graph = builder.finish(
        builder.compute(sums.shape, lambda *at: (load(sums, at) + load(bias, at[1:])).to(kind))
    )
    array = random_array(generator, source.shape, kind)
    (expected,) = evaluate(graph, [array])
    (kernel,) = fuse(graph).kernels
    product = gemm_view(kernel)
    assert product is not None
    found = gemv_stream.candidates(kernel, product, gpu(opencl))
    assert found
    bench = Bench(opencl.facts.handle)
    for chosen in found:
        assert chosen.waits
        result, _ = bench.run(chosen, {source: array})
        limit = 1e-4 if kind is Scalar.FLOAT32 else 5e-3
        np.testing.assert_allclose(
            result.astype(np.float32),
            expected.astype(np.float32),
            rtol=limit,
            atol=limit * max(1, np.sqrt(depth) / 8),
            err_msg=chosen.label,
        )


@pytest.mark.parametrize("seed", one_in(2, range(10)))
def test_random_products(seed: int, opencl: DeviceContext) -> None:
    """Batches of matrices, and convolutions to few positions."""
    kind = (Scalar.FLOAT32, Scalar.FLOAT16)[seed % 2]
    cases = Cases(seed)
    case = (
        cases.few_windows(kind)
        if seed % 3 == 0
        else cases.matrix_product(kind, rows=1 + seed % 5, batch=(3,))
    )
    product = gemm_view(case.kernel)
    assert product is not None
    found = gemv_stream.candidates(case.kernel, product, gpu(opencl))
    assert bool(found) is (product.right.constant is not None)
    for chosen in found:
        result, _ = Bench(opencl.facts.handle).run(chosen, case.arrays)
        case.assert_equal(result, chosen.label)


def normalised_product(
    rows: int, depth: int, columns: int, *, kind: Scalar = Scalar.FLOAT32, is_read_twice: bool = False
) -> Graph:
    """Returns a product with rows that are normalised before and scaled."""
    builder, generator = GraphBuilder(), np.random.default_rng(rows)
    source = builder.input(rows, depth, type=kind)
    along = axis(depth, "along")

    def mean_square(*at: Expression) -> Expression:
        each = load(source, (*at, along)).to(Scalar.FLOAT32)
        return reduce(ReductionOp.SUM, (along,), each * each) * (1 / depth)

    squares = builder.compute((rows,), mean_square)
    scale = builder.constant(random_array(generator, (depth,), Scalar.FLOAT32))
    normal = builder.compute(
        (rows, depth),
        lambda *at: (
            load(source, at).to(Scalar.FLOAT32)
            * apply(Op.RSQRT, load(squares, at[:-1]) + 1e-5)
            * load(scale, at[-1:])
        ).to(kind),
    )
    right = builder.constant(random_array(generator, (columns, depth), kind))
    sums = builder.matrix_product(normal, right, type=Scalar.FLOAT32)
    if is_read_twice:
        return builder.finish(sums, builder.compute(normal.shape, lambda *at: load(normal, at) * 2.0))
    return builder.finish(sums)


def chains(graph: Graph, facts: DeviceFacts) -> tuple[KernelChain, ...]:
    fused = fuse(graph, is_row_wise=lambda _: True)
    return chains_of(fused, fused.kernels, facts, EqualKernels())


@pytest.mark.parametrize("kind", [Scalar.FLOAT32, Scalar.FLOAT16], ids=lambda kind: kind.name)
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 1032, 40), (3, 96, 13), (8, 64, 8)])
def test_groups_normalise_rows(
    rows: int, depth: int, columns: int, kind: Scalar, opencl: DeviceContext
) -> None:
    graph = normalised_product(rows, depth, columns, kind=kind)
    (chain,) = chains(graph, gpu(opencl))
    assert chain.members == (0, 1)
    assert chain.is_likely
    array = random_array(np.random.default_rng(1), (rows, depth), kind)
    (expected,) = evaluate(graph, [array])
    for chosen in chain.sources:
        result, _ = Bench(opencl.facts.handle).run(chosen, {graph.inputs[0]: array})
        np.testing.assert_allclose(result, expected, rtol=2e-3, atol=0.05 if kind is Scalar.FLOAT16 else 1e-3)


def test_rows_that_others_read_or_that_are_many_are_stored(opencl: DeviceContext) -> None:
    facts = gpu(opencl)
    assert not chains(normalised_product(2, 64, 8, is_read_twice=True), facts)
    assert not chains(normalised_product(9, 64, 8), facts)
    # Vectors of the matrix would extend beyond the row.
    assert not chains(normalised_product(1, 68, 8, kind=Scalar.FLOAT16), facts)
    assert not chains(normalised_product(1, 64, 8), replace(facts, kind=DeviceKind.CPU))


def test_windows_of_one_position_are_no_rows_if_they_are_shifted(opencl: DeviceContext) -> None:
    """With padding and strides, as many positions are read as there are, but others."""
    for padding, stride in ((0, 1), (1, 2)):
        builder, generator = GraphBuilder(), np.random.default_rng(1)
        source = builder.input(1, 2, 2, 64)
        along = axis(64, "along")

        def mean(*at: Expression, source: Value = source, along: Axis = along) -> Expression:
            return reduce(ReductionOp.SUM, (along,), load(source, (*at, along))) * (1 / 64)

        means = builder.compute((1, 2, 2), mean)
        normal = builder.compute(
            (1, 2, 2, 64),
            lambda *at, source=source, means=means: load(source, at) - load(means, at[:-1]),
        )
        weights = builder.constant(random_array(generator, (8, 1, 1, 64), Scalar.FLOAT32))
        sums = builder.convolution(
            normal,
            weights,
            output=(1, 2, 2, 8),
            type=Scalar.FLOAT32,
            stride=(stride, stride),
            padding=((padding, 0), (padding, 0)),
        )
        found = [
            source.label for chain in chains(builder.finish(sums), gpu(opencl)) for source in chain.sources
        ]
        assert bool(found) is (padding == 0)


def test_the_first_candidate_fills_the_device(opencl: DeviceContext) -> None:
    facts = replace(gpu(opencl), compute_units=132)
    for depth, columns, groups in ((1024, 1024, 128), (1024, 4096, 128), (4096, 1024, 128), (64, 8, 1)):
        builder = GraphBuilder()
        right = builder.constant(np.zeros((columns, depth), np.float16))
        sums = builder.matrix_product(
            builder.input(1, depth, type=Scalar.FLOAT16), right, type=Scalar.FLOAT32
        )
        (kernel,) = fuse(builder.finish(sums)).kernels
        assert candidates(kernel, facts, relaxed=True)[0].groups == groups


@pytest.mark.parametrize(
    "lacking", [{"local_memory_bytes": 4096}, {"max_work_group_size": 128}, {"kind": DeviceKind.CPU}], ids=str
)
def test_devices_that_cannot_stream_have_other_candidates(
    lacking: dict[str, object], opencl: DeviceContext
) -> None:
    builder = GraphBuilder()
    right = builder.constant(np.zeros((64, 1024), np.float32))
    (kernel,) = fuse(builder.finish(builder.matrix_product(builder.input(1, 1024), right))).kernels
    able = gpu(opencl)
    facts = replace(able, **lacking)
    assert "streams" in candidates(kernel, able, relaxed=False)[0].label
    first = candidates(kernel, facts, relaxed=False)[0]
    assert "streams" not in first.label
    assert first.scratch_bytes <= facts.local_memory_bytes
    assert first.local_size <= facts.max_work_group_size
