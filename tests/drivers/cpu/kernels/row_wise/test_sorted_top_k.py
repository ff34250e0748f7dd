"""Rows of which many elements are wanted are sorted by their digits; see also `test_top_k.py`."""

import math

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.compiler.rankings import expect_places
from support.cpu.native import RUNNABLE
from support.sweeps import sweep

from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.select import generate


def _label(length: int, count: int, kind: Scalar) -> str:
    """Returns the label of the kernel for some of the elements of a row."""
    builder = GraphBuilder()
    indices = builder.top_k(builder.input(3, length, type=kind), count, prefers_lower_index=True)
    (kernel,) = (each for each in fuse(builder.finish(indices)).kernels if isinstance(each.contraction, TopK))
    return generate(kernel, RUNNABLE[0]).label


@pytest.mark.parametrize("prefers_lower_index", [False, True])
@sweep("kind", [each for each in Scalar if each is not Scalar.INDEX])
def test_extreme_and_equal_numbers(kind: Scalar, prefers_lower_index: bool) -> None:
    builder = GraphBuilder()
    source = builder.input(2, 600, type=kind)
    indices = builder.top_k(source, 500, prefers_lower_index=prefers_lower_index)
    if kind.is_float:
        limits = np.finfo(kind.value)
        some = [limits.min, limits.max, -0.0, 0.0, np.nan, math.inf, -math.inf, limits.tiny, -1.5, 2.5]
    elif kind is Scalar.BOOL:
        some = [0, 1]
    else:
        whole = np.iinfo(kind.value)
        some = [whole.min, whole.max, whole.min + 1, whole.max - 1, 0, 1, 100]
    given = np.random.default_rng(2).choice(np.array(some, kind.dtype), (2, 600))
    expect_places([builder.finish(indices)], [given], RUNNABLE[0])


def test_rows_are_sorted_if_many_elements_are_wanted() -> None:
    assert "sorted" in _label(1000, 500, Scalar.FLOAT32)
    assert "sorted" not in _label(1000, 10, Scalar.FLOAT32)
    # Bytes have one digit, long integers eight.
    assert "sorted" in _label(70, 35, Scalar.INT8)
    assert "sorted" not in _label(70, 35, Scalar.INT64)
