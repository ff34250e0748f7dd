"""Constants that a file stores in another form than operands have.

Numbers of 4 or 2 bits come several to a byte, sparse tensors without their zeros, laid out as DENSIFY describes; and what has a zero
point for each channel, which no operand has, becomes real numbers. They are unpacked when they are first read, into
memories of their own. A few bytes of a file could stand for any number of zeros, so what all of them may take is
limited by the file's size.
"""

import math
from dataclasses import dataclass

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, Operand, OperandType, Operation
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.runtime.tflite.flatbuffer import INT8, INT32, UINT8, UINT16, Number, Table
from neurald.runtime.tflite.numbers import DimensionType, SparseIndexVector
from neurald.runtime.tflite.operands import PACKED_BITS, Unsupported, is_dequantized, is_packed
from neurald.runtime.tflite.schema import UINT4, Tensor

#: Bytes that unpacked constants may take: so many for each byte of the file, and some more.
_BYTES_PER_BYTE = 4
_SPARE_BYTES = 1 << 20

#: DENSIFY only moves elements, so that what they stand for does not matter.
_ELEMENTS = {
    1: OperandType.TENSOR_QUANT8_SYMM,
    2: OperandType.TENSOR_QUANT16_SYMM,
    4: OperandType.TENSOR_INT32,
}

