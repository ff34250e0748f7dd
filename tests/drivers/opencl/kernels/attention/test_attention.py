"""Attention kernels give the graph's results, in every form and size."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.compiler.attention import (
    MASKS,
    Form,
    attention,
    attention_inputs,
    merged_attention,
    operands_of_last,
    with_aliases,
)
from support.opencl.facts import small_gpu
from support.opencl.sources import Array, Bench, opencl_facts

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.graph import Attention, Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.attention.attention import fits
from neurald.drivers.opencl.kernels.attention.attention_view import attention_view
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.precision import Precision, lower_precision
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

#: Rows, columns, depth and features.
SIZES = ((5, 7, 4, 4), (1, 65, 3, 9), (70, 130, 64, 64), (18, 33, 40, 100), (3, 300, 256, 250), (1, 2, 1, 1))


def merged(graph: Graph) -> FusedGraph:
    fused = merged_attention(graph, lambda kernel: bool(fits(kernel, small_gpu())))
    assert isinstance(fused.kernels[-1].contraction, Attention)
    return fused


def sources_of(fused: FusedGraph, facts: DeviceFacts) -> Sequence[Source]:
    (kernel,) = fused.kernels
    return candidates(kernel, facts, relaxed=False)


def check(
    bench: Bench, form: Form, seed: int, arrays: list[Array] | None = None, facts: DeviceFacts | None = None
) -> None:
    graph = attention(form, seed)
    fused = merged(graph)
    given = attention_inputs(graph, seed) if arrays is None else arrays
    known = with_aliases(fused, dict(zip(graph.inputs, given, strict=True)))
    sources = sources_of(fused, facts or small_gpu())
    source = sources[seed % len(sources)]
    result, status = bench.run(source, known)
    (expected,) = evaluate(graph, given)
    np.testing.assert_allclose(
        result, expected.reshape(result.shape), rtol=1e-4, atol=2e-5, err_msg=f"{form}: {source.label}"
    )
    assert status == 0


@pytest.mark.parametrize("mask", MASKS)
def test_masks_and_sizes(mask: str, bench: Bench) -> None:
    first = MASKS.index(mask) % 2
    for number, (rows, columns, depth, features) in list(enumerate(SIZES))[first::2]:
        form = Form(
            mask=mask,
            rows=rows,
            columns=columns,
            depth=depth,
            features=features,
            is_split=number % 3 == 0,
            has_columns_last=number in (1, 4),
            scales="scores" if number % 3 else "nothing",
        )
        check(bench, form, MASKS.index(mask) * 5 + number)


def test_heads_share_keys_and_values(bench: Bench) -> None:
    for key_heads in (1, 2, 4):
        form = Form(heads=4, key_heads=key_heads, rows=9, columns=21, depth=8, features=12)
        check(bench, form, key_heads)


def test_special_values(bench: Bench) -> None:
    form = Form(heads=1, rows=20, columns=37, depth=8, features=6, is_split=False)
    cases = []
    for place, value in ((0, np.nan), (0, np.inf), (1, -np.inf), (1, np.nan), (2, np.nan), (2, np.inf)):
        arrays = attention_inputs(attention(form), 7)
        arrays[place][0, 3, 2] = value
        cases.append(arrays)
    # Scores of some 1e30, whose exponentials are 0 and 1.
    large = attention_inputs(attention(form), 8)
    large[0] *= np.float32(1e15)
    large[1] *= np.float32(1e15)
    # Sums of weighted values would overflow if they were divided by the sum of weights afterwards.
    heavy = attention_inputs(attention(form), 9)
    heavy[0][:] = 0
    heavy[2] = np.full_like(heavy[2], 3e38)
    for number, arrays in enumerate((*cases, large, heavy)):
        check(bench, form, number, arrays)


def test_devices_with_little_local_memory_have_small_tiles(bench: Bench) -> None:
    small = replace(small_gpu(), local_memory_bytes=32 << 10, max_work_group_size=64)
    form = Form(rows=33, columns=70, depth=256, features=256)
    sources = sources_of(merged(attention(form)), small)
    assert all(each.local_size <= 64 and each.scratch_bytes <= 32 << 10 for each in sources)
    check(bench, form, 0, facts=small)


@pytest.mark.parametrize("precision", [Precision.F32_F16, Precision.F16])
def test_float16(precision: Precision, bench: Bench) -> None:
    """Rounds operands and results only."""
    form = Form(mask="select", rows=33, columns=50, depth=16, features=24)
    graph, lower = attention(form), attention(form)
    lower_precision(lower, precision)
    fused = merged(lower)
    given = attention_inputs(graph, 3)
    known = operands_of_last(fused, dict(zip(lower.inputs, given, strict=True)))
    result, _ = bench.run(candidates(fused.kernels[-1], small_gpu(), relaxed=True)[0], known)
    (expected,) = evaluate(graph, given)
    np.testing.assert_allclose(result, expected, rtol=4e-3, atol=4e-3)


def test_only_gpus_and_supported_widths_have_kernels() -> None:
    assert FACTS is not None
    for depth, count in ((256, 1), (257, 0)):
        fused = merged_attention(attention(Form(depth=depth)))
        assert bool(fits(fused.kernels[0], small_gpu())) is bool(count)
        assert not fits(fused.kernels[0], replace(FACTS, kind=DeviceKind.CPU))


def test_operands_are_read_in_place() -> None:
    view = attention_view(merged(attention(Form(heads=2, depth=8, is_split=True))).kernels[0])
    assert view is not None
    assert (view.query.row, view.query.inner) == (16, 1)
    assert view.query.is_aligned
    odd = attention_view(merged(attention(Form(heads=2, depth=5, is_split=True))).kernels[0])
    assert odd is not None
    assert not odd.query.is_aligned


def test_equal_kernels_have_the_same_text() -> None:
    texts = {sources_of(merged(attention(Form(mask="bias"))), small_gpu())[0].text for _ in range(2)}
    assert len(texts) == 1
