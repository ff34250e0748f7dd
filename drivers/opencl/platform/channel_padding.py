"""Pads images with few channels, such that rows of windows are whole vectors.

Tensor cores multiply matrices that are copied 16 bytes at a time. A window over an image with three
channels has no such vectors, and gathering it element by element takes several times longer than
multiplying it. A padded copy of the image, with four or eight channels and borders, has them: where
there is no padding along a line, a row of a window is contiguous. Its window may have to be longer;
weights of what is added are zero.
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
        if isinstance(node, Convolution) and _is_suitable(node):
            nodes += _padded(node)
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


def _padded(node: Convolution) -> tuple[Compute, Convolution]:
    images, height, width, channels = node.input.shape
    rows, columns = node.output.shape[1:3]
    taps_y, taps_x = node.kernel
    stride_y, stride_x = node.stride
    top, left = (before for before, _ in node.padding)
    vector = _VECTOR_BYTES // node.input.type.size_bytes
    deep = next(each for each in (4, 8, 16) if each * stride_x % vector == 0 or each == vector)
    wide = next(each for each in count(taps_x) if each * deep % vector == 0)
    high = (rows - 1) * stride_y + taps_y
    long = next(each for each in count((columns - 1) * stride_x + wide) if each * deep % vector == 0)
    image = Value((images, high, long, deep), node.input.type, name=node.input.name)
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
