"""Rounded sums of 8-bit numbers equal what they are computed from, for all pairs."""

import math

import numpy as np
import pytest

from neurald.drivers.compiler.analysis.interpreter import evaluate_node
from neurald.drivers.compiler.ir.expression import Apply, Expression, apply, axis, constant, load
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.epilogue.rounded_sum import RoundedSum, rounded_sum

_ROW, _COLUMN = axis(256, "row"), axis(256, "column")
_LIMITS = {Scalar.INT8: (-128, 127), Scalar.UINT8: (0, 255)}


def _scaled(value: Expression, factor: float) -> Expression:
    mantissa, exponent = math.frexp(factor)
    number = round(mantissa * 2**31)
    if number == 2**31:
        number, exponent = number // 2, exponent + 1
    return apply(Op.FIXED_POINT, value, constant(number, Scalar.INT32), constant(exponent, Scalar.INT32))


def _addition(
    kind: Scalar, scales: tuple[float, float, float], zeros: tuple[int, int, int], low: int
) -> Apply:
    """Returns a quantised addition; operands and output have a scale and a zero point."""
    twice = 2 * max(scales[:2])
    sides = [
        _scaled((load(Value((256,), kind), (place,)).to(Scalar.INT64) - zero) << 20, scale / twice)
        for place, scale, zero in zip((_ROW, _COLUMN), scales[:2], zeros[:2], strict=True)
    ]
    total = _scaled(sides[0] + sides[1], twice / (2**20 * scales[2])) + zeros[2]
    least, most = _LIMITS[kind]
    clamped = apply(Op.MAXIMUM, total, constant(max(low, least), Scalar.INT64))
    found = apply(Op.MINIMUM, clamped, constant(most, Scalar.INT64)).to(kind)
    assert isinstance(found, Apply)
    return found


def _all(kind: Scalar) -> np.ndarray:
    return np.arange(256).astype(np.uint8).view(kind.dtype)


def _values(found: RoundedSum, kind: Scalar) -> np.ndarray:
    """Computes all sums with products that are exact, and two roundings to FLOAT32."""
    first, second = np.meshgrid(_all(kind).astype(np.float64), _all(kind).astype(np.float64), indexing="ij")
    inner = np.float32(second * found.factors[1] + found.addend)
    total = np.float32(first * found.factors[0] + inner)
    return np.asarray(np.rint(np.clip(total, found.low, found.high)).astype(kind.dtype))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", [Scalar.INT8, Scalar.UINT8], ids=lambda kind: kind.name)
def test_sums_equal_additions(kind: Scalar, seed: int) -> None:
    generator = np.random.default_rng(seed)
    first = float(np.exp(generator.uniform(-5, -1)))
    second = first * float(np.exp(generator.uniform(-1.2, 1.2)))
    output = max(first, second) * float(np.exp(generator.uniform(-0.5, 1)))
    least, most = _LIMITS[kind]
    zeros = [int(each) for each in generator.integers(least, most + 1, 3)]
    body = _addition(kind, (first, second, output), (zeros[0], zeros[1], zeros[2]), zeros[2])
    found = rounded_sum(body)
    assert found is not None
    arrays = {
        each.value: _all(kind)  # type: ignore[attr-defined]
        for each in (found.first, found.second)
    }
    node = Compute(output=Value((256, 256), kind), axes=(_ROW, _COLUMN), body=body)
    expected = evaluate_node(node, arrays)
    is_turned = found.first.index[0] is _COLUMN  # type: ignore[attr-defined]
    np.testing.assert_array_equal(_values(found, kind), expected.T if is_turned else expected)


def test_ties_that_round_away_from_zero_are_left_alone() -> None:
    """Sums of halves are ties, which FLOAT32 rounds to even."""
    assert rounded_sum(_addition(Scalar.INT8, (0.5, 0.5, 1.0), (0, 0, 0), -128)) is None


def test_other_expressions_are_none() -> None:
    one = load(Value((256,), Scalar.INT8), (_ROW,))
    assert rounded_sum(one) is None
    # A single scaling, a single operand, and an operand of another type.
    twice = _scaled(one.to(Scalar.INT64) << 20, 0.3) + _scaled(one.to(Scalar.INT64) << 10, 0.7)
    assert rounded_sum(_scaled(one.to(Scalar.INT64), 0.3).to(Scalar.INT8)) is None
    assert rounded_sum(twice.to(Scalar.INT8)) is None
    wide = load(Value((256,), Scalar.INT16), (_COLUMN,))
    mixed = _scaled(one.to(Scalar.INT64) << 20, 0.3) + _scaled(wide.to(Scalar.INT64) << 20, 0.7)
    assert rounded_sum(mixed.to(Scalar.INT8)) is None


def test_products_of_operands_are_none() -> None:
    first, second = (load(Value((256,), Scalar.INT8), (place,)) for place in (_ROW, _COLUMN))
    product = _scaled(_scaled(first.to(Scalar.INT64) * second.to(Scalar.INT64), 0.3), 0.01)
    assert rounded_sum(product.to(Scalar.INT8)) is None
