"""Unpacks constants whose format in the file differs from that of operands.

Numbers of 4 or 2 bits are packed several to a byte, and those of BFLOAT16 are the upper half of a
FLOAT32. Sparse tensors omit zeros, in the layout of
DENSIFY. Constants with per-channel zero points, which operands do not support, become real numbers.
Constants are unpacked into separate memories when they are first read. Since a few bytes of a file
could represent any number of zeros, their total size is limited by the size of the file.
"""

import math

import numpy as np
from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.runtime.tflite.file import schema_enums
from neurald.runtime.tflite.file.flatbuffer import INT8, INT32, UINT8, UINT16, NumberFormat, Table
from neurald.runtime.tflite.file.schema import UINT4, Tensor
from neurald.runtime.tflite.graph.operands import PACKED_BITS, UnsupportedFeature, is_dequantized, is_packed

#: Maximum total size of unpacked constants: a factor of the file size, and a fixed allowance.
_MAX_EXPANSION = 4
_SPARE_BYTES = 1 << 20

#: Types for DENSIFY, which only moves elements, so only their size matters.
_ELEMENTS = {
    1: OperandType.TENSOR_QUANT8_SYMM,
    2: OperandType.TENSOR_QUANT16_SYMM,
    4: OperandType.TENSOR_INT32,
}

#: The steps that spread numbers of so many bits over bytes: how far they are shifted, and the bits
#: that are kept of the shifted and unshifted ones.
_SPREAD = {4: ((4, 0x0F0F),), 2: ((12, 0x000F000F), (6, 0x03030303))}


class _Level(Struct, frozen=True, kw_only=True):
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
        self._bytes_left = _MAX_EXPANSION * data.nbytes + _SPARE_BYTES

    def unpack(self, tensor: Tensor, operand_type: OperandType) -> Array:
        """Unpacks a constant to the format of an operand of that type.

        Raises:
            UnsupportedFeature: all unpacked constants together would be too large, or the sparse
                type is not supported.
            BadData: the number of bytes is wrong, or its description in the file is invalid.
        """
        if not is_packed(tensor, operand_type) or tensor.data is None:
            raise BadData(f"{tensor} is not packed")
        offset, length = tensor.data
        self._bytes_left -= math.prod(tensor.shape) * operand_type.dtype.itemsize
        if self._bytes_left < 0:
            raise UnsupportedFeature(
                f"{tensor} of shape {list(tensor.shape)} is stored in {length} bytes; with it the file's "
                "constants become "
                f"more than {_MAX_EXPANSION} times as large as the file"
            )
        packed = np.frombuffer(self._data[offset : offset + length], np.uint8)
        if tensor.type == schema_enums.TensorType.BFLOAT16:
            return _widened(tensor, packed)
        is_real = is_dequantized(tensor, operand_type)
        value = _value(tensor, packed, np.dtype(np.int8) if is_real else operand_type.dtype)
        return _dequantized(tensor, value) if is_real else value


