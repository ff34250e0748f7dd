"""Pads images with few channels, such that rows of windows are whole vectors.

Tensor cores multiply matrices that are copied 16 bytes at a time. A window over an image with three
channels has no such vectors, and gathering it element by element takes several times longer than
multiplying it. A padded copy of the image, with borders and with four, eight or sixteen channels,
has them: where there is no padding along a line, a row of a window is contiguous. Windows of the
copy may have to be longer than those of the image; the weights of the elements that are added are
zero.
"""

import math
from itertools import count

import numpy as np

from neurald.drivers.compiler.ir.expression import axis, load
from neurald.drivers.compiler.ir.graph import Compute, Convolution, Graph, Node, inside
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.records import replace

#: Images with more channels are copied as vectors where that is possible.
_MAX_CHANNELS = 4
#: Smaller outputs are not worth a kernel that pads.
_MIN_ELEMENTS = 1 << 22
#: Smaller windows are gathered about as fast as they are multiplied.
_MIN_TAPS = 16
#: Limit on the elements of a copy, that of `gemm_view`: a convolution of a larger one would be a
#: generic kernel, whose indices have 32 bits, too.
_MAX_COPIED = ((1 << 31) - 1) // 8
#: Bytes of a vector.
_VECTOR_BYTES = 16
#: The first compute capability whose tensor cores are used with such copies.
_CAPABILITY = (8, 0)
_TYPES = (Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT8, Scalar.UINT8)


def pad_channels(graph: Graph, facts: DeviceFacts) -> None:
    """Pads the images of large convolutions, on devices that copy vectors to tensor cores.

    Args:
        graph: modified in place.
        facts: the device.
    """
    if not facts.has_nvidia_capability(_CAPABILITY):
        return
    nodes: list[Node] = []
    for node in graph.nodes:
        image = _padded_image(node) if isinstance(node, Convolution) and _is_suitable(node) else None
        if isinstance(node, Convolution) and image is not None and _fits(image, facts):
            nodes += _padded(node, image)
        else:
            nodes.append(node)
    graph.nodes = nodes


def _is_suitable(node: Convolution) -> bool:
    return (
        node.groups == 1
        and node.dilation == (1, 1)
        and node.weights.constant is not None
        and node.input.type in _TYPES
        and node.output.count >= _MIN_ELEMENTS
        and node.input.shape[3] <= _MAX_CHANNELS
        and math.prod(node.kernel) >= _MIN_TAPS
    )


def _fits(image: Value, facts: DeviceFacts) -> bool:
    return image.count <= _MAX_COPIED and image.size_bytes <= facts.max_allocation_bytes


def _padded_image(node: Convolution) -> Value:
    """Returns the copy of an image that `_padded` describes."""
    rows, columns = node.output.shape[1:3]
    stride_y, stride_x = node.stride
    vector = _VECTOR_BYTES // node.input.type.size_bytes
    deep = next(each for each in (4, 8, 16) if each * stride_x % vector == 0 or each == vector)
    high = (rows - 1) * stride_y + node.kernel[0]
    wide = _padded_taps(node, deep)
    long = next(each for each in count((columns - 1) * stride_x + wide) if each * deep % vector == 0)
    return Value((node.input.shape[0], high, long, deep), node.input.type, name=node.input.name)


def _padded_taps(node: Convolution, channels: int) -> int:
    """Returns the width of windows whose rows are whole vectors."""
    vector = _VECTOR_BYTES // node.input.type.size_bytes
    return next(each for each in count(node.kernel[1]) if each * channels % vector == 0)


def _padded(node: Convolution, image: Value) -> tuple[Compute, Convolution]:
    """Returns the node that copies an image, and the convolution of the copy."""
    _, height, width, channels = node.input.shape
    taps_y, taps_x = node.kernel
    top, left = (before for before, _ in node.padding)
    deep = image.shape[3]
    wide = _padded_taps(node, deep)
    axes = tuple(axis(length, f"i{number}") for number, length in enumerate(image.shape))
    place = (axes[0], axes[1] - top, axes[2] - left, axes[3])
    guard = inside(place[1:], (height, width, channels))
    zero = 0.0 if node.input.type.is_float else node.input_zero
    copying = Compute(output=image, axes=axes, body=load(node.input, place, guard, zero))
    assert node.weights.constant is not None  # noqa: S101 - `_is_suitable` has checked this
    weights = np.full(
        (node.weights.shape[0], taps_y, wide, deep), node.weights_zero, node.weights.constant.dtype
    )
    weights[:, :, :taps_x, :channels] = node.weights.constant
    return copying, replace(
        node,
        input=image,
        weights=Value(weights.shape, node.weights.type, weights, node.weights.name),
        padding=((0, 0), (0, 0)),
    )
