"""Graphs, recognised patterns of nodes, and index conversion."""

import pytest
from support.compiler.graphs import GraphBuilder, kinds
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, axis, constant, index, load, select
from neurald.drivers.compiler.ir.graph import (
    Compute,
    Pair,
    delinearize,
    inside,
    is_data_movement,
    linearize,
    strides,
)
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value

pytestmark = pytest.mark.quick

SOURCE = Value((2, 3, 4), Scalar.FLOAT32)


def compute(*shape: int, body, type: Scalar = Scalar.FLOAT32) -> Compute:  # type: ignore[no-untyped-def] # noqa: A002
    axes = tuple(axis(length) for length in shape)
    return Compute(output=Value(shape, type), axes=axes, body=body(*axes))


@sweep("shape", [(2, 3, 4), (24,), (6, 4), (4, 6), (1, 2, 12, 1), (3, 8)])
def test_a_reshape_has_an_aliased_input(shape: Shape) -> None:
    node = compute(*shape, body=lambda *at: load(SOURCE, delinearize(linearize(at, shape), SOURCE.shape)))
    assert node.aliased_input is SOURCE
    assert node.inputs == (SOURCE,)


def test_other_nodes_have_no_aliased_input() -> None:
    bodies = [
        compute(2, 4, 3, body=lambda i, j, k: load(SOURCE, (i, k, j))),
        compute(2, 3, 3, body=lambda i, j, k: load(SOURCE, (i, j, k))),
        compute(2, 3, 4, body=lambda i, j, k: load(SOURCE, (i, j, k), j < 2)),
        compute(2, 3, 4, body=lambda i, j, k: load(SOURCE, (1 - i, j, k))),
        compute(2, 3, 4, body=lambda i, j, k: load(SOURCE, (i, j, k)) * 1.0),
        compute(2, 3, 4, body=lambda i, j, k: load(SOURCE, (i, j, k)).to(Scalar.INT32), type=Scalar.INT32),
        compute(2, 3, 4, body=lambda *_: constant(0, Scalar.FLOAT32)),
    ]
    assert [node.aliased_input for node in bodies] == [None] * len(bodies)
    asking = Compute(
        output=Value((2, 3, 4), Scalar.FLOAT32),
        axes=(axis(2), axis(3), axis(4)),
        body=load(SOURCE, (index(0), index(0), index(0))),
        requirements=((constant(True, Scalar.BOOL), ""),),
    )
    assert asking.aliased_input is None


@sweep("pads", [((0, 0), (1, 2), (0, 3)), ((1, 1), (0, 0), (0, 0)), ((2, 0), (3, 1), (1, 1))])
@sweep("number", [0.0, -2.5])
def test_padding(pads: tuple[Pair, ...], number: float) -> None:
    node = padded(SOURCE, pads, number)
    assert node.padding == (SOURCE, pads, constant(number, Scalar.FLOAT32))
    assert node.aliased_input is None


def padded(source: Value, pads: tuple[Pair, ...], number: float) -> Compute:
    shape = tuple(n + before + after for n, (before, after) in zip(source.shape, pads, strict=True))

    def body(*at: Expression) -> Expression:
        indices = tuple(i - before for i, (before, _) in zip(at, pads, strict=True))
        return load(source, indices, inside(indices, source.shape), number)

    return compute(*shape, body=body)


def test_padding_of_length_1() -> None:
    source = Value((1, 3), Scalar.FLOAT32)
    assert padded(source, ((0, 0), (1, 1)), 0.0).padding is not None
    found = padded(source, ((2, 0), (0, 0)), 0.0).padding
    assert found is not None
    assert found[1] == ((2, 0), (0, 0))


def test_other_nodes_are_no_padding() -> None:
    other = load(SOURCE, (index(0), index(0), index(0)))
    bodies = [
        compute(2, 5, 4, body=lambda i, j, k: load(SOURCE, (i, j - 1, k), (j >= 1) & (j < 3))),
        compute(
            2, 5, 4, body=lambda i, j, k: load(SOURCE, (i, j - 1, k), inside((i, j - 1, k), (2, 3, 4)), other)
        ),
        compute(2, 2, 4, body=lambda i, j, k: load(SOURCE, (i, j - 1, k), inside((i, j - 1, k), (2, 3, 4)))),
        compute(2, 6, 4, body=lambda i, j, k: load(SOURCE, (i, j // 2, k), j < 4)),
        compute(2, 3, 4, body=lambda i, j, k: load(SOURCE, (i, j, k))),
        compute(3, 4, body=lambda j, k: load(SOURCE, (index(0), j, k), j < 2)),
    ]
    assert [node.padding for node in bodies] == [None] * len(bodies)


def test_linearize_and_delinearize() -> None:
    assert strides((2, 3, 4)) == (12, 4, 1)
    assert strides(()) == ()
    assert strides((2, 0, 3)) == (0, 3, 1)
    i, j = axis(6), axis(4)
    assert linearize((i, j), (6, 4)) is i * 4 + j
    assert delinearize(i * 4 + j, (6, 4)) == (i, j)
    assert delinearize(i, (0, 3)) == (index(0), i % 3)
    assert linearize((), ()) is index(0)
    assert inside((), ()) is constant(True, Scalar.BOOL)


def test_data_movement() -> None:
    i = axis(2)
    element = load(SOURCE, (i, i, i))
    assert is_data_movement(element)
    assert is_data_movement(constant(3, Scalar.FLOAT32))
    assert is_data_movement(select(i < 1, element, 0))
    assert not is_data_movement(element * 2.0)
    assert not is_data_movement(select(i < 1, element * 2.0, 0))


def test_values() -> None:
    value = Value((2, 3), Scalar.FLOAT16)
    assert (value.count, value.size_bytes) == (6, 12)
    assert Value((), Scalar.INT64).size_bytes == 8
    assert Value((2,), Scalar.INT8) != Value((2,), Scalar.INT8)


def test_producers_consumers_and_unused_nodes() -> None:
    b = GraphBuilder()
    source = b.input(3)
    first = b.compute((3,), lambda i: load(source, (i,)) * 2.0)
    second = b.compute((3,), lambda i: load(first, (i,)) + load(source, (i,)))
    b.compute((3,), lambda i: load(second, (i,)) * 3.0)
    graph = b.finish(second)
    nodes = list(graph.nodes)
    assert graph.producers()[first] is nodes[0]
    assert graph.consumers() == {source: nodes[:2], first: [nodes[1]], second: [nodes[2]]}
    assert graph.remove_unused()
    assert graph.nodes == nodes[:2]
    assert not graph.remove_unused()
    assert kinds(graph) == ["Compute", "Compute"]


def test_values_of_requirements_are_inputs() -> None:
    source, mask = Value((3,), Scalar.FLOAT32), Value((3,), Scalar.BOOL)
    i = axis(3)
    node = Compute(
        output=Value((3,), Scalar.FLOAT32),
        axes=(i,),
        body=load(source, (i,)),
        requirements=((load(mask, (i,)), "the mask"),),
    )
    assert node.inputs == (source, mask)
    assert node.aliased_input is None
