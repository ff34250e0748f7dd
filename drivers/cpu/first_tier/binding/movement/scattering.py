"""Binds operations that write rows or marks at places that numbers in memory give."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    ELEMENTS_PER_NS,
    FLOAT,
    SHORT,
    Bind,
    BindingScope,
    bits,
    output_shape,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, NotBound
from neurald.drivers.cpu.first_tier.layout import BLOCK
from neurald.hal.model.operation_type import OperationType as T
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call, Shape

_INDEXES: Final = {OperandType.TENSOR_INT32: "i32", OperandType.TENSOR_INT64: "i64"}
#: The names of types in the names of functions, those of segments and all.
_SEGMENT_KINDS: Final = {FLOAT: "float", OperandType.TENSOR_INT32: "word"}
_KINDS: Final = {
    **_SEGMENT_KINDS,
    **dict.fromkeys(BYTES, "byte"),
    OperandType.TENSOR_INT64: "long",
    SHORT: "short",
    OperandType.TENSOR_BOOL8: "bool",
}
_SEGMENTS: Final = {
    T.TFLITE_UNSORTED_SEGMENT_SUM: "sum",
    T.TFLITE_UNSORTED_SEGMENT_PROD: "product",
    T.TFLITE_UNSORTED_SEGMENT_MAX: "largest",
    T.TFLITE_UNSORTED_SEGMENT_MIN: "smallest",
}


def _scattering(
    call: Call, names: tuple[str, str], how: str, depth: int, start: int, *, leaves_out: bool
) -> list[BoundCall]:
    """Binds a reduction of rows.

    Args:
        call: the operation.
        names: the names of the inputs with rows, and with their places.
        how: the reduction.
        depth: axes of the output that a place is in.
        start: what the reduction starts with, as a word.
        leaves_out: whether rows with negative indexes are left out; otherwise they are errors.
    """
    rows, places = names
    kind, index, shape = call.operand(rows).type, call.operand(places).type, output_shape(call)
    if kind not in _KINDS or index not in _INDEXES or not math.prod(shape):
        raise NotBound("the types have no kernel")
    run = math.prod(shape[depth:])
    axes = [(shape[axis], math.prod(shape[axis + 1 : depth])) for axis in range(depth)]
    total = math.prod(call.shape(rows))
    return [
        BoundCall(
            function=f"first_scatter_{how}_{_KINDS[kind]}_{_INDEXES[index]}",
            arguments=(
                call.index("output"),
                call.index(rows),
                call.index(places),
                BoundConstant.of(np.array(axes, np.int64)),
            ),
            words=(run, math.prod(shape[:depth]), total // run, depth, int(leaves_out), start),
            work_items=-(-run // BLOCK),
            cost_ns=(total + math.prod(shape)) / ELEMENTS_PER_NS,
            messages=(_outside(call, places, shape[:depth]),),
        )
    ]


def _outside(call: Call, places: str, lengths: Shape) -> str:
    return f"{call.name(places)} has an index outside of {list(lengths)}"


def bind_scatter(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds SCATTER_ND, which adds rows with the same place."""
    depth = call.shape("indices")[-1]
    return _scattering(call, ("updates", "indices"), "sum", depth, 0, leaves_out=False)


def bind_segments(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds the reduction of the rows of each segment."""
    how, kind = _SEGMENTS[call.binding.type], call.operand("input").type
    if kind not in _SEGMENT_KINDS:
        raise NotBound("the type has no kernel")
    is_float = kind is FLOAT
    limits = np.finfo(np.float32) if is_float else np.iinfo(np.int32)
    start = {"sum": 0, "product": 1, "largest": limits.min, "smallest": limits.max}[how]
    word = bits(float(start)) if is_float else int(start)
    return _scattering(call, ("input", "segments"), how, 1, word, leaves_out=True)


def bind_one_hot(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds ONE_HOT."""
    from neurald.hal.operations.tflite.movement.scatter import one_hot_axis

    output, index, shape = call.operand("output"), call.operand("indices").type, output_shape(call)
    size, axis = output.type.dtype.itemsize, one_hot_axis(call)
    # Elements are copied as they are stored, whatever their scales say.
    if any(call.operand(name).type is not output.type for name in ("on", "off")):
        raise NotBound("the types differ")
    if size not in (1, 4) or index not in _INDEXES or not math.prod(shape):
        raise NotBound("the types have no kernel")
    return [
        BoundCall(
            function=f"first_one_hot_{size}_{_INDEXES[index]}",
            arguments=tuple(call.index(name) for name in ("output", "indices", "on", "off")),
            words=(math.prod(shape[axis + 1 :]), shape[axis]),
            work_items=math.prod(shape[: axis + 1]),
            cost_ns=math.prod(shape) / ELEMENTS_PER_NS,
        )
    ]


BINDINGS: Final[Mapping[T, Bind]] = {
    T.TFLITE_SCATTER_ND: bind_scatter,
    **dict.fromkeys(_SEGMENTS, bind_segments),
    T.TFLITE_ONE_HOT: bind_one_hot,
}
