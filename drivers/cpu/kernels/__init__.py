"""Fast kernels for contractions. Those that none of them fits are folded like anything else, see `render`."""

from neurald.drivers.compiler.graph import Convolution, DepthwiseConvolution
from neurald.drivers.compiler.kernel import Kernel
from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.cpu.kernels import convolution, depthwise, matrix_product, weighted
from neurald.drivers.cpu.kernels.int8 import int8_routine
from neurald.drivers.cpu.routine import Routine
from neurald.drivers.cpu.target import Target


def routine_for(kernel: Kernel, target: Target) -> Routine | None:
    """The fastest routine for a kernel with a contraction; None where there is only that of `render`."""
    node = kernel.contraction
    if node is None or not node.output.count:
        return None
    if node.output.type is not Scalar.FLOAT32:
        return int8_routine(kernel, target)
    if isinstance(node, DepthwiseConvolution):
        return depthwise.routine(kernel, node, target)
    product = (
        convolution.product_of(node) if isinstance(node, Convolution) else matrix_product.product_of(node)
    )
    return weighted.routine(kernel, product, target) if product.terms else None
