"""Functions of elements in the first tier give the results of references."""

import itertools
from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import BOOL, FLOAT, INT32, SHORT, SIGNED, UNSIGNED, LayerBuilder, check, values

import neurald as nd
from neurald.hal.errors import OpFailed
from neurald.hal.execution.reference_model import ReferenceModel

INT64 = nd.OperandType.TENSOR_INT64


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, UNSIGNED, SIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("operation", ["ADD", "SUB", "MUL"])
def test_operations_on_two_values(target: str, kind: nd.OperandType, operation: str) -> None:
    for activation in (0, 1, 3):
        for shape in ((1,), (3, 67), (2, 4099), (2, 1, 2, 5)):
            build = LayerBuilder(activation)
            first = build.given(kind, shape)
            second = build.operand(kind, shape)
            # Products are not finer than the output.
            scale = {} if kind is FLOAT else {"scale": 0.31, "zero_point": 5}
            output = build.operand(kind, shape, **scale)
            model = build.model(
                nd.OperationType[operation],
                [first, second, build.scalar(activation)],
                output,
                [first, second],
            )
            check(model, target, threads=2)


def test_constants_are_repeated() -> None:
    build = LayerBuilder(0)
    first = build.operand(FLOAT, (3, 5))
    row = build.constant(FLOAT, values(build.rng, FLOAT, (5,)))
    output = build.operand(FLOAT, (3, 5))
    model = build.model(nd.OperationType.MUL, [first, row, build.scalar(0)], output, [first])
    for target in TARGETS_HERE:
        check(model, target)


def test_infinities_and_nan_pass_through_activations() -> None:
    build = LayerBuilder(1)
    given = build.operand(FLOAT, (4,))
    other = build.constant(FLOAT, np.zeros(4, np.float32))
    output = build.operand(FLOAT, (4,))
    model = build.model(nd.OperationType.ADD, [given, other, build.scalar(3)], output, [given])
    array = np.array([np.nan, np.inf, -np.inf, 7], np.float32)
    for target in TARGETS_HERE:
        (found,) = results(prepared(model, target), model, [array])
        np.testing.assert_array_equal(found, np.array([np.nan, 6, 0, 6], np.float32))


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    "operation",
    [
        *("RELU", "RELU1", "RELU6", "LOGISTIC", "TANH", "EXP", "HARD_SWISH", "ABS", "NEG", "FLOOR"),
        *("LOG", "SQRT", "RSQRT", "SIN", "TFLITE_COS", "TFLITE_SQUARE", "TFLITE_ROUND", "TFLITE_CEIL"),
        "TFLITE_SIGN",
    ],
)
def test_functions_of_floats(target: str, operation: str) -> None:
    build = LayerBuilder(3)
    given = build.given(FLOAT, (3, 1371))
    output = build.operand(FLOAT, (3, 1371))
    model = build.model(nd.OperationType[operation], [given], output, [given])
    check(model, target, rtol=1e-5)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e30, -1e30, 90, -90] * 457, np.float32)
    array = special.reshape(3, 1371)
    (expected,) = results(ReferenceModel(model), model, [array])
    (found,) = results(prepared(model, target), model, [array])
    # Results below the normal numbers may be 0.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=float(np.finfo(np.float32).tiny))


@pytest.mark.parametrize(
    "operation", ["DIV", "ADD", "MUL", "MAXIMUM", "MINIMUM", "TFLITE_SQUARED_DIFFERENCE"]
)
def test_operands_are_repeated(operation: str) -> None:
    for first, second, shape in (
        ((2, 3, 5), (5,), (2, 3, 5)),
        ((2, 1, 5), (3, 1), (2, 3, 5)),
        ((1,), (4, 4), (4, 4)),
    ):
        build = LayerBuilder(0)
        one, other = build.operand(FLOAT, first), build.operand(FLOAT, second)
        output = build.operand(FLOAT, shape)
        inputs = [one, other, *([build.scalar(0)] if operation in ("DIV", "ADD", "MUL") else [])]
        check(build.model(nd.OperationType[operation], inputs, output, [one, other]), TARGETS_HERE[0])


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_slopes(target: str) -> None:
    build = LayerBuilder(0)
    given = build.operand(FLOAT, (2, 5, 7))
    slope = build.constant(FLOAT, values(build.rng, FLOAT, (1, 1, 7)))
    output = build.operand(FLOAT, (2, 5, 7))
    check(build.model(nd.OperationType.PRELU, [given, slope], output, [given]), target)


