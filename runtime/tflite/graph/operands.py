"""Converts a tensor of a `.tflite` file to an operand.

Type, dimensions, quantisation, location of the constant.
"""

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant, Location, Operand
from neurald.hal.model.types import Dimensions, Lifetime, OperandType, byte_size
from neurald.hal.operations.machinery.signature import MAX_RANK
from neurald.hal.records import replace
from neurald.hal.validation.operand_rules import validate_operand_type
from neurald.runtime.tflite.file.schema import INT2, UINT4, Operator, Quantization, Tensor
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, TensorType


class UnsupportedFeature(Exception):
    """The reason why an operator cannot be converted. Never leaves `neurald.runtime.tflite`."""


_PLAIN = {
    TensorType.FLOAT32: OperandType.TENSOR_FLOAT32,
    #: Constants, and what is moved from them. FLOAT32 has all of their values.
    TensorType.BFLOAT16: OperandType.TENSOR_FLOAT32,
    TensorType.FLOAT16: OperandType.TENSOR_FLOAT16,
    TensorType.INT32: OperandType.TENSOR_INT32,
    TensorType.BOOL: OperandType.TENSOR_BOOL8,
    TensorType.INT64: OperandType.TENSOR_INT64,
    TensorType.UINT32: OperandType.TENSOR_UINT32,
    TensorType.UINT64: OperandType.TENSOR_UINT64,
    TensorType.FLOAT64: OperandType.TENSOR_FLOAT64,
    TensorType.COMPLEX64: OperandType.TENSOR_COMPLEX64,
    TensorType.COMPLEX128: OperandType.TENSOR_COMPLEX128,
    TensorType.STRING: OperandType.TENSOR_STRING,
}

_QUANTIZED = {
    TensorType.UINT8: OperandType.TENSOR_QUANT8_ASYMM,
    TensorType.INT8: OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    #: Narrower types are widened to 8 bits.
    TensorType.INT4: OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    INT2: OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    UINT4: OperandType.TENSOR_QUANT8_ASYMM,
    TensorType.INT16: OperandType.TENSOR_QUANT16_SYMM,
    TensorType.UINT16: OperandType.TENSOR_QUANT16_ASYMM,
}

#: Values that are passed to and from graphs.
_BOUNDARY = (Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT)

#: Types that may have per-channel scales.
_BYTES = (TensorType.INT8, TensorType.INT4, INT2)

#: Bits per element of the types with several elements per byte.
PACKED_BITS = {TensorType.INT4: 4, UINT4: 4, INT2: 2}

#: Operators that give values of BFLOAT16 without rounding.
_MOVERS = frozenset(
    (
        BuiltinOperator.CONCATENATION,
        BuiltinOperator.DYNAMIC_UPDATE_SLICE,
        BuiltinOperator.EXPAND_DIMS,
        BuiltinOperator.GATHER,
        BuiltinOperator.GATHER_ND,
        BuiltinOperator.PAD,
        BuiltinOperator.RESHAPE,
        BuiltinOperator.REVERSE_V2,
        BuiltinOperator.SELECT,
        BuiltinOperator.SELECT_V2,
        BuiltinOperator.SLICE,
        BuiltinOperator.STRIDED_SLICE,
        BuiltinOperator.TILE,
        BuiltinOperator.TRANSPOSE,
    )
)

#: Types of matrices that may be quantised by blocks.
BLOCKWISE_TYPES = (TensorType.INT4, INT2)

#: Scale of constants whose file says 0, as converters do for filters of zeros. Products with it
#: round to the same as products with 0, in integers and in float32.
_TINY = 2.0**-80

#: Integers without quantisation.
_UNSCALED = Quantization(scales=(1.0,), zero_points=(0,), dimension=0)


def has_no_elements(tensor: Tensor) -> bool:
    """Returns True if the tensor is known to be empty: then it has a value without any bytes."""
    return 0 in tensor.shape and not tensor.is_variable


def is_packed(tensor: Tensor, operand_type: OperandType) -> bool:
    """Returns True if a constant must be unpacked to become an operand of that type."""
    return tensor.data is not None and (
        tensor.type in PACKED_BITS
        or tensor.type == TensorType.BFLOAT16
        or tensor.sparsity is not None
        or is_dequantized(tensor, operand_type)
    )


def is_dequantized(tensor: Tensor, operand_type: OperandType) -> bool:
    """Returns True if a constant with per-channel zero points is represented as real numbers."""
    return operand_type is OperandType.TENSOR_FLOAT32 and tensor.type in _BYTES


def require_moved(tensor: Tensor, operator: Operator) -> None:
    """Checks that an operator's result of BFLOAT16 needs no rounding.

    Raises:
        UnsupportedFeature: it would.
    """
    if tensor.type == TensorType.BFLOAT16 and operator.code not in _MOVERS:
        raise UnsupportedFeature(
            f"its result {tensor} is of type BFLOAT16; only constants of that type, and their elements "
            "where they are moved, are supported"
        )


