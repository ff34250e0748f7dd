"""Element-wise kernels of one expression, run as machine code and with NumPy."""

from collections.abc import Callable, Sequence

import numpy as np
from support.cpu.native import Array, compiled, run

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.ir.expression import Expression, axis, load
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.target.target import Target


def interpreted(kernel: Kernel, inputs: dict[Value, Array]) -> Array:
    """Computes a kernel's output with NumPy."""
    values = tuple(inputs)
    graph = FusedGraph(kernels=(kernel,), aliases={}, inputs=values, outputs=(kernel.output,))
    return evaluate_fused(graph, list(inputs.values()))[0]


def kernel_of(body: Callable[..., Expression], values: Sequence[Value]) -> Kernel:
    """Creates the kernel that computes an expression of each element of values of one shape."""
    axes = tuple(axis(length, f"i{d}") for d, length in enumerate(values[0].shape))
    element = body(*(load(value, axes) for value in values))
    return Kernel(output=Value(values[0].shape, element.type), axes=axes, body=element)


def computed(
    bodies: Sequence[Callable[..., Expression]], operands: Sequence[Array], target: Target
) -> list[Array]:
    """Computes expressions of the same elements as machine code."""
    values = [Value(each.shape, Scalar.of(each.dtype)) for each in operands]
    inputs = dict(zip(values, operands, strict=True))
    routines = [render(kernel_of(body, values), target) for body in bodies]
    functions = compiled(routines, target)
    return [run(routine, inputs, target, functions=functions)[0] for routine in routines]


def expected(bodies: Sequence[Callable[..., Expression]], operands: Sequence[Array]) -> list[Array]:
    """Computes the same as `computed` with NumPy."""
    values = [Value(each.shape, Scalar.of(each.dtype)) for each in operands]
    inputs = dict(zip(values, operands, strict=True))
    with np.errstate(all="ignore"):
        return [interpreted(kernel_of(body, values), inputs) for body in bodies]
