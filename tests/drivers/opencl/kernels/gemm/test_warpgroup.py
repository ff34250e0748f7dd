"""Products of warpgroups equal the interpreter's; without the instruction, C stands for it."""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from support.compiler.contractions import Case, Cases
from support.compiler.graphs import GraphBuilder
from support.opencl import sources
from support.opencl.facts import has_warpgroup_instruction, warpgroup_facts
from support.opencl.sources import Bench, opencl_facts, program_of
from support.opencl.warps import without_warpgroups
from support.tiers import one_in

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels import select
from neurald.drivers.opencl.kernels.gemm import warpgroup
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, gemm_view
from neurald.drivers.opencl.kernels.select import candidates, is_large_step
from neurald.drivers.opencl.tuning import tuning
from neurald.drivers.opencl.tuning.tuning import Tuner, Tuning
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

_KINDS = (Scalar.FLOAT16, Scalar.INT8, Scalar.UINT8)
_TILINGS = 12


def sources_of(case: Case) -> list[Source]:
    product = gemm_view(case.kernel)
    assert product is not None
    with patch.object(warpgroup, "_MIN_MULTIPLICATIONS", 0):
        return list(warpgroup.candidates(case.kernel, product, warpgroup_facts(), relaxed=False))


def cases(kind: Scalar, form: str, *, seed: int, part: str = "") -> Case:
    """Returns the first case from a seed on that has candidates with a part in their text."""
    while True:
        made = Cases(seed)
        case = (
            made.convolution(kind)
            if form == "convolution"
            else made.matrix_product(kind, batch=(2,) if form == "batches" else ())
        )
        if any(part in each.text for each in sources_of(case)):
            return case
        seed += 1


@pytest.mark.parametrize("tiling", one_in(4, range(_TILINGS)))
@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("form", ["matrices", "batches", "convolution"])
@pytest.mark.sampled(4)
def test_every_tiling_gives_the_same_result(form: str, kind: Scalar, tiling: int) -> None:
    """Sizes are odd, and smaller than tiles."""
    assert FACTS is not None
    case = cases(kind, form, seed=1000 * tiling)
    found = sources_of(case)
    source = found[tiling % len(found)]
    emulated = (lambda text: text) if has_warpgroup_instruction() else without_warpgroups
    with patch.object(sources, "program_of", lambda source: emulated(program_of(source))):
        result, status = Bench(FACTS.handle).run(source, case.arrays)
    case.assert_equal(result, source.label)
    assert status == 0


@pytest.mark.parametrize("form", ["matrices", "batches", "convolution"])
def test_elements_that_are_added_are_loaded_early(form: str) -> None:
    """If they are of 8 bits, for which registers are left."""
    assert FACTS is not None
    case = cases(Scalar.INT8, form, seed=0, part="NEURALD_LOADED(lane)")
    source = next(each for each in sources_of(case) if "NEURALD_LOADED(lane)" in each.text)
    emulated = (lambda text: text) if has_warpgroup_instruction() else without_warpgroups
    with patch.object(sources, "program_of", lambda source: emulated(program_of(source))):
        result, status = Bench(FACTS.handle).run(source, case.arrays)
    case.assert_equal(result, source.label)
    assert status == 0


@pytest.mark.parametrize("tiling", one_in(3, range(_TILINGS)))
@pytest.mark.parametrize("is_one", [False, True])
def test_many_steps_and_one(is_one: bool, tiling: int) -> None:
    """So many that each place in local memory is used several times; one needs few of these."""
    assert FACTS is not None
    graph = _graph(130, 200, 64 if is_one else 1000 if has_warpgroup_instruction() else 680)
    (left,), generator = graph.inputs, np.random.default_rng(tiling)
    given = generator.standard_normal(left.shape).astype(np.float16)
    (expected,) = evaluate(graph, [given])
    (kernel,) = fuse(graph).kernels
    case = Case(kernels=(kernel,), arrays={left: given}, expected=expected, label="steps")
    found = sources_of(case)
    assert len(found) == len({each.label for each in found}) == _TILINGS
    step_bytes = max(each.scratch_bytes for each in found)
    assert (step_bytes < 140_000) is is_one
    emulated = (lambda text: text) if has_warpgroup_instruction() else without_warpgroups
    with patch.object(sources, "program_of", lambda source: emulated(program_of(source))):
        result, _ = Bench(FACTS.handle).run(found[tiling], case.arrays)
    np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-2, err_msg=found[tiling].label)


