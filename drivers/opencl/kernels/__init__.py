"""Fast kernels, for contractions above all. What none of them fits is computed like anything else, see `render`."""

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from neurald.drivers.compiler.ir.graph import DepthwiseConvolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.kernels import depthwise, elementwise4
from neurald.drivers.opencl.kernels.gemm import cpu_tile, gemv, int8_dot, tensor_core, tile
from neurald.drivers.opencl.kernels.gemm.gemm_view import product_of
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

#: With so many products of FLOAT32, tensor cores are faster in any case.
_MANY = 1 << 25


def candidates(
    kernel: Kernel, facts: DeviceFacts, *, relaxed: bool, has_workspace: bool = False
) -> Sequence[Source]:
    """Every fast way to compute a kernel, the one that promises most first.

    All give the same integers. Sums of floats are in FLOAT32, in an order that depends on the choice, and only where `Source.adds` on the run.
    Every pointer that a source is called with is aligned to 16 bytes; that of an output that nobody reads as it is may be aligned
    to four of its elements only, since it is a part of another value.

    Args:
        kernel: what is computed.
        facts: where.
        relaxed: whether factors of FLOAT32 may be rounded to the precision of FLOAT16.
        has_workspace: whether the caller gives a source the workspace that it asks for.

    Returns:
        Nothing where there is only the generic kernel of `render`.
    """
    return LazySources(_candidates(kernel, facts, relaxed=relaxed, has_workspace=has_workspace))


def _candidates(
    kernel: Kernel, facts: DeviceFacts, *, relaxed: bool, has_workspace: bool
) -> Iterator[Source]:
    if kernel.contraction is None:
        yield from elementwise4.candidates(kernel, facts)
        return
    if isinstance(kernel.contraction, DepthwiseConvolution):
        yield from depthwise.candidates(kernel, kernel.contraction, facts)
        return
    product = product_of(kernel)
    if product is None:
        return
    yield from gemv.candidates(kernel, product, facts)
    tensor_cores = tensor_core.candidates(
        kernel, product, facts, relaxed=relaxed, has_workspace=has_workspace
    )
    tiles = tile.candidates(kernel, product, facts, has_workspace=has_workspace)
    others = [*cpu_tile.candidates(kernel, product, facts), *int8_dot.candidates(kernel, product, facts)]
    if product.is_integer or relaxed or product.multiplications >= _MANY:
        yield from chain(tensor_cores, others, tiles)
    else:
        # Tensor cores take three products for one of FLOAT32, which is faster only where there are many.
        pairs = zip_longest(tensor_cores, tiles)
        yield from chain(others, (each for pair in pairs for each in pair if each is not None))
