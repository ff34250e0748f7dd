"""Additional operands of a graph under construction.

Scalars, intermediate results, omitted arguments.
"""

import struct
from collections.abc import Sequence

from neurald.hal.model.graph import Operand
from neurald.hal.model.types import Dimensions, Lifetime, OperandType, byte_size
from neurald.hal.records import replace
from neurald.runtime.tflite.graph.operands import UnsupportedFeature

#: Maximum total size of the zeros for omitted biases.
_MAX_ZEROS_BYTES = 1 << 26


class OperandTable:
    """The operands of a graph.

    Args:
        operands: the first operands.
    """

    def __init__(self, operands: list[Operand]) -> None:
        self._operands = operands
        #: Dimensions of a result if the rule of its operation cannot infer them.
        self._expected: dict[int, Dimensions] = {}
        self._constants: dict[tuple[OperandType, Dimensions, bytes], int] = {}
        self._omitted: dict[OperandType, int] = {}
        #: The constants and omitted arguments that operators share.
        self._shared: set[int] = set()
        self._zeros: dict[int, bytes] = {}
        self._bias_scales: dict[int, float] = {}

    def operand(self, index: int) -> Operand:
        """Returns type, dimensions and quantisation of an operand."""
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
            self._shared.add(self._constants[key])
        return self._constants[key]

    def int32(self, value: int) -> int:
        """Returns a constant INT32 scalar."""
        return self._constant(OperandType.INT32, (), _int32_bytes((value,)))

    def boolean(self, *, value: bool) -> int:
        """Returns a constant BOOL scalar."""
        return self._constant(OperandType.BOOL, (), struct.pack("<?", value))

    def real(self, value: float, *, like: int) -> int:
        """Returns a constant scalar.

        FLOAT16 if operand `like` is TENSOR_FLOAT16, otherwise FLOAT32.
        """
        is_half = self._operands[like].type is OperandType.TENSOR_FLOAT16
        scalar = OperandType.FLOAT16 if is_half else OperandType.FLOAT32
        try:
            return self._constant(scalar, (), struct.pack("<e" if is_half else "<f", value))
        except OverflowError:
            raise UnsupportedFeature(f"{value:g} is too large for {scalar.name}") from None

    def quantized_scalar(self, value: int, *, like: int) -> int:
        """Returns a constant of rank 0 with that quantised value, otherwise like `like`."""
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
        """Reinterprets a constant of unsigned bytes as signed ones without a zero point.

        Raises:
            UnsupportedFeature: it is not a constant.
        """
        operand = self._operands[index]
        if not operand.lifetime.is_constant:
            raise UnsupportedFeature(f"weights of {operand.type.name} with float inputs must be constants")
        return self._add(replace(operand, type=OperandType.TENSOR_QUANT8_ASYMM_SIGNED, zero_point=0))

    def add_constant(self, operand: Operand) -> int:
        """Adds a constant that shares the bytes of another one with a different meaning."""
        return self._add(operand)

    def vector(self, values: Sequence[int]) -> int:
        """Returns a constant TENSOR_INT32 of rank 1."""
        return self._constant(OperandType.TENSOR_INT32, (len(values),), _int32_bytes(values))

    def reals(self, values: Sequence[float]) -> int:
        """Returns a constant TENSOR_FLOAT32 of rank 1, of numbers that float32 can represent."""
        return self._constant(
            OperandType.TENSOR_FLOAT32, (len(values),), struct.pack(f"<{len(values)}f", *values)
        )

    def pairs(self, rows: Sequence[Sequence[int]]) -> int:
        """Returns a constant TENSOR_INT32 with one pair per row."""
        values = [value for row in rows for value in row]
        return self._constant(OperandType.TENSOR_INT32, (len(rows), 2), _int32_bytes(values))

    def model(self, graph: int) -> int:
        """Returns the operand that refers to a referenced graph."""
        return self._add(
            Operand(type=OperandType.MODEL, dimensions=(), lifetime=Lifetime.SUBGRAPH, subgraph=graph)
        )

    def expect(self, index: int, dimensions: Dimensions) -> int:
        """Sets the dimensions of a result for the case that they cannot be inferred."""
        self._expected[index] = dimensions
        return index

    def expect_rank(self, index: int, rank: int) -> None:
        """Corrects the dimensions of a result for the case that they cannot be inferred."""
        expected = self._expected.get(index)
        if expected is None or len(expected) != rank:
            self._expected[index] = (0,) * rank

    def value_like(self, operand: Operand) -> int:
        """Adds an intermediate result like an operand of another graph."""
        index = self._add(
            replace(operand, lifetime=Lifetime.TEMPORARY_VARIABLE, location=None, value=b"", name="")
        )
        return self.expect(index, operand.dimensions)

    def omitted(self, operand_type: OperandType) -> int:
        """Returns an omitted optional argument."""
        if operand_type not in self._omitted:
            self._omitted[operand_type] = self._add(
                Operand(type=operand_type, dimensions=(0,), lifetime=Lifetime.NO_VALUE)
            )
            self._shared.add(self._omitted[operand_type])
        return self._omitted[operand_type]

    def temporary(self, like: int, dimensions: Dimensions | None = None) -> int:
        """Adds an intermediate result with type and quantisation of operand `like`.

        Args:
            like: the operand; of a constant only the type is used.
            dimensions: used if the shape rule cannot infer them; None for those of `like`.
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
        """Returns a constant of rank 1 with all zeros.

        Raises:
            UnsupportedFeature: all such constants together are larger than any sensible bias.
        """
        size_bytes = byte_size(operand_type, (length,))
        if size_bytes not in self._zeros:
            if sum(self._zeros) + size_bytes > _MAX_ZEROS_BYTES:
                raise UnsupportedFeature(
                    f"a bias of {length} zeros would have to be added, which is too large"
                )
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
        """Returns a TENSOR_INT32 operand with the scale that an operation requires of its bias.

        If operations with different scales share a bias, several operands refer to its bytes.

        Raises:
            UnsupportedFeature: a bias that is not a constant would need two scales.
        """
        known = self._bias_scales.setdefault(index, scale)
        changed = replace(self._operands[index], scale=scale)
        if known == scale:
            self._operands[index] = changed
            return index
        if not changed.lifetime.is_constant:
            raise UnsupportedFeature(
                f"the bias, operand {index}, would need the scales {known:g} and {scale:g}"
            )
        return self._add(changed)


def _int32_bytes(values: Sequence[int]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}i", *values)
    except struct.error:
        raise UnsupportedFeature(f"{max(values, key=abs)} does not fit in 32 bits") from None
