"""Fast kernels for contractions. Those that none of them fits are folded like anything else, see `render`."""

from neurald.drivers.compiler.graph import DepthwiseConvolution
from neurald.drivers.compiler.kernel import Kernel
from neurald.drivers.opencl.kernels import cpu_tile, depthwise, tensor_core, tile, vector
from neurald.drivers.opencl.kernels.product import product_of
from neurald.drivers.opencl.platform import DeviceFacts
from neurald.drivers.opencl.source import Source


def candidates(
    kernel: Kernel, facts: DeviceFacts, *, relaxed: bool, has_workspace: bool = False
) -> tuple[Source, ...]:
    """Every way to compute a kernel with a contraction, the one that promises most first.

    All give the same integers. Sums of floats are in FLOAT32, in an order that depends on the choice but never on the run.
    Every pointer that a source is called with is aligned to 16 bytes.

    Args:
        kernel: what is computed.
        facts: where.
        relaxed: whether factors of FLOAT32 may be rounded to the precision of FLOAT16.
        has_workspace: whether the caller gives a source the workspace that it asks for.

    Returns:
        Nothing for a kernel without a contraction, and where there is only the generic kernel of `render`.
    """
    if isinstance(kernel.contraction, DepthwiseConvolution):
        return tuple(depthwise.candidates(kernel, kernel.contraction, facts))
    product = product_of(kernel)
    if product is None:
        return ()
    return (
        *vector.candidates(kernel, product, facts),
        *tensor_core.candidates(kernel, product, facts, relaxed=relaxed, has_workspace=has_workspace),
        *cpu_tile.candidates(kernel, product, facts),
        *tile.candidates(kernel, product, facts, has_workspace=has_workspace),
    )
