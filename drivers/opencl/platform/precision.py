"""Floating-point modes, and the graph passes that apply them.

A relaxed model allows FLOAT32 to be calculated with the range and precision of FLOAT16.
Accumulators are nevertheless FLOAT32, even on devices with float16 arithmetic (cl_khr_fp16). A
float16 has 11 significant bits: an accumulator that exceeds 2048 times a product no longer grows,
and each term adds an error of up to 2^-11 of the partial sum, whereas Android's tests allow 5 ·
2^-10 of a result. Only sums of some tens of terms would stay within that, and layers sum hundreds;
products beyond 65504 would overflow although the sum does not. Elementwise operations are limited
by memory bandwidth, so float16 arithmetic would not speed them up. Exact products of float16
factors accumulated in FLOAT32 are what tensor cores compute.

Storing a value as FLOAT16 has a relative error of at most 2^-11, or an absolute one of 2^-25 below
2^-14; values beyond 65504 become infinite. The modes add no other error to FLOAT32: it occurs once
for each value that a kernel stores, for each constant, and for each factor of a product. A sum of
products of factors a and b is thus off by at most 2^-10 · Σ |a · b|; a pointwise function by 2^-11
of its result plus the effect of the errors of its operands. All other types are computed exactly as
without these modes.
"""

from collections.abc import Mapping
from enum import Enum

import numpy as np

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Load, axis, load
from neurald.drivers.compiler.ir.extents.extent import estimate
from neurald.drivers.compiler.ir.graph import (
    Compute,
    Convolution,
    Graph,
    MatrixProduct,
    Node,
    Procedure,
    TopK,
    delinearize,
    linearize,
)
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.kernel_rewriting import rewrite_kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite, substitute
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.array_copies import copy_arrays
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.native_halves import convert
from neurald.hal.records import replace

#: Limit on the values that an element is selected among, if a kernel selects it once more.
_MAX_MOVED = 4
#: Products with this many rows take no longer with a FLOAT32 matrix than to make a copy of it.
_FEW_ROWS = 4


class Precision(Enum):
    """Modes of TFLite's GPU delegate. All of them accumulate in FLOAT32."""

    #: As the model specifies.
    F32 = "f32"
    #: FLOAT32 values between operations and FLOAT32 weights are stored as FLOAT16 and computed with
    #: in FLOAT32. Model inputs and accumulated values stay FLOAT32, also as factors of products.
    F32_F16 = "f32_f16"
    #: Like F32_F16, but every factor of a product is rounded to FLOAT16, for devices that multiply
    #: FLOAT16 faster.
    F16 = "f16"


def preferred_precision(facts: DeviceFacts) -> Precision:
    """Returns the mode in which a device computes a relaxed model.

    FLOAT16 saves bandwidth and suits tensor cores; CPUs would only convert it.
    """
    return Precision.F32 if facts.is_cpu else Precision.F16


def lower_precision(graph: Graph, precision: Precision) -> None:
    """Stores FLOAT32 intermediate values and constants as FLOAT16, unless the mode is F32.

    Inputs and outputs of the graph stay FLOAT32.

    Args:
        graph: modified in place.
        precision: the mode.
    """
    if precision is Precision.F32:
        return
    kept = {*graph.inputs, *graph.outputs}
    halves = _converted_factors(graph)
    sums = {node.output for node in graph.nodes if not isinstance(node, Compute)}

    def half(value: Value) -> Value:
        """Returns the FLOAT16 replacement of a value, or the value itself."""
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

    def factor(value: Value, *, is_read_once: bool = False) -> Value:
        """Returns the replacement of a factor of products.

        Mode F16 inserts a conversion of FLOAT32 values, unless they are read once.
        """
        stored = half(value)
        if stored.type is not Scalar.FLOAT32 or precision is not Precision.F16 or is_read_once:
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
            body = _stored_as(rewrite(node.body, found, memory), output.type)
            requirements = tuple((rewrite(each, found, memory), text) for each, text in node.requirements)
            nodes.append(replace(node, output=output, body=body, requirements=requirements))
        elif isinstance(node, MatrixProduct):
            # A matrix that is multiplied with few rows is read once, which a copy would not save.
            is_once = estimate(node.output.shape[-2]) <= _FEW_ROWS
            right = factor(node.right, is_read_once=is_once)
            nodes.append(replace(node, left=factor(node.left), right=right))
        elif isinstance(node, TopK):
            nodes.append(replace(node, input=half(node.input)))
        else:
            # Procedures have been expanded before.
            assert not isinstance(node, Procedure)  # noqa: S101
            nodes.append(replace(node, input=factor(node.input), weights=factor(node.weights)))
    graph.nodes = nodes


