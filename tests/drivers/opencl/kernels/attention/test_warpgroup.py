"""Attention by warpgroups equals the graph; without the instruction, C stands for it."""

from unittest.mock import patch

import numpy as np
import pytest
from support.compiler.attention import Form, attention, attention_inputs, merged_attention, operands_of_last
from support.opencl import sources
from support.opencl.facts import has_warpgroup_instruction, warpgroup_facts
from support.opencl.sources import Bench, opencl_facts, program_of
from support.opencl.warps import without_warpgroup_attention
from support.tiers import one_in

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.attention import warpgroup
from neurald.drivers.opencl.kernels.attention.attention_view import attention_view
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.precision import Precision, lower_precision
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

#: One and several blocks of rows, steps, and blocks of 128 bytes; masks; lengths that are no
#: multiples of tiles.
FORMS = {
    "one step": Form(rows=33, columns=70, depth=64, features=64),
    "steps": Form(mask="causal", rows=130, columns=130, depth=32, features=64, heads=1),
    "many steps": Form(rows=20, columns=300, depth=64, features=32, heads=1),
    "padded depth": Form(mask="bias", rows=18, columns=33, depth=40, features=24),
    "no weights": Form(mask="full", rows=3, columns=300, depth=16, features=48),
    "narrow": Form(mask="select", rows=20, columns=17, depth=8, features=8, heads=4, key_heads=2),
    "blocks of depth": Form(mask="padding", heads=1, rows=70, columns=40, depth=200, features=72),
    "blocks of features": Form(heads=1, rows=16, columns=90, depth=72, features=256),
}


def lowered(form: Form, precision: Precision = Precision.F16) -> Graph:
    graph = attention(form)
    lower_precision(graph, precision)
    return graph


def sources_of(kernel: Kernel) -> list[Source]:
    view = attention_view(kernel)
    assert view is not None
    with patch.object(warpgroup, "_MIN_MULTIPLICATIONS", 0):
        return list(warpgroup.candidates(view, warpgroup_facts()))


@pytest.mark.parametrize("name", one_in(2, FORMS))
def test_every_tiling_gives_the_same_result(name: str) -> None:
    assert FACTS is not None
    form, bench = FORMS[name], Bench(FACTS.handle)
    graph, lower = attention(form), lowered(form)
    fused = merged_attention(lower)
    given = attention_inputs(graph, 5)
    (expected,) = evaluate(graph, given)
    known = operands_of_last(fused, dict(zip(lower.inputs, given, strict=True)))
    found = sources_of(fused.kernels[-1])
    assert len(found) > 1
    for source in found if has_warpgroup_instruction() else (found[0], found[-1]):
        emulated = (lambda text: text) if has_warpgroup_instruction() else without_warpgroup_attention
        with patch.object(sources, "program_of", lambda source: emulated(program_of(source))):  # noqa: B023
            result, status = bench.run(source, known)
        np.testing.assert_allclose(
            result, expected.reshape(result.shape), rtol=5e-3, atol=3e-3, err_msg=source.label
        )
        assert status == 0


@pytest.mark.parametrize("is_large", [False, True])
def test_only_steps_of_separate_kernels_have_candidates(is_large: bool) -> None:
    """Others may become a persistent kernel, of which these are not phases."""
    (*_, kernel) = merged_attention(
        lowered(Form(heads=32, rows=200, columns=200, depth=64, features=64))
    ).kernels
    found = candidates(kernel, warpgroup_facts(), relaxed=True, is_large=is_large)
    assert found[0].is_retargeted is is_large
    assert not found[-1].is_retargeted


def test_only_large_aligned_attentions_of_halves_have_candidates() -> None:
    large = Form(heads=32, rows=200, columns=200, depth=64, features=64)

    def count(form: Form, precision: Precision = Precision.F16, **changed: object) -> int:
        view = attention_view(merged_attention(lowered(form, precision)).kernels[-1])
        assert view is not None
        return len(list(warpgroup.candidates(view, replace(warpgroup_facts(), **changed))))

    assert count(large) > 4
    assert not count(replace(large, heads=2))
    assert not count(replace(large, features=60))
    assert not count(large, Precision.F32)
    assert not count(large, compute_capability=(8, 9))
    assert not count(large, is_nvidia=False)


def test_the_widest_fits_registers_and_local_memory() -> None:
    for depth, features in ((256, 256), (8, 256), (256, 8), (128, 128)):
        form = Form(heads=1, rows=70, columns=300, depth=depth, features=features)
        (*_, kernel) = merged_attention(lowered(form)).kernels
        found = sources_of(kernel)
        assert found
        assert all(each.scratch_bytes <= 227 * 1024 for each in found)
