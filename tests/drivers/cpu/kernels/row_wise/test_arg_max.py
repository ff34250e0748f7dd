"""Arg-max kernels give the graph's indices and stay inside their memory."""

import pytest
from support.compiler.graphs import GraphBuilder
from support.compiler.rankings import expect_places, rows_to_rank
from support.cpu.native import RUNNABLE

from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.target.target import Target

#: One target for each kind of code.
TARGETS = {target.vector_bytes: target for target in RUNNABLE}
#: Shapes of the rows, and their lengths: whole and partial vectors, short and long.
SHAPES = (((), 1), ((3,), 7), ((2, 3), 21), ((5,), 64), ((2,), 65), ((3,), 131), ((), 1000), ((2,), 5003))

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("prefers_lower_index", [False, True])
@pytest.mark.parametrize("kind", [each for each in Scalar if each is not Scalar.INDEX])
def test_indices_of_the_largest(kind: Scalar, prefers_lower_index: bool, target: Target) -> None:
    graphs, arrays = [], []
    for number, (rows, length) in enumerate(SHAPES):
        builder = GraphBuilder()
        source = builder.input(*rows, length, type=kind)
        graphs.append(builder.finish(builder.top_k(source, 1, prefers_lower_index=prefers_lower_index)))
        arrays.append(rows_to_rank(kind, source.shape, (number + 1) % 3 - 1))
    expect_places(graphs, arrays, target)


def test_the_epilogue_is_part_of_the_kernel(target: Target) -> None:
    builder = GraphBuilder()
    source = builder.input(3, 5, 50)
    indices = builder.top_k(source, 1, prefers_lower_index=True)

    def body(*at: Expression) -> Expression:
        return load(indices, (*at, at[0] * 0)).to(Scalar.INT64) + 1

    graph = builder.finish(builder.compute((3, 5), body))
    expect_places([graph], [rows_to_rank(Scalar.FLOAT32, source.shape, 0)], target)
