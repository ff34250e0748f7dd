import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, changes, kinds
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.expansion.top_k_expansion import expand_top_k, top_k_unsupported_reason

pytestmark = pytest.mark.quick


def _top_k(kind: Scalar, *shape: int, count: int, prefers_lower_index: bool) -> Graph:
    builder = GraphBuilder()
    source = builder.input(*shape, type=kind)
    return builder.finish(builder.top_k(source, count, prefers_lower_index=prefers_lower_index))


@sweep("prefers_lower_index", [False, True])
@sweep("kind", [Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT8, Scalar.UINT32, Scalar.BOOL])
def test_expanded_top_k_equals_the_interpreter(kind: Scalar, prefers_lower_index: bool) -> None:
    for shape, count in (((9,), 9), ((3, 20), 4), ((2, 1, 5), 1), ((0, 3), 2), ((6,), 1)):
        graph = _top_k(kind, *shape, count=count, prefers_lower_index=prefers_lower_index)
        assert changes(graph, expand_top_k)
        assert kinds(graph) == ["Compute", "Compute"]


def test_nan_is_the_largest() -> None:
    row = np.array([1, np.nan, -np.inf, np.inf, 0, -0.0, np.nan], np.float32)
    for prefers_lower_index, expected in ((True, [1, 6, 3, 0, 4, 5, 2]), (False, [6, 1, 3, 0, 5, 4, 2])):
        graph = _top_k(Scalar.FLOAT32, 7, count=7, prefers_lower_index=prefers_lower_index)
        for _ in range(2):
            assert evaluate(graph, [row])[0].tolist() == expected
            expand_top_k(graph)


def test_long_rows_are_not_supported() -> None:
    assert not top_k_unsupported_reason(_top_k(Scalar.INT32, 1000, count=3, prefers_lower_index=True))
    refused = _top_k(Scalar.INT32, 20_000, count=3, prefers_lower_index=True)
    assert (
        top_k_unsupported_reason(refused)
        == "top-k of 20000 elements in rows of 20000 is too large to expand: "
        "it needs 400000000 comparisons; at most 1048576 are allowed"
    )
