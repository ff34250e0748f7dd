"""Quantised kernels: 8-bit inputs and weights, or 16-bit inputs.

Weights are packed at compile time if they are constant, else at run time; those of depthwise
convolutions must be constant.
"""

import math
from collections.abc import Hashable, Sequence

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.extents.extent import at_least, has_extents
from neurald.drivers.compiler.ir.graph import (
    Attention,
    Convolution,
    DepthwiseConvolution,
    MatrixProduct,
    Selection,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common import convolution, matrix_product
from neurald.drivers.cpu.kernels.common.flattened import flattened, pitch_of
from neurald.drivers.cpu.kernels.common.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.common.product import BatchDimension, WeightOperand, WindowedProduct
from neurald.drivers.cpu.kernels.common.routine_cache import cached_routine
from neurald.drivers.cpu.kernels.common.window import window_dimensions
from neurald.drivers.cpu.kernels.int8 import winograd
from neurald.drivers.cpu.kernels.int8.depthwise import plan as depthwise_plan
from neurald.drivers.cpu.kernels.int8.depthwise.depthwise import DepthwiseWriter
from neurald.drivers.cpu.kernels.int8.epilogue.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.epilogue.rescaling import find_rescaling
from neurald.drivers.cpu.kernels.int8.joined_columns import joined_columns
from neurald.drivers.cpu.kernels.int8.packing.panels import (
    MAX_SHARE_LEFT,
    QuantizedWeights,
    are_nibbles,
    head_of,
    may_skip,
    packed,
    packed_heads,
    panel_bytes,
    reach_of,
    share_left,
    weights_of,
)
from neurald.drivers.cpu.kernels.int8.packing.run_time_panels import RightMatrix
from neurald.drivers.cpu.kernels.int8.packing.transposed_input_packing import transposed_plan
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.plan_choice import is_flat, plan_of, plan_of_small_images
from neurald.drivers.cpu.kernels.int8.product import dot_products
from neurald.drivers.cpu.kernels.int8.product.micro_kernel import QuantizedMicroKernel
from neurald.drivers.cpu.kernels.int8.product.results import is_packed
from neurald.drivers.cpu.kernels.int8.product.tiled_product import TiledProductWriter
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

_BYTES = (Scalar.INT8, Scalar.UINT8)
_MAX_INT32 = (1 << 31) - 1
#: Maximum size of weights that each thread packs as a whole in its own memory.
_MAX_MATRIX_BYTES = 8 << 20
#: Placeholder for a value in keys, where its identity does not matter.
_ANY = Value((), Scalar.INT8)


def int8_routine(kernel: Kernel, target: Target) -> Routine | None:
    """Returns the routine of a quantised kernel, or None if unsupported.

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
    if weights.type not in _BYTES or source.type not in (*_BYTES, Scalar.INT16):
        return None
    if isinstance(node, DepthwiseConvolution):
        return None if weights.constant is None else _depthwise(kernel, node, weights.constant, target)
    if isinstance(node, Convolution):
        joined = joined_columns(kernel, node, target.lanes(Scalar.INT32.size_bytes))
        if joined is not None:
            return int8_routine(joined, target)
        product, zeros = convolution.product_of(node), (node.input_zero, node.weights_zero)
    else:
        product, zeros = matrix_product.product_of(node), (node.left_zero, node.right_zero)
    if weights.constant is not None and _is_plain(product):
        return _product(kernel, product, _factors(product.weights, weights.constant, product), zeros, target)
    # Batches of a convolution are channel groups.
    batches = product.batches if isinstance(node, MatrixProduct) else ()
    return _product_with_computed_weights(kernel, product, batches, zeros, target)


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


def _scheme(source: Value, target: Target) -> Scheme:
    is_signed = target.has_mixed_dots and target.has_signed_dots and source.type is Scalar.INT8
    is_bytes = target.has_byte_dots and source.type in _BYTES
    return Scheme(target=target, is_bytes=is_bytes, is_signed=is_signed)


def _epilogue_of(kernel: Kernel, largest: Array, target: Target, *, has_residual: bool) -> QuantizedEpilogue:
    """Returns the epilogue of sums with magnitudes up to `largest`, (channels,).

    Args:
        kernel: the kernel.
        largest: the largest magnitudes of sums.
        target: the target of the code.
        has_residual: whether the kernel computes an `epilogue.residual`.
    """
    flat = flattened(kernel)
    is_short = kernel.contraction is not None and kernel.contraction.output.type is Scalar.INT32
    rescaling = find_rescaling(flat, largest.size) if is_short else None
    if rescaling is not None and rescaling.fits(largest):
        rescaling = rescaling.with_floats(largest, target)
        epilogue = QuantizedEpilogue(flat, rescaling)
        if epilogue.is_whole and rescaling.is_computable:
            is_known = epilogue.is_stored or (has_residual and epilogue.residual is not None)
            return epilogue if is_known else epilogue.with_short_sums(target)
    return QuantizedEpilogue(flat, None).with_short_sums(target)


def _product(
    kernel: Kernel, product: WindowedProduct, factors: Array, zeros: tuple[int, int], target: Target
) -> Routine | None:
    source = product.source
    scheme = _scheme(source, target)
    weights = weights_of(factors, source=source.type, zeros=zeros, scheme=scheme)
    if not _is_exact(weights.largest, source.type, zeros[0]):
        return None
    few = dot_products.routine(kernel, product, scheme, weights, zeros[0])
    if few is not None:
        return few
    has_residual = product.channels >= scheme.lanes
    epilogue = _epilogue_of(kernel, weights.largest.reshape(-1), target, has_residual=has_residual)
    plan = _plan(product, scheme, zeros[0], has_sums=bool(weights.sums), may_be_signed=True)
    quick = winograd.routine(
        kernel,
        epilogue,
        plan,
        weights,
        lambda arguments: _cache_key(plan, epilogue, arguments, zero=zeros[0], sums=False),
    )
    if quick is not None:
        return quick
    if plan.may_have_nibbles and are_nibbles(weights):
        plan = replace(plan, has_nibbles=True)
    if may_skip(plan, weights):
        plan = _skipping(plan, weights, zeros[0])
    omitting = plan if weights.sums else plan.without_padding(weights.padding)
    if omitting.taps and QuantizedMicroKernel(omitting, rows=epilogue.rows, has_sums=False).is_shared:
        plan = omitting
    starts = weights.starts
    if plan.is_signed:
        # They are for bytes that were made unsigned.
        starts = starts + scheme.shift_of(source.type) * weights.factors.sum(axis=-1, dtype=np.int64)
    rows = epilogue.words(plan.groups, product.channels)
    if plan.taps is not None:
        taps = weights.factors.reshape(
            *weights.factors.shape[:2], product.rows.taps, product.columns.taps if plan.runs > 1 else 1, -1
        )
        others = [epilogue.starts(each) for each in plan.taps.starts(starts, taps, weights.padding)]
        rows = np.concatenate((rows, *(each[None] for each in others)))
    panels = packed(
        plan,
        weights,
        epilogue.starts(starts),
        rows,
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


def _skipping(plan: ProductPlan, weights: QuantizedWeights, zero: int) -> ProductPlan:
    """Returns the fastest plan of which panels skip the first taps of windows without weights.

    Channels of a panel skip what all of them lack, so panels of one vector may skip more.

    Args:
        plan: the fastest plan that skips none.
        weights: the weights.
        zero: the input's zero point.
    """
    candidates = [plan]
    if plan.vectors > 1 and not plan.has_nibbles:
        is_summed = bool(weights.sums)
        narrow = _plan(plan.product, plan.scheme, zero, has_sums=is_summed, most_vectors=1)
        candidates += [narrow] if narrow.may_skip_taps else []
    shares = [share_left(each, weights) for each in candidates]
    costs = [each.cycles_of(share) for each, share in zip(candidates, shares, strict=True)]
    best = costs.index(min(costs))
    if shares[best] > MAX_SHARE_LEFT:
        return plan
    return replace(candidates[best], skips_taps=True)


def _plan(
    product: WindowedProduct,
    scheme: Scheme,
    zero: int,
    *,
    has_sums: bool,
    may_be_signed: bool = False,
    most_vectors: int | None = None,
) -> ProductPlan:
    """Returns the fastest plan, by estimate, given the input's zero point.

    With tile registers, signed bytes may be multiplied in place, see `ProductPlan.is_signed`. With
    `most_vectors`, panels have at most this many vectors.
    """
    kind = product.type
    is_direct = not scheme.shift_of(kind) if scheme.is_bytes else kind is Scalar.INT16 and not zero
    run = product.depth * (product.columns.taps if product.columns.dilation == 1 else 1)
    is_direct = is_direct and not (has_sums and run % scheme.target.vector_bytes)
    plan = plan_of(product, scheme, is_direct=is_direct, most_vectors=most_vectors)
    if scheme.is_bytes and scheme.target.has_byte_matrices:
        others = [
            plan_of(
                product, replace(scheme, matrix_words=words), is_direct=is_direct, most_vectors=most_vectors
            )
            for words in (2, 1)
        ]
        plan = min(plan, *others, key=lambda each: each.cycles)
    if scheme.is_bytes and scheme.target.has_tiles and not has_sums:
        is_signed = may_be_signed and kind is Scalar.INT8 and is_flat(product)
        tiled = plan_of(product, replace(scheme, has_tiles=True), is_direct=is_direct or is_signed)
        plan = min(plan, tiled, key=lambda each: each.cycles)
    return plan


def _product_with_computed_weights(
    kernel: Kernel,
    product: WindowedProduct,
    batches: tuple[BatchDimension, ...],
    zeros: tuple[int, int],
    target: Target,
) -> Routine | None:
    """Returns the routine of a product whose weights are packed at run time.

    Args:
        kernel: the kernel.
        product: its product.
        batches: the product's batches if they are those of matrices, rather than channel groups.
        zeros: zero points of inputs and weights.
        target: the target of the code.
    """
    source, operand, channels = product.source, product.weights, product.channels
    is_transposed = product.element_bytes != product.type.size_bytes
    if has_extents((channels, product.terms)) or not product.terms:
        return None
    if is_transposed and (has_extents((product.positions,)) or source.type not in _BYTES):
        return None
    right = RightMatrix(
        value=operand.value,
        zero=zeros[1],
        channels=channels,
        terms=product.terms,
        channel_step=operand.channel_step,
        term_step=operand.term_step,
        batches=batches,
        is_left_transposed=is_transposed,
    )
    scheme = _scheme(source, target)
    windows = replace(product, batches=()) if batches else product
    groups = math.prod(each.extent for each in windows.batches)
    largest = np.full(groups * channels, right.largest(source.type, zeros[0]), np.int64)
    if not _is_exact(largest, source.type, zeros[0]):
        return None
    epilogue = _epilogue_of(kernel, largest, target, has_residual=channels >= scheme.lanes)
    taken = right.taken(scheme)
    plan = replace(_plan(windows, scheme, zeros[0], has_sums=taken != 0), shares_panels=False)
    if batches:
        plan = replace(plan, images=math.prod(each.extent for each in batches))
    if is_transposed:
        plan = transposed_plan(plan)
    padding = zeros[0] + scheme.shift_of(source.type) if scheme.is_bytes else 0
    starts = np.full((groups, channels), right.start(padding, scheme), np.int64)
    heads = packed_heads(
        plan,
        head_of(padding, taken, () if epilogue.residual is None else epilogue.residual.words),
        epilogue.starts(starts),
        epilogue.words(groups, channels),
        operand.value.name,
        in_pairs=is_packed(plan, epilogue),
    )
    sizes = panel_bytes(plan, epilogue.rows) * plan.panels * groups, is_transposed * plan.layout.packed_bytes
    if max(sizes) > _MAX_MATRIX_BYTES:
        return None
    arguments = arguments_with(epilogue.kernel, (source, heads, operand.value))
    key = _cache_key(plan, epilogue, arguments, zero=zeros[0], sums=taken != 0)
    own = replace(right, value=Value((), right.value.type)), arguments.index(right.value)
    return cached_routine(
        None if key is None else (key, own),
        kernel,
        arguments,
        lambda: _new_routine(kernel, plan, epilogue, arguments, zero=zeros[0], sums=taken != 0, right=right),
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
    right: RightMatrix | None = None,
) -> Routine:
    """Returns the routine of a product."""
    writer = TiledProductWriter(plan, epilogue, arguments, zero=zero, sums=sums, right=right)
    others = plan_of_small_images(plan)
    work_items, scratch_bytes = writer.work_items, writer.scratch_bytes
    if others is None:
        writer.write()
    else:
        code, (length, least, few) = writer.code, others
        other = TiledProductWriter(few, epilogue, arguments, zero=zero, sums=sums, right=right, code=code)
        has_enough = code.value(f"icmp sge i64 {length}, {least}")
        with code.when(has_enough):
            writer.write()
        with code.when(code.value(f"xor i1 {has_enough}, true")):
            other.write()
        is_used = at_least(length, least)
        work_items = is_used * plan.work_items + (1 - is_used) * few.work_items
        # Enough for both: which of them it is would make this number too long for large windows.
        scratch_bytes += other.scratch_bytes
    return Routine(
        text=function_text(writer.code, arguments),
        arguments=arguments,
        work_items=work_items,
        cost_ns=cost_ns(plan.cycles, arguments),
        declarations=frozenset(writer.code.declarations),
        scratch_bytes=scratch_bytes,
        label=f"{plan.scheme.label}, {plan.pixels} positions by {plan.vectors} vectors of {plan.scheme.lanes}"
        + (", weights of 4 bits" if plan.has_nibbles else ""),
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
        padding = node.input_zero + scheme.shift_of(node.input.type)
        starts = -padding * flat.sum(axis=0)
        if factors.min() < -128 or factors.max() > 127:
            # Splits each weight into two bytes.
            parts = np.stack((factors >> 1, factors - (factors >> 1)))
    epilogue = _epilogue_of(kernel, largest, target, has_residual=False)
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
        scratch_bytes=writer.scratch_bytes,
        label=f"{plan.scheme.label}, depthwise, {plan.rows} rows at once",
        operations=kernel.operations,
        subroutines=frozenset(writer.code.subroutines),
    )


def _is_exact(largest: Array, source: Scalar, zero: int) -> bool:
    """Returns True if sums fit in 32 bits, and inputs less their zero point in 16 bits."""
    limits, halves = np.iinfo(source.dtype.name), np.iinfo(np.int16)
    fits = limits.min - zero >= halves.min and limits.max - zero <= halves.max
    return bool((largest <= _MAX_INT32).all()) and fits
