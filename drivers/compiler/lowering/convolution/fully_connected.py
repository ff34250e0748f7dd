"""Lowers FULLY_CONNECTED."""

import math

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.convolution.weighted_sum import finish, type_of_sums, zeros
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def rows(call: Call, builder: Builder) -> Value:
    """Reshapes the input to rows of the units' depth."""
    source, (_, depth) = builder.value(call, "input"), call.shape("filter")
    # The number of rows of no elements does not follow from the elements.
    count = math.prod(source.shape) // depth if depth else math.prod(source.shape[:-1])
    return builder.reshape(source, (count, depth))


def exact_products(call: Call, builder: Builder) -> Value:
    """Returns the sums of products (rows, units); operands are all float or all quantised."""
    input_zero, weights_zero = zeros(call)
    weights = builder.value(call, "filter")
    return builder.matrix_product(
        rows(call, builder),
        weights,
        type=type_of_sums(call.operand("input"), call.operand("filter"), weights),
        left_zero=input_zero,
        right_zero=weights_zero,
    )


def _lower(call: Call, builder: Builder) -> tuple[Value, ...]:
    return (finish(call, builder, exact_products(call, builder)),)


LOWERINGS: Lowerings = {OperationType.FULLY_CONNECTED: _lower}
