"""Operations with constants are replaced by cheaper ones with the same results."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, changes
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Apply, Expression, apply, constant, load
from neurald.drivers.compiler.ir.graph import Compute, Graph
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.passes.strength_reduction import reduce_strength

pytestmark = pytest.mark.quick

_VALUES = np.array([0.0, -0.0, 1.5, -1.5, 3e-20, -7.25, 1e13, np.inf, -np.inf, np.nan], np.float32)


def _ops(graph: Graph) -> set[Op]:
    (node,) = graph.nodes
    assert isinstance(node, Compute)
    return {each.op for each in walk(node.body) if isinstance(each, Apply)}


def _graph(body: object, kind: Scalar = Scalar.FLOAT32) -> Graph:
    b = GraphBuilder()
    source = b.input(len(_VALUES), type=kind)
    found: Expression = body  # type: ignore[assignment]
    return b.finish(b.compute((len(_VALUES),), lambda i: found(load(source, (i,)))))  # type: ignore[operator]


@sweep("exponent", [0, 1, 2, 3, 4])
@sweep("kind", [Scalar.FLOAT32, Scalar.INT32])
def test_small_powers_are_products(exponent: int, kind: Scalar) -> None:
    def body(x: Expression) -> Expression:
        return apply(Op.POWER, x, constant(exponent, kind))

    values = _VALUES if kind is Scalar.FLOAT32 else np.arange(-5, 5, dtype=np.int32)
    graph = _graph(body, kind)
    (before,) = evaluate(graph, [values])
    assert reduce_strength(graph)
    assert _ops(graph) <= {Op.MULTIPLY}
    (after,) = evaluate(graph, [values])
    np.testing.assert_allclose(after, before, rtol=4e-7 if exponent > 2 else 0)
    assert not reduce_strength(graph)


@sweep("exponent", [-1.0, 0.5, 2.5, 5.0, np.nan])
def test_other_powers_are_kept(exponent: float) -> None:
    graph = _graph(lambda x: apply(Op.POWER, x, constant(exponent, Scalar.FLOAT32)))
    assert not changes(graph, reduce_strength)


@sweep(
    ("divisor", "ops"),
    [
        (1.0, set()),
        (-2.0, {Op.MULTIPLY}),
        (1024.0, {Op.MULTIPLY}),
        (3.0, {Op.DIVIDE}),
        (2.0**127, {Op.DIVIDE}),
    ],
)
def test_quotients_by_powers_of_two_are_products(divisor: float, ops: set[Op]) -> None:
    graph = _graph(lambda x: x / divisor)
    (before,) = evaluate(graph, [_VALUES])
    assert reduce_strength(graph) is (Op.DIVIDE not in ops)
    assert _ops(graph) == ops
    np.testing.assert_array_equal(evaluate(graph, [_VALUES])[0], before)


def test_products_and_quotients_by_one_are_removed() -> None:
    graph = _graph(lambda x: (x * 1.0) + (1.0 * x))
    assert changes(graph, reduce_strength)
    assert _ops(graph) == {Op.ADD}


def test_integer_divisions_are_kept() -> None:
    graph = _graph(lambda x: apply(Op.TRUNCATE_DIVIDE, x, constant(2, Scalar.INT32)), Scalar.INT32)
    assert not changes(graph, reduce_strength)


def _fixed_point(op: Op, left: int, mantissa: int, exponent: int) -> Graph:
    def body(x: Expression) -> Expression:
        factor = constant(mantissa, Scalar.INT32), constant(exponent, Scalar.INT32)
        return apply(op, x.to(Scalar.INT64) << left, *factor, type=Scalar.INT64)

    return _graph(body, Scalar.INT8)


@sweep("op", [Op.FIXED_POINT, Op.FIXED_POINT_UP])
@sweep("exponent", [0, -1, -7, -19])
def test_opposite_shifts_are_combined(op: Op, exponent: int) -> None:
    graph = _fixed_point(op, 20, 1 << 30, exponent)
    values = np.array([-128, -127, -77, -2, -1, 0, 1, 3, 100, 127], np.int8)
    (before,) = evaluate(graph, [values])
    assert reduce_strength(graph)
    assert _ops(graph) == {Op.CONVERT, Op.SHIFT_LEFT}
    np.testing.assert_array_equal(evaluate(graph, [values])[0], before)


@sweep(("left", "mantissa", "exponent"), [(20, 1 << 30, -20), (20, 3 << 29, 0), (2, 1 << 30, 1)])
def test_fixed_point_products_that_round_are_kept(left: int, mantissa: int, exponent: int) -> None:
    assert not changes(_fixed_point(Op.FIXED_POINT, left, mantissa, exponent), reduce_strength)
