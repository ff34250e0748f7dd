"""Attention on tensor cores computes the same as the graph; without them, warps are emulated."""

from unittest.mock import patch

import numpy as np
import pytest
from support.compiler.attention import Form, attention, attention_inputs, merged_attention, operands_of_last
from support.opencl import sources
from support.opencl.sources import Bench, opencl_facts, program_of
from support.opencl.warps import with_tensor_cores, without_warps
from support.tiers import one_in

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.graph import Attention
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.attention import tensor_core
from neurald.drivers.opencl.kernels.attention.attention_view import attention_view
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.precision import Precision, lower_precision

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

#: Several batches of rows, of steps and of warps; masks; lengths that are not multiples of tiles.
FORMS = {
    "one step": Form(rows=33, columns=70, depth=32, features=32),
    "steps": Form(mask="causal", rows=70, columns=130, depth=64, features=64),
    "padded depth": Form(mask="bias", rows=18, columns=33, depth=40, features=24),
    "no weights": Form(mask="full", rows=3, columns=300, depth=16, features=48),
    "narrow": Form(mask="select", rows=20, columns=17, depth=8, features=8, heads=4, key_heads=2),
    "wide": Form(mask="padding", heads=1, rows=120, columns=40, depth=256, features=200),
}


def facts() -> DeviceFacts:
    assert FACTS is not None
    return with_tensor_cores(FACTS)


def sources_of(kernel: Kernel) -> list[Source]:
    view = attention_view(kernel)
    assert view is not None
    return list(tensor_core.candidates(view, facts()))


@pytest.mark.parametrize("name", one_in(2, FORMS))
def test_every_tiling_gives_the_same_result(name: str) -> None:
    assert FACTS is not None
    form, bench = FORMS[name], Bench(FACTS.handle)
    graph, lower = attention(form), attention(form)
    lower_precision(lower, Precision.F16)
    fused = merged_attention(lower)
    given = attention_inputs(graph, 5)
    (expected,) = evaluate(graph, given)
    known = operands_of_last(fused, dict(zip(lower.inputs, given, strict=True)))
    found = sources_of(fused.kernels[-1])
    assert found
    for source in (found[0], found[-1]):
        emulated = (lambda text: text) if FACTS.is_nvidia else without_warps
        with patch.object(sources, "program_of", lambda source: emulated(program_of(source))):  # noqa: B023
            result, status = bench.run(source, known)
        np.testing.assert_allclose(
            result, expected.reshape(result.shape), rtol=5e-3, atol=3e-3, err_msg=source.label
        )
        assert status == 0


def test_only_aligned_rows_of_halves_are_multiplied_on_tensor_cores() -> None:
    for form, precision, is_supported in (
        (Form(depth=16, features=16), Precision.F16, True),
        (Form(depth=16, features=16), Precision.F32, False),
        (Form(depth=12, features=16), Precision.F16, False),
        (Form(depth=16, features=20), Precision.F16, False),
    ):
        graph = attention(form)
        lower_precision(graph, precision)
        fused = merged_attention(graph)
        assert isinstance(fused.kernels[-1].contraction, Attention)
        assert bool(sources_of(fused.kernels[-1])) is is_supported