#: Operands, and the shape to which they are repeated.
REPEATED = [
    ((2, 3, 5), (5,), (2, 3, 5)),
    ((2, 1, 5), (3, 1), (2, 3, 5)),
    ((1,), (4, 4), (4, 4)),
    ((300, 70), (300, 1), (300, 70)),
    ((2, 3, 1, 4, 1, 5), (1, 3, 2, 1, 6, 1), (2, 3, 2, 4, 6, 5)),
    ((1, 9001), (9001,), (1, 9001)),
]


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, INT32, SIGNED, UNSIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("shapes", REPEATED, ids=range(len(REPEATED)))
def test_operands_of_all_types_are_repeated(target: str, kind: nd.OperandType, shapes: Any) -> None:
    for name in ("TFLITE_ADD", "TFLITE_MUL"):
        build = LayerBuilder(0)
        one, other = build.operand(kind, shapes[0]), build.operand(kind, shapes[1])
        scale = {"scale": 0.31, "zero_point": 5} if kind in (SIGNED, UNSIGNED) else {}
        output = build.operand(kind, shapes[2], **scale)
        model = build.model(nd.OperationType[name], [one, other, build.scalar(0)], output, [one, other])
        check(model, target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("TFLITE_GELU", [(True, nd.OperandType.BOOL)]),
        ("TFLITE_GELU", [(False, nd.OperandType.BOOL)]),
        ("ELU", [(0.7, nd.OperandType.FLOAT32)]),
        ("TFLITE_ELU", [(1.3, nd.OperandType.FLOAT32)]),
        ("TFLITE_ELU", [(-1.3, nd.OperandType.FLOAT32)]),
        ("TFLITE_LEAKY_RELU", [(0.2, nd.OperandType.FLOAT32)]),
    ],
)
def test_functions_with_parameters(target: str, name: str, parameters: Any) -> None:
    build = LayerBuilder(3)
    given, output = build.given(FLOAT, (3, 71)), build.operand(FLOAT, (3, 71))
    inputs = [given, *(build.scalar(*each) for each in parameters)]
    model = build.model(nd.OperationType[name], inputs, output, [given])
    check(model, target, rtol=1e-5)
    special = np.resize(np.array([np.nan, np.inf, 0, -0.0, 1e30, 90, -90], np.float32), (3, 71))
    (expected,) = results(ReferenceModel(model), model, [special])
    (found,) = results(prepared(model, target), model, [special])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_negative_factors_of_exponential_units() -> None:
    build = LayerBuilder(3)
    given, output = build.given(FLOAT, (7,)), build.operand(FLOAT, (7,))
    inputs = [given, build.scalar(-0.7, nd.OperandType.FLOAT32)]
    model = build.model(nd.OperationType.ELU, inputs, output, [given])
    numbers = np.array([-2, -1, -0.0, 0, 1, 2, np.inf], np.float32)
    (expected,) = results(ReferenceModel(model), model, [numbers])
    (found,) = results(prepared(model), model, [numbers])
    np.testing.assert_array_equal(found, expected)
    assert found.tolist()[:4] == [0, 0, 0, 0]


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, INT32], ids=lambda kind: kind.name)
def test_comparisons_and_selections(target: str, kind: nd.OperandType) -> None:
    for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
        build = LayerBuilder(0)
        one, other = build.operand(kind, (4, 19)), build.operand(kind, (19,))
        output = build.operand(BOOL, (4, 19))
        check(build.model(nd.OperationType[name], [one, other], output, [one, other]), target)
    build = LayerBuilder(0)
    condition = build.operand(BOOL, (4, 1))
    one, other, output = (build.operand(kind, shape) for shape in ((4, 19), (1, 19), (4, 19)))
    operation, inputs = nd.OperationType.TFLITE_SELECT_V2, [condition, one, other]
    check(build.model(operation, inputs, output, inputs), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_truth_values(target: str) -> None:
    for name, count in (("LOGICAL_AND", 2), ("LOGICAL_OR", 2), ("LOGICAL_NOT", 1)):
        build = LayerBuilder(0)
        inputs, output = [build.operand(BOOL, (5, 37)) for _ in range(count)], build.operand(BOOL, (5, 37))
        check(build.model(nd.OperationType[name], inputs, output, inputs), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED, BOOL], ids=lambda kind: kind.name)
