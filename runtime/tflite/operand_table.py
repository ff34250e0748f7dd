"""Operands of a graph on its way that the file does not have: scalars, results in between, arguments that are left out."""

import struct
from collections.abc import Sequence
from dataclasses import replace

from neurald.hal.model.types import Dimensions, Lifetime, Operand, OperandType, byte_size
from neurald.runtime.tflite.operands import Unsupported

#: Bytes of zeros that biases which the file leaves out may take.
_MAXIMUM_ZEROS_BYTES = 1 << 26


class OperandTable:
    """The operands of a graph.

    Args:
        operands: those that come first.
    """

    def __init__(self, operands: list[Operand]) -> None:
        self._operands = operands
        #: What a result's dimensions are if its operation's rule does not tell.
        self._expected: dict[int, Dimensions] = {}
        self._constants: dict[tuple[OperandType, Dimensions, bytes], int] = {}
        self._omitted: dict[OperandType, int] = {}
        self._zeros: dict[int, bytes] = {}
        self._bias_scales: dict[int, float] = {}

    def operand(self, index: int) -> Operand:
        """Type, dimensions and quantisation."""
        return self._operands[index]

    def _add(self, operand: Operand) -> int:
        self._operands.append(operand)
        return len(self._operands) - 1

    def _constant(self, operand_type: OperandType, dimensions: Dimensions, value: bytes) -> int:
        key = operand_type, dimensions, value
        if key not in self._constants:
            self._constants[key] = self._add(
                Operand(
                    type=operand_type, dimensions=dimensions, lifetime=Lifetime.CONSTANT_COPY, value=value
                )
            )
        return self._constants[key]

    def int32(self, value: int) -> int:
        """A constant scalar, INT32."""
        return self._constant(OperandType.INT32, (), _int32_bytes((value,)))

    def boolean(self, *, value: bool) -> int:
        """A constant scalar, BOOL."""
        return self._constant(OperandType.BOOL, (), struct.pack("<?", value))

    def real(self, value: float, *, like: int) -> int:
        """A constant scalar, FLOAT16 for an operation on TENSOR_FLOAT16 (that of operand `like`), otherwise FLOAT32."""
        is_half = self._operands[like].type is OperandType.TENSOR_FLOAT16
        scalar = OperandType.FLOAT16 if is_half else OperandType.FLOAT32
        try:
            return self._constant(scalar, (), struct.pack("<e" if is_half else "<f", value))
        except OverflowError:
            raise Unsupported(f"{value:g} is too large for {scalar.name}") from None

    def stored(self, value: int, *, like: int) -> int:
        """A constant of rank 0 with that stored value, of the type and quantisation of operand `like`."""
        operand = self._operands[like]
        return self._add(
            replace(
                operand,
                dimensions=(),
                lifetime=Lifetime.CONSTANT_COPY,
                location=None,
                value=operand.type.dtype.type(value).tobytes(),
                name="",
            )
        )

    def as_signed(self, index: int) -> int:
        """A constant of unsigned bytes, its bytes taken as signed ones without a zero point.

        Raises:
            Unsupported: it is no constant.
        """
        operand = self._operands[index]
        if not operand.lifetime.is_constant:
            raise Unsupported(f"weights of {operand.type.name} with float inputs must be constants")
        return self._add(replace(operand, type=OperandType.TENSOR_QUANT8_ASYMM_SIGNED, zero_point=0))

    def add_constant(self, operand: Operand) -> int:
        """A constant whose bytes are those of another one, which means something else."""
        return self._add(operand)

    def vector(self, values: Sequence[int]) -> int:
        """A constant TENSOR_INT32 of rank 1."""
        return self._constant(OperandType.TENSOR_INT32, (len(values),), _int32_bytes(values))

    def reals(self, values: Sequence[float]) -> int:
        """A constant TENSOR_FLOAT32 of rank 1, of numbers that float32 holds."""
        return self._constant(
            OperandType.TENSOR_FLOAT32, (len(values),), struct.pack(f"<{len(values)}f", *values)
        )

    def pairs(self, rows: Sequence[Sequence[int]]) -> int:
        """A constant TENSOR_INT32 of pairs, one in each row."""
        values = [value for row in rows for value in row]
        return self._constant(OperandType.TENSOR_INT32, (len(rows), 2), _int32_bytes(values))

    def model(self, graph: int) -> int:
        """The operand that stands for a referenced graph."""
        return self._add(
            Operand(type=OperandType.MODEL, dimensions=(), lifetime=Lifetime.SUBGRAPH, subgraph=graph)
        )

    def expect(self, index: int, dimensions: Dimensions) -> int:
        """The operand, whose dimensions are these unless its operation's shape rule tells."""
        self._expected[index] = dimensions
        return index

    def value_like(self, operand: Operand) -> int:
        """A result in between, of the type, quantisation and dimensions of an operand of another graph."""
        index = self._add(
            replace(operand, lifetime=Lifetime.TEMPORARY_VARIABLE, location=None, value=b"", name="")
        )
        return self.expect(index, operand.dimensions)

    def omitted(self, operand_type: OperandType) -> int:
        """An optional argument that is left out."""
        if operand_type not in self._omitted:
            self._omitted[operand_type] = self._add(
                Operand(type=operand_type, dimensions=(0,), lifetime=Lifetime.NO_VALUE)
            )
        return self._omitted[operand_type]

    def temporary(self, like: int, dimensions: Dimensions | None = None) -> int:
        """A result in between, of the type and quantisation of operand `like`.

        Args:
            like: the operand; that of a constant stands for its type only.
            dimensions: if the shape rule does not tell; those that `like` has in this case if None.
        """
        index = self._add(
            replace(
                self._operands[like],
                dimensions=None,
                lifetime=Lifetime.TEMPORARY_VARIABLE,
                location=None,
                value=b"",
                name="",
            )
        )
        self._expected[index] = self._expected.get(like) if dimensions is None else dimensions
        return index

    def zeros(self, operand_type: OperandType, length: int, scale: float) -> int:
        """A constant of rank 1 that is all zeros.

        Raises:
            Unsupported: it, and those before, are larger than any sensible bias.
        """
        size_bytes = byte_size(operand_type, (length,))
        if size_bytes not in self._zeros:
            if sum(self._zeros) + size_bytes > _MAXIMUM_ZEROS_BYTES:
                raise Unsupported(f"a bias of {length} zeros would have to be added, which is too large")
            self._zeros[size_bytes] = bytes(size_bytes)
        return self._add(
            Operand(
                type=operand_type,
                dimensions=(length,),
                scale=scale,
                lifetime=Lifetime.CONSTANT_COPY,
                value=self._zeros[size_bytes],
            )
        )

    def bias(self, index: int, scale: float) -> int:
        """A TENSOR_INT32 operand with the scale that an operation demands of its bias.

        The bytes of a bias that operations with different scales share are referred to by several operands.

        Raises:
            Unsupported: a bias that is no constant would need two scales.
        """
        known = self._bias_scales.setdefault(index, scale)
        changed = replace(self._operands[index], scale=scale)
        if known == scale:
            self._operands[index] = changed
            return index
        if not changed.lifetime.is_constant:
            raise Unsupported(f"the bias, operand {index}, would need the scales {known:g} and {scale:g}")
        return self._add(changed)


def _int32_bytes(values: Sequence[int]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}i", *values)
    except struct.error:
        raise Unsupported(f"{max(values, key=abs)} does not fit in 32 bits") from None
