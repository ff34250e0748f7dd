import numpy as np
import pytest
from support.operations.single_operation import (
    Given,
    counted,
    evaluate,
    evaluate_all,
    given,
    ints,
    scalars,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

FLOAT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT64


@sweep("kind", ELEMENTS)
def test_parts_of_all_types(kind: OperandType) -> None:
    source, output = counted(kind, 3, 4, 2, 1, 2), wanted(kind)
    x: Array = source.value  # type: ignore[assignment]
    lists = given(INT64, [1, 0, 2, 0, 0]), given(INT64, [-1, 2, 0, 1, 2])
    got = evaluate(OperationType.TFLITE_SLICE, (source, *lists), output)
    np.testing.assert_array_equal(got, x[1:, :2, 2:])
    parts = evaluate_all(OperationType.TFLITE_SPLIT, (source, given(INT64, 1), *scalars(2)), output, output)
    np.testing.assert_array_equal(parts[1], x[:, 2:])
    parts = evaluate_all(
        OperationType.TFLITE_SPLIT_V, (source, given(INT64, [1, -1, 0]), ints(-4)), output, output, output
    )
    assert [part.shape[1] for part in parts] == [1, 3, 0]
    np.testing.assert_array_equal(parts[1], x[:, 1:])
    update = counted(kind, 2, 4, 1, 1, 1)
    got = evaluate(OperationType.TFLITE_DYNAMIC_UPDATE_SLICE, (source, update, ints(7, -3, 1, 0, 0)), output)
    expected = x.copy()
    expected[1:, :, 1:, :, :1] = update.value
    np.testing.assert_array_equal(got, expected)


@sweep(
    ("sizes", "message"),
    [((1, 1), "has length 3"), ((-1, -1), "at most once"), ((4, -1), "length 3"), ((-2, 5), "at most once")],
)
def test_refuses_split_sizes(sizes: tuple[int, int], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate_all(
            OperationType.TFLITE_SPLIT_V,
            (counted(FLOAT32, 3), ints(*sizes), *scalars(0)),
            wanted(FLOAT32),
            wanted(FLOAT32),
        )


def strided(
    source: Given,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    strides: tuple[int, ...],
    *masks: int,
    offset: bool = False,
) -> Array:
    masks = (*masks, *(0,) * (5 - len(masks)))
    inputs = source, ints(*begin), ints(*end), ints(*strides), *scalars(*masks), *scalars(offset)
    return evaluate(OperationType.TFLITE_STRIDED_SLICE, inputs, wanted(FLOAT32))


def test_strided_slices_equal_numpy() -> None:
    generator = np.random.default_rng(1)
    for _ in range(200):
        shape = tuple(generator.integers(1, 5, generator.integers(1, 5)).tolist())
        source = counted(FLOAT32, *shape)
        x: Array = source.value  # type: ignore[assignment]
        count = int(generator.integers(0, len(shape) + 1))
        begin, end = (tuple(generator.integers(-6, 7, count).tolist()) for _ in range(2))
        strides = tuple(int(generator.choice([-2, -1, 1, 3])) for _ in range(count))
        open_begin, open_end = (int(mask) for mask in generator.integers(0, 16, 2))
        parts = tuple(
            slice(None if open_begin >> i & 1 else a, None if open_end >> i & 1 else b, c)
            for i, (a, b, c) in enumerate(zip(begin, end, strides, strict=True))
        )
        np.testing.assert_array_equal(strided(source, begin, end, strides, open_begin, open_end), x[parts])


def test_masks() -> None:
    source = counted(FLOAT32, 3, 4, 5)
    x: Array = source.value  # type: ignore[assignment]
    ones = (1, 1, 1)
    np.testing.assert_array_equal(strided(source, (0, 1), (0, 2), (1, 1), 0, 0, 1), x[..., 1:2])
    np.testing.assert_array_equal(strided(source, (0, 0, 1), (9, 9, 3), ones, 0, 0, 0, 1), x[None, :, 1:3])
    np.testing.assert_array_equal(
        strided(source, (0, 0, 0, 1), (0, 0, 0, 3), (1, 1, 1, 1), 0, 0, 2, 4), x[:0, ..., None, 1:3]
    )
    np.testing.assert_array_equal(strided(source, (1, 0, -1), (0, 0, 0), ones, 0, 0, 2, 0, 5), x[1, :, -1])
    assert strided(source, (1, 2, 3), (0, 0, 0), ones, 0, 0, 0, 0, 7) == x[1, 2, 3]
    np.testing.assert_array_equal(strided(source, (1, 1), (2, 3), (1, 1), offset=True), x[1:3, 1:4])


@sweep(
    ("arguments", "message"),
    [
        (((0,), (1,), (0,)), "must not be"),
        (((0, 0), (1, 1), (1, 1)), "for 2 axes"),
        (((0, 0), (1, 1), (1, 1), 0, 0, 3), "one bit"),
        (((3,), (4,), (1,), 0, 0, 0, 0, 1), "index of an element"),
        (((0,) * 17, (0,) * 17, (1,) * 17), "at most 16"),
    ],
)
def test_refuses_strided_slices(arguments: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(BadData, match=message):
        strided(counted(FLOAT32, 3), *arguments)  # type: ignore[arg-type]


def test_an_update_must_fit() -> None:
    for update, start in ((counted(FLOAT32, 4), ints(0)), (counted(FLOAT32, 2), ints(0, 0))):
        with pytest.raises(BadData, match=r"does not fit|is expected"):
            evaluate(
                OperationType.TFLITE_DYNAMIC_UPDATE_SLICE,
                (counted(FLOAT32, 3), update, start),
                wanted(FLOAT32),
            )
