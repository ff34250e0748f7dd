"""`rounded_once` equals exact arithmetic, and is recognised."""

import itertools

import numpy as np

from neurald.drivers.compiler.analysis.integer_ranges import RangeAnalysis
from neurald.drivers.compiler.analysis.interpreter import evaluate_node
from neurald.drivers.compiler.analysis.single_rounding import match_rounded_once, rounded_once
from neurald.drivers.compiler.ir.expression import axis, constant, load
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value


def test_products_are_rounded_to_nearest_and_are_within_their_range() -> None:
    numbers = (-(2**31), -(2**31) + 1, -70000, -3, -1, 0, 1, 70000, 2**30, 2**31 - 1)
    mantissas = (0, 1, 2**30, 1395864371, 2**31 - 1)
    rows = np.array(list(itertools.product(numbers, mantissas, range(-31, 16))), np.int64)
    along = axis(len(rows))
    arrays: list[np.ndarray] = [rows[:, 0], rows[:, 1].astype(np.int32), rows[:, 2].astype(np.int32)]
    values = [Value(array.shape, Scalar.of(array.dtype), array) for array in arrays]
    loads = [load(each, (along,)) for each in values]
    body = rounded_once(*loads)
    node = Compute(output=Value((len(rows),), Scalar.INT64), axes=(along,), body=body)
    result = evaluate_node(node, dict(zip(values, arrays, strict=True)))
    assert result.tolist() == [(v * m + (1 << (30 - e))) >> (31 - e) for v, m, e in rows.tolist()]
    found = RangeAnalysis().of(body)
    assert found is not None
    assert (found.low, found.high) == (result.min(), result.max())


def test_match_rounded_once() -> None:
    value, mantissa, exponent = (
        load(Value((), kind), ()) for kind in (Scalar.INT64, Scalar.INT32, Scalar.INT32)
    )
    assert match_rounded_once(rounded_once(value, mantissa, exponent)) == (value, mantissa, exponent)
    number = constant(-7, Scalar.INT32)
    assert match_rounded_once(rounded_once(value, mantissa, number)) == (value, mantissa, number)
    for other in (value, value >> 16, rounded_once(value, mantissa, exponent) + 1):
        assert match_rounded_once(other) is None
    factor = mantissa.to(Scalar.INT64)
    assert (
        match_rounded_once(((value >> 16) * factor + (value >> 16)) >> (15 - exponent.to(Scalar.INT64)))
        is None
    )
