import itertools

import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

TO_SPACE = OperationType.TFLITE_BATCH_TO_SPACE_ND
TO_BATCH = OperationType.TFLITE_SPACE_TO_BATCH_ND
INT32, INT64, SHORT = (
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT64,
    OperandType.TENSOR_QUANT16_SYMM,
)
SIGNED = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
TYPES = [(OperandType.TENSOR_FLOAT32, 0.0, 0), (INT64, 0.0, 0), (SHORT, 0.5, 0), (SIGNED, 0.5, 3)]


def pairs(*rows: tuple[int, int]) -> Given:
    return given(INT32, np.array(rows, np.int32).reshape(-1, 2))


def gathered(x: Array, block: tuple[int, ...], padding: tuple[tuple[int, int], ...], outside: int) -> Array:
    """Computes SPACE_TO_BATCH_ND element by element."""
    padded = np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=outside)
    lengths = [size // length for size, length in zip(padded.shape[1:-1], block, strict=True)]
    parts = []
    for start in itertools.product(*map(range, block)):
        steps = tuple(slice(s, None, length) for s, length in zip(start, block, strict=True))
        parts.append(padded[(slice(None), *steps)])
    return np.concatenate(parts).reshape(-1, *lengths, x.shape[-1])


@sweep(("kind", "scale", "zero_point"), TYPES)
@sweep(
    ("shape", "block", "padding"),
    [
        ((2, 4, 6, 3), (2, 3), ((0, 0), (0, 0))),
        ((2, 3, 5, 1), (2, 4), ((1, 0), (2, 1))),
        ((2, 4, 3), (3,), ((1, 4),)),
        ((1, 4, 2), (1,), ((0, 0),)),
        ((0, 4, 2), (2,), ((0, 0),)),
    ],
)
def test_to_batches_and_back(
    kind: OperandType,
    scale: float,
    zero_point: int,
    shape: tuple[int, ...],
    block: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
) -> None:
    x = np.random.default_rng(1).integers(-100, 100, shape)
    target = wanted(kind, scale, zero_point)
    inputs = (given(kind, x, scale, zero_point), ints(*block), pairs(*padding))
    batches = evaluate(TO_BATCH, inputs, target)
    np.testing.assert_array_equal(batches, gathered(x, block, padding, zero_point))
    inputs = (given(kind, batches, scale, zero_point), ints(*block), pairs(*padding))
    np.testing.assert_array_equal(evaluate(TO_SPACE, inputs, target), x)
    whole = evaluate(TO_SPACE, inputs[:2], target)
    np.testing.assert_array_equal(whole, np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=zero_point))


@sweep("kind", [INT32, INT64])
def test_channels_of_other_types(kind: OperandType) -> None:
    x = np.arange(2 * 4 * 6 * 2).reshape(2, 4, 6, 2)
    deep = evaluate(OperationType.TFLITE_SPACE_TO_DEPTH, (given(kind, x), *scalars(2)), wanted(kind, rank=4))
    assert deep.shape == (2, 2, 3, 8)
    assert deep[0, 0, 0].tolist() == [*x[0, 0, 0], *x[0, 0, 1], *x[0, 1, 0], *x[0, 1, 1]]
    back = evaluate(
        OperationType.TFLITE_DEPTH_TO_SPACE, (given(kind, deep), *scalars(2)), wanted(kind, rank=4)
    )
    np.testing.assert_array_equal(back, x)


@sweep(
    ("code", "shape", "block", "rows", "message"),
    [
        (TO_SPACE, (3, 2, 2), (2,), ((0, 0),), "does not divide the number of batches"),
        (TO_SPACE, (4, 2, 2), (2,), ((3, 2),), "takes 3 and 2 off a length of 4"),
        (TO_SPACE, (4, 2, 2), (2,), ((-1, 0),), "no number may be negative"),
        (TO_SPACE, (4, 2, 2), (0,), ((0, 0),), "lengths of at least 1"),
        (TO_SPACE, (4, 2, 2), (2, 2), ((0, 0),), r"shape \[2\]; \[1\] is expected"),
        (TO_SPACE, (4, 2, 2), (2,), ((0, 0), (0, 0)), r"\[1, 2\] is expected"),
        (TO_BATCH, (4, 3, 2), (2,), ((0, 0),), "does not divide a padded length of 3"),
        (TO_BATCH, (4, 3, 2), (2,), ((-1, 0),), "no number may be negative"),
        (TO_BATCH, (4, 3, 2), (1,), ((2**31 - 1, 2**31 - 1),), "more than 2.32 - 1 bytes"),
    ],
)
def test_refuses_blocks(
    code: OperationType,
    shape: tuple[int, ...],
    block: tuple[int, ...],
    rows: tuple[tuple[int, int], ...],
    message: str,
) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(code, (given(INT32, np.zeros(shape)), ints(*block), pairs(*rows)), wanted(INT32))
