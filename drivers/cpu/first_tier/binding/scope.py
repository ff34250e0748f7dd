"""The state that bindings of a model's operations share: known values, and constants of kernels."""

import math
import struct
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

import numpy as np

from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, NotBound
from neurald.drivers.cpu.first_tier.layout import Tiles
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.quantized import activate
from neurald.hal.operations.machinery.call import Array, Call

FLOAT: Final = OperandType.TENSOR_FLOAT32
SIGNED, UNSIGNED = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT8_ASYMM
BYTES: Final = frozenset((SIGNED, UNSIGNED))
SHORT: Final = OperandType.TENSOR_QUANT16_SYMM
WORD, BOOL = OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8
#: Estimated products and elements per nanosecond.
PRODUCTS_PER_NS: Final = 50
ELEMENTS_PER_NS: Final = 1
MAX_INT32: Final = (1 << 31) - 1


class BindingScope:
    """The state that bindings of a graph's operations share.

    Args:
        graph: the graph.
        value: returns the value of an operand that is known.
        tiles: the tiles of the target.
    """

    def __init__(self, graph: Subgraph, value: Callable[[int], Array | None], tiles: Tiles) -> None:
        self.operands = graph.operands
        self.value = value
        self.tiles = tiles
        self._constants: dict[Hashable, BoundConstant] = {}
        #: What was found out about operations that others are equal to.
        self.bound: dict[Hashable, tuple[tuple[int, ...], list[BoundCall]]] = {}

    def constant(self, call: Call, name: str) -> Array:
        """Returns the value of a constant input.

        Raises:
            NotBound: it is not a constant.
        """
        value = self.value(call.index(name))
        if value is None:
            raise NotBound(f"{name} is not constant")
        return value

    def shared(self, key: Hashable, make: Callable[[], BoundConstant]) -> BoundConstant:
        """Returns the constant of a key, which is made once."""
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = make()
        return found

    def zeros(self, dtype: "np.dtype[np.generic] | type[np.generic]", count: int) -> BoundConstant:
        """Returns zeros."""
        kind = np.dtype(dtype)
        return self.shared(
            ("zeros", kind, count), lambda: BoundConstant(dtype=kind, shape=(count,), fill=None)
        )


def sign_of(operand: Operand) -> str:
    """Returns the part of kernels' names that stands for the bytes of an operand.

    Raises:
        NotBound: it is not a quantised type of 8 bits.
    """
    if operand.type not in BYTES:
        raise NotBound("the type has no kernel")
    return "signed" if operand.type is SIGNED else "unsigned"


def integer_of(operand: Operand) -> str:
    """Returns the part of kernels' names that stands for the quantised integers of an operand.

    Raises:
        NotBound: no kernels have its type, or it has 16 bits and a zero point.
    """
    if operand.type is SHORT and not operand.zero_point:
        return "short"
    return sign_of(operand)


def scales_of(operand: Operand, dtype: type[np.generic]) -> Array:
    """Returns the scale of each channel of weights, or of all."""
    quant = operand.channel_quant
    return np.array((operand.scale,) if quant is None else quant.scales, dtype)


def count_of(call: Call, name: str) -> int:
    """Returns the number of elements of an operand."""
    return math.prod(call.shape(name))


def output_shape(call: Call) -> tuple[int, ...]:
    """Returns the shape of the output, which is specified."""
    dimensions = call.operand("output").dimensions
    assert dimensions is not None  # noqa: S101 - checked
    return dimensions


def bits(value: float) -> int:
    """Returns a float32 as a word."""
    (found,) = struct.unpack("<I", struct.pack("<f", value))
    return int(found)


def double_bits(value: float) -> int:
    """Returns a float64 as a word."""
    (found,) = struct.unpack("<q", struct.pack("<d", value))
    return int(found)


def limits(call: Call) -> tuple[int, int]:
    """Returns the limits of a fused activation on floats, as words."""
    if "activation" not in call.binding.inputs or not call.activation:
        return UNLIMITED
    low, high = activate(np.array([-np.inf, np.inf], np.float32), call.activation).tolist()
    return bits(low), bits(high)


UNLIMITED: Final = bits(-math.inf), bits(math.inf)


#: Binds an operation: returns the calls that compute it.
Bind: TypeAlias = Callable[[BindingScope, Call], list[BoundCall]]


def bound_by(bind: Bind, *names: str) -> dict[OperationType, Bind]:
    """Returns a part of a table of bindings: operations with these names, by one function."""
    return {OperationType[name]: bind for name in names}
