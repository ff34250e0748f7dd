"""How floats are computed and stored, and the change of a graph that does it.

A model is relaxed where it allows FLOAT32 to be calculated with the range and precision of FLOAT16. Sums are in FLOAT32 all the
same, also on devices that have the arithmetic of halves (cl_khr_fp16). A half has 11 bits: a sum of products that has grown beyond
2048 times one of them does not grow any more, and its error is up to 2^-11 of each partial sum for each term, where the tests of
Android allow 5 · 2^-10 of a result. That would be kept for some tens of terms only, and layers have hundreds; and products
beyond 65504 would be infinite in the midst of a sum that is not. What is computed point by point waits for memory, so that
faster arithmetic would gain nothing there. Halves that are multiplied exactly and summed in FLOAT32 is what tensor cores do.

A value that is stored as FLOAT16 is off by at most 2^-11 of itself, or 2^-25 where it is below 2^-14; beyond 65504 it becomes
infinite. That is all that the modes add to the error of FLOAT32: once for each value that a kernel stores, each constant, and
each factor of a product. A sum of products of factors a and b is thus off by at most 2^-10 · Σ |a · b|, a pointwise function by
2^-11 of the change that its operands cause and of its result. Whatever is not FLOAT32 in the model is computed exactly as without
them.
"""

from dataclasses import replace
from enum import Enum

import numpy as np

from neurald.drivers.compiler.ir.expression import Expression, Load, axis, load
from neurald.drivers.compiler.ir.graph import Compute, Graph, MatrixProduct, Node, TopK
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.platform.device_facts import DeviceFacts


class Precision(Enum):
    """The modes of TFLite's GPU delegate. Whatever is computed from many numbers is summed in FLOAT32."""

    #: As the model says.
    F32 = "f32"
    #: FLOAT32 values between operations, and FLOAT32 weights, are stored as FLOAT16, and computed with in FLOAT32. Products of
    #: what the model is given, and of sums, have those as factors as they are.
    F32_F16 = "f32_f16"
    #: The same; and every factor of a product is rounded to FLOAT16, for devices that multiply two of those faster.
    F16 = "f16"


def suited(facts: DeviceFacts) -> Precision:
    """The mode in which a device computes a relaxed model: halves save bandwidth, and suit tensor cores; CPUs would only convert them."""
    return Precision.F32 if facts.is_cpu else Precision.F16


def lower_precision(graph: Graph, precision: Precision) -> None:
    """Stores FLOAT32 values between nodes, and constants, as FLOAT16, unless the mode is F32. Inputs and outputs stay.

    Args:
        graph: is changed in place.
        precision: the mode.
    """
    if precision is Precision.F32:
        return
    kept = {*graph.inputs, *graph.outputs}
    halves: dict[Value, Value] = {}
    sums = {node.output for node in graph.nodes if not isinstance(node, Compute)}

    def half(value: Value) -> Value:
        """What stands for a value from now on."""
        if value.type is not Scalar.FLOAT32 or value in kept or value in sums:
            return value
        if value not in halves:
            with np.errstate(over="ignore"):
                array = None if value.constant is None else value.constant.astype("float16")
            halves[value] = Value(value.shape, Scalar.FLOAT16, array, value.name)
        return halves[value]

    def found(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load):
            return None
        value = half(expression.value)
        if value is expression.value:
            return None
        otherwise = None if expression.otherwise is None else expression.otherwise.to(Scalar.FLOAT16)
        return load(value, expression.index, expression.guard, otherwise).to(Scalar.FLOAT32)

    memory: dict[Expression, Expression] = {}
    nodes: list[Node] = []

    def factor(value: Value) -> Value:
        """What stands for a factor of products; in the mode F16, what is stored as FLOAT32 is converted first."""
        stored = half(value)
        if stored.type is not Scalar.FLOAT32 or precision is not Precision.F16:
            return stored
        if stored not in halves:
            axes = tuple(axis(length, f"i{d}") for d, length in enumerate(value.shape))
            halves[stored] = Value(value.shape, Scalar.FLOAT16, name=value.name)
            nodes.append(
                Compute(output=halves[stored], axes=axes, body=load(stored, axes).to(Scalar.FLOAT16))
            )
        return halves[stored]

    for node in graph.nodes:
        if isinstance(node, Compute):
            output = half(node.output)
            body = rewrite(node.body, found, memory).to(output.type)
            requirements = tuple((rewrite(each, found, memory), text) for each, text in node.requirements)
            nodes.append(replace(node, output=output, body=body, requirements=requirements))
        elif isinstance(node, MatrixProduct):
            nodes.append(replace(node, left=factor(node.left), right=factor(node.right)))
        elif isinstance(node, TopK):
            nodes.append(replace(node, input=half(node.input)))
        else:
            nodes.append(replace(node, input=factor(node.input), weights=factor(node.weights)))
    graph.nodes = nodes
