import pytest
from support.compiler.graphs import GraphBuilder, changes, kinds
from support.sweeps import sweep

from neurald.drivers.compiler.ir.algorithm import RunningSum
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.expansion.running_sum_expansion import expand_running_sums
from neurald.drivers.compiler.passes.expansion.scatter_expansion import procedure_unsupported_reason

pytestmark = pytest.mark.quick


@sweep("is_exclusive", [False, True])
@sweep("is_reverse", [False, True])
@sweep("length", [1, 2, 4, 5, 17, 70])
def test_expanded_sums_equal_the_interpreter(length: int, is_reverse: bool, is_exclusive: bool) -> None:
    for kind in (Scalar.INT32, Scalar.INT64):
        builder = GraphBuilder()
        rule = RunningSum(is_exclusive=is_exclusive, is_reverse=is_reverse)
        source = builder.input(2, length, 3, type=kind)
        graph = builder.finish(builder.procedure(rule, source, output=source.shape, type=kind))
        assert not procedure_unsupported_reason(graph)
        assert changes(graph, expand_running_sums)
        assert set(kinds(graph)) == {"Compute"}


def test_ordered_sums_stay() -> None:
    builder = GraphBuilder()
    source, rule = builder.input(1, 9, 1), RunningSum(is_ordered=True)
    graph = builder.finish(builder.procedure(rule, source, output=source.shape, type=source.type))
    assert procedure_unsupported_reason(graph)
    expand_running_sums(graph)
    assert set(kinds(graph)) == {"Procedure"}
