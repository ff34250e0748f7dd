"""Products on tensor cores equal the interpreter's; without them, warps are emulated."""

from unittest.mock import patch

import pytest
from support.compiler.contractions import Case, Cases
from support.opencl import sources
from support.opencl.sources import Bench, opencl_facts, program_of
from support.opencl.warps import with_tensor_cores, without_warps
from support.tiers import one_in

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.gemm import tensor_core
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

_KINDS = (Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT8, Scalar.UINT8)
_FORMS = ("matrices", "batches", "convolution", "few channels")


def sources_of(case: Case) -> list[Source]:
    """Returns all tilings, also those that are larger than the product."""
    assert FACTS is not None
    product = gemm_view(case.kernel)
    assert product is not None
    facts = with_tensor_cores(FACTS)
    with patch.object(tensor_core, "_is_too_large", lambda *_: False):
        return list(tensor_core.candidates(case.kernel, product, facts, relaxed=False, has_workspace=True))


def made(form: str, kind: Scalar, seed: int) -> Case:
    """Returns the first case from a seed on with candidates; some convolutions gather elements."""
    while True:
        cases = Cases(seed)
        if form in ("convolution", "few channels"):
            case = cases.convolution(kind)
        else:
            case = cases.matrix_product(kind, batch=(2,) if form == "batches" else ())
        product = gemm_view(case.kernel)
        assert product is not None
        is_gathered = product.run % (16 // kind.size_bytes) != 0
        if sources_of(case) and (form != "few channels" or is_gathered):
            return case
        seed += 1


@pytest.mark.parametrize("part", one_in(8, range(8)))
@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("form", _FORMS)
def test_every_tiling_gives_the_same_result(form: str, kind: Scalar, part: int) -> None:
    """Sizes are odd, and mostly smaller than tiles."""
    assert FACTS is not None
    case = made(form, kind, 100 * part)
    found = sources_of(case)
    bench = Bench(FACTS.handle)
    emulated = (lambda text: text) if FACTS.is_nvidia else without_warps
    # A GPU that has the instructions runs all of them.
    for source in found[part::8][: None if FACTS.is_nvidia else 1]:
        with patch.object(sources, "program_of", lambda source: emulated(program_of(source))):
            result, status = bench.run(source, case.arrays)
        case.assert_equal(result, source.label)
        assert status == 0