def narrow_limits(tensor: Tensor) -> tuple[int, int] | None:
    """Returns the range of a type with fewer than 8 bits; None for any other."""
    bits = PACKED_BITS.get(tensor.type)
    if bits is None:
        return None
    return (0, (1 << bits) - 1) if tensor.type == UINT4 else (-1 << bits - 1, (1 << bits - 1) - 1)


def input_dimensions(tensor: Tensor) -> Dimensions:
    """Returns the dimensions of a graph input according to the file, with 0 for unknown lengths."""
    if not tensor.shape_signature:
        return tensor.shape
    return tuple(
        0 if open_ == -1 else length
        for open_, length in zip(tensor.shape_signature, tensor.shape, strict=True)
    )


def expected_dimensions(tensor: Tensor) -> Dimensions:
    """Returns the dimensions of an operator's result, for use if they cannot be inferred.

    Lengths in `shape` are valid for only one shape of the graph's inputs, so only the rank is taken
    from it.
    """
    if tensor.shape_signature:
        return tuple(max(length, 0) for length in tensor.shape_signature)
    return (0,) * len(tensor.shape) if tensor.shape or tensor.has_rank else None


def common_dimensions(first: Dimensions, second: Dimensions) -> Dimensions:
    """Returns the most specific dimensions that cover both."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(a if a == b else 0 for a, b in zip(first, second, strict=True))


def to_operand(tensor: Tensor, dimensions: Dimensions, lifetime: Lifetime) -> Operand:
    """Converts a tensor to an operand.

    A tensor with data becomes a constant in pool 0, possibly packed.

    Args:
        tensor: the tensor.
        dimensions: the dimensions of the operand, unless it is a constant.
        lifetime: the lifetime of the operand, unless it is a constant.

    Raises:
        UnsupportedFeature: no operand can represent the tensor.
        BadData: the tensor's description in the file is invalid.
    """
    # An input that is fed to every execution needs no persistent memory.
    if tensor.is_variable and lifetime is not Lifetime.SUBGRAPH_INPUT:
        raise UnsupportedFeature(f"{tensor} is a variable, which is not supported")
    if tensor.sparsity is not None and (tensor.data is None or tensor.type == TensorType.STRING):
        what = "strings" if tensor.data is not None else "no constant"
        raise UnsupportedFeature(f"{tensor} is sparse and {what}, which is not supported")
    if len(tensor.shape) > MAX_RANK:
        raise UnsupportedFeature(f"{tensor} has rank {len(tensor.shape)}; at most {MAX_RANK} is supported")
    if tensor.type == TensorType.BFLOAT16 and lifetime in _BOUNDARY and tensor.data is None:
        raise UnsupportedFeature(
            f"{tensor} is an input or output of type BFLOAT16, which is only supported for constants"
        )
    operand_type, quantization = _type(tensor)
    channels = quantization if quantization is not None and len(quantization.scales) > 1 else None
    if channels is not None and tensor.data is None and lifetime is not Lifetime.SUBGRAPH_INPUT:
        raise UnsupportedFeature(
            f"{tensor} has a scale for each channel; only constants and inputs of a graph may have them"
        )
    location = None
    if tensor.data is not None:
        offset, length = tensor.data
        expected = byte_size(operand_type, tensor.shape)
        is_exact = operand_type is not OperandType.TENSOR_STRING
        if is_exact and length != expected and not is_packed(tensor, operand_type):
            raise BadData(
                f"{tensor} has {length} bytes of data; {tensor.type_name}{list(tensor.shape)} has {expected}"
            )
        location = Location(pool=0, offset=offset, length=length)
        dimensions, lifetime = tensor.shape, Lifetime.CONSTANT_POOL
    single = quantization if channels is None else None
    operand = Operand(
        type=operand_type,
        dimensions=dimensions,
        scale=single.scales[0] if single else 0.0,
        zero_point=single.zero_points[0] if single else 0,
        channel_quant=(
            ChannelQuant(dimension=channels.dimension, scales=channels.scales) if channels else None
        ),
        lifetime=lifetime,
        location=location,
        name=tensor.name,
    )
    validate_operand_type(operand, tensor, is_extended=True)
    return operand


def _type(tensor: Tensor) -> tuple[OperandType, Quantization | None]:
    """Returns the operand type, and the quantisation of the types that have one."""
    plain = _PLAIN.get(tensor.type)
    if plain is not None:
        return plain, None
    quantized = _QUANTIZED.get(tensor.type)
    if quantized is None:
        raise UnsupportedFeature(f"{tensor} has type {tensor.type_name}, which is not supported")
    quantization = tensor.quantization() or _UNSCALED
    if tensor.data is not None and 0 in quantization.scales:
        scales = tuple(scale or _TINY for scale in quantization.scales)
        quantization = replace(quantization, scales=scales)
    if len(quantization.scales) > 1:
        if tensor.type not in _BYTES:
            raise UnsupportedFeature(
                f"{tensor} has a scale for each channel; only INT8, INT4 and INT2 tensors may have them"
            )
        if any(quantization.zero_points):
            if tensor.data is None:
                raise UnsupportedFeature(
                    f"{tensor} has a zero point other than 0 for a channel; only constants may have them"
                )
            return OperandType.TENSOR_FLOAT32, None
        return OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, quantization
    return quantized, quantization
