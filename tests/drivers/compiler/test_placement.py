"""Where the values of a step lie, while its kernels run one after another."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neurald.drivers.compiler.builder import Builder
from neurald.drivers.compiler.expression import load
from neurald.drivers.compiler.fusion import fuse
from neurald.drivers.compiler.graph import Graph, Value
from neurald.drivers.compiler.kernel import FusedGraph
from neurald.drivers.compiler.placement import Base, Placement, place
from neurald.drivers.compiler.scalar import Scalar


def graph_of(steps: list[tuple[int, int, bool]]) -> FusedGraph:
    """One kernel a step: it adds two values so far, or sees one in another shape."""
    source = Value((4, 6), Scalar.FLOAT32)
    graph = Graph(inputs=[source], outputs=[])
    builder = Builder(graph, lambda _: source)
    values = [source]
    for first, second, is_view in steps:
        one, other = values[first % len(values)], values[second % len(values)]
        if is_view:
            values.append(builder.reshape(one, (6, 4) if one.shape == (4, 6) else (4, 6)))
        else:
            seen = builder.reshape(other, one.shape)
            values.append(builder.compute(one.shape, lambda *at, a=one, b=seen: load(a, at) + load(b, at)))
    graph.outputs = [values[-1]]
    return fuse(graph, enabled=False)


def placed(graph: FusedGraph) -> Placement:
    return place(graph, [(*kernel.inputs, kernel.output) for kernel in graph.kernels], alignment=64)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.booleans()), min_size=1, max_size=15))
def test_g03_nothing_is_overwritten_that_is_read_later(steps: list[tuple[int, int, bool]]) -> None:
    """A kernel writes a number of its own; whoever reads the value finds that number."""
    graph = graph_of(steps)
    placement = placed(graph)
    assert placement.arena_bytes <= placement.unshared_bytes
    arena = np.zeros(placement.arena_bytes, np.uint8)
    numbers = {kernel.output: number for number, kernel in enumerate(graph.kernels, start=1)}
    numbers.update((value, 100) for value in graph.inputs)

    def contents(value: Value) -> np.ndarray:
        (where,) = placement.of([value])
        assert where.base is Base.ARENA
        assert where.offset % 64 == 0
        return arena[where.offset :][: value.size_bytes]

    for value in graph.inputs:
        if value in placement.places:
            contents(value)[:] = numbers[value]
    for kernel in graph.kernels:
        for value in kernel.inputs:
            assert (contents(value) == numbers[graph.aliases.get(value, value)]).all()
        contents(kernel.output)[:] = numbers[kernel.output]
    for value in graph.outputs:
        assert (contents(value) == numbers[value]).all()


def test_a_chain_takes_two_places_between_its_ends() -> None:
    placement = placed(graph_of([(number, number, False) for number in range(10)]))
    # 11 values of 96 bytes. Input and output share the bytes of what is not there at the same time.
    assert placement.arena_bytes == 2 * 128
    assert placement.unshared_bytes == 11 * 128


def test_constants_lie_apart_and_once() -> None:
    table, other = (Value((5,), Scalar.FLOAT32, np.full(5, number, np.float32)) for number in (1, 2))
    output = Value((5,), Scalar.FLOAT32)
    graph = FusedGraph(kernels=(), aliases={}, inputs=(), outputs=(output,))
    placement = place(graph, [(table, other, output), (other, table, output)], alignment=32)
    assert [(where.base, where.offset) for where in placement.of([table, other, output])] == [
        (Base.CONSTANTS, 0),
        (Base.CONSTANTS, 32),
        (Base.ARENA, 0),
    ]
    assert placement.constants.view(np.float32)[[0, 4, 8, 12]].tolist() == [1, 1, 2, 2]
    assert placement.arena_bytes == 32