def _value(tensor: Tensor, packed: Array, dtype: "np.dtype[np.generic]") -> Array:
    """Returns the values of a constant, dense and unpacked."""
    bits = PACKED_BITS.get(tensor.type, 8)
    if tensor.sparsity is not None and bits < 8:
        raise UnsupportedFeature(f"{tensor} is sparse and of type {tensor.type_name}, which is not supported")
    if tensor.sparsity is not None:
        return _dense(tensor, tensor.sparsity, packed, dtype)
    count = math.prod(tensor.shape)
    expected = -(-count * bits // 8)
    if packed.size != expected:
        raise BadData(
            f"{tensor} has {packed.size} bytes of data; {tensor.type_name}{list(tensor.shape)} has {expected}"
        )
    if bits == 8:
        return packed.view(np.int8).reshape(tensor.shape)
    return _parts(packed, count, bits, signed=tensor.type != UINT4).reshape(tensor.shape)


def _widened(tensor: Tensor, stored: Array) -> Array:
    """Returns a constant of BFLOAT16 as FLOAT32, whose upper half it is."""
    expected = 2 * math.prod(tensor.shape)
    if tensor.sparsity is not None:
        raise UnsupportedFeature(f"{tensor} is sparse and of type {tensor.type_name}, which is not supported")
    if stored.size != expected:
        raise BadData(
            f"{tensor} has {stored.size} bytes of data; {tensor.type_name}{list(tensor.shape)} has {expected}"
        )
    return (stored.view("<u2").astype("<u4") << 16).view(np.float32).reshape(tensor.shape)


def stored_values(tensor: Tensor, stored: memoryview, dtype: "np.dtype[np.generic]") -> Array:
    """Returns the numbers that the file stores for a constant, quantised ones as they are.

    Packed ones are unpacked. Of a sparse tensor only the stored numbers are returned, in one
    dimension.

    Raises:
        BadData: the number of bytes is wrong.
    """
    packed = np.frombuffer(stored, np.uint8)
    bits = PACKED_BITS.get(tensor.type, 8)
    if tensor.sparsity is not None:
        return np.array(packed[: packed.size // dtype.itemsize * dtype.itemsize]).view(dtype)
    if bits < 8:
        return np.array(_value(tensor, packed, dtype)).view(dtype)
    if packed.size != math.prod(tensor.shape) * dtype.itemsize:
        raise BadData(f"{tensor} of shape {list(tensor.shape)} has {packed.size} bytes of data")
    return np.array(packed).view(dtype).reshape(tensor.shape)


def _dequantized(tensor: Tensor, packed: Array) -> Array:
    """Converts quantised values to real numbers, with a scale and zero point per channel."""
    quantization = tensor.quantization()
    if quantization is None:
        raise BadData(f"{tensor} has no scales")
    along = [1] * packed.ndim
    along[quantization.dimension] = len(quantization.scales)
    scales = np.array(quantization.scales, np.float32).reshape(along)
    zero_points = np.array(quantization.zero_points, np.float64).reshape(along)
    with np.errstate(all="ignore"):
        return (packed - zero_points).astype(np.float32) * scales


def _parts(packed: Array, count: int, bits: int, *, signed: bool) -> Array:
    """Unpacks numbers of fewer bits to 8 bits each.

    The first one is in the lowest bits of a byte.
    """
    # All numbers of a byte at once, which move apart until each has a byte of its own.
    spread = packed.astype(f"<u{8 // bits}")
    for shift, mask in _SPREAD[bits]:
        spread |= spread << shift
        spread &= mask
    flat = spread.view(np.uint8)[:count]
    if not signed:
        return flat
    sign = np.int8(1 << bits - 1)
    values: Array = flat.view(np.int8)
    values ^= sign
    values -= sign
    return values


def _dense(tensor: Tensor, sparsity: Table, packed: Array, dtype: "np.dtype[np.generic]") -> Array:
    """Returns the value of a sparse constant."""
    if dtype.itemsize not in _ELEMENTS or packed.size % dtype.itemsize:
        raise UnsupportedFeature(
            f"{tensor} is sparse, of type {tensor.type_name} and {packed.size} bytes, which is not supported"
        )
    order, block_map = sparsity.integers(0), sparsity.integers(1)
    levels = _levels(tensor, sparsity, order, block_map)
    values: list[Array | None] = [
        packed.view(f"<i{dtype.itemsize}"),
        _numbers(order),
        _numbers(block_map),
        _numbers(level.format for level in levels),
        _numbers(level.length for level in levels),
    ]
    for level in levels:
        is_sparse = level.format == schema_enums.DimensionType.SPARSE_CSR
        values += [_numbers(part) if is_sparse else None for part in (level.segments, level.indices)]
    element = _ELEMENTS[dtype.itemsize]
    operands = [_constant(value, element if position == 0 else None) for position, value in enumerate(values)]
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
    """Reads the levels; the length of a sparse one follows from the tensor's shape.

    Raises:
        BadData: their number differs from that of the dimensions in the order.
    """
    tables = sparsity.tables(2)
    rank = len(tensor.shape)
    if len(tables) != len(order) or len(order) != rank + len(block_map):
        raise BadData(
            f"{tensor} of shape {list(tensor.shape)} has {len(tables)} levels, an order of {len(order)} and "
            f"{len(block_map)} blocks; a level and an entry in the order for each dimension and block are "
            "expected"
        )
    lengths = [table.integer(1, INT32) for table in tables]
    # Block lengths by dimension.
    blocks = {
        block_map[dimension - rank]: length
        for dimension, length in zip(order, lengths, strict=True)
        if rank <= dimension < len(order) and length > 0
    }
    levels = []
    for dimension, length, table in zip(order, lengths, tables, strict=True):
        kind = table.integer(0, INT8)
        if kind == schema_enums.DimensionType.SPARSE_CSR and 0 <= dimension < rank:
            length = tensor.shape[dimension] // blocks.get(dimension, 1)
        levels.append(
            _Level(
                format=kind, length=length, segments=index_vector(table, 2), indices=index_vector(table, 4)
            )
        )
    return levels


def index_vector(table: Table, field: int) -> tuple[int, ...]:
    """Reads the numbers of a vector whose kind is in `field` and whose table is in the next.

    Empty if absent.
    """
    kinds = schema_enums.SparseIndexVector
    formats: dict[int, NumberFormat] = {
        kinds.Int32Vector: INT32,
        kinds.Uint16Vector: UINT16,
        kinds.Uint8Vector: UINT8,
    }
    kind, vector = formats.get(table.integer(field, UINT8)), table.table(field + 1)
    return vector.integers(0, kind) if kind is not None and vector is not None else ()


def _numbers(values: object) -> Array:
    return np.fromiter(values, np.int32)  # type: ignore[call-overload, no-any-return]


def _constant(value: Array | None, element: OperandType | None) -> Operand:
    """Returns an operand for a known or omitted value."""
    operand_type = element or OperandType.TENSOR_INT32
    if value is None:
        return Operand(type=operand_type, dimensions=(0,), lifetime=Lifetime.NO_VALUE)
    return Operand(type=operand_type, dimensions=value.shape, lifetime=Lifetime.SUBGRAPH_INPUT)