#: In which field of its table a kind of vector has its numbers.
_VECTORS: dict[int, Number] = {
    SparseIndexVector.Int32Vector: INT32,
    SparseIndexVector.Uint16Vector: UINT16,
    SparseIndexVector.Uint8Vector: UINT8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """One level of the tree of a sparse tensor, see `neurald.hal.operations.movement.densify`."""

    format: int
    length: int
    segments: tuple[int, ...]
    indices: tuple[int, ...]


class Unpacking:
    """Unpacks constants of one file.

    Args:
        data: all bytes of the file.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._bytes_left = _BYTES_PER_BYTE * data.nbytes + _SPARE_BYTES

    def unpack(self, tensor: Tensor, operand_type: OperandType) -> Array:
        """The value of a constant that is packed, as an operand of that type stores it.

        Raises:
            Unsupported: all unpacked constants together would be too large, or there is no such sparse type.
            BadData: the bytes are too few or too many, or what the file says of them cannot be.
        """
        if not is_packed(tensor, operand_type) or tensor.data is None:
            raise BadData(f"{tensor} is not packed")
        offset, length = tensor.data
        self._bytes_left -= math.prod(tensor.shape) * operand_type.dtype.itemsize
        if self._bytes_left < 0:
            raise Unsupported(
                f"{tensor} of shape {list(tensor.shape)} is stored in {length} bytes; with it the file's constants become "
                f"more than {_BYTES_PER_BYTE} times as large as the file"
            )
        stored = np.frombuffer(self._data[offset : offset + length], np.uint8)
        is_real = is_dequantized(tensor, operand_type)
        value = _value(tensor, stored, np.dtype(np.int8) if is_real else operand_type.dtype)
        return _dequantized(tensor, value) if is_real else value


def _value(tensor: Tensor, stored: Array, dtype: "np.dtype[np.generic]") -> Array:
    """The stored value, with all elements, each of them whole."""
    bits = PACKED_BITS.get(tensor.type, 8)
    if tensor.sparsity is not None and bits < 8:
        raise Unsupported(f"{tensor} is sparse and of type {tensor.type_name}, which is not supported")
    if tensor.sparsity is not None:
        return _dense(tensor, tensor.sparsity, stored, dtype)
    count = math.prod(tensor.shape)
    expected = -(-count * bits // 8)
    if stored.size != expected:
        raise BadData(
            f"{tensor} has {stored.size} bytes of data; {tensor.type_name}{list(tensor.shape)} has {expected}"
        )
    if bits == 8:
        return stored.view(np.int8).reshape(tensor.shape)
    return _parts(stored, count, bits, signed=tensor.type != UINT4).reshape(tensor.shape)


def _dequantized(tensor: Tensor, stored: Array) -> Array:
    """Real numbers, each channel with a scale and a zero point of its own."""
    quantization = tensor.quantization()
    if quantization is None:
        raise BadData(f"{tensor} has no scales")
    along = [1] * stored.ndim
    along[quantization.dimension] = len(quantization.scales)
    scales = np.array(quantization.scales, np.float32).reshape(along)
    zero_points = np.array(quantization.zero_points, np.float64).reshape(along)
    with np.errstate(all="ignore"):
        return (stored - zero_points).astype(np.float32) * scales


def _parts(stored: Array, count: int, bits: int, *, signed: bool) -> Array:
    """Numbers of so many bits as ones of 8 bits; the first in each byte has its lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    flat = ((stored[:, np.newaxis] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if not signed:
        return flat
    sign = 1 << bits - 1
    return (flat.view(np.int8) ^ sign) - sign


def _dense(tensor: Tensor, sparsity: Table, stored: Array, dtype: "np.dtype[np.generic]") -> Array:
    """The value of a sparse constant."""
    if dtype.itemsize not in _ELEMENTS or stored.size % dtype.itemsize:
        raise Unsupported(
            f"{tensor} is sparse, of type {tensor.type_name} and {stored.size} bytes, which is not supported"
        )
    order, block_map = sparsity.integers(0), sparsity.integers(1)
    levels = _levels(tensor, sparsity, order, block_map)
    values: list[Array | None] = [
        stored.view(f"<i{dtype.itemsize}"),
        _numbers(order),
        _numbers(block_map),
        _numbers(level.format for level in levels),
        _numbers(level.length for level in levels),
    ]
    for level in levels:
        is_sparse = level.format == DimensionType.SPARSE_CSR
        values += [_numbers(part) if is_sparse else None for part in (level.segments, level.indices)]
    element = _ELEMENTS[dtype.itemsize]
    operands = [_constant(value, element if place == 0 else None) for place, value in enumerate(values)]
    operands.append(Operand(type=element, dimensions=None))
    definition = DEFINITIONS[OperationType.DENSIFY]
    operation = Operation(
        type=OperationType.DENSIFY, inputs=tuple(range(len(values))), outputs=(len(values),)
    )
    shapes = [None if value is None else value.shape for value in values]
    try:
        call = Call(definition.bind(operation, operands), operands, shapes.__getitem__, values.__getitem__)
        (shape,) = definition.output_shapes(call)
        if shape != tensor.shape:
            raise BadData(f"its levels give the shape {list(shape)}; {list(tensor.shape)} is expected")
        (dense,) = definition.reference(call)
    except BadData as error:
        raise BadData(f"{tensor}: {error}") from None
    return dense.view(dtype)


def _levels(
    tensor: Tensor, sparsity: Table, order: tuple[int, ...], block_map: tuple[int, ...]
) -> list[_Level]:
    """The levels; the length of a sparse one follows from the tensor's shape.

    Raises:
        BadData: there are not as many as the order has dimensions.
    """
    tables = sparsity.tables(2)
    rank = len(tensor.shape)
    if len(tables) != len(order) or len(order) != rank + len(block_map):
        raise BadData(
            f"{tensor} of shape {list(tensor.shape)} has {len(tables)} levels, an order of {len(order)} and "
            f"{len(block_map)} blocks; a level and a place in the order for each dimension and block are expected"
        )
    lengths = [table.integer(1, INT32) for table in tables]
    # The lengths of blocks, by dimension.
    blocks = {
        block_map[dimension - rank]: length
        for dimension, length in zip(order, lengths, strict=True)
        if rank <= dimension < len(order) and length > 0
    }
    levels = []
    for dimension, length, table in zip(order, lengths, tables, strict=True):
        kind = table.integer(0, INT8)
        if kind == DimensionType.SPARSE_CSR and 0 <= dimension < rank:
            length = tensor.shape[dimension] // blocks.get(dimension, 1)
        levels.append(
            _Level(format=kind, length=length, segments=_vector(table, 2), indices=_vector(table, 4))
        )
    return levels


def _vector(table: Table, field: int) -> tuple[int, ...]:
    """The numbers of a vector whose kind is in one field and that the next one refers to; none if it is absent."""
    kind, vector = _VECTORS.get(table.integer(field, UINT8)), table.table(field + 1)
    return vector.integers(0, kind) if kind is not None and vector is not None else ()


def _numbers(values: object) -> Array:
    return np.fromiter(values, np.int32)  # type: ignore[call-overload, no-any-return]


def _constant(value: Array | None, element: OperandType | None) -> Operand:
    """An operand for a value that is known, or omitted."""
    operand_type = element or OperandType.TENSOR_INT32
    if value is None:
        return Operand(type=operand_type, dimensions=(0,), lifetime=Lifetime.NO_VALUE)
    return Operand(type=operand_type, dimensions=value.shape, lifetime=Lifetime.SUBGRAPH_INPUT)
