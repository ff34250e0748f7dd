"""Lowers RFFT2D by matrix products: short transforms that are combined to long ones.

Let n = r·m. For each i, the numbers x[m·j + i] are transformed as r numbers. Element k of that
transform, times a *twiddle* e^(-2πi·ik/n), becomes number i of a transform of m numbers, whose
element l is element k + r·l of the whole. Short transforms are products with a constant matrix.
Real and imaginary parts are kept in a separate dimension before that of the numbers, so that
transforms with m numbers left over read and write whole rows.

Sums have at most 2·`_MAX_DIRECT` terms, so errors grow as slowly as in any fast transform.
"""

import math

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import Expression, constant, load, select
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.reduced_axes import filled
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes, padded, sliced
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call

#: Longest transform by a single product.
_MAX_DIRECT = 64


def _lower(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, (shape,) = builder.value(call, "input"), output_shapes(call)
    rows, columns = call.array("lengths").tolist()
    if has_extents((rows, columns)):
        raise Unsupported("the lengths of a transform must be known")
    if not source.count or 0 in shape:
        return (filled(builder, (*shape, 2), 0, Scalar.FLOAT32),)
    batch, count = math.prod(shape[:-2]), shape[-1]
    if rows == 1:
        # A single row is unchanged by the transform along the other dimension.
        first = sliced(
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
    row_transforms = _real(builder, _cut(builder, numbers, (numbers.shape[0], columns)))
    if rows > 1:
        row_transforms = _transposed(builder, row_transforms, (batch, rows, 2, count))
        row_transforms = _complex(builder, row_transforms)
        row_transforms = _transposed(builder, row_transforms, (batch, count, 2, rows))

    def pair(row: Expression, index: Expression, part: Expression) -> Expression:
        # Elements that are their own mirror images are real. Sums would leave a tiny number of any
        # sign, from which a phase of -π or of π would follow.
        is_real = part.equals(1) & (index.equals(0) | index.equals(columns // 2))
        if rows > 1:
            is_real = is_real & (row % (rows // 2)).equals(0)
        return select(is_real, constant(-0.0, Scalar.FLOAT32), load(row_transforms, (row, part, index)))

    pairs = builder.compute((batch * rows, count, 2), pair)
    return (builder.reshape(pairs, (*shape, 2)),)


def _cut(builder: Builder, source: Value, shape: tuple[int, ...]) -> Value:
    """Crops or zero-pads to a shape."""
    if source.shape == shape:
        return source
    return padded(builder, source, (0,) * len(shape), shape, constant(0, source.type))


def _transposed(builder: Builder, numbers: Value, shape: tuple[int, int, int, int]) -> Value:
    """Transposes matrices of complex numbers to (batch · columns, 2, rows).

    Args:
        builder: the builder of the operation.
        numbers: (batch · rows, 2, columns).
        shape: the same with batch and rows separated.
    """
    batch, rows, _, columns = shape
    return builder.compute(
        (batch * columns, 2, rows),
        lambda at, part, row: load(numbers, (at // columns * rows + row, part, at % columns)),
    )


def _unit_roots(length: int, numerators: Array) -> tuple[Array, Array]:
    """Returns the real and imaginary parts of e^(-2πi·numerator/length)."""
    angles = 2 * np.pi / length * (numerators % length)
    return np.cos(angles), -np.sin(angles)


def _factors(length: int) -> tuple[int, int]:
    """Returns r and m for a transform by several products; nearly equal if two suffice."""
    bits = length.bit_length() - 1
    second = min(_MAX_DIRECT.bit_length() - 1, -(-bits // 2)) if 1 << bits <= _MAX_DIRECT**2 else bits - 6
    return length >> second, 1 << second


def _real(builder: Builder, numbers: Value) -> Value:
    """Transforms real rows to the non-redundant half of the result: (rows, 2, length // 2 + 1).

    Args:
        builder: the builder of the operation.
        numbers: (rows, length).
    """
    rows, length = numbers.shape
    count = length // 2 + 1
    if length <= _MAX_DIRECT:
        waves = np.concatenate(_unit_roots(length, np.outer(np.arange(count), np.arange(length))))
        product = builder.matrix_product(numbers, builder.constant(waves.astype(np.float32)))
        return builder.reshape(product, (rows, 2, count))
    first, second = _factors(length)
    # The inner transforms of real numbers are symmetric too, so half of each suffices.
    kept = first // 2 + 1
    waves = np.stack(_unit_roots(first, np.outer(np.arange(kept), np.arange(first))), axis=1)
    product = builder.matrix_product(
        builder.constant(waves.reshape(2 * kept, first).astype(np.float32)),
        builder.reshape(numbers, (rows, first, second)),
        right_transposed=True,
    )
    parts = builder.reshape(product, (rows, kept, 2, second))
    inner = _complex(builder, _twiddled(builder, parts, length))
    return builder.compute((rows, 2, count), lambda *at: _mirrored(inner, at, length, first))


def _mirrored(inner: Value, at: tuple[Expression, ...], length: int, first: int) -> Expression:
    """Returns an element of a transform of real rows from the kept inner transforms.

    See `_real`.
    """
    row, part, index = at
    kept = first // 2 + 1
    number = index % first
    is_own = number < kept
    # Omitted elements are the complex conjugates of their mirror images.
    seen = select(is_own, index, length - index)
    value = load(inner, (row * kept + seen % first, part, seen // first))
    return select(is_own | part.equals(0), value, -value)


def _twiddled(builder: Builder, parts: Value, length: int) -> Value:
    """Multiplies by twiddles and arranges the inner transforms of m numbers: (rows · kept, 2, m).

    Args:
        builder: the builder of the operation.
        parts: (rows, kept, 2, m).
        length: the length of the whole transform.
    """
    rows, kept, _, second = parts.shape
    real, imaginary = _unit_roots(length, np.outer(np.arange(kept), np.arange(second)))
    own = builder.constant(real.astype(np.float32))
    # Coefficients of the other part in the real and the imaginary result.
    other = builder.constant(np.stack((-imaginary, imaginary), axis=1).astype(np.float32))

    def body(row: Expression, part: Expression, index: Expression) -> Expression:
        number = row % kept
        one = load(parts, (row // kept, number, part, index))
        two = load(parts, (row // kept, number, 1 - part, index))
        return one * load(own, (number, index)) + two * load(other, (number, part, index))

    return builder.compute((rows * kept, 2, second), body)


def _complex(builder: Builder, numbers: Value) -> Value:
    """Transforms complex rows; the shape is unchanged.

    Args:
        builder: the builder of the operation.
        numbers: (rows, 2, length).
    """
    rows, _, length = numbers.shape
    first, second = _factors(length) if length > _MAX_DIRECT else (length, 1)
    cosine, sine = _unit_roots(first, np.outer(np.arange(first), np.arange(first)))
    if second == 1:
        waves = np.block([[cosine, -sine], [sine, cosine]]).astype(np.float32)
        product = builder.matrix_product(
            builder.reshape(numbers, (rows, 2 * length)), builder.constant(waves)
        )
        return builder.reshape(product, numbers.shape)
    # The real and imaginary part of each result are adjacent.
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
        lambda row, part, index: load(inner, (row * first + index % first, part, index // first)),
    )


LOWERINGS = {OperationType.TFLITE_RFFT2D: _lower}
