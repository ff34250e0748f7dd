"""Attention of few rows, with shared and separate depths, long rows, and every alignment."""

from unittest.mock import patch

import numpy as np
import pytest
from support.compiler.attention import (
    MASKS,
    Form,
    attention,
    attention_inputs,
    merged_attention,
    with_aliases,
)
from support.opencl import sources
from support.opencl.facts import small_gpu
from support.opencl.sources import Bench, opencl_facts, program_of
from support.opencl.warps import with_tensor_cores, without_warps

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.attention import few_rows
from neurald.drivers.opencl.kernels.attention.attention_view import attention_view
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

#: Rows, columns, depth and features.
SIZES = (
    (1, 128, 64, 64),
    (4, 65, 3, 9),
    (3, 300, 256, 250),
    (1, 2, 1, 1),
    (2, 1100, 16, 6),
    (1, 9, 100, 33),
    (1, 5, 64, 256),
)


def source_of(form: Form, facts: DeviceFacts) -> list[Source]:
    fused = merged_attention(attention(form))
    view = attention_view(fused.kernels[-1])
    assert view is not None
    return list(few_rows.candidates(view, facts))


@pytest.mark.parametrize("has_warps", [False, True], ids=["groups", "warps"])
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_results(number: int, *, has_warps: bool) -> None:
    assert FACTS is not None
    rows, columns, depth, features = SIZES[number]
    form = Form(
        mask=MASKS[number % len(MASKS)],
        rows=rows,
        columns=columns,
        depth=depth,
        features=features,
        is_split=number % 3 == 0,
        has_columns_last=number in (1, 4),
        scales="scores" if number % 3 else "nothing",
    )
    graph = attention(form, number)
    fused = merged_attention(graph)
    view = attention_view(fused.kernels[-1])
    assert view is not None
    (source,) = few_rows.candidates(view, with_tensor_cores(FACTS) if has_warps else small_gpu())
    given = attention_inputs(graph, number)
    known = with_aliases(fused, dict(zip(graph.inputs, given, strict=True)))

    def text(each: Source) -> str:
        program = program_of(each)
        return without_warps(program) if has_warps and not FACTS.is_nvidia else program

    with patch.object(sources, "program_of", text):
        result, status = Bench(FACTS.handle).run(source, known)
    (expected,) = evaluate(graph, given)
    np.testing.assert_allclose(result, expected.reshape(result.shape), rtol=1e-4, atol=2e-5)
    assert status == 0


def test_what_does_not_fit_has_other_kernels() -> None:
    assert source_of(Form(rows=4, columns=500, depth=8, features=8), small_gpu())
    assert not source_of(Form(rows=5, columns=500, depth=8, features=8), small_gpu())
    assert not source_of(Form(rows=4, columns=20000, depth=8, features=8), small_gpu())
    assert not source_of(
        Form(rows=1, columns=9, depth=8, features=8), replace(small_gpu(), max_work_group_size=128)
    )
