"""Pipelines of warpgroups equal the interpreter; without the instruction, C stands for it."""

from collections.abc import Mapping
from unittest.mock import patch

import numpy as np
import pytest
from support.compiler.contractions import Case, Cases
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl import sources
from support.opencl.facts import has_warpgroup_instruction
from support.opencl.normalized import Network
from support.opencl.sources import Bench, opencl_facts, program_of
from support.opencl.warps import without_pipelines
from support.tiers import one_in

from neurald.drivers.compiler.analysis.interpreter import Array, evaluate, evaluate_kernel
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.gemm import warpgroup, warpgroup_pipeline
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view
from neurald.drivers.opencl.kernels.normalized.folding import fold_normalizations
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

_KINDS = (Scalar.FLOAT16, Scalar.INT8, Scalar.UINT8)
_TILINGS = len(warpgroup_pipeline._TILINGS)


def facts(units: int) -> DeviceFacts:
    """Returns the device with the compute units and, perhaps only in name, the instruction."""
    assert FACTS is not None
    return replace(
        FACTS,
        kind=DeviceKind.GPU,
        compute_units=units,
        is_nvidia=True,
        compute_capability=(9, 0),
        images=None,
    )


def sources_of(case: Case, units: int, stages: int = 0, moments: Value | None = None) -> list[Source]:
    """Returns all candidates. Emulated ones need a stage for each step of a group."""
    product = gemm_view(case.kernel)
    assert product is not None
    tilings, split = (
        all_tilings
        if has_warpgroup_instruction()
        else tuple(replace(each, stages=stages) for each in all_tilings)
        for all_tilings in (warpgroup_pipeline._TILINGS, warpgroup_pipeline._SPLIT_TILINGS)
    )
    with (
        patch.object(warpgroup, "_MIN_MULTIPLICATIONS", 0),
        patch.object(warpgroup_pipeline, "_TILINGS", tilings),
        patch.object(
            warpgroup_pipeline,
            "_MAX_SCRATCH_BYTES",
            warpgroup_pipeline._MAX_SCRATCH_BYTES if has_warpgroup_instruction() else 1 << 30,
        ),
        patch.object(warpgroup_pipeline, "_SPLIT_TILINGS", split),
    ):
        return list(
            warpgroup_pipeline.candidates(case.kernel, product, facts(units), relaxed=False, moments=moments)
        )


def run(source: Source, case: Case) -> tuple[np.ndarray, int]:
    assert FACTS is not None
    emulated = (lambda text: text) if has_warpgroup_instruction() else without_pipelines
    with patch.object(sources, "program_of", lambda source: emulated(program_of(source))):
        return Bench(FACTS.handle).run(source, case.arrays)


