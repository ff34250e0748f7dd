"""Every operation in OpenCL C computes the same as in the interpreter, for all types."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.opencl.sources import Bench
from support.sweeps import sweep
from support.tiers import one_in

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Expression, apply, constant, load, select
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.codegen.dialect import (
    constant_text,
    functions_for,
    identity_text,
    load_text,
    memory_type,
    register_type,
    store_text,
)
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.platform.discovery import DeviceContext

Array = np.ndarray[Any, np.dtype[Any]]

_FLOAT_PAIRS = [Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE, Op.MINIMUM, Op.MAXIMUM, Op.ATAN2, Op.MODULO]
_FLOAT_PAIRS += [Op.FLOOR_DIVIDE]
_FLOAT_FUNCTIONS = [
    Op.NEGATE,
    Op.ABSOLUTE,
    Op.SQRT,
    Op.RSQRT,
    Op.EXP,
    Op.EXPM1,
    Op.LOG,
    Op.LOG1P,
    Op.SIN,
    Op.COS,
    Op.TANH,
    Op.LOGISTIC,
    Op.ERF,
    Op.FLOOR,
    Op.CEIL,
    Op.ROUND_EVEN,
    Op.ROUND_AWAY,
    Op.SIGN,
]
_INTEGER_PAIRS = [
    Op.ADD,
    Op.SUBTRACT,
    Op.MULTIPLY,
    Op.FLOOR_DIVIDE,
    Op.MODULO,
    Op.TRUNCATE_DIVIDE,
    Op.MINIMUM,
    Op.MAXIMUM,
    Op.AND,
    Op.OR,
    Op.XOR,
]
_SIGNED_FUNCTIONS = [Op.NEGATE, Op.ABSOLUTE, Op.SIGN, Op.NOT]
INTEGERS = [Scalar.INT8, Scalar.UINT8, Scalar.INT16, Scalar.UINT16, Scalar.INT32, Scalar.INT64]
FLOATS = [Scalar.FLOAT32, Scalar.FLOAT16]


@pytest.fixture(scope="session")
def bench(opencl: DeviceContext) -> Bench:
    return Bench(opencl.facts.handle)


def each_of(kind: Scalar, count: int, pairs: Sequence[Op], functions: Sequence[Op], *more: Op) -> Graph:
    """Returns rows for each binary operation, each unary one, and each with the constant 3."""
    builder = GraphBuilder()
    first, second = builder.input(count, type=kind), builder.input(count, type=kind)
    rows = len(pairs) + len(functions) + len(more)

    def body(row: Expression, at: Expression) -> Expression:
        one, other = load(first, (at,)), load(second, (at,))
        results = [
            *(apply(op, one, other) for op in pairs),
            *(apply(op, one) for op in functions),
            *(apply(op, one, constant(3, kind)) for op in more),
        ]
        found = results[-1]
        for number, result in enumerate(results[:-1]):
            found = select(row.equals(number), result, found)
        return found

    return builder.finish(builder.compute((rows, count), body))


def both(bench: Bench, graph: Graph, *inputs: Array) -> tuple[Array, Array]:
    (kernel,) = fuse(graph).kernels
    result, _ = bench.run(render(kernel), dict(zip(graph.inputs, inputs, strict=True)))
    return result, evaluate(graph, inputs)[0]


@pytest.mark.parametrize("kind", one_in(2, INTEGERS))
def test_integers(bench: Bench, kind: Scalar) -> None:
    info = np.iinfo(kind.dtype.name)
    values = [info.max, info.max - 1, 1, 0, 2, 5, 100, 127, info.min, info.min + 1]
    values += [-1, -2, -7, -100] if info.min else [3, 7]
    pairs = [(a, b) for a in values for b in values if b and not (a == info.min and b == -1)]
    first, second = (np.array(column, kind.dtype) for column in zip(*pairs, strict=True))
    functions = _SIGNED_FUNCTIONS if info.min else [Op.NOT]
    powers = [Op.POWER] if kind in (Scalar.INT32, Scalar.INT64) else []
    graph = each_of(kind, len(pairs), _INTEGER_PAIRS, functions, Op.SHIFT_RIGHT, Op.SHIFT_LEFT, *powers)
    result, expected = both(bench, graph, first, second)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", FLOATS)
def test_floats(bench: Bench, kind: Scalar) -> None:
    values = [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, -1.5, 2.5, -2.5, 3.25, -7.75, 20.0, -20.0, 1e-3, 100.0]
    values += [math.inf, -math.inf, math.nan]
    pairs = [(a, b) for a in values for b in values]
    first, second = (np.array(column, kind.dtype) for column in zip(*pairs, strict=True))
    graph = each_of(kind, len(pairs), _FLOAT_PAIRS, _FLOAT_FUNCTIONS)
    result, expected = both(bench, graph, first, second)
    tolerance = 1e-5 if kind is Scalar.FLOAT32 else 2e-3
    for op, found, wanted in zip([*_FLOAT_PAIRS, *_FLOAT_FUNCTIONS], result, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=op.name)


@pytest.mark.parametrize("target", [Scalar.INT8, Scalar.UINT8, Scalar.INT32, Scalar.INT64, Scalar.BOOL])
def test_floats_become_integers_towards_zero_and_saturate(bench: Bench, target: Scalar) -> None:
    values = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.9, 128.0, 255.5, 256.0, -129.0, 3e9, -3e9, 1e19, -1e19]
    source = np.array([*values, math.inf, -math.inf, math.nan], np.float32)
    builder = GraphBuilder()
    given = builder.input(len(source))
    graph = builder.finish(builder.compute((len(source),), lambda i: load(given, (i,)).to(target)))
    result, expected = both(bench, graph, source)
    np.testing.assert_array_equal(result.astype(expected.dtype), expected)


def test_comparisons_and_logic(bench: Bench) -> None:
    values = np.array([-1.0, 0.0, 2.0, math.nan], np.float32)
    first, second = (each.reshape(-1) for each in np.meshgrid(values, values))
    builder = GraphBuilder()
    one, other = builder.input(16), builder.input(16)

    def body(row: Expression, at: Expression) -> Expression:
        a, b = load(one, (at,)), load(other, (at,))
        rows = [a < b, a <= b, a.equals(b), a.differs(b), apply(Op.IS_NAN, a)]
        rows += [(a < b) & (b < 1.0), (a < b) | (b < 1.0), ~(a < b), (a < b) ^ (b < 1.0)]
        found = rows[-1]
        for number, result in enumerate(rows[:-1]):
            found = select(row.equals(number), result, found)
        return found

    result, expected = both(bench, builder.finish(builder.compute((9, 16), body)), first, second)
    np.testing.assert_array_equal(result != 0, expected)


@sweep(
    ("value", "kind", "text"),
    [
        (1, Scalar.INT32, "1"),
        (-1, Scalar.INT8, "(-1)"),
        (-(2**31), Scalar.INT32, "(-2147483647 - 1)"),
        (-(2**63), Scalar.INT64, "(-9223372036854775807L - 1L)"),
        (2**32 - 1, Scalar.UINT32, "4294967295u"),
        (2**64 - 1, Scalar.UINT64, "18446744073709551615UL"),
        (1.0, Scalar.FLOAT32, "1.0f"),
        (-0.0, Scalar.FLOAT32, "(-0.0f)"),
        (0.1, Scalar.FLOAT32, "0x1.999999999999ap-4f"),
        (math.inf, Scalar.FLOAT32, "INFINITY"),
        (-math.inf, Scalar.FLOAT16, "(-INFINITY)"),
        (math.nan, Scalar.FLOAT32, "NAN"),
        (True, Scalar.BOOL, "1"),
    ],
)
def test_constants(value: float, kind: Scalar, text: str) -> None:
    assert constant_text(value, kind) == text


def test_memory_and_registers() -> None:
    assert [memory_type(Scalar.FLOAT16), register_type(Scalar.FLOAT16)] == ["half", "float"]
    assert [memory_type(Scalar.BOOL), register_type(Scalar.BOOL)] == ["uchar", "int"]
    assert load_text("p", "i", Scalar.FLOAT16) == "vload_half(i, p)"
    assert load_text("p", "i", Scalar.BOOL) == "(p[i] != 0)"
    assert store_text("p", "i", "x", Scalar.FLOAT16) == "vstore_half_rte(x, i, p);"
    assert store_text("p", "i", "x", Scalar.INT8) == "p[i] = x;"
    assert identity_text(ReductionOp.MAXIMUM, Scalar.INT8) == "(-128)"


def test_programs_contain_the_functions_they_call() -> None:
    assert functions_for("x = a + b;") == ""
    found = functions_for("neurald_floor_div_long(a, b)")
    assert "neurald_floor_div_long(long" in found
    assert "neurald_floor_div(int" not in found
