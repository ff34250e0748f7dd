"""Attention that reads keys and values from where a concatenation reads them."""

import numpy as np
import pytest
from support.compiler.attention import Form, attention, merged_attention
from support.compiler.graphs import random_array
from support.opencl.facts import small_gpu
from support.opencl.sources import Bench, opencl_facts
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate, evaluate_fused
from neurald.drivers.compiler.ir.graph import Attention
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.opencl.kernels.attention import attention as routines
from neurald.drivers.opencl.kernels.attention import few_rows
from neurald.drivers.opencl.kernels.attention.appended import read_appended
from neurald.drivers.opencl.kernels.attention.attention_view import attention_view
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

#: Rows, columns, appended columns, depth, features, and heads of keys.
SIZES = ((1, 128, 1, 64, 64, 2), (2, 9, 2, 6, 3, 1), (4, 5, 4, 8, 4, 2), (1, 2, 1, 1, 1, 2))


def fused_of(form: Form, seed: int = 0) -> FusedGraph:
    fused = merged_attention(attention(form, seed))
    return read_appended(fused, lambda kernel: routines.fits(kernel, small_gpu()))


def form_of(number: int, *, is_kept: bool) -> Form:
    rows, columns, appended, depth, features, key_heads = SIZES[number]
    return Form(
        rows=rows,
        columns=columns,
        appended=appended,
        depth=depth,
        features=features,
        key_heads=key_heads,
        is_split=False,
        is_kept=is_kept,
    )


@sweep("number", range(len(SIZES)))
def test_results(number: int) -> None:
    assert FACTS is not None
    form = form_of(number, is_kept=number % 2 == 0)
    graph, fused = attention(form), fused_of(form)
    generator = np.random.default_rng(number)
    given = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    expected = evaluate(graph, given)
    for found, wanted in zip(evaluate_fused(fused, given), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5)
    (kernel,) = (each for each in fused.kernels if isinstance(each.contraction, Attention))
    view = attention_view(kernel)
    assert view is not None
    assert view.is_appended
    (source,) = few_rows.candidates(view, small_gpu())
    known = dict(zip(fused.inputs, given, strict=True))
    known.update((value, known[owner].reshape(value.shape)) for value, owner in fused.aliases.items())
    assert set(source.arguments[1:]) <= known.keys()
    result, status = Bench(FACTS.handle).run(source, known)
    np.testing.assert_allclose(result, expected[0].reshape(result.shape), rtol=1e-4, atol=2e-5)
    assert status == 0


def test_concatenations_are_behind_it_or_not_needed() -> None:
    kept, dropped = (fused_of(form_of(0, is_kept=is_kept)) for is_kept in (True, False))
    assert [isinstance(each.contraction, Attention) for each in kept.kernels] == [True, False, False]
    assert [isinstance(each.contraction, Attention) for each in dropped.kernels] == [True]


def test_many_rows_read_the_concatenation() -> None:
    """Other kernels of attention read matrices whose rows have one stride."""
    fused = fused_of(replace(form_of(0, is_kept=False), rows=5))
    assert [isinstance(each.contraction, Attention) for each in fused.kernels] == [False, False, True]
