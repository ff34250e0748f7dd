"""LSH_PROJECTION: signatures of the hashes of rows."""

import math
from enum import IntEnum

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, Parameter, row, scalar, tensor

#: Bytes of keys that are hashed at a time.
_KEYS_BYTES = 1 << 20
#: Maximum bits of a LSH_PROJECTION signature, including the index of the hash function.
_MAX_SIGNATURE_BITS = 32


class Projection(IntEnum):
    """Output of LSH_PROJECTION: one signature per hash function, or one element per bit."""

    SPARSE_DEPRECATED = 1
    DENSE = 2
    SPARSE = 3


def _projection(call: Call) -> Projection:
    number = call.scalar("type")
    if number not in list(Projection):
        raise BadData(
            f"{call.name('type')} is {number}; 1 (SPARSE_DEPRECATED), 2 (DENSE) or 3 (SPARSE) is expected"
        )
    return Projection(number)


def _projection_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the output shape.

    SPARSE signatures include the index of the hash function, so that all differ.
    """
    kind, (functions, bits) = _projection(call), call.shape("hash")
    number = max(0, functions - 1).bit_length() if kind is Projection.SPARSE else 0
    if bits + number > _MAX_SIGNATURE_BITS:
        raise BadData(
            f"{call.name('hash')} has shape {[functions, bits]}: signatures of {bits + number} bits; "
            f"at most {_MAX_SIGNATURE_BITS} are allowed"
        )
    if call.has("weight") and call.shape("weight") != call.shape("input")[:1]:
        raise BadData(
            f"{call.name('weight')} has shape {list(call.shape('weight'))}; "
            f"{list(call.shape('input')[:1])}, one for each row of the input, is expected"
        )
    return ((functions * bits if kind is Projection.DENSE else functions,),)


def _bits(call: Call) -> Array:
    """Returns a bit per seed: 1 if the weighted sum of the hashes of all input rows is positive."""
    values, seeds = call.array("input"), call.array("hash").astype("<f4").reshape(-1, 1)
    from neurald.hal.operations.arithmetic.farmhash import fingerprint64  # few models need it

    count, size = len(values), math.prod(values.shape[1:])
    rows = np.ascontiguousarray(values).reshape(count, size).view(np.uint8)
    weights = call.array("weight").astype(np.float64) if call.has("weight") else np.ones(count)
    bits = np.zeros(len(seeds), bool)
    # A key consists of the seed and the row.
    width = 4 + rows.shape[1]
    step = max(1, _KEYS_BYTES // max(1, count * width))
    for start in range(0, len(seeds) if count else 0, step):
        some = seeds[start : start + step].view(np.uint8)
        keys = np.empty((len(some), count, width), np.uint8)
        keys[:, :, :4] = some[:, np.newaxis]
        keys[:, :, 4:] = rows
        hashes = fingerprint64(keys.reshape(-1, width)).view(np.int64).reshape(len(some), count)
        # Summed sequentially: another order may round to another sign.
        scores = np.add.accumulate(hashes.astype(np.float64) * weights, axis=1)[:, -1]
        bits[start : start + step] = scores > 0
    return bits


def _projection_reference(call: Call) -> tuple[Array, ...]:
    kind, (functions, bits) = _projection(call), call.shape("hash")
    found = _bits(call)
    if kind is Projection.DENSE:
        return (found.astype(np.int32),)
    # The first bit is the most significant one.
    powers = np.int64(1) << np.arange(bits - 1, -1, -1, dtype=np.int64)
    signatures = found.reshape(functions, bits).astype(np.int64) @ powers
    if kind is Projection.SPARSE:
        signatures += np.arange(functions, dtype=np.int64) << np.int64(bits)
    return (signatures.astype(np.uint32).view(np.int32),)


_FLOATS = (
    row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_FLOAT32),
    row(FeatureLevel.LEVEL_3, T=OperandType.TENSOR_FLOAT16),
)

DEFINITIONS = (
    Definition(
        type=OperationType.LSH_PROJECTION,
        forms=(
            Form(
                inputs=(
                    tensor("hash", rank=2),
                    Parameter(
                        name="input",
                        types=frozenset(
                            (
                                OperandType.TENSOR_FLOAT32,
                                OperandType.TENSOR_FLOAT16,
                                OperandType.TENSOR_INT32,
                                OperandType.TENSOR_QUANT8_ASYMM,
                            )
                        ),
                    ),
                    tensor("weight", rank=1, optional=True),
                    scalar("type"),
                ),
                outputs=(tensor("output", OperandType.TENSOR_INT32, rank=1),),
            ),
        ),
        rows=_FLOATS,
        shape=_projection_shape,
        reference=_projection_reference,
    ),
)
