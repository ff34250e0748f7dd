"""Binds reductions, softmax and norms."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.convolution.requantization import single_requantization
from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import StridedMove, moving_call
from neurald.drivers.cpu.first_tier.binding.nest import strides_of
from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    ELEMENTS_PER_NS,
    FLOAT,
    MAX_INT32,
    SHORT,
    Bind,
    BindingScope,
    bits,
    count_of,
    double_bits,
    integer_of,
    sign_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axes, resolve_axis

_BOOL = OperandType.TENSOR_BOOL8
#: The names of integers in the names of functions.
_INTEGERS: Final = {OperandType.TENSOR_INT32: "word", OperandType.TENSOR_INT64: "long"}

_REDUCTIONS: Final = {
    "MEAN": "mean",
    "TFLITE_MEAN": "mean",
    "REDUCE_SUM": "sum",
    "TFLITE_SUM": "sum",
    "REDUCE_PROD": "product",
    "TFLITE_REDUCE_PROD": "product",
    "REDUCE_MAX": "largest",
    "TFLITE_REDUCE_MAX": "largest",
    "REDUCE_MIN": "smallest",
    "TFLITE_REDUCE_MIN": "smallest",
    "REDUCE_ANY": "largest",
    "TFLITE_REDUCE_ANY": "largest",
    "REDUCE_ALL": "smallest",
    "TFLITE_REDUCE_ALL": "smallest",
}


def bind_reduction(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds reductions over any axes; elements that are not neighbours are moved before."""
    scope.constant(call, "axes")
    shape = call.shape("input")
    # TFLite's operations ignore the axes of scalars.
    axes = sorted(resolve_axes(call, "axes")) if shape else []
    count = math.prod(shape[axis] for axis in axes)
    if not math.prod(shape):
        raise NotBound("there are no elements")
    suffix, words = _parameters(call, _REDUCTIONS[call.binding.type.name], count)
    calls: list[BoundCall] = []
    given: int | BoundTemporary = call.index("input")
    # Axes of length 1 do not matter.
    axes = [axis for axis in axes if shape[axis] != 1]
    kept = [axis for axis, length in enumerate(shape) if length != 1 and axis not in axes]
    first, last = (axes[0], axes[-1]) if axes else (0, -1)
    if any(first < axis < last for axis in kept):
        order = (*kept, *axes)
        lengths, strides = tuple(shape[axis] for axis in order), strides_of(shape)
        itemsize = call.operand("input").type.dtype.itemsize
        moved = BoundTemporary(size_bytes=itemsize * math.prod(shape))
        calls.append(
            moving_call(
                StridedMove(
                    output=moved,
                    given=given,
                    itemsize=itemsize,
                    shape=lengths,
                    output_strides=strides_of(lengths),
                    strides=[strides[axis] for axis in order],
                )
            )
        )
        given, columns, outer = moved, 1, math.prod(shape) // count
    else:
        columns = math.prod(shape[axis] for axis in kept if axis > last)
        outer = math.prod(shape) // count // columns
    calls.append(
        BoundCall(
            function=f"first_{suffix}_{'rows' if columns == 1 else 'columns'}",
            arguments=(call.index("output"), given),
            words=(count, columns, *words),
            work_items=outer,
            cost_ns=math.prod(shape) / ELEMENTS_PER_NS / 4,
        )
    )
    return calls


def _parameters(call: Call, name: str, count: int) -> tuple[str, tuple[int, ...]]:
    """Returns the name of a reduction of `count` elements for its types, and its further words."""
    operand, output = call.operand("input"), call.operand("output")
    if operand.type is FLOAT:
        return f"{name}_float", ((bits(float(count)),) if name == "mean" else ())
    if operand.type in _INTEGERS:
        return f"{name}_{_INTEGERS[operand.type]}", ()
    if name in ("largest", "smallest"):
        if operand.type is _BOOL:
            return f"{name}_unsigned", ()
        if (operand.scale, operand.zero_point) != (output.scale, output.zero_point):
            raise NotBound("the scales differ")
        return f"{name}_{integer_of(operand)}", ()
    largest = 1 << 15 if operand.type is SHORT else 255
    if not is_quantized(operand) or output.type is not operand.type or count * largest > MAX_INT32:
        raise NotBound("the types have no kernel")
    ends = (output.zero_point, *quantized_limits(output))
    if name == "mean":
        from neurald.hal.operations.reduction.reduction import mean_multiplier

        requantized = single_requantization(*mean_multiplier(count, operand, output))
        return f"mean_{integer_of(operand)}", (-operand.zero_point * count, *requantized, *ends)
    if name == "sum":
        from neurald.hal.operations.tflite.reduction.reduction import sum_scaling

        scale, bias = sum_scaling(count, operand, output)
        return f"sum_{sign_of(operand)}", (bits(float(scale)), bits(float(bias)), *ends)
    raise NotBound("the types have no kernel")


