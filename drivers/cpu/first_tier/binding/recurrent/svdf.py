"""Binds SVDF of floats, whose weights may have 8 bits, and of integers."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.convolution import factors
from neurald.drivers.cpu.first_tier.binding.convolution.factors import source
from neurald.drivers.cpu.first_tier.binding.convolution.products import (
    MAX_WEIGHT,
    BoundEpilogue,
    SumsOfProducts,
    bind_sums,
    width_of,
)
from neurald.drivers.cpu.first_tier.binding.convolution.requantization import (
    requantization,
    single_requantization,
)
from neurald.drivers.cpu.first_tier.binding.recurrent.activation import ACTIVATION_KERNELS
from neurald.drivers.cpu.first_tier.binding.recurrent.cell_products import (
    gate_epilogue,
    is_asymmetric,
    packed_gates,
    product_kind,
)
from neurald.drivers.cpu.first_tier.binding.recurrent.parameters import real_constant
from neurald.drivers.cpu.first_tier.binding.scope import (
    ELEMENTS_PER_NS,
    FLOAT,
    MAX_INT32,
    SIGNED,
    Bind,
    BindingScope,
    bits,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.recurrent import (
    BASIC_ACTIVATIONS,
    cell_activation,
    is_given,
)


def bind_svdf(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds SVDF."""
    if call.operand("input").type is SIGNED:
        return _bind_integer_svdf(scope, call)
    kernel, low, high = ACTIVATION_KERNELS[cell_activation(call, BASIC_ACTIVATIONS)]
    (batch, size), (filters, _) = call.shape("input"), call.shape("weights_time")
    rank = call.scalar("rank")
    if kernel != "clamped" or not batch or not size or not filters:
        raise NotBound("the activation has no kernel, or there are no elements")
    if any(call.operand(name).type is not FLOAT for name in ("input", "state_in", "output")):
        raise NotBound("the types have no kernel")
    kind = product_kind(call, ["weights_feature"], size)
    given = source(
        call, kind, size, row_length=size, repeats=1, asymmetric=is_asymmetric(call, kind), name="input"
    )
    features = BoundTemporary(size_bytes=4 * batch * filters)
    sums = SumsOfProducts.of_rows(
        scope,
        kind,
        rows=batch,
        channels=filters,
        depth=size,
        given=given,
        weights=packed_gates(scope, call, kind, ["weights_feature"], batch),
        epilogue=gate_epilogue(scope, call, kind, ["weights_feature"], (None,), batch),
    )
    calls = bind_sums(scope, sums, features)
    units = filters // rank
    times = real_constant(scope, call, "weights_time")
    biases = (
        np.asarray(scope.constant(call, "bias"), np.float32)
        if is_given(call, "bias")
        else np.zeros(units, np.float32)
    )
    constants = BoundConstant.of(times), BoundConstant.of(biases)
    return [*calls, _svdf_step(call, "first_svdf_step", features, constants, (bits(low), bits(high)))]


def _svdf_step(
    call: Call,
    function: str,
    features: BoundTemporary,
    constants: tuple[BoundConstant, BoundConstant],
    words: tuple[int, ...],
) -> BoundCall:
    """Returns the call that stores features and weights the memory.

    Args:
        call: the operation.
        function: name of the kernel.
        features: one for each filter.
        constants: weights of the places of memories, and biases.
        words: what becomes of sums.
    """
    (filters, length), rank, batch = call.shape("weights_time"), call.scalar("rank"), call.shape("input")[0]
    units = filters // rank
    places = call.index("state_out"), call.index("output")
    return BoundCall(
        function=function,
        arguments=(*places, features, call.index("state_in"), *constants),
        words=(units, rank, length, *words),
        work_items=batch * units,
        cost_ns=batch * filters * length / ELEMENTS_PER_NS,
    )


def _bind_integer_svdf(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds SVDF of integers: features of 16 bits, which are kept in a memory."""
    from neurald.hal.operations.tflite.recurrent.svdf import factor

    (batch, size), (filters, _) = call.shape("input"), call.shape("weights_time")
    if not batch or not size or not filters or size * MAX_WEIGHT * MAX_WEIGHT > MAX_INT32:
        raise NotBound("there are no elements, or sums may exceed 32 bits")
    given = source(call, Products.INT, size)
    width = width_of(scope, batch, filters)
    padded = -(-filters // width) * width
    low, high = quantized_limits(call.operand("state_in"))
    mantissa, exponent = factor(call, "input", "weights_feature", "state_in")
    mantissas, parameters = requantization(np.array([math.ldexp(mantissa, exponent - 31)]))
    starts = np.zeros((2, padded), np.int32)
    starts[1] = mantissas
    scales = np.repeat(parameters, padded, axis=1)
    features = BoundTemporary(size_bytes=2 * batch * filters)
    weights = scope.constant(call, "weights_feature").reshape(1, filters, 1, size)
    sums = SumsOfProducts.of_rows(
        scope,
        Products.SHORT,
        rows=batch,
        channels=filters,
        depth=size,
        given=given,
        weights=factors.packed(Products.SHORT, weights, call, width),
        epilogue=BoundEpilogue(
            constants=(BoundConstant.of(starts), BoundConstant.of(scales)), words=(0, low, high, padded)
        ),
    )
    calls = bind_sums(scope, sums, features)
    units, output = filters // call.scalar("rank"), call.operand("output")
    biases = scope.constant(call, "bias") if is_given(call, "bias") else np.zeros(units, np.int32)
    times = BoundConstant.of(np.ascontiguousarray(scope.constant(call, "weights_time"), np.int16))
    requantized = single_requantization(*factor(call, "state_in", "weights_time", "output"))
    words = (*requantized, output.zero_point, *quantized_limits(output))
    constants = times, BoundConstant.of(biases)
    return [*calls, _svdf_step(call, "first_svdf_step_short", features, constants, words)]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.SVDF: bind_svdf,
    OperationType.TFLITE_SVDF: bind_svdf,
}
