"""Binds operations that take rows by numbers in memory."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.scope import (
    ELEMENTS_PER_NS,
    FLOAT,
    SIGNED,
    Bind,
    BindingScope,
    count_of,
    output_shape,
    scales_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call

_INDEXES = {OperandType.TENSOR_INT32: "i32", OperandType.TENSOR_INT64: "i64"}
#: Types of tables whose rows become floats.
_SCALED_TABLES = (SIGNED, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL)


def bind_gather(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds GATHER along an axis."""
    if call.binding.type is OperationType.GATHER:
        from neurald.hal.operations.movement.gather import gather_axis

        axis, batches = gather_axis(call), 0
    else:
        from neurald.hal.operations.tflite.movement.gather import axis_and_batches

        axis, batches = axis_and_batches(call)
    shape, picked = call.shape("values"), call.shape("indices")
    return _taking(
        call,
        "indices",
        run=math.prod(shape[axis + 1 :]),
        count=math.prod(picked[batches:]),
        length=shape[axis],
        repeats=math.prod(shape[batches:axis]),
    )


def bind_lookup(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds EMBEDDING_LOOKUP, also of quantised rows as floats."""
    values, output, shape = call.operand("values"), call.operand("output"), call.shape("values")
    run, count = math.prod(shape[1:]), count_of(call, "lookups")
    if output.type is values.type:
        return _taking(call, "lookups", run=run, count=count, length=shape[0], repeats=1)
    if output.type is not FLOAT or values.type not in _SCALED_TABLES or not count * run:
        raise NotBound("the types have no kernel")
    scales = np.broadcast_to(scales_of(values, np.float32), shape[:1])
    return [
        BoundCall(
            function="first_gather_scaled",
            arguments=(
                call.index("output"),
                call.index("values"),
                call.index("lookups"),
                BoundConstant.of(scales),
            ),
            words=(run, 0, shape[0]),
            work_items=count,
            cost_ns=count * run / ELEMENTS_PER_NS / 4,
            messages=_messages(call, "lookups", shape[0]),
        )
    ]


def _taking(call: Call, indexes: str, *, run: int, count: int, length: int, repeats: int) -> list[BoundCall]:
    """Binds a kernel that takes runs of elements.

    Args:
        call: the operation.
        indexes: the input with the numbers of runs.
        run: elements of a run.
        count: indexes of a batch.
        length: runs among which an index chooses.
        repeats: how often the indexes of a batch are used.
    """
    values, output, kind = call.operand("values"), call.operand("output"), call.operand(indexes).type
    if (values.type, values.scale, values.zero_point) != (output.type, output.scale, output.zero_point):
        raise NotBound("the types differ")
    total = math.prod(output_shape(call))
    if values.type is OperandType.TENSOR_STRING or kind not in _INDEXES or not total or not length:
        raise NotBound("the types have no kernel")
    run *= values.type.dtype.itemsize
    return [
        BoundCall(
            function=f"first_gather_{_INDEXES[kind]}",
            arguments=(call.index("output"), call.index("values"), call.index(indexes)),
            words=(run, count, length, repeats),
            work_items=total * values.type.dtype.itemsize // run,
            cost_ns=total / ELEMENTS_PER_NS / 2,
            messages=_messages(call, indexes, length),
        )
    ]


def bind_gather_nd(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds GATHER_ND, whose indexes are tuples of numbers for the first axes."""
    values, output, kind = call.operand("values"), call.operand("output"), call.operand("indices").type
    shape, depth = call.shape("values"), call.shape("indices")[-1]
    total = math.prod(output_shape(call))
    if (values.type, values.scale, values.zero_point) != (output.type, output.scale, output.zero_point):
        raise NotBound("the types differ")
    if values.type is OperandType.TENSOR_STRING or kind not in _INDEXES or not total or not math.prod(shape):
        raise NotBound("the types have no kernel")
    run = math.prod(shape[depth:]) * values.type.dtype.itemsize
    # The length of each axis, and runs from one of its elements to the next.
    axes = [(shape[axis], math.prod(shape[axis + 1 : depth])) for axis in range(depth)]
    return [
        BoundCall(
            function=f"first_gather_nd_{_INDEXES[kind]}",
            arguments=(
                call.index("output"),
                call.index("values"),
                call.index("indices"),
                BoundConstant.of(np.array(axes or [(1, 0)], np.int64)),
            ),
            words=(run, depth),
            work_items=total * values.type.dtype.itemsize // run,
            cost_ns=total / ELEMENTS_PER_NS / 2,
            messages=(f"{call.name('indices')} has an index outside of {list(shape[:depth])}",),
        )
    ]


def _messages(call: Call, indexes: str, length: int) -> tuple[str, ...]:
    return (f"{call.name(indexes)} has an index outside of 0 to {length - 1}",)


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.GATHER: bind_gather,
    OperationType.TFLITE_GATHER: bind_gather,
    OperationType.EMBEDDING_LOOKUP: bind_lookup,
    OperationType.TFLITE_EMBEDDING_LOOKUP: bind_lookup,
    OperationType.TFLITE_GATHER_ND: bind_gather_nd,
}
