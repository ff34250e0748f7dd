"""Lowers CAST, BITCAST, and parts of complex numbers."""

import math
from collections.abc import Callable

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.complex_numbers import is_complex
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    constant,
    index,
    load,
    maximum,
    minimum,
    select,
)
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.elementwise.pointwise import UNARY_INPUTS, pointwise
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call

_UNSIGNED = {kind.size_bytes: kind for kind in (Scalar.UINT8, Scalar.UINT16, Scalar.UINT32, Scalar.UINT64)}


def _cast(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers CAST as the reference's `cast`: integers wrap, and NaN becomes the largest integer."""
    if is_complex(call.operand("output").type):
        return (_cast_to_complex(call, builder),)
    target = Scalar.of(call.operand("output").type.dtype)

    def function(value: Expression) -> Expression:
        if not (value.type.is_float and target.is_integer):
            return value.to(target)
        largest = constant(int(np.iinfo(target.dtype.name).max), target)
        return select(apply(Op.IS_NAN, value), largest, value.to(target))

    if is_complex(call.operand("input").type):
        return _of_pairs(call, builder, lambda real, _: function(real))
    return pointwise(call, builder, UNARY_INPUTS, function)


def _cast_to_complex(call: Call, builder: Builder) -> Value:
    """Returns complex numbers as they are, others as real parts."""
    if is_complex(call.operand("input").type):
        return builder.pairs(call, "input")
    source = builder.value(call, "input")

    def body(*at: Expression) -> Expression:
        real = load(source, at[:-1]).to(Scalar.FLOAT32)
        return select(at[-1].equals(0), real, constant(0, Scalar.FLOAT32))

    return builder.compute((*source.shape, 2), body)


def _of_pairs(
    call: Call, builder: Builder, function: Callable[[Expression, Expression], Expression]
) -> tuple[Value, ...]:
    """Computes a function of the real and imaginary part of each number."""
    source = builder.pairs(call, "input")

    def body(*at: Expression) -> Expression:
        return function(load(source, (*at, index(0))), load(source, (*at, index(1))))

    return (builder.compute(source.shape[:-1], body),)


def _magnitude(real: Expression, imaginary: Expression) -> Expression:
    """Returns the magnitude of a complex number without intermediate overflow."""
    one, other = apply(Op.ABSOLUTE, real), apply(Op.ABSOLUTE, imaginary)
    larger, smaller = maximum(one, other), minimum(one, other)
    ratio = smaller / larger
    root = larger * apply(Op.SQRT, ratio * ratio + 1.0)
    is_infinite = one.equals(math.inf) | other.equals(math.inf)
    return select(is_infinite, math.inf, select(larger.equals(0.0), 0.0, root))


def _part(function: Callable[[Expression, Expression], Expression]) -> Lowering:
    return lambda call, builder: _of_pairs(call, builder, function)


def _as_bits(value: Expression) -> Expression:
    return _reinterpreted(value, _UNSIGNED[value.type.size_bytes])


def _reinterpreted(value: Expression, kind: Scalar) -> Expression:
    return value if value.type is kind else apply(Op.REINTERPRET, value, type=kind)


def _bitcast(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers BITCAST.

    A smaller type adds an axis of parts, lowest first; a larger type removes it. The two parts of
    complex numbers are such an axis, too.
    """
    given, wanted = (call.operand(name).type for name in ("input", "output"))
    source = builder.pairs(call, "input") if is_complex(given) else builder.value(call, "input")
    if source.type is Scalar.BOOL:
        bools = source
        source = builder.compute(bools.shape, lambda *at: load(bools, at).to(Scalar.UINT8))
    if given is OperandType.TENSOR_COMPLEX64:
        source = _bits_as(builder, source, Scalar.UINT64)
    if wanted is OperandType.TENSOR_COMPLEX128:
        return (_bits_as(builder, _halved(builder, source), Scalar.FLOAT64),)
    if wanted is OperandType.TENSOR_COMPLEX64:
        return (_bits_as(builder, _bits_as(builder, source, Scalar.UINT64), Scalar.FLOAT32),)
    target = Scalar.of(wanted.dtype)
    found = _bits_as(builder, source, Scalar.UINT8 if target is Scalar.BOOL else target)
    if given is OperandType.TENSOR_COMPLEX128:
        found = _joined(builder, found, len(source.shape) + 1)
    if target is Scalar.BOOL:
        return (builder.compute(found.shape, lambda *at: load(found, at) > 0),)
    return (found,)


def _halved(builder: Builder, source: Value) -> Value:
    """Returns elements of less than 64 bits with two axes instead of the last, the first of two."""
    if source.type.size_bytes == Scalar.FLOAT64.size_bytes:
        return source
    *lengths, parts = source.shape
    half = parts // 2
    return builder.compute((*lengths, 2, half), lambda *at: load(source, (*at[:-2], at[-2] * half + at[-1])))


def _joined(builder: Builder, source: Value, rank: int) -> Value:
    """Returns a value of that rank with one axis instead of the last two, and others unchanged."""
    if len(source.shape) < rank:
        return source
    *lengths, halves, parts = source.shape
    return builder.compute(
        (*lengths, halves * parts), lambda *at: load(source, (*at[:-1], at[-1] // parts, at[-1] % parts))
    )


def _bits_as(builder: Builder, source: Value, target: Scalar) -> Value:
    """Returns bits as elements of another type."""
    bits = _UNSIGNED[target.size_bytes]
    if source.type.size_bytes == target.size_bytes:
        return builder.compute(source.shape, lambda *at: _reinterpreted(load(source, at), target))
    if source.type.size_bytes > target.size_bytes:
        count = source.type.size_bytes // target.size_bytes

        def part(*at: Expression) -> Expression:
            whole = _as_bits(load(source, at[:-1]))
            shift = at[-1].to(whole.type) * (8 * target.size_bytes)
            return _reinterpreted((whole >> shift).to(bits), target)

        return builder.compute((*source.shape, count), part)
    return builder.compute(source.shape[:-1], lambda *at: _reinterpreted(_whole(source, at, bits), target))


def _whole(source: Value, at: tuple[Expression, ...], bits: Scalar) -> Expression:
    """Returns the elements of the last axis as one number, the lowest bits first."""
    whole: Expression = constant(0, bits)
    for position in range(source.shape[-1]):
        found = _as_bits(load(source, (*at, index(position)))).to(bits)
        whole = whole | (found << (8 * source.type.size_bytes * position))
    return whole


LOWERINGS = {
    OperationType.TFLITE_CAST: _cast,
    OperationType.TFLITE_BITCAST: _bitcast,
    OperationType.TFLITE_COMPLEX_ABS: _part(_magnitude),
    OperationType.TFLITE_REAL: _part(lambda real, _: real),
    OperationType.TFLITE_IMAG: _part(lambda _, imaginary: imaginary),
}
