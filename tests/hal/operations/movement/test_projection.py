"""LSH_PROJECTION: signatures of the hashes of rows."""

import numpy as np
import pytest
from support.operations.random_tensors import PLAIN_TYPES, tensor, value
from support.operations.single_operation import (
    FLOAT_TYPES,
    call_of,
    evaluate,
    given,
    level_of,
    omitted,
    scalars,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.arithmetic.farmhash import fingerprint64
from neurald.hal.operations.machinery.call import UnknownValue
from neurald.hal.operations.movement import projection

LSH_PROJECTION = OperationType.LSH_PROJECTION
FLOAT32, FLOAT16, QUANT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, PLAIN_TYPES[2]
INT32 = OperandType.TENSOR_INT32
SPARSE_DEPRECATED, DENSE, SPARSE = 1, 2, 3


def bit(seed: np.float32, rows: list[bytes], weights: list[float]) -> int:
    """Computes one bit with a sum row by row."""
    score = 0.0
    for row, weight in zip(rows, weights, strict=True):
        key = np.frombuffer(seed.tobytes() + row, np.uint8)[np.newaxis]
        score += weight * float(fingerprint64(key).astype(np.int64)[0])
    return int(score > 0)


@sweep("kind", [SPARSE_DEPRECATED, DENSE, SPARSE])
@sweep("weighted", [False, True])
@sweep("shape", [(3,), (4, 2), (2, 3, 5), (1, 90), (0, 2)])
@sweep("input_type", [FLOAT32, FLOAT16, INT32, QUANT8])
@sweep("hash_type", FLOAT_TYPES)
def test_lsh_projection(
    hash_type: OperandType, input_type: OperandType, shape: tuple[int, ...], weighted: bool, kind: int
) -> None:
    data, seeds = tensor(input_type, *shape), tensor(hash_type, 3, 5)
    weights = tensor(hash_type, shape[0], seed=2) if weighted else omitted(hash_type)
    result = evaluate(LSH_PROJECTION, [seeds, data, weights, *scalars(kind)], wanted(INT32))
    rows = [row.tobytes() for row in value(data)]
    numbers = value(weights).astype(float).tolist() if weighted else [1.0] * shape[0]
    bits = [[bit(np.float32(seed), rows, numbers) for seed in line] for line in value(seeds)]
    if kind == DENSE:
        expected = [number for line in bits for number in line]
    else:
        expected = [int("".join(map(str, line)), 2) for line in bits]
    if kind == SPARSE:
        expected = [number + position * 2**5 for position, number in enumerate(expected)]
    assert result.tolist() == expected


def test_lsh_projection_in_several_batches_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "_KEYS_BYTES", 150)
    data, seeds = tensor(INT32, 3, 4), tensor(FLOAT32, 5, 7)
    inputs = [seeds, data, omitted(FLOAT32), *scalars(DENSE)]
    rows = [row.tobytes() for row in value(data)]
    expected = [bit(seed, rows, [1.0] * 3) for seed in value(seeds).ravel()]
    assert evaluate(LSH_PROJECTION, inputs, wanted(INT32)).tolist() == expected


def test_signatures_of_32_bits() -> None:
    data, seeds = tensor(INT32, 4, 2), tensor(FLOAT32, 20, 32)
    inputs = [seeds, data, omitted(FLOAT32), *scalars(SPARSE_DEPRECATED)]
    result = evaluate(LSH_PROJECTION, inputs, wanted(INT32))
    bits = evaluate(LSH_PROJECTION, [*inputs[:3], *scalars(DENSE)], wanted(INT32)).reshape(20, 32)
    expected = [int("".join(map(str, line)), 2) for line in bits.tolist()]
    assert result.tolist() == [number - 2**32 if number >= 2**31 else number for number in expected]
    assert min(result) < 0


@sweep(
    ("seeds", "weights", "kind", "message"),
    [
        ((2, 3), (4,), 0, r"operand 3 \(type of LSH_PROJECTION\) is 0; 1 \(SPARSE_DEPRECATED\), 2 \(DENSE\)"),
        (
            (2, 3),
            (3,),
            DENSE,
            r"operand 2 \(weight of LSH_PROJECTION\) has shape \[3\]; \[4\], one for each row",
        ),
        (
            (2, 33),
            None,
            DENSE,
            r"hash of LSH_PROJECTION\) has shape \[2, 33\]: signatures of 33 bits; at most 32",
        ),
        ((5, 30), None, SPARSE, r"has shape \[5, 30\]: signatures of 33 bits"),
        ((2**31, 0), None, SPARSE_DEPRECATED, r"would have shape \[2147483648\], more than 2\^32 - 1 bytes"),
    ],
)
def test_lsh_projection_refuses(
    seeds: tuple[int, ...], weights: tuple[int, ...] | None, kind: int, message: str
) -> None:
    weight = omitted(FLOAT32) if weights is None else given(FLOAT32, np.zeros(weights))
    inputs = [given(FLOAT32, np.zeros(seeds)), tensor(INT32, 4, 2), weight, *scalars(kind)]
    with pytest.raises(BadData, match=message):
        evaluate(LSH_PROJECTION, inputs, wanted(INT32))


def test_four_functions_of_30_bits_fit() -> None:
    inputs = [given(FLOAT32, np.zeros((4, 30))), tensor(INT32, 4), omitted(FLOAT32), *scalars(SPARSE)]
    assert evaluate(LSH_PROJECTION, inputs, wanted(INT32)).shape == (4,)


def test_the_shape_is_unknown_without_the_type() -> None:
    inputs = [tensor(FLOAT32, 2, 2), tensor(INT32, 2), omitted(FLOAT32), unknown(scalars(1)[0])]
    call = call_of(LSH_PROJECTION, inputs, wanted(INT32))
    DEFINITIONS[LSH_PROJECTION].check(call)
    with pytest.raises(UnknownValue):
        DEFINITIONS[LSH_PROJECTION].shape(call)


def test_levels() -> None:
    for kind, level in ((FLOAT32, FeatureLevel.LEVEL_1), (FLOAT16, FeatureLevel.LEVEL_3)):
        inputs = [tensor(kind, 1, 1), tensor(INT32, 1), tensor(kind, 1), *scalars(SPARSE)]
        assert level_of(LSH_PROJECTION, inputs, wanted(INT32, rank=1)) == level