def test_only_large_aligned_products_of_this_gpu_have_candidates() -> None:
    large = _product(1 << 10, 1 << 9, 1 << 9)
    assert warpgroup.fits(large, warpgroup_facts())
    assert not warpgroup.fits(_product(1 << 8, 1 << 8, 1 << 9), warpgroup_facts())
    assert not warpgroup.fits(_product(1 << 11, 1 << 9, 500), warpgroup_facts())
    for other in (
        {"compute_capability": (8, 9)},
        {"compute_capability": (10, 0)},
        {"is_nvidia": False},
    ):
        assert not warpgroup.fits(large, replace(warpgroup_facts(), **other))
    floats = _product(1 << 10, 1 << 9, 1 << 9, Scalar.FLOAT32)
    kernel = fuse(_graph(1 << 10, 1 << 9, 1 << 9, Scalar.FLOAT32)).kernels[0]
    assert list(warpgroup.candidates(kernel, floats, warpgroup_facts(), relaxed=True))
    assert not list(warpgroup.candidates(kernel, floats, warpgroup_facts(), relaxed=False))


def _graph(rows: int, columns: int, depth: int, kind: Scalar = Scalar.FLOAT16) -> Graph:
    builder = GraphBuilder()
    return builder.finish(
        builder.matrix_product(
            builder.input(rows, depth, type=kind), builder.weights(columns, depth, type=kind)
        )
    )


def _product(rows: int, columns: int, depth: int, kind: Scalar = Scalar.FLOAT16) -> GemmView:
    (kernel,) = fuse(_graph(rows, columns, depth, kind)).kernels
    product = gemm_view(kernel)
    assert product is not None
    return product


@pytest.mark.parametrize(("rows", "is_large"), [(128, False), (192, True)])
def test_steps_of_few_rows_are_not_large(rows: int, is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of few rows leave compute units idle; a persistent kernel of other tiles does not."""
    monkeypatch.setattr(select, "_LARGE_STEP", 1 << 20)
    assert is_large_step(fuse(_graph(rows, 1 << 9, 1 << 9)).kernels) is is_large


@pytest.mark.parametrize("is_large", [False, True])
def test_steps_with_large_products_are_separate_kernels(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only these have candidates that cannot be phases of a persistent kernel."""
    monkeypatch.setattr(select, "_LARGE_STEP", 1 << 28 if is_large else 1 << 40)
    kernels = fuse(_graph(1 << 10, 1 << 9, 1 << 9)).kernels
    assert is_large_step(kernels) is is_large
    found = list(candidates(kernels[0], warpgroup_facts(), relaxed=False, is_large=is_large))
    assert found[0].is_retargeted is is_large
    # Others are candidates, too.
    assert not found[-1].is_retargeted
    measured: list[bool] = []

    def times_ns(device: object, given: list[Source], *, is_resident: bool, **_: object) -> dict[str, float]:
        measured.append(is_resident)
        return {each.name: 1.0 + number for number, each in enumerate(given)}

    monkeypatch.setattr(tuning, "times_ns", times_ns)
    opencl = SimpleNamespace(facts=warpgroup_facts())
    (chosen,) = Tuner(opencl, Tuning.BRIEF).choose([found])  # type: ignore[arg-type]
    assert chosen is found[0]
    assert measured == [not is_large]
