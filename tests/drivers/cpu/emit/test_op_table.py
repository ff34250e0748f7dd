from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support.compiler.elementwise import computed, expected
from support.cpu.native import DIFFERENT, RUNNABLE, Array

from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, constant, select
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.target.target import Target
from neurald.hal.operations.arithmetic.fixed_point import multiply

_RANDOM = np.random.default_rng(7)
_TARGETS = pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_FLOATS = ("float16", "float32", "float64")
#: Types that targets other than the best one are tested with.
_SOME = ("uint8", "int32", "int64", "float16", "float32")
_Body = Callable[..., Expression]


def _of(op: Op, type: Scalar | None = None) -> _Body:  # noqa: A002 - the parameter's name
    return lambda *values: apply(op, *values, type=type)


def _cases(kinds: Sequence[str]) -> pytest.MarkDecorator:
    """Parametrises a test by all types with the best target, and some types with the others."""
    cases = [
        (kind, target) for target in DIFFERENT for kind in kinds if target is RUNNABLE[0] or kind in _SOME
    ]
    return pytest.mark.parametrize(("kind", "target"), cases, ids=lambda part: getattr(part, "name", part))


def _numbers(kind: str, count: int = 150) -> Array:
    """Returns numbers of all magnitudes, including the limits of the type."""
    dtype = np.dtype(kind)
    if kind == "bool":
        return _RANDOM.integers(0, 2, count).astype(bool)
    if dtype.kind == "f":
        edges = np.array(
            [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, np.inf, -np.inf, np.nan, 6e-8, 70000.0]
        )
        sizes = 10.0 ** _RANDOM.integers(-5, 10, count)
        with np.errstate(over="ignore"):
            return np.concatenate([edges, _RANDOM.standard_normal(count) * sizes]).astype(dtype)
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3], dtype)
    wide = _RANDOM.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    return np.concatenate([edges, wide, wide >> dtype.type(dtype.itemsize * 4)])


def _pairs(kind: str) -> tuple[Array, Array]:
    first, second = _numbers(kind), _numbers(kind)
    return first, _RANDOM.permutation(second)


def _check(bodies: list[_Body], operands: list[Array], target: Target) -> None:
    """Checks vectors and scalars."""
    counts = (len(operands[0]), 1) if target is RUNNABLE[0] else (len(operands[0]),)
    for count in counts:
        parts = [each[len(each) - count :] for each in operands]
        for got, want in zip(computed(bodies, parts, target), expected(bodies, parts), strict=True):
            np.testing.assert_array_equal(got, want)


@_cases(_INTEGERS)
def test_integers(kind: str, target: Target) -> None:
    first, second = _pairs(kind)
    two = [Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.MINIMUM, Op.MAXIMUM, Op.AND, Op.OR, Op.XOR]
    two += [Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL]
    bodies = [_of(op) for op in two]
    bodies += [lambda x, _, op=op: apply(op, x) for op in (Op.NEGATE, Op.ABSOLUTE, Op.NOT, Op.SIGN)]
    bodies += [lambda x, y: select(x < y, y, x)]
    _check(bodies, [first, second], target)


@_cases(_INTEGERS)
def test_quotients_and_shifts_of_integers(kind: str, target: Target) -> None:
    first, second = _pairs(kind)
    divisor = np.where(second == 0, 3, second).astype(kind)
    bodies = [_of(op) for op in (Op.FLOOR_DIVIDE, Op.MODULO, Op.TRUNCATE_DIVIDE)]
    bodies += [lambda x, _, op=op: apply(op, x, constant(7, x.type)) for op in (Op.FLOOR_DIVIDE, Op.MODULO)]
    _check(bodies, [first, divisor], target)
    amount = (second % (np.dtype(kind).itemsize * 8)).astype(kind)
    _check([_of(Op.SHIFT_LEFT), _of(Op.SHIFT_RIGHT)], [first, amount], target)


