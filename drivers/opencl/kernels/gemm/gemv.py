"""Products with few rows, whose speed is limited by reading the right matrix.

The device reads that matrix once, in order. The work-items of a group split the depth and combine
their accumulators in a tree reduction.
"""

from neurald.drivers.compiler.ir.extents.extent import highest
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import as_images
from neurald.drivers.opencl.codegen.dialect import multiply_add
from neurald.drivers.opencl.codegen.kernel_source import NAME, WAIT, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import epilogue, used_values, vector4_reads
from neurald.drivers.opencl.kernels.gemm.accumulate import store_text
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, readers
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "gemv.cl")
#: Products with more rows are better computed in tiles.
_MAX_ROWS = 8
#: Limit on the constant vectors that a work-item holds in registers during a grid barrier.
_MAX_AHEAD = 16


def candidates(kernel: Kernel, product: GemmView, facts: DeviceFacts) -> list[Source]:
    """Returns sources with different numbers of work-items along the columns."""
    if highest(product.rows) > _MAX_ROWS:
        return []
    items = max(size for size in (256, 64, 16) if size <= facts.max_work_group_size)
    while 16 * items * product.rows > min(facts.local_memory_bytes, 32 * 1024):
        items //= 2
    # A work-item computes four columns if these are contiguous, else one.
    lanes = [2, 4, 8, 1] if not product.is_right_by_column else [8, 2, 16]
    return [_source(kernel, product, items, each, facts) for each in lanes if each <= items // 2]


def _source(kernel: Kernel, product: GemmView, items: int, lanes: int, facts: DeviceFacts) -> Source:
    images = frozenset[Value]()
    if facts.images is not None:
        # Along the columns, elements of the left matrix are read one by one.
        operands = product.vector4_reads if product.is_right_by_column else product.right_vector4_reads
        images = as_images((*operands, *vector4_reads(kernel)), facts.images)
    values = kernel_arguments(kernel.output, (product.left, product.right), used_values(kernel), images)
    after = epilogue(kernel, values)
    width = 1 if product.is_right_by_column else 4
    store = store_text(product, after)
    if width == 1:
        row, column = f"batch * {product.row_step} + m", f"batch * {product.column_step} + n"
        store = after.store("sum.x + sum.y + sum.z + sum.w", row, column)
    groups = -(-product.columns // (lanes * width))
    kind = "int" if product.is_integer else "float"
    slices, depth = items // lanes, product.depth
    along_depth = product.is_right_by_column
    first, step = ("slice * 4", slices * 4) if along_depth else ("slice", slices)
    ahead = min(_MAX_AHEAD, -(-depth // step)) if product.right.constant is not None else 0
    left, right = values[1].call_arguments, values[2].call_arguments
    element = f"{NAME}_left4({left}, rows[m], k$SIZE_ARGUMENTS)"
    if not along_depth:
        element = f"({kind}4)(at < 0 ? 0 : {NAME}_l1({left}, at))"
    names = {
        "T": kind,
        "ROWS": product.rows,
        "COLUMNS": product.columns,
        "DEPTH": depth,
        "FIRST": first,
        "NEXT": f"{first} + {ahead * step}" if ahead else first,
        "STEP": step,
        "RIGHT": right,
        "AHEAD": ahead,
        "WAIT": WAIT,
        "UNROLL": 4 if along_depth else 8,
        "PRODUCT": multiply_add(kind, "sums[m]", element, "right"),
    }
    text = fill(
        _TEMPLATES["function"],
        **names,
        MULTIPLY=_TEMPLATES["along_depth" if along_depth else "along_columns"],
        AHEAD_LOOP=_TEMPLATES["ahead"] if ahead else "",
        LOOP=_TEMPLATES["loop"] if ahead * step < depth else "",
        GROUPS=groups,
        BASE=product.right_base,
        LANES=lanes,
        SLICES=slices,
        ITEMS=items,
        WIDTH=width,
        STORE=store,
    )
    text = resolved(
        readers(product, images) + after.text + text,
        values.parameters,
        {**product.sizes, **after.sizes},
        is_shared=False,
    )
    return Source(
        code=LazyCode.of(text),
        arguments=values.values,
        images=values.image_positions,
        groups=groups * product.batches,
        local_size=items,
        scratch_bytes=16 * items * product.rows,
        has_barriers=True,
        label=f"{product.rows} rows, {lanes} x {width} columns by {items // lanes}",
        operations=kernel.operations,
    )
