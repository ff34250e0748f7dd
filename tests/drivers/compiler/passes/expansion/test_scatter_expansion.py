import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, changes, kinds
from support.sweeps import sweep

from neurald.drivers.compiler.ir.algorithm import Positions
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.expansion.scatter_expansion import (
    expand_scatters,
    procedure_unsupported_reason,
)

pytestmark = pytest.mark.quick


def _scatter(
    kind: Scalar, reduction: ReductionOp | None, count: int, *, has_base: bool, index: Scalar = Scalar.INT32
) -> Graph:
    builder = GraphBuilder()
    destinations, updates = builder.input(count, type=index), builder.input(count, 3, type=kind)
    base = builder.input(4, 3, type=kind) if has_base else None
    return builder.finish(
        builder.scatter(destinations, updates, output=(4, 3), reduction=reduction, initial=1, base=base)
    )


@sweep("reduction", [None, ReductionOp.SUM, ReductionOp.PRODUCT, ReductionOp.MINIMUM, ReductionOp.MAXIMUM])
@sweep("kind", [Scalar.FLOAT32, Scalar.INT8, Scalar.UINT32, Scalar.INT64, Scalar.BOOL])
def test_expanded_scatters_equal_the_interpreter(kind: Scalar, reduction: ReductionOp | None) -> None:
    for count, has_base, index in (
        (9, False, Scalar.INT32),
        (30, True, Scalar.INT64),
        (0, True, Scalar.INT32),
    ):
        graph = _scatter(kind, reduction, count, has_base=has_base, index=index)
        assert not procedure_unsupported_reason(graph)
        assert changes(graph, expand_scatters)
        assert set(kinds(graph)) <= {"Compute"}


def test_what_is_not_expanded() -> None:
    builder = GraphBuilder()
    destinations, updates = builder.input(1 << 16, type=Scalar.INT32), builder.input(1 << 16, 1)
    graph = builder.finish(builder.scatter(destinations, updates, output=(1 << 16, 1)))
    assert "takes too many comparisons" in procedure_unsupported_reason(graph)
    builder = GraphBuilder()
    graph = builder.finish(builder.procedure(Positions(), builder.input(5), output=(6,)))
    assert procedure_unsupported_reason(graph).startswith("positions is computed step by step")
    assert not procedure_unsupported_reason(Graph(inputs=[], outputs=[]))
    assert np.prod(graph.outputs[0].shape) == 6
