"""Creates images over ranges of an open device's buffers, and finds out which are supported."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.storage import TEXEL, ImageRange, ImageSupport, Storage

if TYPE_CHECKING:
    import pyopencl as cl

_LOG = logging.getLogger(__name__)

#: OpenCL's names of the element types.
_CHANNELS = {
    Scalar.INT8: "SIGNED_INT8",
    Scalar.UINT8: "UNSIGNED_INT8",
    Scalar.INT16: "SIGNED_INT16",
    Scalar.UINT16: "UNSIGNED_INT16",
    Scalar.INT32: "SIGNED_INT32",
    Scalar.UINT32: "UNSIGNED_INT32",
    Scalar.FLOAT16: "HALF_FLOAT",
    Scalar.FLOAT32: "FLOAT",
}

#: Kernel that reads texels, and the limit on the numbers in them, which every element type has.
_CHECK = """
__kernel void check(read_only image1d_buffer_t image, const int first, __global int *found) {
  const int at = (int)get_global_id(0);
  found[at] = (int)READ(image, first + at).x;
}
"""
_CHECKED_NUMBERS = 127


def images_of(context: cl.Context, facts: DeviceFacts) -> ImageSupport | None:
    """Returns the images that kernels of a device may read.

    Returns None and logs the reason if there are none.
    """
    import pyopencl as cl

    if facts.storage is Storage.BUFFER:
        return None
    reason = ""
    types: frozenset[Scalar] = frozenset()
    supports_sub_buffers = False
    if not facts.has_images:
        reason = "it does not support images"
    elif not facts.max_image_texels:
        reason = "it does not support images over buffers"
    else:
        try:
            types = _types(context)
        except cl.Error as error:
            reason = str(error)
        reason = reason or ("" if types else "it supports images over buffers for no element type")
        kind = next((each for each in _CHANNELS if each in types), Scalar.FLOAT32)
        supports_sub_buffers = not reason and _are_read(context, facts, kind, in_sub_buffers=True)
        if (
            not reason
            and not supports_sub_buffers
            and not _are_read(context, facts, kind, in_sub_buffers=False)
        ):
            reason = "its kernels cannot read images over buffers"
    if reason:
        _LOG.info("%s: kernels read buffers instead of images: %s", facts.name, reason)
        return None
    return ImageSupport(
        types=types,
        max_texels=facts.max_image_texels,
        max_arguments=context.devices[0].max_read_image_args,
        supports_sub_buffers=supports_sub_buffers,
        alignment_bytes=facts.alignment_bytes,
    )


def image_over(
    context: cl.Context, buffer: cl.Buffer, part: ImageRange, kind: Scalar, *, supports_sub_buffers: bool
) -> cl.Image:
    """Creates an image over a range of a buffer; the image keeps the buffer alive.

    Args:
        context: the buffer's context.
        buffer: the buffer that the image shows.
        part: the range of it.
        kind: the type of the elements.
        supports_sub_buffers: whether the device supports images over sub-buffers; otherwise the
            range starts at the start of the buffer.

    Raises:
        pyopencl.Error: the image cannot be created.
    """
    import pyopencl as cl

    size_bytes = part.texels * TEXEL * kind.size_bytes
    whole = buffer.get_sub_region(part.start, size_bytes) if supports_sub_buffers else buffer
    return cl.create_image(context, cl.mem_flags.READ_ONLY, _format(kind), shape=(part.texels,), buffer=whole)


def _format(kind: Scalar) -> cl.ImageFormat:
    import pyopencl as cl

    return cl.ImageFormat(cl.channel_order.RGBA, getattr(cl.channel_type, _CHANNELS[kind]))


def _types(context: cl.Context) -> frozenset[Scalar]:
    import pyopencl as cl

    found = cl.get_supported_image_formats(context, cl.mem_flags.READ_ONLY, cl.mem_object_type.IMAGE1D_BUFFER)
    known = {(each.channel_order, each.channel_data_type) for each in found}
    formats = {kind: _format(kind) for kind in _CHANNELS}
    return frozenset(
        kind for kind, each in formats.items() if (each.channel_order, each.channel_data_type) in known
    )


def _are_read(context: cl.Context, facts: DeviceFacts, kind: Scalar, *, in_sub_buffers: bool) -> bool:
    """Returns True if kernels read what an image over a part of a buffer shows.

    The OpenCL standard leaves images over sub-buffers optional. They keep images within their limit
    on texels.
    """
    import pyopencl as cl

    size = max(256, facts.alignment_bytes)
    texels = size // (TEXEL * kind.size_bytes)
    numbers = np.arange(2 * texels * TEXEL) % _CHECKED_NUMBERS
    wanted = numbers[texels * TEXEL :: TEXEL]
    start = size if in_sub_buffers else 0
    part = ImageRange(start=start, texels=texels + (size - start) // (TEXEL * kind.size_bytes), first=0)
    function = "read_imagef" if kind.is_float else f"read_image{'ui' if kind.value.startswith('u') else 'i'}"
    result = np.zeros(texels, np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    try:
        buffer = cl.Buffer(context, flags, hostbuf=numbers.astype(kind.dtype))
        output = cl.Buffer(context, flags, hostbuf=result)
        image = image_over(context, buffer, part, kind, supports_sub_buffers=in_sub_buffers)
        program = cl.Program(context, _CHECK.replace("READ", function)).build(list(facts.build_options))
        kernel = cl.Kernel(program, "check")
        kernel.set_args(image, np.int32(part.texels - texels), output)
        queue = cl.CommandQueue(context)
        cl.enqueue_nd_range_kernel(queue, kernel, (texels,), None)
        cl.enqueue_copy(queue, result, output)
    except cl.Error as error:
        _LOG.debug("%s: reading an image failed: %s", facts.name, error)
        return False
    return np.array_equal(result, wanted)
