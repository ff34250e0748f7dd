"""Matrix products on CPUs: each work-item computes a tile, with vectors of sixteen.

The rows of a tile are interleaved first, so that the operands are read in order.
"""

import numpy as np

from neurald.drivers.compiler.ir.extents.extent import estimate
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import epilogue, used_values
from neurald.drivers.opencl.kernels.gemm.accumulate import store_text
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, readers
from neurald.drivers.opencl.kernels.gemm.packing import packed, padded
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "cpu_tile.cl")
_COLUMNS = 32
#: Limit on the depth, so that the copy stays in the L1 cache.
_MAX_DEPTH = 256


def candidates(kernel: Kernel, product: GemmView, facts: DeviceFacts) -> list[Source]:
    """Returns tiles of several heights.

    Returns none on GPUs, on devices with images (imitated GPUs), and for a right matrix that is not
    constant.
    """
    if (
        not facts.is_cpu
        or facts.images is not None
        or product.right.constant is None
        or product.is_right_by_column
    ):
        return []
    heights = [rows for rows in (8, 12, 4, 1) if rows == 1 or rows < 2 * estimate(product.rows)]
    return [_source(kernel, product, rows) for rows in heights]


def _strips(array: np.ndarray, zero: int) -> np.ndarray:
    """Reorders (batch, k, n) into (batch, strip of columns, k, column)."""
    wide = padded(array.reshape(-1, *array.shape[-2:]), 2, _COLUMNS, zero)
    batches, depth, columns = wide.shape
    return wide.reshape(batches, depth, columns // _COLUMNS, _COLUMNS).transpose(0, 2, 1, 3)


def _source(kernel: Kernel, product: GemmView, rows: int) -> Source:
    zero = product.right_zero
    right = packed(product.right, ("strips", _COLUMNS, zero), lambda array: _strips(array, zero))
    values = kernel_arguments(kernel.output, (product.left, right), used_values(kernel))
    after = epilogue(kernel, values)
    strips = right.shape[1]
    kind = "int" if product.is_integer else "float"
    text = fill(
        _TEMPLATES["function"],
        T=kind,
        COLUMNS=_COLUMNS,
        ROWS=rows,
        M=product.rows,
        N=product.columns,
        K=product.depth,
        DEPTH=min(_MAX_DEPTH, -(-product.depth // 4) * 4),
        DOWN=-(-product.rows // rows),
        STRIPS=strips,
        BASE=f"batch * {strips}" if right.shape[0] > 1 else "0",
        READ16=_read16(right.type, zero),
        STORE=store_text(product, after),
    )
    text = resolved(
        readers(product) + after.text + text,
        values.parameters,
        {**product.sizes, **after.sizes},
        is_shared=False,
    )
    return Source(
        code=LazyCode.of(text),
        arguments=values.values,
        groups=product.batches * strips * -(-product.rows // rows),
        local_size=1,
        label=f"CPU tile {rows} x {_COLUMNS}",
        operations=kernel.operations,
    )


def _read16(kind: Scalar, zero: int) -> str:
    if kind is Scalar.FLOAT32:
        return "vload16(0, a2 + (AT))"
    if kind is Scalar.FLOAT16:
        return "vload_half16(0, a2 + (AT))"
    return f"(convert_int16(vload16(0, a2 + (AT))) - {zero})"
