"""Few elements of short rows are found one after the other; see also `test_top_k.py`."""

import itertools
import math

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.compiler.rankings import expect_places, rows_to_rank
from support.cpu.native import RUNNABLE
from support.sweeps import sweep

from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.row_wise import heap_top_k, ranked_top_k, sorted_top_k
from neurald.drivers.cpu.kernels.select import generate
from neurald.drivers.cpu.target.target import TARGETS as ALL_TARGETS
from neurald.drivers.cpu.target.target import Target

#: One target for each kind of code.
TARGETS = {target.vector_bytes: target for target in RUNNABLE}
KINDS = [each for each in Scalar if each is not Scalar.INDEX]


@pytest.fixture
def _only_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for other in (ranked_top_k, sorted_top_k, heap_top_k):
        monkeypatch.setattr(other, "cycles", lambda *_: math.inf)


def _label(length: int, count: int, target: str) -> str:
    """Returns the label of the kernel for some of the elements of a row."""
    builder = GraphBuilder()
    indices = builder.top_k(builder.input(3, length), count, prefers_lower_index=True)
    (kernel,) = (each for each in fuse(builder.finish(indices)).kernels if isinstance(each.contraction, TopK))
    return generate(kernel, ALL_TARGETS[target]).label


@pytest.mark.usefixtures("_only_repeated")
@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
@sweep("kind", KINDS)
def test_lengths_and_counts(kind: Scalar, target: Target) -> None:
    graphs, arrays = [], []
    for length, is_lower in itertools.product((1, 2, 5, 16, 33, 64, 65, 100, 129, 256), (False, True)):
        for count in {1, min(length, 3)}:
            builder = GraphBuilder()
            source = builder.input(3, length, type=kind)
            graphs.append(builder.finish(builder.top_k(source, count, prefers_lower_index=is_lower)))
            arrays.append(rows_to_rank(kind, source.shape, length % 3 - 1))
    expect_places(graphs, arrays, target)


@pytest.mark.usefixtures("_only_repeated")
@pytest.mark.parametrize("prefers_lower_index", [False, True])
@sweep("kind", KINDS)
def test_rows_of_the_lowest_elements(kind: Scalar, prefers_lower_index: bool) -> None:
    """The lowest key also takes the place of elements that were found."""
    lowest = -math.inf if kind.is_float else 0 if kind is Scalar.BOOL else np.iinfo(kind.value).min
    graphs, arrays = [], []
    for length in (9, 70):
        builder = GraphBuilder()
        source = builder.input(2, length, type=kind)
        graphs.append(builder.finish(builder.top_k(source, length, prefers_lower_index=prefers_lower_index)))
        given = np.full((2, length), lowest).astype(kind.dtype)
        given[1, ::4] = 1
        arrays.append(given)
    expect_places(graphs, arrays, RUNNABLE[0])


def test_which_rows_are_searched_so() -> None:
    for target, length, count in (
        ("avx512", 64, 5),
        ("avx512", 256, 24),
        ("avx2", 100, 10),
        ("generic", 64, 2),
    ):
        assert "one after the other" in _label(length, count, target)
    for target, length, count in (
        ("avx512", 16, 8),
        ("avx512", 257, 1),
        ("avx2", 256, 50),
        ("generic", 256, 10),
    ):
        assert "one after the other" not in _label(length, count, target)