@_cases(["int64", "uint64"])
def test_quotients_of_long_integers_are_exact(kind: str, target: Target) -> None:
    # Numbers beside the limit of those that are computed in doubles, whole multiples, and others.
    limit, divisors = 1 << 52, np.array([1, 2, 3, 7, 1000, (1 << 26) - 1, (1 << 52) - 1])
    near = [limit + distance for distance in (-2, -1, 0, 1, 2)] + [(1 << 62) + 1]
    whole = [limit // each * each - rest for each in divisors.tolist() for rest in (0, 1)]
    dividends = np.array([*near, *whole, *_RANDOM.integers(0, limit, 200)])
    for least in (0, len(near)):
        # Once with numbers that are too large, and once without.
        first = np.repeat(dividends[least:], len(divisors))
        second = np.tile(divisors, len(dividends) - least)
        if kind == "int64":
            first = first * _RANDOM.choice([-1, 1], first.size)
            second = second * _RANDOM.choice([-1, 1], second.size)
        bodies = [_of(op) for op in (Op.FLOOR_DIVIDE, Op.MODULO, Op.TRUNCATE_DIVIDE)]
        _check(bodies, [first.astype(kind), second.astype(kind)], target)


def test_division_by_zero_does_not_trap() -> None:
    for kind in _INTEGERS:
        zeros = np.zeros(40, kind)
        computed([_of(Op.FLOOR_DIVIDE), _of(Op.MODULO)], [np.ones(40, kind), zeros], RUNNABLE[0])
        computed([_of(Op.TRUNCATE_DIVIDE)], [np.ones(1, kind), zeros[:1]], RUNNABLE[0])


@_cases(_FLOATS)
def test_floats(kind: str, target: Target) -> None:
    first, second = _pairs(kind)
    two = [Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE, Op.MINIMUM, Op.MAXIMUM]
    two += [Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL]
    one = [
        Op.NEGATE,
        Op.ABSOLUTE,
        Op.SQRT,
        Op.FLOOR,
        Op.CEIL,
        Op.ROUND_EVEN,
        Op.ROUND_AWAY,
        Op.SIGN,
        Op.IS_NAN,
    ]
    bodies = [_of(op) for op in two]
    bodies += [lambda x, _, op=op: apply(op, x) for op in one]
    bodies += [lambda x, _: apply(Op.MINIMUM, x, constant(6.0, x.type))]
    bodies += [lambda x, _: apply(Op.MAXIMUM, constant(-6.0, x.type), x)]
    _check(bodies, [first, second], target)


@_TARGETS
def test_floored_quotients_and_remainders_of_floats_are_exact(target: Target) -> None:
    first, second = _pairs("float32")
    bits = _RANDOM.integers(0, 1 << 32, (2, 2000), dtype=np.uint64).astype(np.uint32).view(np.float32)
    first, second = np.concatenate([first, bits[0]]), np.concatenate([second, bits[1]])
    # Half of them are beside whole multiples of the divisor, which only a few bits tell apart.
    with np.errstate(all="ignore"):
        near = second * _RANDOM.integers(-3000, 3000, second.size).astype(np.float32)
    near = np.nextafter(near, _RANDOM.choice([-np.inf, np.inf, 0], near.size), dtype=np.float32)
    first, second = np.concatenate([first, near]), np.concatenate([second, second])
    _check([_of(Op.FLOOR_DIVIDE), _of(Op.MODULO)], [first, second], target)


@_TARGETS
def test_booleans(target: Target) -> None:
    first, second = _numbers("bool"), _numbers("bool")
    two = (Op.AND, Op.OR, Op.XOR, Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL, Op.MINIMUM, Op.MAXIMUM)
    _check([*(_of(op) for op in two), lambda x, _: ~x], [first, second], target)


@_TARGETS
def test_nonzero_bytes_are_true(target: Target) -> None:
    bytes_ = np.array([0, 1, 2, 128, 255] * 9, np.uint8)
    (got,) = computed([lambda x: x.to(Scalar.INT32) + 5], [bytes_.view(bool)], target)
    np.testing.assert_array_equal(got, (bytes_ != 0) + 5)


@_cases((*_INTEGERS, *_FLOATS, "bool"))
def test_conversions(kind: str, target: Target) -> None:
    kinds = [to for to in Scalar if to is not Scalar.INDEX]
    numbers = _numbers(kind)
    bodies: list[_Body] = [lambda x, to=to: x.to(to) for to in kinds]
    for got, want, to in zip(
        computed(bodies, [numbers], target), expected(bodies, [numbers]), kinds, strict=True
    ):
        if to is Scalar.FLOAT16 and kind in ("int64", "uint64", "int32", "uint32"):
            np.testing.assert_allclose(got, want, rtol=1e-3)  # rounded twice
        elif to is Scalar.FLOAT32 and kind in ("int64", "uint64"):
            np.testing.assert_allclose(got, want, rtol=1e-7)
        else:
            np.testing.assert_array_equal(got, want, err_msg=to.name)


@_TARGETS
def test_indices_convert_from_and_to_other_types(target: Target) -> None:
    for kind in ("int8", "uint8", "int16", "int32", "uint32"):
        numbers = _numbers(kind)
        _check([lambda x: (x.to(Scalar.INDEX) * 3 + 1).to(Scalar.INT64)], [numbers], target)
        _check([lambda x: (x.to(Scalar.INDEX) // 7 % 5).to(Scalar.FLOAT32)], [numbers], target)


@_TARGETS
def test_float16_converts_to_float32_and_back(target: Target) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    (floats,) = computed([lambda x: x.to(Scalar.FLOAT32)], [every], target)
    np.testing.assert_array_equal(floats, every.astype(np.float32))
    bits = _RANDOM.integers(0, 1 << 32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (_RANDOM.standard_normal(20000) * 2.0 ** _RANDOM.integers(-27, 18, 20000)).astype(np.float32)
    finite = every[np.isfinite(every)].astype(np.float64)
    middle = (finite[:-1] + finite[1:]) / 2
    numbers = np.concatenate([bits, near, middle.astype(np.float32)])
    (halves,) = computed([lambda x: x.to(Scalar.FLOAT16)], [numbers], target)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(halves, numbers.astype(np.float16))


@_TARGETS
def test_bits_are_reinterpreted(target: Target) -> None:
    for source, kind in (("float32", Scalar.INT32), ("int16", Scalar.FLOAT16), ("float16", Scalar.UINT16)):
        numbers = _numbers(source)
        numbers = numbers[~np.isnan(numbers.view(kind.dtype))] if kind.is_float else numbers
        _check([_of(Op.REINTERPRET, kind)], [numbers], target)


_EDGES = [0, 1, -1, 2, -2, 3, 2**31 - 1, -(2**31), 2**30, -(2**30), 2**30 - 1, -(2**30) - 1]


@_TARGETS
@pytest.mark.parametrize("exponents", [(-31, 30), (-31, -1), (1, 30), (-5, -5), (0, 0), (3, 3)])
def test_products_in_fixed_point_are_exact(exponents: tuple[int, int], target: Target) -> None:
    count = 600
    values = np.concatenate([np.repeat(_EDGES, 30), _RANDOM.integers(-(2**31), 2**31, count - 360)])
    values[400:] >>= _RANDOM.integers(0, 31, count - 400)
    mantissas = _RANDOM.integers(2**30, 2**31, count)
    mantissas[::7], mantissas[3::7], mantissas[5::11] = 2**30, 2**31 - 1, 0
    powers = _RANDOM.integers(exponents[0], exponents[1] + 1, count)
    operands = mantissas.astype(np.int32), powers.astype(np.int32)

    def product(op: Op) -> _Body:
        def body(value: Expression, mantissa: Expression, exponent: Expression) -> Expression:
            is_known = exponents[0] == exponents[1]
            power = constant(exponents[0], Scalar.INT32) if is_known else exponent
            return apply(op, value, mantissa, power, type=Scalar.INT64)

        return body

    def stored(*values: Expression) -> Expression:
        return clamp(product(Op.FIXED_POINT)(*values) + 300, -100, 70).to(Scalar.INT8)

    bodies: list[_Body] = [product(Op.FIXED_POINT), product(Op.FIXED_POINT_UP), stored]
    away, up = (
        np.array(
            [
                multiply(value[None], int(mantissa), int(power), ties_up=ties_up)[0]
                for value, mantissa, power in zip(values, mantissas, powers, strict=True)
            ]
        )
        for ties_up in (False, True)
    )
    for kind in (np.int64, np.int32):
        found = computed(bodies, [values.astype(kind), *operands], target)
        for got, want in zip(found, (away, up, np.clip(away + 300, -100, 70)), strict=True):
            np.testing.assert_array_equal(got, want)


@_TARGETS
@pytest.mark.parametrize("exponents", [(-31, -1), (0, 0), (-1, -1), (-5, -5), (-30, -30), (-31, -31)])
def test_fixed_point_products_of_small_numbers_are_exact(exponents: tuple[int, int], target: Target) -> None:
    count, limit = 600, 2**30 - 1
    values = np.concatenate([np.repeat(_EDGES, 30), _RANDOM.integers(-(2**30), 2**30, count - 360)])
    values[400:] >>= _RANDOM.integers(0, 30, count - 400)
    mantissas = _RANDOM.integers(2**30, 2**31, count).astype(np.int32)
    mantissas[::7], mantissas[3::7], mantissas[5::11] = 2**30, 2**31 - 1, 0
    powers = _RANDOM.integers(exponents[0], exponents[1] + 1, count).astype(np.int32)

    def product(op: Op) -> _Body:
        def body(value: Expression, mantissa: Expression, exponent: Expression) -> Expression:
            is_known = exponents[0] == exponents[1]
            power = constant(exponents[0], Scalar.INT32) if is_known else exponent
            return apply(op, clamp(value, -limit, limit), mantissa, power, type=Scalar.INT64)

        return body

    found = computed(
        [product(Op.FIXED_POINT), product(Op.FIXED_POINT_UP)],
        [values.astype(np.int32), mantissas, powers],
        target,
    )
    for got, ties_up in zip(found, (False, True), strict=True):
        want = [
            multiply(value[None], int(mantissa), int(power), ties_up=ties_up)[0]
            for value, mantissa, power in zip(values.clip(-limit, limit), mantissas, powers, strict=True)
        ]
        np.testing.assert_array_equal(got, want)


@_TARGETS
def test_clamped_floats_are_converted_correctly(target: Target) -> None:
    numbers = _numbers("float32")
    bodies: list[_Body] = [
        lambda x, low=low, high=high, kind=kind: clamp(x, low, high).to(kind)
        for low, high in (
            (-128.0, 127.0),
            (0.0, 255.5),
            (-32768.0, 32767.0),
            (0.0, 65535.0),
            (-2147483648.0, 2147483647.0),
            (-1e30, 1e30),
        )
        for kind in (Scalar.INT8, Scalar.UINT8, Scalar.INT16, Scalar.UINT16, Scalar.INT32)
    ]
    _check(bodies, [numbers], target)
