"""Elements of short rows are ranked by counting; see also `test_top_k.py`."""

import itertools

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.compiler.rankings import expect_places, rows_to_rank
from support.cpu.native import RUNNABLE
from support.sweeps import sweep

from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.select import generate
from neurald.drivers.cpu.target.target import Target

#: One target for each kind of code.
TARGETS = {target.vector_bytes: target for target in RUNNABLE}


def _label(length: int, count: int, kind: Scalar) -> str:
    """Returns the label of the kernel for some of the elements of a row."""
    builder = GraphBuilder()
    indices = builder.top_k(builder.input(3, length, type=kind), count, prefers_lower_index=True)
    (kernel,) = (each for each in fuse(builder.finish(indices)).kernels if isinstance(each.contraction, TopK))
    return generate(kernel, RUNNABLE[0]).label


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
@sweep("kind", [each for each in Scalar if each is not Scalar.INDEX])
def test_lengths_and_counts(kind: Scalar, target: Target) -> None:
    graphs, arrays = [], []
    for length, is_lower in itertools.product((2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 33, 63, 64), (False, True)):
        for count in {2, length // 2 + 1, length}:
            builder = GraphBuilder()
            source = builder.input(3, length, type=kind)
            indices = builder.top_k(source, count, prefers_lower_index=is_lower)
            graphs.append(builder.finish(indices))
            arrays.append(rows_to_rank(kind, source.shape, count % 3 - 1))
    expect_places(graphs, arrays, target)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
@pytest.mark.parametrize("prefers_lower_index", [False, True])
def test_equal_elements_keep_their_order(prefers_lower_index: bool, target: Target) -> None:
    builder = GraphBuilder()
    source = builder.input(2, 19)
    graph = builder.finish(builder.top_k(source, 19, prefers_lower_index=prefers_lower_index))
    rows = np.array([[0.0, -0.0] * 9 + [0.0], [np.nan] * 19], np.float32)
    expect_places([graph], [rows], target)


def test_rows_are_ranked_if_they_are_short() -> None:
    assert "ranked" in _label(2, 2, Scalar.FLOAT32)
    assert "ranked" in _label(33, 10, Scalar.FLOAT32)
    assert "ranked" in _label(64, 64, Scalar.INT64)
    assert "ranked" not in _label(65, 65, Scalar.FLOAT32)
