"""Lowers SVDF; see `neurald.hal.operations.recurrent.svdf`."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, axis, index, load, reduce, select
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real, store
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.recurrent.recurrent import activate_cell, element, linear, to_float32
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.recurrent import BASIC_ACTIVATIONS, cell_activation, is_given

#: Converts an element to a number to compute with.
ElementConversion = Callable[[Expression], Expression]


def filter_sums(
    call: Call, builder: Builder, features: Value, from_state: ElementConversion, weight: ElementConversion
) -> Callable[..., Expression]:
    """Returns the weighted sum over the memories of a unit's filters.

    The last entry of each memory is the new feature.

    Args:
        call: the operation.
        builder: the builder of the operation.
        features: (batch, filters).
        from_state, weight: convert an element of the state or features, and of the time weights.

    Returns:
        The sum at (row, unit).
    """
    state, times = builder.value(call, "state_in"), builder.value(call, "weights_time")
    rank, length = call.scalar("rank"), times.shape[1]

    def total(row: Expression, unit: Expression) -> Expression:
        part, age = axis(rank, "r0"), axis(length - 1, "r1")
        filter_ = unit * rank + part
        new = from_state(load(features, (row, filter_))) * weight(load(times, (filter_, index(length - 1))))
        newest = reduce(ReductionOp.SUM, (part,), new)
        if length == 1:
            return newest
        old = from_state(load(state, (row, filter_ * length + age))) * weight(load(times, (filter_, age)))
        return reduce(ReductionOp.SUM, (part, age), old) + newest

    return total


def next_state(
    call: Call, builder: Builder, features: Value, to_state: ElementConversion = lambda value: value
) -> Value:
    """Returns the memory shifted by one entry, with 0 in the last one.

    Args:
        call: the operation.
        builder: the builder of the operation.
        features: (batch, filters), the new last entry of each memory.
        to_state: converts a feature to the state's form.
    """
    state, (_, length) = builder.value(call, "state_in"), call.shape("weights_time")

    def body(row: Expression, coordinate: Expression) -> Expression:
        filter_, at = coordinate // length, coordinate % length
        older = load(state, (row, coordinate + 1), at < length - 2)
        if length == 1:
            return older
        return select(at.equals(length - 2), to_state(load(features, (row, filter_))), older)

    return builder.compute(state.shape, body)


def lower_floats(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers the float cell; its weights may be quantised to 8 bits."""
    times, output = call.operand("weights_time"), call.operand("output")
    activation = cell_activation(call, BASIC_ACTIVATIONS)
    features = linear(call, builder, ["weights_feature"], to_float32(builder, builder.value(call, "input")))
    bias = builder.value(call, "bias") if is_given(call, "bias") else None
    total = filter_sums(
        call,
        builder,
        features,
        lambda value: value.to(Scalar.FLOAT32),
        lambda value: real(value, times),
    )

    def body(row: Expression, unit: Expression) -> Expression:
        value = total(row, unit)
        if bias is not None:
            value = value + element(bias, unit)
        return store(activate_cell(value, activation), output)

    units = call.shape("weights_feature")[0] // call.scalar("rank")
    return (
        next_state(call, builder, features, lambda value: store(value, output)),
        builder.compute((features.shape[0], units), body),
    )


LOWERINGS: Lowerings = {OperationType.SVDF: lower_floats}
