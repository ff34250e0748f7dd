"""Kernels that compute one expression of elements, as machine code and with NumPy."""

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
    """What a kernel gives, computed with NumPy."""
    values = tuple(inputs)
    graph = FusedGraph(kernels=(kernel,), aliases={}, inputs=values, outputs=(kernel.output,))
    return evaluate_fused(graph, list(inputs.values()))[0]


def kernel_of(body: Callable[..., Expression], values: Sequence[Value]) -> Kernel:
    """The kernel that gives, for every element of values of one shape, an expression of these."""
    axes = tuple(axis(length, f"i{d}") for d, length in enumerate(values[0].shape))
    element = body(*(load(value, axes) for value in values))
    return Kernel(output=Value(values[0].shape, element.type), axes=axes, body=element)


def computed(
    bodies: Sequence[Callable[..., Expression]], operands: Sequence[Array], target: Target
) -> list[Array]:
    """The results of expressions of the same elements."""
    values = [Value(each.shape, Scalar.of(each.dtype)) for each in operands]
    inputs = dict(zip(values, operands, strict=True))
    routines = [render(kernel_of(body, values), target) for body in bodies]
    functions = compiled(routines, target)
    return [run(routine, inputs, target, functions=functions)[0] for routine in routines]


def expected(bodies: Sequence[Callable[..., Expression]], operands: Sequence[Array]) -> list[Array]:
    """The same with NumPy."""
    values = [Value(each.shape, Scalar.of(each.dtype)) for each in operands]
    inputs = dict(zip(values, operands, strict=True))
    with np.errstate(all="ignore"):
        return [interpreted(kernel_of(body, values), inputs) for body in bodies]
