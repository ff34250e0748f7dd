"""Quantised kernels with constant weights: 8-bit inputs and weights, or 16-bit inputs."""

from collections.abc import Hashable, Sequence

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.extent import Extent, at_least
from neurald.drivers.compiler.ir.graph import Attention, Convolution, DepthwiseConvolution, Selection
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common import convolution, matrix_product
from neurald.drivers.cpu.kernels.common.flattened import flattened, pitch_of
from neurald.drivers.cpu.kernels.common.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.common.product import WeightOperand, WindowedProduct
from neurald.drivers.cpu.kernels.common.routine_cache import cached_routine
from neurald.drivers.cpu.kernels.common.window import window_dimensions
from neurald.drivers.cpu.kernels.int8 import depthwise_plan, dot_products
from neurald.drivers.cpu.kernels.int8.depthwise import DepthwiseWriter
from neurald.drivers.cpu.kernels.int8.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.panels import packed, reach_of, unsigned_shift, weights_of
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan, plan_of, plan_of_few_rows
from neurald.drivers.cpu.kernels.int8.rescaling import find_rescaling
from neurald.drivers.cpu.kernels.int8.results import is_packed
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.kernels.int8.tiled_product import TiledProductWriter
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

_BYTES = (Scalar.INT8, Scalar.UINT8)
_MAX_INT32 = (1 << 31) - 1
#: Placeholder for a value in keys, where its identity does not matter.
_ANY = Value((), Scalar.INT8)


def int8_routine(kernel: Kernel, target: Target) -> Routine | None:
    """Returns the routine of a quantised kernel with constant weights, or None if unsupported.

    Args:
        kernel: has a contraction, and its output is not empty.
        target: the target of the code.
    """
    node = kernel.contraction
    if (
        node is None
        or isinstance(node, Selection | Attention)
        or node.output.type not in (Scalar.INT32, Scalar.INT64)
    ):
        return None
    source, weights = node.inputs
    if weights.constant is None or weights.type not in _BYTES or source.type not in (*_BYTES, Scalar.INT16):
        return None
    if isinstance(node, DepthwiseConvolution):
        return _depthwise(kernel, node, weights.constant, target)
    if isinstance(node, Convolution):
        product, zeros = convolution.product_of(node), (node.input_zero, node.weights_zero)
    else:
        product, zeros = matrix_product.product_of(node), (node.left_zero, node.right_zero)
    if not _is_plain(product):
        return None
    return _product(kernel, product, _factors(product.weights, weights.constant, product), zeros, target)


def _is_plain(product: WindowedProduct) -> bool:
    """Returns True if the product's batches are channel groups and pixels are contiguous."""
    depth = product.depth
    for each in reversed(product.batches):
        if each.extent > 1 and (each.source_bytes != depth * product.type.size_bytes or each.positions):
            return False
    groups = [each for each in product.batches if each.extent > 1]
    return len(groups) <= 1 and product.element_bytes == product.type.size_bytes and product.terms > 0


def _factors(operand: WeightOperand, constant: Array, product: WindowedProduct) -> Array:
    """Returns the weights as (groups, channels, terms)."""
    size = constant.itemsize
    return np.lib.stride_tricks.as_strided(
        np.ascontiguousarray(constant),
        (operand.sets, product.channels, product.terms),
        (product.channels * product.terms * size, operand.channel_step * size, operand.term_step * size),
    )


def is_open(product: WindowedProduct) -> bool:
    """Returns True if the number of positions is only known at run time."""
    sides = product.images, product.rows.positions, product.columns.positions
    return any(isinstance(each, Extent) for each in sides)


def _scheme(source: Value, target: Target) -> Scheme:
    return Scheme(target=target, is_bytes=target.has_vnni and source.type in _BYTES)


