"""Draws classes with given weights."""

import math

from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.support.kernel_file import kernel_text
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameters, pointer_names
from neurald.drivers.cpu.kernels.common.function import cost_ns
from neurald.drivers.cpu.target.routine import NAME, Routine

#: Cycles of an addition, which depends on the one before, and of a step of a search.
_SUM_CYCLES, _STEP_CYCLES = 4.0, 8.0
_SUM_BYTES = 8


def routine(kernel: Kernel, node: Procedure) -> Routine:
    """Returns the routine of a kernel, whose output is not empty."""
    arguments = arguments_of(kernel)
    names = pointer_names(arguments)
    weights, points = (names[value] for value in node.inputs)
    (rows, classes), samples = node.inputs[0].shape, node.output.shape[1]
    text = kernel_text(
        __name__,
        "draw.ll",
        KERNEL=NAME,
        PARAMETERS=parameters(arguments),
        WEIGHTS=weights,
        POINTS=points,
        CLASSES=classes,
        LAST=classes - 1,
        SAMPLES=samples,
    )
    cycles = classes * _SUM_CYCLES + samples * (1 + math.log2(classes + 1)) * _STEP_CYCLES
    return Routine(
        text=text,
        arguments=arguments,
        work_items=rows,
        cost_ns=cost_ns(rows * cycles, arguments),
        scratch_bytes=classes * _SUM_BYTES,
        label=f"{samples} of {classes} classes drawn",
        operations=kernel.operations,
    )
