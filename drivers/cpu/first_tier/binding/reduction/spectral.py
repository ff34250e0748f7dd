"""Binds Fourier transforms of real rows, and lengths of complex numbers."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.scope import ELEMENTS_PER_NS, Bind, BindingScope, count_of
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.layout import BLOCK
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call

#: Maximum number of floats that all rows need while they are transformed.
_MAX_WORK: Final = 1 << 24


def bind_transform(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds RFFT2D of matrices of which a single row counts, without padding."""
    *matrices, height, width = call.shape("input")
    rows, columns = scope.constant(call, "lengths").tolist()
    half, count = columns // 2, math.prod(matrices)
    if rows != 1 or not height or columns < 4 or width < columns or not count or 4 * half * count > _MAX_WORK:
        raise NotBound("the lengths have no kernel")

    def make() -> BoundConstant:
        turns = np.arange(half + 1) * (2 * np.pi / columns)
        return BoundConstant.of(np.stack([np.cos(turns), -np.sin(turns)]).astype(np.float32))

    return [
        BoundCall(
            function="first_real_transform",
            arguments=(
                call.index("output"),
                call.index("input"),
                scope.shared(("turns", columns), make),
                BoundTemporary(size_bytes=4 * half * count * np.dtype(np.float32).itemsize),
            ),
            words=(half, height * width),
            work_items=count,
            cost_ns=count * columns * math.log2(columns) / ELEMENTS_PER_NS,
        )
    ]


def bind_complex_lengths(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds COMPLEX_ABS."""
    count = count_of(call, "input")
    if call.operand("input").type is not OperandType.TENSOR_COMPLEX64 or not count:
        raise NotBound("the type has no kernel")
    return [
        BoundCall(
            function="first_complex_lengths",
            arguments=(call.index("output"), call.index("input")),
            words=(count,),
            work_items=-(-count // BLOCK),
            cost_ns=count / ELEMENTS_PER_NS,
        )
    ]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.TFLITE_RFFT2D: bind_transform,
    OperationType.TFLITE_COMPLEX_ABS: bind_complex_lengths,
}