def test_bytes_are_compared_by_their_scales(target: str, kind: nd.OperandType) -> None:
    names = ("EQUAL", "NOT_EQUAL") if kind is BOOL else ("EQUAL", "NOT_EQUAL", "GREATER", "LESS_EQUAL")
    for name, shapes in itertools.product(names, (((4, 19), (19,)), ((3, 1, 37), (2, 1)))):
        build = LayerBuilder(0)
        scales: list[Any] = [{}, {}]
        if kind is not BOOL:
            scales = [{"scale": 0.1, "zero_point": 7}, {"scale": 0.05, "zero_point": 3}]
        one, other = (build.operand(kind, s, **scale) for s, scale in zip(shapes, scales, strict=True))
        output = build.operand(BOOL, np.broadcast_shapes(*shapes))
        check(build.model(nd.OperationType[f"TFLITE_{name}"], [one, other], output, [one, other]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    "name", ["DIV", "TFLITE_DIV", "TFLITE_FLOOR_DIV", "TFLITE_FLOOR_MOD", "TFLITE_SQUARED_DIFFERENCE"]
)
def test_quotients_and_differences_of_integers(target: str, name: str) -> None:
    build, rng, shape = LayerBuilder(0), np.random.default_rng(0), (3, 67)
    first, second, output = (build.operand(INT32, shape) for _ in range(3))
    more = [build.scalar(0)] if name.endswith("DIV") and "FLOOR" not in name else []
    model = build.model(nd.OperationType[name], [first, second, *more], output, [first, second])
    one, other = (rng.integers(-99, 100, shape).astype(np.int32) for _ in range(2))
    limits = np.iinfo(np.int32)
    # All pairs of these, of which the least one and -1 have a quotient that is too large.
    special = np.array([limits.min, limits.min + 1, -7, -1, 1, 3, limits.max], np.int32)
    pairs = np.array(list(itertools.product(special, special)), np.int32)
    one[:, : len(pairs)], other[:, : len(pairs)] = pairs.T
    other[other == 0] = 4
    check(model, target, inputs=[one, other])
    other[2, 66] = 0
    if name in ("DIV", "TFLITE_SQUARED_DIFFERENCE"):
        check(model, target, inputs=[one, other])
    else:
        with pytest.raises(OpFailed, match="contains 0"):
            results(prepared(model, target), model, [one, other])


#: Types whose CAST has kernels.
_NUMBERS = (
    FLOAT,
    INT32,
    INT64,
    BOOL,
    nd.OperandType.TENSOR_FLOAT16,
    SIGNED,
    UNSIGNED,
    SHORT,
    nd.OperandType.TENSOR_QUANT16_ASYMM,
    nd.OperandType.TENSOR_UINT32,
    nd.OperandType.TENSOR_FLOAT64,
)
#: Conversions that would round twice, and those of 64-bit floats to other types.
_DOUBLE = nd.OperandType.TENSOR_FLOAT64
_WITHOUT_KERNELS = {
    *itertools.product((INT32, INT64, nd.OperandType.TENSOR_UINT32), (nd.OperandType.TENSOR_FLOAT16,)),
    *((_DOUBLE, kind) for kind in _NUMBERS if kind not in (FLOAT, _DOUBLE)),
}


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("name", ["CAST", "TFLITE_CAST"])
def test_casts(target: str, name: str) -> None:
    kinds = _NUMBERS if name == "TFLITE_CAST" else (FLOAT, INT32, nd.OperandType.TENSOR_FLOAT16, UNSIGNED)
    rng = np.random.default_rng(0)
    for source, kind in itertools.product(kinds, kinds):
        if (source, kind) in _WITHOUT_KERNELS or (name == "CAST" and source is not kind is UNSIGNED):
            continue
        build = LayerBuilder(0)
        scales = [{"scale": 0.1} if "QUANT" in each.name else {} for each in (source, kind)]
        given, output = (
            build.operand(each, (3, 35), **scale) for each, scale in zip((source, kind), scales, strict=True)
        )
        model = build.model(nd.OperationType[name], [given], output, [given])
        dtype = source.dtype
        if dtype.kind in "iu":
            limits = np.iinfo(dtype.name)
            values = rng.integers(limits.min, limits.max, (3, 35), dtype.name, endpoint=True)
        else:
            special = [np.nan, np.inf, -np.inf, 3e9, -3e9, 1e19, -1e19, 0.7, -0.7, 127.5, -128.5, 255.9]
            with np.errstate(over="ignore"):
                values = np.resize(np.array(special, np.float64), (3, 35)).astype(dtype)
        check(model, target, inputs=[values])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, INT32, INT64], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "name",
    ["TFLITE_FLOOR_DIV", "TFLITE_FLOOR_MOD", "TFLITE_MUL", "TFLITE_MAXIMUM", "TFLITE_LESS", "TFLITE_EQUAL"],
)
def test_integers_and_floors(target: str, kind: nd.OperandType, name: str) -> None:
    build, rng, shape = LayerBuilder(0), np.random.default_rng(0), (3, 67)
    is_compared = name in ("TFLITE_LESS", "TFLITE_EQUAL")
    first, second = (build.operand(kind, shape) for _ in range(2))
    output = build.operand(BOOL if is_compared else kind, shape)
    more = [build.scalar(0)] if name == "TFLITE_MUL" else []
    model = build.model(nd.OperationType[name], [first, second, *more], output, [first, second])
    one, other = (rng.integers(-9, 10, shape).astype(kind.dtype) for _ in range(2))
    other[other == 0] = 4
    if kind is not FLOAT:
        one[0, :2], other[0, :2] = np.iinfo(np.dtype(kind.dtype.name)).min, (-1, 7)
    check(model, target, inputs=[one, other])
    if name == "TFLITE_FLOOR_DIV" or (name == "TFLITE_FLOOR_MOD" and kind is not FLOAT):
        other[2, 66] = 0
        with pytest.raises(OpFailed, match="contains 0"):
            results(prepared(model, target), model, [one, other])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("name", ["TFLITE_ABS", "TFLITE_NEG", "TFLITE_SQUARE", "TFLITE_SIGN"])
