import pytest
from support.compiler.graphs import GraphBuilder, changes, kinds
from support.sweeps import sweep

from neurald.drivers.compiler.ir.algorithm import KeySearch
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.expansion.key_search_expansion import expand_key_searches
from neurald.drivers.compiler.passes.expansion.scatter_expansion import procedure_unsupported_reason

pytestmark = pytest.mark.quick


@sweep("kind", [Scalar.INT32, Scalar.INT64])
@sweep("count", [1, 2, 50])
def test_expanded_searches_equal_the_interpreter(count: int, kind: Scalar) -> None:
    builder = GraphBuilder()
    keys, lookups = builder.input(count, type=kind), builder.input(20, type=kind)
    found = builder.procedure(KeySearch(), keys, lookups, output=lookups.shape, type=Scalar.INT32)
    graph = builder.finish(found)
    assert not procedure_unsupported_reason(graph)
    assert changes(graph, expand_key_searches)
    assert set(kinds(graph)) == {"Compute"}
