"""Products of many quantised values, which are rescaled at each step."""

import math

from neurald.drivers.compiler.ir.algorithm import PRODUCT_LANES, RescaledProduct
from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.support.kernel_file import kernel_text
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameters
from neurald.drivers.cpu.kernels.common.function import cost_ns
from neurald.drivers.cpu.target.routine import NAME, Routine

#: Cycles of a step for a vector of products, which depends on the one before.
_STEP_CYCLES = 25.0
#: Maximum number of vectors of products whose steps overlap.
_MAX_VECTORS = 4


def routine(kernel: Kernel, node: Procedure, algorithm: RescaledProduct) -> Routine:
    """Returns the routine of a kernel, whose output is not empty."""
    arguments = arguments_of(kernel)
    count, width = node.inputs[0].shape
    lanes = math.gcd(width, PRODUCT_LANES * _MAX_VECTORS)
    blocks = width // lanes
    text = kernel_text(
        __name__,
        "products.ll",
        KERNEL=NAME,
        PARAMETERS=parameters(arguments),
        COUNT=count,
        WIDTH=width,
        LANES=lanes,
        MULTIPLIER=algorithm.multiplier,
        ROUNDING=(1 << algorithm.bits) >> 1,
        BITS=algorithm.bits,
    )
    return Routine(
        text=text,
        arguments=arguments,
        work_items=blocks,
        cost_ns=cost_ns(blocks * count * _STEP_CYCLES, arguments),
        label=f"{width} products of {count} quantised values",
        operations=kernel.operations,
    )
