"""Integer ranges contain every result; an expression that may wrap around has none."""

import itertools

import numpy as np
from support.compiler.contractions import Cases
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.integer_ranges import (
    IntegerRange,
    RangeAnalysis,
    fixed_point,
    range_of_accumulator,
)
from neurald.drivers.compiler.analysis.interpreter import evaluate_node
from neurald.drivers.compiler.ir.expression import (
    Axis,
    Expression,
    accumulator,
    apply,
    axis,
    constant,
    load,
    maximum,
    minimum,
)
from neurald.drivers.compiler.ir.graph import Compute, MatrixProduct
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

_NUMBERS = (-(2**31), -(2**31) + 1, -(2**30), -70000, -3, -2, -1, 0, 1, 2, 3, 70000, 2**30, 2**31 - 1)
_MANTISSAS = (0, 1, 2**30 - 1, 2**30, 1395864371, 2**31 - 1)


def assert_within(numbers: np.ndarray, found: IntegerRange) -> None:
    """Asserts that all numbers are within the range."""
    assert found.low <= numbers.min()
    assert numbers.max() <= found.high


def value_of(array: np.ndarray) -> Value:
    return Value(array.shape, Scalar.of(array.dtype), array)


def computed(body: Expression, along: Axis, count: int, *values: Value) -> np.ndarray:
    """Returns the elements of a computed value."""
    output = Value((count,), body.type)
    node = Compute(output=output, axes=(along,), body=body)
    return evaluate_node(node, {value: value.constant for value in values if value.constant is not None})


@sweep("ties_up", [False, True])
def test_fixed_point_equals_the_interpreter(ties_up: bool) -> None:
    rows = np.array(list(itertools.product(_NUMBERS, _MANTISSAS, range(-31, 32))), np.int64)
    along = axis(len(rows))
    values = [value_of(rows[:, 0]), *(value_of(rows[:, n].astype(np.int32)) for n in (1, 2))]
    op = Op.FIXED_POINT_UP if ties_up else Op.FIXED_POINT
    body = apply(op, *(load(each, (along,)) for each in values), type=Scalar.INT64)
    expected = computed(body, along, len(rows), *values)
    assert [fixed_point(*(int(n) for n in row), ties_up=ties_up) for row in rows] == expected.tolist()


@sweep("op", [Op.FIXED_POINT, Op.FIXED_POINT_UP])
def test_fixed_point_has_its_extremes_at_the_bounds_of_its_operands(op: Op) -> None:
    generator = np.random.default_rng(0)
    for _ in range(60):
        bounds = [
            np.sort(generator.choice(_NUMBERS, 2)) // generator.integers(1, 9),
            np.sort(generator.choice(_MANTISSAS, 2)),
            np.sort(generator.integers(-32, 32, 2)),
        ]
        corners = np.array(list(itertools.product(*bounds)))
        between = np.stack(
            [generator.integers(int(low), int(high), 500, endpoint=True) for low, high in bounds], axis=1
        )
        columns = np.concatenate((corners, between)).T
        kinds = (np.int64, np.int32, np.int32)
        values = [value_of(c.astype(kind)) for c, kind in zip(columns, kinds, strict=True)]
        along = axis(len(columns[0]))
        body = apply(op, *(load(each, (along,)) for each in values), type=Scalar.INT64)
        found = RangeAnalysis().of(body)
        assert found is not None
        results = computed(body, along, len(columns[0]), *values)
        assert_within(results, found)


def random_expression(generator: np.random.Generator, leaves: list[Expression], depth: int) -> Expression:
    """Returns an expression of INT64 and INT32 numbers."""
    if depth == 0:
        return leaves[generator.integers(len(leaves))].to(Scalar.INT64)
    first, second = (random_expression(generator, leaves, depth - 1) for _ in range(2))
    way = generator.integers(8)
    if way == 0:
        return first + second
    if way == 1:
        return first - second
    if way == 2:
        return first * second
    if way == 3:
        return minimum(first, second)
    if way == 4:
        return maximum(first, int(generator.integers(-200, 200)))
    if way == 5:
        return first << int(generator.integers(0, 20))
    if way == 6:
        return first >> int(generator.integers(0, 20))
    kind = (Scalar.INT8, Scalar.UINT8, Scalar.INT32)[generator.integers(3)]
    return minimum(maximum(first, 0), 127).to(kind).to(Scalar.INT64)