def test_functions_of_one_integer(target: str, name: str) -> None:
    build, shape = LayerBuilder(0), (3, 67)
    given, output = (build.operand(INT32, shape) for _ in range(2))
    array = np.random.default_rng(0).integers(-(2**20), 2**20, shape).astype(np.int32)
    array[0, 0] = np.iinfo(np.int32).min
    check(build.model(nd.OperationType[name], [given], output, [given]), target, inputs=[array])


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_powers_of_integers(target: str) -> None:
    """Results are limited to 32 bits, and negative exponents are errors."""
    build = LayerBuilder(0)
    given = [build.operand(INT32, (3, 41)), build.operand(INT32, (41,))]
    model = build.model(nd.OperationType.TFLITE_POW, given, build.operand(INT32, (3, 41)), given)
    rng = np.random.default_rng(3)
    bases = rng.choice([-(1 << 31), -3, -2, -1, 0, 1, 2, 3, 10, 46341, (1 << 31) - 1], (3, 41))
    exponents = rng.choice([0, 1, 2, 3, 7, 30, 31, 32, 63, 64, 65, (1 << 31) - 1], 41)
    check(model, target, inputs=[bases.astype(np.int32), exponents.astype(np.int32)])
    exponents[40] = -1
    with pytest.raises(OpFailed, match="exponent is negative"):
        results(prepared(model, target), model, [bases.astype(np.int32), exponents.astype(np.int32)])


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_angles(target: str) -> None:
    build, shape = LayerBuilder(0), (9, 9)
    y, x, output = (build.operand(FLOAT, shape) for _ in range(3))
    model = build.model(nd.OperationType.TFLITE_ATAN2, [y, x], output, [y, x])
    ends = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 3e-39, 1e30], np.float32)
    for inputs in (None, np.meshgrid(ends, ends)):
        check(model, target, rtol=1e-5, inputs=inputs)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, INT32], ids=lambda kind: kind.name)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_sums_of_several_operands(target: str, kind: nd.OperandType, count: int) -> None:
    build, shape = LayerBuilder(0), (3, 1371)
    addends = [build.operand(kind, shape) for _ in range(count)]
    inputs = [*addends, addends[0]] if count > 2 else addends
    model = build.model(nd.OperationType.TFLITE_ADD_N, inputs, build.operand(kind, shape), addends)
    # Sums of floats are rounded in the same order.
    check(model, target, threads=2, rtol=0)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    "kind", [SIGNED, UNSIGNED, SHORT, INT32, nd.OperandType.TENSOR_UINT32], ids=lambda kind: kind.name
)
@pytest.mark.parametrize("name", ["TFLITE_BITWISE_XOR", "TFLITE_RIGHT_SHIFT"])
def test_functions_of_bits(target: str, kind: nd.OperandType, name: str) -> None:
    build, shape, rng = LayerBuilder(0), (3, 67), np.random.default_rng(0)
    scale: dict[str, Any] = {"scale": 0.1} if kind.dtype.itemsize < 4 else {}
    if kind in (SIGNED, UNSIGNED):
        scale["zero_point"] = 7
    first, second, output = (build.operand(kind, each, **scale) for each in (shape, (67,), shape))
    model = build.model(nd.OperationType[name], [first, second], output, [first, second])
    amounts = np.arange(67) - (9 if kind in (SIGNED, SHORT, INT32) else 0)
    arrays = [values(rng, kind, shape), amounts.astype(kind.dtype)]
    if name == "TFLITE_RIGHT_SHIFT" and kind is nd.OperandType.TENSOR_UINT32:
        assert isinstance(prepared(model, target), ReferenceModel)
    else:
        check(model, target, inputs=arrays)
