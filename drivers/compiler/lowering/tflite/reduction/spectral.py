"""RFFT2D as products of matrices: short transforms, from which long ones are put together.

A transform of n = r·m numbers x[m·j + i] is, for each i, one of r numbers; its element k, times a *twiddle* e^(-2πi·ik/n), is
then number i of one of m numbers, whose element l is element k + r·l of the whole. Short transforms are products with a
constant matrix. On the way real and imaginary parts lie apart, in a dimension of their own before that of the numbers: a
transform with m numbers left over reads and writes whole rows then.

Sums have at most 2·`_LONGEST` terms each, so that errors grow as slowly as those of any fast transform.
"""

import math

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, constant, load, select
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import Array
from neurald.drivers.compiler.lowering.machinery.reduced_axes import filled
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes, padded, taken
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call

#: So many numbers are transformed by one product.
_LONGEST = 64


def _lower(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, (shape,) = builder.value(call, "input"), output_shapes(call)
    rows, columns = call.array("lengths").tolist()
    if not source.count or 0 in shape:
        return (filled(builder, (*shape, 2), 0, Scalar.FLOAT32),)
    batch, count = math.prod(shape[:-2]), shape[-1]
    if rows == 1:
        # A single row is its own transform along the other dimension.
        first = taken(
            builder,
            source,
            (*(slice(None),) * (len(shape) - 2), slice(0, 1)),
            (*shape[:-2], 1, source.shape[-1]),
        )
        numbers = builder.reshape(first, (batch, source.shape[-1]))
    else:
        numbers = builder.reshape(
            _cut(builder, source, (*shape[:-2], rows, source.shape[-1])), (batch * rows, source.shape[-1])
        )
    halves = _real(builder, _cut(builder, numbers, (numbers.shape[0], columns)))
    if rows > 1:
        halves = _turned(builder, halves, (batch, rows, 2, count))
        halves = _complex(builder, halves)
        halves = _turned(builder, halves, (batch, count, 2, rows))
    pairs = builder.compute(
        (batch * rows, count, 2), lambda row, place, part: load(halves, (row, part, place))
    )
    return (builder.reshape(pairs, (*shape, 2)),)


def _cut(builder: Builder, source: Value, shape: tuple[int, ...]) -> Value:
    """Cut, or filled up with zeros, to a shape."""
    if source.shape == shape:
        return source
    return padded(builder, source, (0,) * len(shape), shape, constant(0, source.type))


def _turned(builder: Builder, numbers: Value, shape: tuple[int, int, int, int]) -> Value:
    """Matrices of complex numbers the other way round, row by row: (batch · columns, 2, rows).

    Args:
        builder: of the operation.
        numbers: (batch · rows, 2, columns).
        shape: of that, with rows apart.
    """
    batch, rows, _, columns = shape
    return builder.compute(
        (batch * columns, 2, rows),
        lambda at, part, row: load(numbers, (at // columns * rows + row, part, at % columns)),
    )


def _waves(length: int, numerators: Array) -> tuple[Array, Array]:
    """The real and imaginary parts of e^(-2πi·numerator/length)."""
    angles = 2 * np.pi / length * (numerators % length)
    return np.cos(angles), -np.sin(angles)


def _factors(length: int) -> tuple[int, int]:
    """The numbers r and m for a transform of more than one product; where two are enough they are about the same."""
    bits = length.bit_length() - 1
    second = min(_LONGEST.bit_length() - 1, -(-bits // 2)) if 1 << bits <= _LONGEST**2 else bits - 6
    return length >> second, 1 << second


def _real(builder: Builder, numbers: Value) -> Value:
    """The first half of the transforms of real rows, and the element after it: (rows, 2, length // 2 + 1).

    Args:
        builder: of the operation.
        numbers: (rows, length).
    """
    rows, length = numbers.shape
    count = length // 2 + 1
    if length <= _LONGEST:
        waves = np.concatenate(_waves(length, np.outer(np.arange(count), np.arange(length))))
        product = builder.matrix_product(numbers, builder.constant(waves.astype(np.float32)))
        return builder.reshape(product, (rows, 2, count))
    first, second = _factors(length)
    # Of a short transform of real numbers the second half mirrors the first, too.
    kept = first // 2 + 1
    waves = np.stack(_waves(first, np.outer(np.arange(kept), np.arange(first))), axis=1)
    product = builder.matrix_product(
        builder.constant(waves.reshape(2 * kept, first).astype(np.float32)),
        builder.reshape(numbers, (rows, first, second)),
        right_transposed=True,
    )
    parts = builder.reshape(product, (rows, kept, 2, second))
    inner = _complex(builder, _twiddled(builder, parts, length))
    return builder.compute((rows, 2, count), lambda *at: _mirrored(inner, at, length, first))


def _mirrored(inner: Value, at: tuple[Expression, ...], length: int, first: int) -> Expression:
    """An element of the transforms of real rows of a length, from those of the kept of `first` numbers; see `_real`."""
    row, part, place = at
    kept = first // 2 + 1
    number = place % first
    is_own = number < kept
    # What is left out is at the mirrored place, with the imaginary part turned round.
    seen = select(is_own, place, length - place)
    value = load(inner, (row * kept + seen % first, part, seen // first))
    return select(is_own | part.equals(0), value, -value)


def _twiddled(builder: Builder, parts: Value, length: int) -> Value:
    """Transforms of r numbers, of which there are m, as the numbers of those of m, see above: (rows · kept, 2, m).

    Args:
        builder: of the operation.
        parts: (rows, kept, 2, m).
        length: of the whole transform.
    """
    rows, kept, _, second = parts.shape
    real, imaginary = _waves(length, np.outer(np.arange(kept), np.arange(second)))
    own = builder.constant(real.astype(np.float32))
    # What the other part adds to the real one and to the imaginary one.
    other = builder.constant(np.stack((-imaginary, imaginary), axis=1).astype(np.float32))

    def body(row: Expression, part: Expression, place: Expression) -> Expression:
        number = row % kept
        one = load(parts, (row // kept, number, part, place))
        two = load(parts, (row // kept, number, 1 - part, place))
        return one * load(own, (number, place)) + two * load(other, (number, part, place))

    return builder.compute((rows * kept, 2, second), body)


def _complex(builder: Builder, numbers: Value) -> Value:
    """The transforms of complex rows, of the same shape.

    Args:
        builder: of the operation.
        numbers: (rows, 2, length).
    """
    rows, _, length = numbers.shape
    first, second = _factors(length) if length > _LONGEST else (length, 1)
    cosine, sine = _waves(first, np.outer(np.arange(first), np.arange(first)))
    if second == 1:
        waves = np.block([[cosine, -sine], [sine, cosine]]).astype(np.float32)
        product = builder.matrix_product(
            builder.reshape(numbers, (rows, 2 * length)), builder.constant(waves)
        )
        return builder.reshape(product, numbers.shape)
    # The parts of a result follow each other.
    waves = np.stack((np.hstack((cosine, -sine)), np.hstack((sine, cosine))), axis=1)
    product = builder.matrix_product(
        builder.constant(waves.reshape(2 * first, 2 * first).astype(np.float32)),
        builder.reshape(numbers, (rows, 2 * first, second)),
        right_transposed=True,
    )
    parts = builder.reshape(product, (rows, first, 2, second))
    inner = _complex(builder, _twiddled(builder, parts, length))
    return builder.compute(
        numbers.shape,
        lambda row, part, place: load(inner, (row * first + place % first, part, place // first)),
    )


LOWERINGS = {OperationType.TFLITE_RFFT2D: _lower}