@pytest.fixture(params=[0, 1 << 30], ids=["loop", "parts"])
def steps_of_loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores tiles of any depth in a loop, or part by part."""
    monkeypatch.setattr(warpgroup_pipeline, "_MIN_LOOP_STEPS", request.param)


def random_case(kind: Scalar, form: str, seed: int) -> Case:
    """Returns the first case from a seed on that has candidates."""
    while True:
        made = Cases(seed)
        case = made.matrix_product(kind, batch=(2,) if form == "batches" else ())
        if sources_of(case, 1, 8):
            return case
        seed += 1


@pytest.mark.parametrize("tiling", one_in(2, range(_TILINGS)))
@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("form", ["matrices", "batches"])
@pytest.mark.sampled(4)
def test_every_tiling_gives_the_same_result(form: str, kind: Scalar, tiling: int) -> None:
    """Sizes are odd, and smaller than tiles."""
    case = random_case(kind, form, 1000 * tiling)
    source = sources_of(case, 1, 8)[tiling]
    result, status = run(source, case)
    case.assert_equal(result, source.label)
    assert status == 0


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.name)
def test_convolutions_without_windows(kind: Scalar) -> None:
    """Their rows are the positions of all images."""
    builder = GraphBuilder()
    image, weights = builder.input(2, 7, 9, 48, type=kind), builder.weights(70, 1, 1, 48, type=kind)
    sums = builder.convolution(
        image,
        weights,
        output=(2, 7, 9, 70),
        type=Scalar.FLOAT32 if kind.is_float else Scalar.INT32,
        input_zero=0 if kind.is_float else 5,
    )
    graph = builder.finish(sums)
    generator = np.random.default_rng(3)
    given = random_array(generator, image.shape, kind)
    (expected,) = evaluate(graph, [given])
    case = Case(kernels=fuse(graph).kernels, arrays={image: given}, expected=expected, label="pointwise")
    for source in sources_of(case, 1, 8)[:2]:
        result, status = run(source, case)
        case.assert_equal(result, source.label)
        assert status == 0


@pytest.mark.usefixtures("steps_of_loops")
@pytest.mark.parametrize("tiling", one_in(3, range(_TILINGS)))
def test_groups_compute_several_tiles(tiling: int) -> None:
    """On a GPU, each place in local memory is used many times."""
    rows, columns, depth, units = (1000, 1100, 1000, 2) if has_warpgroup_instruction() else (300, 260, 136, 4)
    builder = GraphBuilder()
    graph = builder.finish(
        builder.matrix_product(
            builder.input(rows, depth, type=Scalar.FLOAT16),
            builder.weights(columns, depth, type=Scalar.FLOAT16),
        )
    )
    (left,), generator = graph.inputs, np.random.default_rng(tiling)
    given = generator.standard_normal(left.shape).astype(np.float16)
    (expected,) = evaluate(graph, [given])
    (kernel,) = fuse(graph).kernels
    case = Case(kernels=(kernel,), arrays={left: given}, expected=expected, label="several tiles")
    # Emulated, there are three steps of each of at most 15 tiles.
    source = sources_of(case, units, 3 * -(-15 // units))[tiling]
    assert source.groups == units
    result, status = run(source, case)
    np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-2, err_msg=source.label)
    assert status == 0


@pytest.mark.usefixtures("steps_of_loops")
@pytest.mark.parametrize("tiling", one_in(2, range(_TILINGS)))
def test_values_that_are_copied_and_loaded_ahead(tiling: int) -> None:
    """Values of columns, of which the last chunk is shorter, and elements of a matrix."""
    _skip_what_pocl_cannot_compile(tiling, columns=128)
    rows, columns, depth, units = (900, 1108, 1000, 2) if has_warpgroup_instruction() else (150, 268, 72, 2)
    builder = GraphBuilder()
    left = builder.input(rows, depth, type=Scalar.FLOAT16)
    added, factor = (builder.input(*shape, type=Scalar.FLOAT16) for shape in ((rows, columns), (columns,)))
    bias = builder.input(columns)
    sums = builder.matrix_product(left, builder.weights(columns, depth, type=Scalar.FLOAT16))

    def element(m: Expression, n: Expression) -> Expression:
        product = load(sums, (m, n)) * load(factor, (n,)).to(Scalar.FLOAT32) + load(bias, (n,))
        return (product + load(added, (m, n)).to(Scalar.FLOAT32)).to(Scalar.FLOAT16)

    graph = builder.finish(builder.compute(sums.shape, element))
    (kernel,) = fuse(graph).kernels
    case = _case(kernel)
    # Emulated, there are two steps of each of at most 15 tiles.
    source = sources_of(case, units, 2 * -(-15 // units))[tiling]
    assert source.groups == units
    assert "__local const float *n" in source.text
    assert "__local const half *n" in source.text
    result, status = run(source, case)
    np.testing.assert_allclose(result, case.expected, rtol=4e-3, atol=2e-2, err_msg=source.label)
    assert status == 0


@pytest.mark.parametrize("tiling", range(len(warpgroup_pipeline._SPLIT_TILINGS)))
@pytest.mark.parametrize("batches", [1, 2])
def test_numbers_that_must_not_be_rounded_are_split(batches: int, tiling: int) -> None:
    """The error is that of FLOAT32, and infinite and undefined sums stay so."""
    rows, columns, depth = (500, 300, 1012) if has_warpgroup_instruction() else (150, 132, 68)
    builder = GraphBuilder()
    left = builder.input(batches, rows, depth)
    graph = builder.finish(builder.matrix_product(left, builder.weights(batches, columns, depth)))
    given = random_array(np.random.default_rng(tiling), left.shape, left.type)
    (kernel,) = fuse(graph).kernels
    (weights,) = (each.constant for each in kernel.inputs if each.constant is not None)
    expected = np.matmul(given.astype(np.float64), weights.astype(np.float64).swapaxes(1, 2))
    if has_warpgroup_instruction():
        # Emulated, remainders are added in any case.
        given[0, 1, 2], given[0, 3, 4] = np.inf, np.nan
        with np.errstate(invalid="ignore"):
            expected[0, [1, 3]] = np.matmul(given[0, [1, 3]], weights[0].T)
    case = Case(kernels=(kernel,), arrays={left: given}, expected=expected, label="split")
    source = sources_of(case, 132, 3)[tiling]
    assert "3xTF32" in source.label
    result, status = run(source, case)
    assert status == 0
    np.testing.assert_allclose(result, expected, rtol=4e-6, atol=1e-4, err_msg=source.label)


@pytest.mark.usefixtures("steps_of_loops")
@pytest.mark.skipif(
    FACTS is None or not has_warpgroup_instruction(),
    reason="warps wait for no others, which C cannot stand for",
)
@pytest.mark.parametrize("split", [2, 3, 4, 6])
def test_groups_share_the_depth(split: int) -> None:
    """Each share of a tile is computed by another group, and their sums are stored once."""
    builder = GraphBuilder()
    left, right = (
        builder.input(300, 24 * 64, type=Scalar.FLOAT16),
        builder.weights(260, 24 * 64, type=Scalar.FLOAT16),
    )
    graph = builder.finish(builder.matrix_product(left, right))
    given = random_array(np.random.default_rng(split), left.shape, left.type)
    (expected,) = evaluate(graph, [given])
    (kernel,) = fuse(graph).kernels
    product = gemm_view(kernel)
    assert product is not None
    case = Case(kernels=(kernel,), arrays={left: given}, expected=expected, label="shares")
    with patch.object(warpgroup, "_MIN_MULTIPLICATIONS", 0):
        found = warpgroup_pipeline.candidates(kernel, product, facts(132), relaxed=False, has_workspace=True)
        shared = [each for each in found if each.label.endswith(f"split by {split}")]
    assert len(shared) == _TILINGS
    for source in shared[split % 2 :: 2]:
        result, status = run(source, case)
        np.testing.assert_allclose(result, expected, rtol=2e-3, atol=5e-2, err_msg=source.label)
        assert status == 0


@pytest.mark.usefixtures("steps_of_loops")
@pytest.mark.parametrize("tiling", one_in(3, range(_TILINGS)))
def test_moments_of_rows(tiling: int) -> None:
    """They are those of the product that the same kernel stores."""
    _skip_what_pocl_cannot_compile(tiling)
    first, moments, *_ = fold_normalizations(_normalised().fused(), lambda kernel: True).kernels
    case = _case(first)
    source = sources_of(case, 2, 8, moments.output)[tiling]
    assert source.arguments[source.also_written[0]] is moments.output
    assert source.written == (0, len(source.arguments) - 1)
    case.arrays[moments.output] = np.zeros(moments.output.shape, np.float32)
    result, status = run(source, case)
    case.assert_equal(result, source.label)
    assert status == 0
    expected = _computed(moments, {moments.inputs[0]: result})
    np.testing.assert_allclose(
        case.arrays[moments.output], expected, rtol=2e-3, atol=2e-2, err_msg=source.label
    )


@pytest.mark.usefixtures("steps_of_loops")
@pytest.mark.parametrize("tiling", one_in(3, range(_TILINGS)))
@pytest.mark.parametrize("is_added", [False, True])
def test_results_that_need_numbers_of_rows(is_added: bool, tiling: int) -> None:
    """Products of rows that are not normalised, and sums with rows that are."""
    _skip_what_pocl_cannot_compile(tiling)
    fused = fold_normalizations(_normalised(is_added=is_added).fused(), lambda kernel: True)
    *_, kernel = (each for each in fused.kernels if each.contraction and each.has_reduction)
    case = _case(kernel)
    first, moments, *_ = fused.kernels
    matrix = np.random.default_rng(tiling).standard_normal(first.output.shape).astype(np.float16)
    for value in kernel.inputs:
        if fused.aliases.get(value, value) is first.output:
            case.arrays[value] = matrix.reshape(value.shape)
    case.arrays[moments.output] = _computed(moments, {moments.inputs[0]: matrix})
    expected = _computed(kernel, case.arrays)
    source = sources_of(case, 2, 8)[tiling]
    result, status = run(source, case)
    assert status == 0
    np.testing.assert_allclose(result, expected, rtol=4e-3, atol=2e-2, err_msg=source.label)


def _skip_what_pocl_cannot_compile(tiling: int, columns: int = 0) -> None:
    """Its compiler ends the process for some of the largest texts: those of teams and more columns.

    Args:
        tiling: the tiling.
        columns: how many columns it compiles without teams as well; 0 if any.
    """
    each = warpgroup_pipeline._TILINGS[tiling]
    limit = columns or (128 if each.teams > 1 else each.columns)
    if each.columns > limit and not has_warpgroup_instruction():
        pytest.skip("PoCL's compiler aborts")


def _normalised(*, is_added: bool = False) -> Network:
    return Network(rows=(2, 50), width=192, columns=128, products=1, is_added=is_added)


def _case(kernel: Kernel) -> Case:
    """Returns a kernel with random inputs and what it computes of them."""
    generator = np.random.default_rng(0)
    arrays = {
        value: random_array(generator, value.shape, value.type)
        for value in kernel.inputs
        if value.constant is None
    }
    return Case(kernels=(kernel,), arrays=arrays, expected=_computed(kernel, arrays), label="normalised")


def _computed(kernel: Kernel, arrays: Mapping[Value, Array]) -> Array:
    """Returns what the interpreter computes."""
    constants = {value: value.constant for value in kernel.inputs if value.constant is not None}
    return evaluate_kernel(kernel, {**constants, **arrays})


def test_tiles_and_registers_fit_a_compute_unit() -> None:
    for tiling in warpgroup_pipeline._TILINGS:
        copying, multiplying = warpgroup_pipeline._REGISTERS[tiling.sharing * tiling.teams]
        assert copying * 128 + multiplying * tiling.multiplying <= 1 << 16
        assert tiling.blocks * tiling.columns // 2 + 32 <= multiplying
        assert tiling.scratch_bytes + 1024 <= 227 * 1024
        assert tiling.columns % 64 == 0
        assert tiling.columns % tiling.slab == 0


def test_windows_and_matrices_that_are_no_constants_have_no_candidates() -> None:
    builder = GraphBuilder()
    left, right = (builder.input(1 << 11, 1 << 10, type=Scalar.FLOAT16) for _ in range(2))
    graph = builder.finish(builder.matrix_product(left, right))
    product = gemm_view(fuse(graph).kernels[0])
    assert product is not None
    assert warpgroup.fits(product, facts(132))
    assert not list(warpgroup_pipeline.candidates(fuse(graph).kernels[0], product, facts(132), relaxed=False))
