"""Lowers LSH_PROJECTION: the signs of weighted sums of hashes."""

import math

import numpy as np

from neurald.drivers.compiler.ir.algorithm import HashSums
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, axis, constant, load, reduce, select
from neurald.drivers.compiler.ir.graph import delinearize
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.projection import Projection

_UNSIGNED = {kind.size_bytes: kind for kind in (Scalar.UINT8, Scalar.UINT16, Scalar.UINT32)}


def _row_bytes(builder: Builder, source: Value) -> Value:
    """Returns the bytes of each row, UINT8 (rows, bytes)."""
    count, size = source.shape[0], source.type.size_bytes
    elements = builder.reshape(source, (count, math.prod(source.shape[1:])))
    bits = _UNSIGNED[size]

    def body(row: Expression, at: Expression) -> Expression:
        element = load(elements, (row, at // size))
        whole = element if element.type is bits else apply(Op.REINTERPRET, element, type=bits)
        return (whole.to(Scalar.UINT32) >> (at % size * 8).to(Scalar.UINT32) & 0xFF).to(Scalar.UINT8)

    return builder.compute((count, elements.shape[1] * size), body)


def _projection(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers LSH_PROJECTION."""
    (shape,), kind = output_shapes(call), Projection(call.scalar("type"))
    given, source = builder.value(call, "hash"), builder.value(call, "input")
    functions, bits = given.shape
    count = source.shape[0]

    def seed(at: Expression) -> Expression:
        number = load(given, delinearize(at, given.shape)).to(Scalar.FLOAT32)
        return apply(Op.REINTERPRET, number, type=Scalar.UINT32)

    def weight(row: Expression) -> Expression:
        if not call.has("weight"):
            return constant(1, Scalar.FLOAT64)
        return load(builder.value(call, "weight"), (row,)).to(Scalar.FLOAT64)

    sums = builder.constant(np.zeros(functions * bits))
    if count and given.count:
        sums = builder.procedure(
            HashSums(),
            builder.compute((functions * bits,), seed),
            _row_bytes(builder, source),
            builder.compute((count,), weight),
            output=(functions * bits,),
            type=Scalar.FLOAT64,
        )

    def bit(at: Expression) -> Expression:
        return constant(0, Scalar.FLOAT64) < load(sums, (at,))

    if kind is Projection.DENSE:
        return (builder.compute(shape, lambda at: bit(at).to(Scalar.INT32)),)

    def signature(function: Expression) -> Expression:
        along = axis(bits, "b")
        # The first bit is the most significant one.
        place = constant(1, Scalar.INT64) << (bits - 1 - along).to(Scalar.INT64)
        taken = select(bit(function * bits + along), place, constant(0, Scalar.INT64))
        total = reduce(ReductionOp.SUM, (along,), taken) if bits else constant(0, Scalar.INT64)
        if kind is Projection.SPARSE:
            total = total + (function.to(Scalar.INT64) << bits)
        return total.to(Scalar.INT32)

    return (builder.compute(shape, signature),)


LOWERINGS = {OperationType.LSH_PROJECTION: _projection}