def test_results_are_within_their_range() -> None:
    generator = np.random.default_rng(1)
    kinds = (Scalar.INT8, Scalar.UINT8, Scalar.INT16, Scalar.INT32)
    count, known = 64, 0
    for _ in range(200):
        along = axis(count)
        values = []
        for kind in kinds:
            info = np.iinfo(kind.value)
            array = generator.integers(info.min, info.max, count, endpoint=True).astype(kind.dtype)
            array[:2] = info.min, info.max
            values.append(value_of(array))
        # A value that is not constant has the range of its type.
        inputs = [Value(each.shape, each.type) for each in values[:2]]
        leaves = [load(each, (along,)) for each in (*inputs, *values[2:])]
        body = random_expression(generator, leaves, 4)
        found = RangeAnalysis().of(body)
        if found is None:
            continue
        known += 1
        arrays = {each: value.constant for each, value in zip((*inputs, *values[2:]), values, strict=False)}
        node = Compute(output=Value((count,), body.type), axes=(along,), body=body)
        result = evaluate_node(node, {each: array for each, array in arrays.items() if array is not None})
        assert_within(result, found)
    assert known > 50


def test_expressions_that_may_wrap_have_no_range() -> None:
    ranges = RangeAnalysis(IntegerRange(-1000, 1000))
    total = accumulator(Scalar.INT32)
    assert ranges.of(total) == IntegerRange(-1000, 1000)
    assert ranges.of(total * 2**20) == IntegerRange(-1000 << 20, 1000 << 20)
    assert ranges.of(total * 2**22) is None
    assert ranges.of(total.to(Scalar.INT8)) is None
    assert ranges.of(minimum(maximum(total, -128), 127).to(Scalar.INT8)) == IntegerRange(-128, 127)
    assert ranges.of(minimum(maximum(total, -129), 127).to(Scalar.INT8)) is None
    assert ranges.of(total.to(Scalar.INT64) << 40) is None
    assert ranges.of(total.to(Scalar.FLOAT32).to(Scalar.INT32)) is None
    assert ranges.of(total.to(Scalar.INT64) + load(Value((), Scalar.INT64), ())) is None


def test_fixed_point_with_unknown_mantissa_or_exponent_has_no_range() -> None:
    total = constant(100, Scalar.INT64)
    mantissa, exponent = (load(Value((), Scalar.INT32), ()) for _ in range(2))
    for factor, power in ((mantissa, constant(-3, Scalar.INT32)), (constant(3, Scalar.INT32), exponent)):
        assert RangeAnalysis().of(apply(Op.FIXED_POINT, total, factor, power, type=Scalar.INT64)) is None


@sweep("kind", [Scalar.INT8, Scalar.UINT8])
@sweep("form", ["convolution", "depthwise", "matrix_product"])
def test_accumulators_are_within_their_range(form: str, kind: Scalar) -> None:
    """Covers inputs with the greatest distance from their zero point."""
    for seed in range(8):
        case = getattr(Cases(seed), form)(kind)
        contraction = case.kernel.contraction
        found = range_of_accumulator(contraction)
        for extreme in ("min", "max", ""):
            arrays = {
                value: case.arrays[value] if value.constant is None else value.constant
                for value in contraction.inputs
            }
            for value in case.arrays.keys() & arrays.keys():
                info = np.iinfo(value.type.value)
                arrays[value] = np.full(value.shape, getattr(info, extreme, 0), value.type.dtype)
            sums = evaluate_node(contraction, arrays)
            assert_within(sums, found)
        assert found.fits(Scalar.INT32)


def test_accumulators_that_may_wrap_have_the_range_of_their_type() -> None:
    left, right = (Value((1, 1 << 20), Scalar.INT8) for _ in range(2))
    product = MatrixProduct(output=Value((1, 1), Scalar.INT32), left=left, right=right)
    assert range_of_accumulator(product) == IntegerRange(-(2**31), 2**31 - 1)
