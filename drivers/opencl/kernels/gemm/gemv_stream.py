"""Products with few rows and a constant matrix of floats, whose speed is that of reading it.

The matrix is packed so that each work-group reads a contiguous part of it once, 16 bytes for each
work-item. What fits registers is requested before a group waits for the left matrix, which is then
held in local memory. Work-groups may also compute that matrix themselves, if its rows are those of
`row_wise`, such as normalised ones: this saves a kernel, and a grid barrier.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from neurald.drivers.compiler.ir.extents.extent import highest
from neurald.drivers.compiler.ir.graph import Convolution, MatrixProduct
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.kernel_source import WAIT, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import epilogue, used_values
from neurald.drivers.opencl.kernels.gemm.accumulate import fetched_text, store_text
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, gemm_view, readers
from neurald.drivers.opencl.kernels.gemm.packing import packed, padded
from neurald.drivers.opencl.kernels.row_wise import Rows, row_text, rows_of
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "gemv_stream.cl")
#: Products with more rows are better computed in tiles.
_MAX_ROWS = 8
#: Work-items of a group, and the columns of a block of the packed matrix.
_ITEMS, _BLOCK = 256, 8
#: Limit on the vectors that a work-item holds in registers during a grid barrier.
_MAX_AHEAD = 16
_VECTOR_BYTES = 16
#: How many vectors of the left matrix a work-item copies to local memory at once.
_MAX_COPIES = 4
#: Limit on local memory.
_MAX_SCRATCH_BYTES = 40 * 1024
_MAX_LANES, _MAX_CANDIDATES = 64, 4
#: Limit on the estimated cost of a candidate, relative to the best one: measurements find most
#: matrices in a cache, where it matters little how many compute units read them.
_MAX_COST = 1.25
#: What a group costs besides its vectors, in vectors of a work-item.
_GROUP_COST = 8
_FLOATS = (Scalar.FLOAT16, Scalar.FLOAT32)


def candidates(kernel: Kernel, product: GemmView, facts: DeviceFacts) -> Sequence[Source]:
    """Returns sources with different numbers of columns per group, the most promising first.

    Returns nothing on CPUs, where a work-group runs on one core, and where kernels read images.
    """
    if not _is_supported(product, facts):
        return ()
    return LazySources(_candidates(kernel, product, None, facts))


def chained(first: Kernel, second: Kernel, facts: DeviceFacts) -> Sequence[Source]:
    """Returns every way to compute `second` with groups that compute the output of `first`.

    The caller ensures that this output is the left matrix of `second` and that no other kernel
    reads it. The result is empty if `first` does not have rows, or `second` is not such a product.
    """
    rows = None if first.contraction is not None else rows_of(first)
    product = None if rows is None else gemm_view(second)
    if rows is None or product is None or not _is_supported(product, facts):
        return ()
    is_plain = product.left.count == product.rows * product.depth == first.output.count
    is_whole = rows.column.extent == product.depth and product.depth % _vector(product.right) == 0
    is_used_once = not {first.output, product.left} & {*used_values(second)}
    if not (is_plain and is_whole and is_used_once and _has_contiguous_rows(second, product)):
        return ()
    return LazySources(_candidates(second, product, rows, facts))


def _is_supported(product: GemmView, facts: DeviceFacts) -> bool:
    return (
        not facts.is_cpu
        and facts.images is None
        and highest(product.rows) <= _MAX_ROWS
        and not product.is_integer
        and product.right.constant is not None
        and product.right.type in _FLOATS
        and not product.is_right_by_column
        and facts.max_work_group_size >= _ITEMS
        and _scratch_bytes(product) <= min(facts.local_memory_bytes, _MAX_SCRATCH_BYTES)
    )


def _has_contiguous_rows(kernel: Kernel, product: GemmView) -> bool:
    """Returns True if the left matrix of a product is stored row by row."""
    node = kernel.contraction
    if isinstance(node, MatrixProduct):
        return not node.left_transposed
    # A window of one position is shifted, too, where there are strides or padding.
    return isinstance(node, Convolution) and node.groups == 1 and not product.is_windowed


def _vector(right: Value) -> int:
    """Returns the number of elements in a vector."""
    return _VECTOR_BYTES // right.type.size_bytes


def _chunks(product: GemmView) -> int:
    """Returns the number of vectors along the depth."""
    return -(-product.depth // _vector(product.right))


def _scratch_bytes(product: GemmView) -> int:
    return 4 * product.rows * (_ITEMS + _chunks(product) * _vector(product.right))


def _packed(product: GemmView) -> Value:
    """Returns the matrix as (batch, block of columns, vector of the depth, column, depth)."""
    vector = _vector(product.right)

    def pack(array: np.ndarray) -> np.ndarray:
        matrices = array.reshape(-1, *array.shape[-2:])
        matrices = padded(padded(matrices, 1, vector, 0), 2, _BLOCK, 0)
        batches, depth, columns = matrices.shape
        parts = matrices.reshape(batches, depth // vector, vector, columns // _BLOCK, _BLOCK)
        return parts.transpose(0, 3, 1, 4, 2)

    return packed(product.right, "streamed", pack)


def _candidates(kernel: Kernel, product: GemmView, rows: Rows | None, facts: DeviceFacts) -> Iterator[Source]:
    chunks = _chunks(product)

    def cost(lanes: int) -> int:
        turns = -(-_groups(product, lanes) // facts.compute_units)
        return turns * (_GROUP_COST + -(-chunks // (_ITEMS // lanes)))

    lanes = range(_BLOCK, min(_MAX_LANES, -(-product.columns // _BLOCK) * _BLOCK) + 1, _BLOCK)
    best = min(map(cost, lanes))
    likely = (each for each in sorted(lanes, key=cost) if cost(each) <= _MAX_COST * best)
    for each in islice(likely, _MAX_CANDIDATES):
        source = _source(kernel, product, rows, each, facts)
        if source is not None:
            yield source


def _groups(product: GemmView, lanes: int) -> int:
    return -(-product.columns // lanes) * product.batches


def _source(
    kernel: Kernel, product: GemmView, rows: Rows | None, lanes: int, facts: DeviceFacts
) -> Source | None:
    right = _packed(product)
    read = (product.left,) if rows is None else tuple(rows.kernel.inputs)
    values = kernel_arguments(
        kernel.output, (right, *(each for each in read if each is not right)), used_values(kernel)
    )
    after = epilogue(kernel, values, is_vector=product.has_vectors, is_fetched=facts.is_nvidia)
    chunks, vector, slices = _chunks(product), _vector(right), _ITEMS // lanes
    ahead = min(_MAX_AHEAD, -(-chunks // slices))
    suffix = "_nvidia" if facts.is_nvidia else ""
    kind = "half" if right.type is Scalar.FLOAT16 else "float"
    unpack = _TEMPLATES[f"asked{suffix}"] + _TEMPLATES[f"unpack_{kind}{suffix if kind == 'half' else ''}"]
    names: dict[str, object] = {}
    helpers, exchange, before, left = "", "", "", _TEMPLATES["left"]
    if rows is None:
        helpers = readers(product)
        copied = product.rows * chunks * vector // 4
        copies = -(-copied // _ITEMS)
        names = {
            "COPIES": copies,
            "COPIED_AT_ONCE": min(copies, _MAX_COPIES),
            "IS_COPIED": f"at < {copied}" if copied % _ITEMS else 1,
        }
    else:
        store = f"*(__local float4 *)(near + row * {chunks * vector} + column) = value;"
        computed = row_text(rows, values, _ITEMS, store, facts)
        if computed is None:
            return None
        exchange = computed.helpers
        before, left = f"  const int item = lid;\n{computed.before}", _TEMPLATES["rows"]
        names = {"STATEMENTS": computed.statements}
    text = fill(
        _TEMPLATES["function"],
        UNPACK=unpack,
        EXCHANGE=exchange,
        BEFORE=before,
        FETCH=_TEMPLATES["fetch"] if after.has_fetch else "",
        FETCHED=fetched_text(product, after),
        LEFT=left,
        MULTIPLY=_TEMPLATES["multiply"],
        LOOP=_TEMPLATES["loop"] if ahead * slices < chunks else "",
        WAIT=WAIT,
        STORE=store_text(product, after),
        GROUPS=-(-product.columns // lanes),
        LANES=lanes,
        SLICES=slices,
        ITEMS=_ITEMS,
        AHEAD=ahead,
        BLOCK=_BLOCK,
        MATRIX="0" if right.shape[0] == 1 else "batch",
        BLOCKS=right.shape[1],
        CHUNKS=chunks,
        VECTOR=vector,
        PITCH=chunks * vector,
        PARTS=product.rows * _ITEMS,
        ROWS=product.rows,
        COLUMNS=product.columns,
        **names,
    )
    how = "" if rows is None else "computes its rows, "
    text = resolved(
        helpers + after.text + text, values.parameters, {**product.sizes, **after.sizes}, is_shared=False
    )
    return Source(
        code=LazyCode.of(text),
        arguments=values.values,
        groups=_groups(product, lanes),
        local_size=_ITEMS,
        scratch_bytes=_scratch_bytes(product),
        has_barriers=True,
        label=f"streams a matrix, {how}{product.rows} rows, {lanes} columns by {slices}",
        operations=kernel.operations
        if rows is None
        else tuple(sorted({*rows.kernel.operations, *kernel.operations})),
    )
