"""Computes neighbouring columns of a convolution with few channels as its channels.

Vectors hold the channels of a position, so that most of their lanes compute nothing if there are
few. A convolution whose window covers those of n neighbouring columns, and moves by n columns,
computes the results of these columns as channels. They are in memory as before. Its weights are 0
where a column's window does not reach. For windows of k columns there are k + n - 1 products for n
results, instead of k for each.
"""

import numpy as np

from neurald.drivers.compiler.ir.expression import Expression, Load, axis, load
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.kernel_rewriting import rewrite_kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace

#: Largest share of the products that may be left, and largest size of weights for a vector.
_MAX_SHARE, _MAX_PANEL_BYTES = 0.75, 1 << 16


def joined_columns(kernel: Kernel, node: Convolution, lanes: int) -> Kernel | None:
    """Returns a kernel that computes columns as channels; None if it is not faster.

    Args:
        kernel: the kernel.
        node: its convolution.
        lanes: number of channels in a vector.
    """
    *outer, width, channels = node.output.shape
    constant = node.weights.constant
    if constant is None or node.groups > 1 or kernel.output_offset is not None or kernel.limit is not None:
        return None
    if node.dilation[1] > 1 or 2 * channels > lanes or has_extents(node.output.shape + node.input.shape):
        return None
    count = _count(node, lanes)
    if count is None:
        return None
    weights = _weights(constant, count, node.stride[1], node.weights_zero)
    output = Value((*outer, width // count, count * channels), node.output.type, name=node.output.name)
    convolution = replace(
        node,
        output=output,
        weights=Value(weights.shape, node.weights.type, weights, node.weights.name),
        stride=(node.stride[0], node.stride[1] * count),
    )
    column, channel = axis(output.shape[-2]), axis(output.shape[-1])
    mapping: dict[Expression, Expression] = {
        kernel.axes[-2]: column * count + channel // channels,
        kernel.axes[-1]: channel % channels,
    }

    def replaced(expression: Expression) -> Expression | None:
        if isinstance(expression, Load) and expression.index == kernel.axes[-1:]:
            # Constants of channels stay such.
            known = expression.value.constant
            if known is not None and expression.guard is None:
                repeated = np.tile(known, count)
                return load(Value(repeated.shape, expression.type, repeated), (channel,))
        return mapping.get(expression)

    changed = rewrite_kernel(kernel, replaced, (*kernel.axes[:-2], column, channel))
    return replace(changed, contraction=convolution)


def _count(node: Convolution, lanes: int) -> int | None:
    """Returns how many columns are joined; None if that does not spare enough products."""
    (height, taps), stride = node.kernel, node.stride[1]
    width, channels, depth = node.output.shape[-2], node.output.shape[-1], node.weights.shape[-1]
    best: int | None = None
    least = _MAX_SHARE * taps
    for count in range(2, lanes // channels + 1):
        covered = taps + (count - 1) * stride
        size = height * covered * depth * lanes
        if width % count == 0 and covered / count <= least and size <= _MAX_PANEL_BYTES:
            best, least = count, covered / count
    return best


def _weights(known: np.ndarray, count: int, stride: int, zero: int) -> np.ndarray:
    """Returns the weights of columns as channels; `zero` stands for no weight."""
    channels, height, taps, depth = known.shape
    shape = count, channels, height, taps + (count - 1) * stride, depth
    weights = np.full(shape, zero, known.dtype)
    for number, each in enumerate(weights):
        each[:, :, number * stride : number * stride + taps] = known
    return weights.reshape(-1, *shape[2:])