def _epilogue_of(kernel: Kernel, largest: Array, target: Target) -> QuantizedEpilogue:
    """Returns the epilogue of sums with magnitudes up to `largest`, (channels,)."""
    flat = flattened(kernel)
    is_short = kernel.contraction is not None and kernel.contraction.output.type is Scalar.INT32
    rescaling = find_rescaling(flat, largest.size) if is_short else None
    if rescaling is not None and rescaling.fits(largest):
        epilogue = QuantizedEpilogue(flat, rescaling.with_floats(largest, target))
        if epilogue.is_whole:
            return epilogue
    return QuantizedEpilogue(flat, None)


def _product(
    kernel: Kernel, product: WindowedProduct, factors: Array, zeros: tuple[int, int], target: Target
) -> Routine | None:
    source = product.source
    scheme = _scheme(source, target)
    weights = weights_of(factors, source=source.type, zeros=zeros, is_bytes=scheme.is_bytes)
    if not _is_exact(weights.largest, source.type, zeros[0]):
        return None
    few = dot_products.routine(kernel, product, scheme, weights, zeros[0])
    if few is not None:
        return few
    epilogue = _epilogue_of(kernel, weights.largest.reshape(-1), target)
    is_direct = (
        source.type is Scalar.UINT8 if scheme.is_bytes else source.type is Scalar.INT16 and not zeros[0]
    )
    run = product.depth * (product.columns.taps if product.columns.dilation == 1 else 1)
    is_direct = is_direct and not (weights.sums and run % target.vector_bytes)
    plan = plan_of(product, scheme, is_direct=is_direct)
    if scheme.is_bytes and target.has_tiles and not weights.sums and not is_open(product):
        tiled = plan_of(product, replace(scheme, has_tiles=True), is_direct=is_direct)
        plan = min(plan, tiled, key=lambda each: each.cycles)
    panels = packed(
        plan,
        weights,
        epilogue.starts(weights.starts),
        epilogue.words(plan.groups, product.channels),
        product.weights.value.name,
        residual=() if epilogue.residual is None else epilogue.residual.words,
        in_pairs=is_packed(plan, epilogue),
    )
    arguments = arguments_with(epilogue.kernel, (source, panels))
    key = _cache_key(plan, epilogue, arguments, zero=zeros[0], sums=bool(weights.sums))
    return cached_routine(
        key,
        kernel,
        arguments,
        lambda: _new_routine(kernel, plan, epilogue, arguments, zero=zeros[0], sums=bool(weights.sums)),
    )


def _cache_key(
    plan: ProductPlan, epilogue: QuantizedEpilogue, arguments: Sequence[Value], *, zero: int, sums: bool
) -> Hashable | None:
    """Returns a key of everything that a product's function depends on.

    Returns None if the epilogue is more than a rescaling and a residual.
    """
    # Partial vectors take the general path.
    residual = epilogue.residual if plan.product.channels >= plan.scheme.lanes else None
    if epilogue.rescaling is None or not (residual is not None or epilogue.is_stored):
        return None
    added = None if residual is None else (residual.form, arguments.index(residual.other))
    product = replace(plan.product, source=_ANY, weights=replace(plan.product.weights, value=_ANY))
    values = tuple((each.shape, each.type) for each in arguments)
    numbers = zero, sums, pitch_of(epilogue.kernel)
    return replace(plan, product=product), epilogue.rescaling.form, added, values, numbers


