"""Where the values between kernels lie."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neurald.drivers.compiler.builder import Builder
from neurald.drivers.compiler.expression import load
from neurald.drivers.compiler.fusion import fuse
from neurald.drivers.compiler.graph import Graph, Value
from neurald.drivers.compiler.kernel import FusedGraph
from neurald.drivers.compiler.memory_plan import StoragePlan, plan_storage
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


def planned(graph: FusedGraph, *, is_outside: bool) -> StoragePlan:
    elsewhere = {*graph.inputs, *graph.outputs} if is_outside else set()
    uses = [(*kernel.inputs, kernel.output) for kernel in graph.kernels]
    return plan_storage(graph, uses, alignment=64, elsewhere=elsewhere)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.booleans()), min_size=1, max_size=15),
    st.booleans(),
)
def test_g03_nothing_is_overwritten_that_is_read_later(
    steps: list[tuple[int, int, bool]], is_outside: bool
) -> None:
    """A kernel writes a number of its own; whoever reads the value finds that number."""
    graph = graph_of(steps)
    plan = planned(graph, is_outside=is_outside)
    assert plan.arena.size_bytes <= plan.arena.unshared_bytes
    arena = np.zeros(plan.arena.size_bytes, np.uint8)
    numbers = {kernel.output: number for number, kernel in enumerate(graph.kernels, start=1)}
    numbers.update((value, 100) for value in graph.inputs)

    def place(value: Value) -> np.ndarray:
        assert plan.offsets[value] % 64 == 0
        return arena[plan.offsets[value] :][: value.size_bytes]

    for value in graph.inputs:
        if value in plan.offsets:
            place(value)[:] = numbers[value]
    for kernel in graph.kernels:
        for value in kernel.inputs:
            root = graph.aliases.get(value, value)
            assert (value in plan.offsets) == (root in plan.offsets)
            if value in plan.offsets:
                assert (place(value) == numbers[root]).all()
        if kernel.output in plan.offsets:
            place(kernel.output)[:] = numbers[kernel.output]
    for value in graph.outputs:
        assert (value in plan.offsets) is not is_outside
        if value in plan.offsets:
            assert (place(value) == numbers[value]).all()


def test_what_lies_elsewhere_takes_nothing() -> None:
    graph = graph_of([(0, 0, True), (1, 1, False), (2, 2, False)])
    plan = planned(graph, is_outside=True)
    assert graph.inputs[0] in graph.aliases.values()
    assert len(plan.offsets) == 1
    assert not {*graph.inputs, *graph.outputs} & set(plan.offsets)
    assert len(planned(graph, is_outside=False).offsets) == 3 + len(graph.aliases)


def test_a_chain_takes_two_places() -> None:
    plan = planned(graph_of([(number, number, False) for number in range(10)]), is_outside=True)
    # 9 values of 96 bytes, each read by the next kernel alone.
    assert plan.arena.size_bytes == 2 * 128
    assert plan.arena.unshared_bytes == 9 * 128


def test_constants_take_nothing() -> None:
    table = Value((4,), Scalar.FLOAT32, np.zeros(4, np.float32))
    output = Value((4,), Scalar.FLOAT32)
    graph = FusedGraph(kernels=(), aliases={}, inputs=(), outputs=(output,))
    plan = plan_storage(graph, [(table, output)], alignment=16)
    assert dict(plan.offsets) == {output: 0}
    assert plan.arena.size_bytes == 16
