"""Top-k kernels give the graph's indices and stay inside their memory."""

import pytest
from support.compiler.graphs import GraphBuilder
from support.compiler.rankings import expect_places, rows_to_rank
from support.cpu.native import RUNNABLE

from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.target.target import Target

#: One target for each kind of code.
TARGETS = {target.vector_bytes: target for target in RUNNABLE}
#: Shape of the rows, their length, and k: whole and partial vectors, few and all elements.
SHAPES = (
    ((), 2, 2),
    ((3,), 7, 7),
    ((2, 3), 41, 41),
    ((2, 2), 70, 3),
    ((2,), 1000, 10),
    ((3,), 1, 1),
    ((4,), 2, 1),
    ((2, 3), 5, 3),
    ((3,), 16, 16),
    ((2,), 37, 9),
    ((2,), 64, 64),
    ((2,), 65, 65),
    ((), 777, 400),
    ((2,), 1500, 1500),
    ((5,), 33, 2),
    ((), 3001, 100),
    ((2,), 2500, 40),
)

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [each for each in Scalar if each is not Scalar.INDEX])
def test_indices(kind: Scalar, target: Target) -> None:
    graphs, arrays = [], []
    for number, (rows, length, count) in enumerate(SHAPES):
        builder = GraphBuilder()
        source = builder.input(*rows, length, type=kind)
        indices = builder.top_k(source, count, prefers_lower_index=bool(number % 2))
        graphs.append(builder.finish(indices))
        arrays.append(rows_to_rank(kind, source.shape, (number + 1) % 3 - 1))
    expect_places(graphs, arrays, target)


def test_the_epilogue_is_part_of_the_kernel(target: Target) -> None:
    builder = GraphBuilder()
    source = builder.input(3, 50)
    indices = builder.top_k(source, 4, prefers_lower_index=True)

    def body(*at: Expression) -> Expression:
        return load(indices, at).to(Scalar.INT64) + 1

    graph = builder.finish(builder.compute(indices.shape, body))
    expect_places([graph], [rows_to_rank(Scalar.FLOAT32, source.shape, 0)], target)