def _rows(
    call: Call,
    function: str,
    words: tuple[int, ...],
    constants: tuple[BoundConstant, ...] = (),
) -> list[BoundCall]:
    """Binds a kernel whose work items are rows of the input along its last axis."""
    shape = call.shape("input")
    if not math.prod(shape) or resolve_axis(call.scalar("axis"), len(shape), "axis") != len(shape) - 1:
        raise NotBound("the axis has no kernel")
    return [
        BoundCall(
            function=f"first_{function}",
            arguments=(call.index("output"), call.index("input"), *constants),
            words=(shape[-1], *words),
            work_items=math.prod(shape[:-1]),
            cost_ns=count_of(call, "input") / ELEMENTS_PER_NS,
        )
    ]


def bind_softmax(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds SOFTMAX along the last axis; powers of bytes are in a table."""
    operand, output, beta = call.operand("input"), call.operand("output"), float(call.scalar("beta"))
    if beta < 0:
        raise NotBound("powers may be larger than 1")
    if operand.type is output.type is FLOAT:
        return _rows(call, "softmax", (bits(beta),))
    if not {operand.type, output.type} <= BYTES or operand.type is not output.type:
        raise NotBound("the types have no kernel")

    def make() -> BoundConstant:
        return BoundConstant.of(np.exp(-np.arange(256.0) * operand.scale * beta))

    powers = scope.shared(("powers", operand.scale, beta), make)
    words = (double_bits(output.scale), output.zero_point, *quantized_limits(output))
    return _rows(call, f"softmax_{sign_of(operand)}", words, (powers,))


def bind_log_softmax(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds LOG_SOFTMAX along the last axis."""
    operand, output, beta = call.operand("input"), call.operand("output"), float(call.scalar("beta"))
    if operand.type is not output.type or beta < 0:
        raise NotBound("the types or factors have no kernel")
    if operand.type is FLOAT:
        return _rows(call, "log_softmax", (bits(beta),))
    sign = _sign_of_bytes(call)
    ends = (output.zero_point, *quantized_limits(output))
    words = (bits(operand.scale * beta), bits(output.scale), *ends)
    return _rows(call, f"log_softmax_{sign}", words)


def bind_norm(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds L2_NORMALIZATION along the last axis."""
    operand, output = call.operand("input"), call.operand("output")
    if operand.type is output.type is FLOAT:
        from neurald.hal.operations.reduction.normalization import MIN_NORM

        return _rows(call, "unit_rows", (bits(float(MIN_NORM)),))
    sign = _sign_of_bytes(call)
    ends = (output.zero_point, *quantized_limits(output))
    if call.binding.type is OperationType.TFLITE_L2_NORMALIZATION:
        return _rows(call, f"rounded_unit_rows_{sign}", (operand.zero_point, *ends))
    words = (operand.zero_point, bits(output.scale), *ends)
    return _rows(call, f"unit_rows_{sign}", words)


def _sign_of_bytes(call: Call) -> str:
    """Returns the part of a function's name for the type of the input and the output."""
    operand, output = call.operand("input"), call.operand("output")
    if operand.type not in BYTES or operand.type is not output.type:
        raise NotBound("the types have no kernel")
    return sign_of(operand)


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **{OperationType[name]: bind_reduction for name in _REDUCTIONS},
    OperationType.SOFTMAX: bind_softmax,
    OperationType.TFLITE_SOFTMAX: bind_softmax,
    OperationType.LOG_SOFTMAX: bind_log_softmax,
    OperationType.TFLITE_LOG_SOFTMAX: bind_log_softmax,
    OperationType.L2_NORMALIZATION: bind_norm,
    OperationType.TFLITE_L2_NORMALIZATION: bind_norm,
}