def _converted_factors(graph: Graph) -> dict[Value, Value]:
    """Returns FLOAT16 constants for the factors of products that are FLOAT32 constants."""
    products = (node for node in graph.nodes if isinstance(node, Convolution | MatrixProduct))
    factors = dict.fromkeys(value for node in products for value in node.inputs)
    copies: list[tuple[np.ndarray, np.ndarray]] = []
    found: dict[Value, Value] = {}
    for value in factors:
        if value.constant is not None and value.type is Scalar.FLOAT32:
            copies.append((np.empty(value.shape, np.float16), value.constant))
            found[value] = Value(value.shape, Scalar.FLOAT16, copies[-1][0], value.name)
    copy_arrays(copies, convert)
    return found


def round_stored_only(graph: FusedGraph) -> FusedGraph:
    """Removes the roundings to FLOAT16 of values that kernels compute, but do not store."""

    def rounded_once(kernel: Kernel) -> Kernel:
        return rewrite_kernel(kernel, without_rounding, kernel.axes)

    return replace(graph, kernels=tuple(rounded_once(kernel) for kernel in graph.kernels))


def round_beside(graph: FusedGraph) -> FusedGraph:
    """Computes the FLOAT16 copies of moved values from what these are moved from.

    Such a value is an output of the graph, and its copy a factor of products: the kernels of both
    can then run at the same time.
    """
    kernels = {kernel.output: kernel for kernel in graph.kernels}
    return replace(graph, kernels=tuple(_rounded_beside(kernel, kernels) for kernel in graph.kernels))


def _rounded_beside(kernel: Kernel, kernels: Mapping[Value, Kernel]) -> Kernel:
    body = kernel.body
    is_rounding = isinstance(body, Apply) and body.op is Op.CONVERT and body.type is Scalar.FLOAT16
    if not is_rounding or not _is_plain(kernel):
        return kernel
    (rounded,) = body.operands
    if not isinstance(rounded, Load) or rounded.guard is not None:
        return kernel
    source = kernels.get(rounded.value)
    if source is None or not _is_plain(source) or not _is_moved(source.body):
        return kernel
    place = rounded.index
    if source.shape != rounded.value.shape:
        place = delinearize(linearize(place, rounded.value.shape), source.shape)
    where: dict[Expression, Expression] = dict(zip(source.axes, place, strict=True))
    return replace(kernel, body=substitute(source.body, where).to(Scalar.FLOAT16))


def _is_moved(body: Expression) -> bool:
    """Returns True if an element is one of a few that are loaded, and perhaps widened."""
    pending, loaded = [body], 0
    while pending:
        each = pending.pop()
        if isinstance(each, Load):
            loaded += 1
            pending += () if each.otherwise is None else (each.otherwise,)
        elif isinstance(each, Apply) and each.op in (Op.SELECT, Op.CONVERT):
            pending += each.operands[1:] if each.op is Op.SELECT else each.operands
        elif not isinstance(each, Constant):
            return False
        if loaded > _MAX_MOVED:
            return False
    return True


def _is_plain(kernel: Kernel) -> bool:
    return (
        kernel.contraction is None
        and not kernel.requirements
        and kernel.output_offset is None
        and kernel.limit is None
    )


def without_rounding(expression: Expression) -> Expression | None:
    """Returns the FLOAT32 that was rounded to FLOAT16 and widened again; None for all else."""
    if not isinstance(expression, Apply) or expression.op is not Op.CONVERT:
        return None
    inner = expression.operands[0]
    is_rounded = isinstance(inner, Apply) and inner.op is Op.CONVERT and inner.type is Scalar.FLOAT16
    is_float = expression.type is Scalar.FLOAT32 and is_rounded
    return inner.operands[0] if is_float and inner.operands[0].type is Scalar.FLOAT32 else None


def _stored_as(body: Expression, kind: Scalar) -> Expression:
    """Converts an element to the type that it is stored in; a widened FLOAT16 is itself."""
    is_widened = isinstance(body, Apply) and body.op is Op.CONVERT and body.type is Scalar.FLOAT32
    if is_widened and kind is Scalar.FLOAT16 and body.operands[0].type is kind:
        return body.operands[0]
    return body.to(kind)