def _new_routine(
    kernel: Kernel,
    plan: ProductPlan,
    epilogue: QuantizedEpilogue,
    arguments: tuple[Value, ...],
    *,
    zero: int,
    sums: bool,
) -> Routine:
    """Returns the routine of a product."""
    writer = TiledProductWriter(plan, epilogue, arguments, zero=zero, sums=sums)
    few = plan_of_few_rows(plan)
    work_items, scratch_bytes = plan.work_items, writer.scratch_bytes
    if few is None:
        writer.write()
    else:
        code = writer.code
        other = TiledProductWriter(few, epilogue, arguments, zero=zero, sums=sums, code=code)
        has_enough = code.value(f"icmp sge i64 {plan.height}, {plan.rows}")
        with code.when(has_enough):
            writer.write()
        with code.when(code.value(f"xor i1 {has_enough}, true")):
            other.write()
        is_used = at_least(plan.height, plan.rows)
        work_items = is_used * plan.work_items + (1 - is_used) * few.work_items
        scratch_bytes = max(scratch_bytes, other.scratch_bytes)
    return Routine(
        text=function_text(writer.code, arguments),
        arguments=arguments,
        work_items=work_items,
        cost_ns=cost_ns(plan.cycles, arguments),
        declarations=frozenset(writer.code.declarations),
        scratch_bytes=scratch_bytes,
        label=f"{plan.scheme.label}, {plan.pixels} positions by {plan.vectors} vectors of {plan.scheme.lanes}",
        operations=kernel.operations,
        subroutines=frozenset(writer.code.subroutines),
    )


def _depthwise(kernel: Kernel, node: DepthwiseConvolution, constant: Array, target: Target) -> Routine | None:
    scheme = _scheme(node.input, target)
    factors = constant.astype(np.int64) - node.weights_zero
    taps, columns, channels = factors.shape
    flat = factors.reshape(taps * columns, channels)
    largest = reach_of(node.input.type, node.input_zero) * np.abs(flat).sum(axis=0)
    if not _is_exact(largest, node.input.type, node.input_zero):
        return None
    padding, parts, starts = 0, factors[None], np.zeros(channels, np.int64)
    if scheme.is_bytes:
        padding = node.input_zero + unsigned_shift(node.input.type)
        starts = -padding * flat.sum(axis=0)
        if factors.min() < -128 or factors.max() > 127:
            # Splits each weight into two bytes.
            parts = np.stack((factors >> 1, factors - (factors >> 1)))
    epilogue = _epilogue_of(kernel, largest, target)
    plan = depthwise_plan.plan_of(node, scheme, *window_dimensions(node), len(parts))
    if not plan.is_small:
        return None
    weights = depthwise_plan.packed(
        plan, parts, padding, epilogue.starts(starts), epilogue.words(1, channels)[:, 0], node.weights.name
    )
    arguments = arguments_with(epilogue.kernel, (node.input, weights))
    key: Hashable | None = None
    if epilogue.rescaling is not None and epilogue.is_stored:
        values = tuple((each.shape, each.type) for each in arguments)
        key = plan, epilogue.rescaling.form, values, node.input_zero
    return cached_routine(
        key,
        kernel,
        arguments,
        lambda: _new_depthwise_routine(kernel, plan, epilogue, arguments, zero=node.input_zero),
    )


def _new_depthwise_routine(
    kernel: Kernel,
    plan: depthwise_plan.DepthwisePlan,
    epilogue: QuantizedEpilogue,
    arguments: tuple[Value, ...],
    *,
    zero: int,
) -> Routine:
    """Returns the routine of a depthwise convolution."""
    writer = DepthwiseWriter(plan, epilogue, arguments, zero=zero)
    writer.write()
    return Routine(
        text=function_text(writer.code, arguments),
        arguments=arguments,
        work_items=plan.images * plan.units,
        cost_ns=cost_ns(plan.cycles, arguments),
        declarations=frozenset(writer.code.declarations),
        scratch_bytes=plan.layout.packed_bytes,
        label=f"{plan.scheme.label}, depthwise, {plan.rows} rows at once",
        operations=kernel.operations,
        subroutines=frozenset(writer.code.subroutines),
    )


def _is_exact(largest: Array, source: Scalar, zero: int) -> bool:
    """Returns True if sums fit in 32 bits, and inputs less their zero point in 16 bits."""
    limits, halves = np.iinfo(source.dtype.name), np.iinfo(np.int16)
    fits = limits.min - zero >= halves.min and limits.max - zero <= halves.max
    return bool((largest <= _MAX_INT32).all()) and fits
