"""Attention routines give the graph's results and stay inside their memory."""

import numpy as np
import pytest
from support.compiler.attention import MASKS, Form, attention, attention_inputs
from support.cpu.native import RUNNABLE, Array, results

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.graph import Attention, Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.passes.contraction.attention_merging import merge_attention
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.attention.attention import fits
from neurald.drivers.cpu.kernels.row_wise.rows import is_row_by_row
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: One target for each kind of code.
TARGETS = {(target.vector_bytes, target.has_fma): target for target in RUNNABLE}

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)


def merged(graph: Graph, target: Target) -> FusedGraph:
    fused = merge_attention(fuse(graph, is_row_wise=is_row_by_row), lambda kernel: fits(kernel, target))
    (kernel,) = fused.kernels
    assert isinstance(kernel.contraction, Attention)
    return fused


def routine_of(fused: FusedGraph, target: Target) -> Routine:
    routine = routine_for(fused.kernels[0], target)
    assert routine is not None
    return routine


def check(forms: list[Form], target: Target, arrays: list[list[Array]] | None = None) -> None:
    graphs = [attention(form, seed) for seed, form in enumerate(forms)]
    fused = [merged(graph, target) for graph in graphs]
    routines = [routine_of(each, target) for each in fused]
    inputs = (
        [attention_inputs(graph, seed) for seed, graph in enumerate(graphs)] if arrays is None else arrays
    )
    calls = []
    for graph, each, routine, given in zip(graphs, fused, routines, inputs, strict=True):
        known = dict(zip(graph.inputs, given, strict=True))
        known.update(
            (value, known[owner].reshape(value.shape))
            for value, owner in each.aliases.items()
            if owner in known
        )
        calls.append((routine, known))
    found = results(calls, target, has_random_splits=True)
    for form, graph, given, result in zip(forms, graphs, inputs, found, strict=True):
        (expected,) = evaluate(graph, given)
        np.testing.assert_allclose(
            result, expected.reshape(result.shape), rtol=1e-4, atol=1e-5, err_msg=str(form)
        )


def test_masks(target: Target) -> None:
    check(
        [
            Form(mask=mask, rows=rows, columns=columns, is_split=bool(rows % 2))
            for mask in MASKS
            for rows, columns in ((5, 7), (18, 33))
        ],
        target,
    )


def test_sizes(target: Target) -> None:
    sizes = [
        (1, 1, 2, 1, 1),
        (3, 1, 64, 32, 32),
        (2, 2, 3, 1, 17),
        (1, 31, 99, 16, 16),
        (2, 64, 64, 64, 64),
        (1, 15, 130, 128, 5),
        (3, 49, 49, 32, 20),
        (1, 3, 2, 3, 3),
    ]
    check(
        [
            Form(
                heads=heads,
                rows=rows,
                columns=columns,
                depth=depth,
                features=features,
                has_columns_last=bool(number % 2),
                is_split=number % 3 > 0,
            )
            for number, (heads, rows, columns, depth, features) in enumerate(sizes)
        ],
        target,
    )


def test_shared_keys_and_rows_that_evict_each_other(target: Target) -> None:
    check(
        [
            Form(heads=4, key_heads=2, rows=9, columns=21, depth=8, features=12),
            Form(heads=4, key_heads=1, rows=40, columns=21, depth=8, features=12, has_columns_last=True),
            Form(heads=16, rows=33, columns=70, depth=16, features=16),
            Form(heads=32, rows=20, columns=20, depth=9, features=8),
        ],
        target,
    )


def test_special_values(target: Target) -> None:
    form = Form(heads=1, rows=20, columns=37, depth=8, features=6, is_split=False)
    cases = []
    for place, value in ((0, np.nan), (0, np.inf), (1, -np.inf), (1, np.nan), (2, np.nan), (2, np.inf)):
        arrays = attention_inputs(attention(form), 7)
        arrays[place][0, 3, 2] = value
        cases.append(arrays)
    large = attention_inputs(attention(form), 8)
    # Scores of some 1e30, whose exponentials are 0 and 1.
    large[0] *= np.float32(1e15)
    large[1] *= np.float32(1e15)
    cases.append(large)
    # Weights of every size, from 1 to below the normal numbers.
    for factor in (5, 15, 50):
        wide = attention_inputs(attention(form), 10)
        wide[0] *= np.float32(factor)
        cases.append(wide)
    # Sums of weighted values would overflow if they were divided by the sum of weights afterwards.
    heavy = attention_inputs(attention(form), 9)
    heavy[0][:] = 0
    heavy[2] = np.full_like(heavy[2], 3e38)
    cases.append(heavy)
    check([form] * len(cases), target, cases)


def test_operands_that_are_too_large_to_pack_are_not_merged(target: Target) -> None:
    for depth, features, count in ((1024, 4, 1), (2048, 4, 0), (4, 2048, 0)):
        form = Form(heads=1, rows=200, columns=4096, depth=depth, features=features)
        fused = fuse(attention(form), is_row_wise=is_row_by_row)
        kept = merge_attention(fused, lambda kernel: fits(kernel, target))
        found = sum(isinstance(kernel.contraction, Attention) for kernel in kept.kernels)
        assert found == count


def test_equal_kernels_have_the_same_text(target: Target) -> None:
    texts = set()
    for _ in range(2):
        texts.add(routine_of(merged(attention(Form(mask="select")), target), target).text)
    assert len(texts) == 1
    other = routine_of(merged(attention(Form(mask="bias")), target), target)
    assert other.text not in texts
