"""Short runs of `tests/random_graphs/run.py`, and tests of its parts."""

from collections.abc import Sequence

import numpy as np
import pytest
from random_graphs.check import Mismatch, mismatches
from random_graphs.comparison import Envelope
from random_graphs.graph import RandomGraph, random_graph
from random_graphs.reduction import reduced
from random_graphs.reference import Evaluation, Noise
from random_graphs.run import run
from support.sweeps import sweep
from support.tiers import Tier, current_tier

import neurald as nd
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array

#: Number of graphs that run in every way.
COUNT = 12 if current_tier() is Tier.FULL else 6


@pytest.mark.slow
def test_all_ways_give_the_same_results() -> None:
    progress, types = run(COUNT, seed=7, jobs=2)
    assert progress.findings == []
    assert progress.done == COUNT
    assert len(types) > 30


@sweep("seed", range(200, 230))
def test_splits_of_references_give_the_same_bits(seed: int) -> None:
    assert list(mismatches(random_graph(seed), ["references", "split references"])) == []


def test_a_graph_depends_on_its_seed_only() -> None:
    first, second = random_graph(3), random_graph(3)
    assert first.model.main.operations == second.model.main.operations
    assert [a.tobytes() for a in first.expected] == [b.tobytes() for b in second.expected]


@pytest.mark.full
@pytest.mark.slow
def test_the_graphs_cover_everything_to_be_tested() -> None:
    graphs = [random_graph(seed) for seed in range(150)]
    types = frozenset[OperationType]().union(*(graph.operations for graph in graphs))
    assert len(types) > 150
    assert {OperationType.IF, OperationType.WHILE, OperationType.CONV_2D} <= types
    shapes = [array.shape for graph in graphs for array in graph.expected]
    assert {len(shape) for shape in shapes} >= {0, 1, 2, 3, 4, 5}
    assert any(0 in shape for shape in shapes)
    assert any(graph.model.referenced for graph in graphs)
    assert any(graph.model.pools for graph in graphs)
    operands = [operand for graph in graphs for operand in graph.model.main.operands]
    assert any(operand.channel_quant for operand in operands)
    assert any(operand.dimensions is None for operand in operands)


def _wrong(graph: RandomGraph) -> list[tuple[int, Array]]:
    """Returns each output of a graph with one element off by a tenth or by one."""
    changed = []
    for position, array in enumerate(graph.expected):
        if array.size and np.all(np.isfinite(array)):
            other = array.copy()
            flat = other.reshape(-1)
            flat[0] = not flat[0] if other.dtype.kind == "b" else flat[0] + np.asarray(1, other.dtype)
            if other.dtype.kind in "fc":
                flat[0] = array.reshape(-1)[0] * 1.1 + 0.1
            changed.append((position, other))
    return changed


@pytest.mark.slow
def test_nearly_every_wrong_element_is_detected() -> None:
    """Elements decided by rounding are not compared, which must be very few."""
    graphs = [random_graph(seed) for seed in range(300, 306)]
    found = [
        bool(Envelope(graph).difference(position, array, is_exact=False))
        for graph in graphs
        for position, array in _wrong(graph)
    ]
    assert len(found) > 15
    assert sum(found) / len(found) > 0.9


def test_a_mismatch_is_reduced() -> None:
    """Shrinks to the one faulty operation."""
    graph = next(
        graph
        for graph in map(random_graph, range(100))
        if OperationType.TANH in graph.operations and len(graph.model.main.operations) > 8
    )

    def fails(smaller: RandomGraph) -> bool:
        return OperationType.TANH in {operation.type for operation in smaller.model.main.operations}

    small = reduced(graph, fails)
    assert [operation.type for operation in small.model.main.operations] == [OperationType.TANH]
    assert [a.tobytes() for a in Evaluation(small.model).outputs(small.inputs)] == [
        a.tobytes() for a in small.expected
    ]


def _filled_with(angle: float) -> RandomGraph:
    """Builds a vector whose length is a rounded sine; the declared length is one."""
    builder = nd.ModelBuilder()
    value = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (1,))
    made = [value]
    for operation, kind in (
        (OperationType.SIN, nd.OperandType.TENSOR_FLOAT32),
        (OperationType.FLOOR, nd.OperandType.TENSOR_FLOAT32),
        (OperationType.CAST, nd.OperandType.TENSOR_INT32),
    ):
        made.append(builder.add_operand(kind, (1,)))
        builder.add_operation(operation, [made[-2]], [made[-1]])
    content = builder.add_operand(nd.OperandType.FLOAT32)
    builder.set_operand_value(content, 2.0)
    output = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (1,))
    builder.add_operation(OperationType.FILL, [made[-1], content], [output])
    builder.identify_inputs_and_outputs([value], [output])
    array, expected = np.array([angle], np.float32), np.array([2.0], np.float32)
    return RandomGraph(seed=0, model=builder.finish(), inputs=(array,), expected=(expected,))


def test_a_shape_that_rounding_decides_may_be_refused() -> None:
    assert Envelope(_filled_with(np.pi / 2)).may_fail()
    assert not Envelope(random_graph(3, 1)).may_fail()


def _found(mismatch: Sequence[Mismatch]) -> list[str]:
    return [each.way.partition(",")[0] for each in mismatch]


def test_a_failing_way_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph with wrong expected values must mismatch in every way."""
    graph = next(g for g in map(random_graph, range(100)) if _wrong(g))
    position, other = _wrong(graph)[0]
    expected = list(graph.expected)
    expected[position] = other
    wrong = RandomGraph(seed=graph.seed, model=graph.model, inputs=graph.inputs, expected=tuple(expected))
    assert set(_found(list(mismatches(wrong, ["references", "split references"])))) == {
        "references",
        "split references",
    }


def test_noise_changes_signs_of_zeros_and_nans_and_the_order_of_products() -> None:
    noise = Noise(0)
    signs = {bool(np.signbit(noise.on(np.zeros(8, np.float32))[0])) for _ in range(32)}
    signs |= {bool(np.signbit(noise.on(np.full(8, -0.0, np.float32))[0])) for _ in range(32)}
    assert signs == {True, False}
    assert {bool(np.signbit(noise.on(np.full(1, np.nan, np.float32))[0])) for _ in range(32)} == {True, False}
    axes = np.array([0, 2], np.int32)
    factors = np.random.default_rng(1).uniform(0.5, 2, (3, 4, 5)).astype(np.float16)
    parts = noise.in_parts(factors, axes)
    np.testing.assert_allclose(
        parts.prod(axis=(0, 2)), factors.astype(np.float64).prod(axis=(0, 2)), rtol=1e-5
    )
    # One part overflows, and the other one underflows: their product depends on the order.
    extreme = np.repeat(np.array([1e4, 1e-4], np.float16), 40).reshape(4, 1, 20)
    with np.errstate(all="ignore"):
        found = {str(noise.in_parts(extreme, axes).prod()) for _ in range(64)}
    assert len(found) > 1
