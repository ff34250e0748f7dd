"""Fast kernels, mainly for contractions. `render` handles everything that none of them supports."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest

from neurald.drivers.compiler.ir.extents.extent import estimate
from neurald.drivers.compiler.ir.graph import Attention, Convolution, DepthwiseConvolution, MatrixProduct
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.kernels import depthwise, elementwise4, narrow_rows, row_wise, window4
from neurald.drivers.opencl.kernels.attention import attention
from neurald.drivers.opencl.kernels.gemm import (
    cpu_tile,
    gemv,
    gemv_stream,
    int8_dot,
    tensor_core,
    tile,
    warpgroup,
    warpgroup_pipeline,
)
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

#: Above this many FLOAT32 products, tensor cores are always faster.
_MIN_MULTIPLICATIONS = 1 << 25
#: From this many multiplications in matrix products on, the time between kernels of a step is
#: little, if a weight is also multiplied with this many rows: tiles of fewer leave compute units
#: idle.
_LARGE_STEP, _MIN_ROWS = 1 << 33, 192
#: How many products of warpgroups without roles, and how many attentions of them, are candidates.
_MAX_WARPGROUPS, _MAX_ATTENTIONS = 6, 6


def is_large_step(kernels: Iterable[Kernel]) -> bool:
    """Returns True if a step with these kernels is best run as separate kernels."""
    multiplications = weights = 0
    for kernel in kernels:
        product = kernel.contraction
        if isinstance(product, Convolution | MatrixProduct):
            multiplications += product.depth * product.output.count
            weights += product.inputs[1].count
    return multiplications >= max(_LARGE_STEP, _MIN_ROWS * weights)


def candidates(
    kernel: Kernel,
    facts: DeviceFacts,
    *,
    relaxed: bool,
    has_workspace: bool = False,
    is_large: bool = False,
) -> Sequence[Source]:
    """Returns every fast way to compute a kernel, the most promising first.

    All give the same integers. Floats are accumulated in FLOAT32, in an order that depends on the
    candidate, and, if `Source.adds`, on the run. Every pointer that a source is called with is
    aligned to 16 bytes, except that of an output which is only read as part of another value: it
    may be aligned to four elements only.

    Args:
        kernel: the kernel to compute.
        facts: the device.
        relaxed: whether FLOAT32 factors may be rounded to the precision of FLOAT16.
        has_workspace: whether the caller provides the workspace that a source requests.
        is_large: whether the kernel is part of a large step, which runs as separate kernels.

    Returns:
        Nothing if only the generic kernel of `render` applies.
    """
    return LazySources(
        _candidates(kernel, facts, relaxed=relaxed, has_workspace=has_workspace, is_large=is_large)
    )


def _candidates(
    kernel: Kernel, facts: DeviceFacts, *, relaxed: bool, has_workspace: bool, is_large: bool
) -> Iterator[Source]:
    if kernel.contraction is None:
        yield from elementwise4.candidates(kernel, facts) or narrow_rows.candidates(kernel, facts)
        yield from row_wise.candidates(kernel, facts)
        yield from window4.candidates(kernel, facts)
        return
    if isinstance(kernel.contraction, DepthwiseConvolution):
        yield from depthwise.candidates(kernel, kernel.contraction, facts)
        return
    if isinstance(kernel.contraction, Attention):
        if is_large:
            yield from islice(attention.of_warpgroups(kernel, facts), _MAX_ATTENTIONS)
        yield from attention.candidates(kernel, facts)
        return
    product = gemm_view(kernel)
    if product is None:
        return
    pipelines = islice(
        warpgroup_pipeline.candidates(kernel, product, facts, relaxed=relaxed, has_workspace=has_workspace),
        warpgroup_pipeline.MAX_CANDIDATES,
    )
    if kernel.has_reduction:
        # Others would compute what is the same in a row for each element.
        yield from pipelines
        return
    # What streams a matrix needs a constant of floats, and a GPU that reads no images.
    yield from gemv_stream.candidates(kernel, product, facts) or gemv.candidates(kernel, product, facts)
    if is_large:
        # The estimate of the first ones is good enough. Pipelines pay where groups compute several
        # tiles; the others also gather windows and read matrices that are not constants.
        yield from pipelines
        yield from islice(warpgroup.candidates(kernel, product, facts, relaxed=relaxed), _MAX_WARPGROUPS)
    tensor_cores = tensor_core.candidates(
        kernel, product, facts, relaxed=relaxed, has_workspace=has_workspace
    )
    tiles = tile.candidates(kernel, product, facts, has_workspace=has_workspace)
    others = [*cpu_tile.candidates(kernel, product, facts), *int8_dot.candidates(kernel, product, facts)]
    if product.is_integer or relaxed or estimate(product.multiplications) >= _MIN_MULTIPLICATIONS:
        yield from chain(tensor_cores, others, tiles)
    else:
        # Tensor cores compute three products for one of FLOAT32, which pays only for large
        # matrices.
        pairs = zip_longest(tensor_cores, tiles)
        yield from chain(others, (each for pair in pairs for each in pair if each is not None))
