"""Specialised kernels for contractions, top-k, procedures and data movement.

Other kernels use `render`.
"""

import math

from neurald.drivers.compiler.ir.expression import Reduce
from neurald.drivers.compiler.ir.extents.extent import Extent, has_extents, is_one
from neurald.drivers.compiler.ir.graph import (
    Attention,
    Contraction,
    Convolution,
    DepthwiseConvolution,
    Procedure,
    Selection,
    TopK,
    is_data_movement,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.kernels.common.flattened import flattened, pitch_of
from neurald.drivers.cpu.kernels.common.routine_cache import repeated_routine
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Minimum row length that fills vectors on its own, so that rows need not be joined.
_MIN_ROW_LENGTH = 16


def stores_runs(kernel: Kernel) -> bool:
    """Returns True if the kernel's fastest routine supports an `output_offset`."""
    node = kernel.contraction
    if node is None:
        is_wide = kernel.axes[-1].extent >= _MIN_ROW_LENGTH
        return is_wide and kernel.row_axes is None and not is_data_movement(kernel.body)
    if isinstance(node, Selection | Attention):
        return False
    is_regular = not isinstance(node, DepthwiseConvolution) and pitch_of(flattened(kernel)) > 0
    return node.output.type is Scalar.FLOAT32 or is_regular


def generate(kernel: Kernel, target: Target) -> Routine:
    """Returns the specialised routine of a kernel if there is one, else the generic one."""
    if kernel.contraction is None:
        return repeated_routine(kernel, target, lambda: _generated(kernel, target))
    return _generated(kernel, target)


def _generated(kernel: Kernel, target: Target) -> Routine:
    if kernel.contraction is None and kernel.output.type is Scalar.FLOAT16:
        from neurald.drivers.cpu.kernels.movement import float16_bits

        moved = float16_bits.routine(kernel, lambda bits: _generated(bits, target))
        if moved is not None:
            return moved
    return routine_for(kernel, target) or render(kernel, target)


# Families are imported on demand: a model needs few, and importing all would take a good part of
# the compile time of a small one.


def has_attention(kernel: Kernel, target: Target) -> bool:
    """Returns True if there is a routine for an attention kernel."""
    from neurald.drivers.cpu.kernels.attention import attention

    return attention.fits(kernel, target)


def _is_open(kernel: Kernel) -> bool:
    """Returns True if lengths of values or ranges of reductions are only known at run time.

    A part of a value of a known shape may be reduced, whose length is data.
    """
    values = (kernel.output, *kernel.inputs)
    return has_extents(length for value in values for length in value.shape) or has_extents(
        along.extent for each in walk(*kernel.roots) if isinstance(each, Reduce) for along in each.axes
    )


def routine_for(kernel: Kernel, target: Target) -> Routine | None:
    """Returns the specialised routine of a kernel, or None if there is only the generic one."""
    node = kernel.contraction
    if not kernel.output.count:
        return None
    if node is None:
        return None if kernel.output_offset is not None else _without_contraction(kernel, target)
    if isinstance(node, Attention):
        from neurald.drivers.cpu.kernels.attention import attention

        return attention.routine(kernel, node, target)
    if isinstance(node, TopK):
        from neurald.drivers.cpu.kernels.row_wise import arg_max, top_k

        # Keys that stay in registers are those of rows of a known length.
        if is_one(node.output.shape[-1]) and not isinstance(node.input.shape[-1], Extent):
            return arg_max.routine(kernel, node, target)
        return top_k.routine(kernel, node, target)
    if isinstance(node, Procedure):
        from neurald.drivers.cpu.kernels.irregular.select import procedure_routine

        return procedure_routine(kernel, node, target)
    if node.output.type is not Scalar.FLOAT32:
        from neurald.drivers.cpu.kernels.int8.select import int8_routine

        return int8_routine(kernel, target)
    return _with_floats(kernel, node, target)


def _without_contraction(kernel: Kernel, target: Target) -> Routine | None:
    from neurald.drivers.cpu.kernels.movement import box_update, range_copy, transposition
    from neurald.drivers.cpu.kernels.row_wise import byte_columns, columns, rows

    if _is_open(kernel):
        # The others divide ranges at compile time.
        return rows.routine(kernel, target)
    moved = range_copy.routine(kernel, target) or box_update.routine(kernel, target)
    moved = moved or transposition.routine(kernel, target)
    moved = moved or rows.routine(kernel, target)
    return moved or columns.routine(kernel, target) or byte_columns.routine(kernel, target)


def _with_floats(kernel: Kernel, node: Contraction, target: Target) -> Routine | None:
    from neurald.drivers.cpu.kernels.common import convolution, matrix_product
    from neurald.drivers.cpu.kernels.common.tile import is_too_narrow
    from neurald.drivers.cpu.kernels.gemm import depthwise, dot_products, tiled_product, winograd
    from neurald.drivers.cpu.kernels.gemm.split import product as split_product

    if isinstance(node, DepthwiseConvolution):
        return depthwise.routine(kernel, node, target)
    product = (
        convolution.product_of(node) if isinstance(node, Convolution) else matrix_product.product_of(node)
    )
    if target.is_relaxed and (target.has_tiles or target.has_half_products) and product.terms:
        other = winograd.cycles_of(node, target) if isinstance(node, Convolution) else math.inf
        found = split_product.routine(kernel, product, target, other)
        found = found or tiled_product.half_routine(kernel, product, target, other)
        if found is not None:
            return found
    if isinstance(node, Convolution):
        found = winograd.routine(kernel, node, target) or depthwise.grouped_routine(kernel, node, target)
        if found is not None:
            return found
    if not product.terms or is_too_narrow(product.channels, target):
        return None
    return dot_products.float_routine(kernel, product, target) or tiled_product.routine(
        kernel, product, target
    )
