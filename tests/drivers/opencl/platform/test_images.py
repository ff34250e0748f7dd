"""Images over buffers of a real device: which are supported, and that they show what earlier
kernels wrote.
"""

import numpy as np
import pyopencl as cl
import pytest

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.dialect import texel_text, texel_vector
from neurald.drivers.opencl.platform import images as images_module
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.images import image_over, images_of
from neurald.drivers.opencl.platform.storage import ImageSupport, Storage
from neurald.hal.records import replace

#: What OpenCL asks of every device that has images.
TYPES = frozenset(
    (
        Scalar.INT8,
        Scalar.UINT8,
        Scalar.INT16,
        Scalar.UINT16,
        Scalar.INT32,
        Scalar.UINT32,
        Scalar.FLOAT16,
        Scalar.FLOAT32,
    )
)
OFFSET, COUNT = 4096, 256


@pytest.fixture(scope="module")
def images(opencl: DeviceContext) -> ImageSupport:
    if not opencl.facts.max_image_texels:
        pytest.skip(f"{opencl.facts.name} has no images of buffers")
    found = images_of(opencl.context, replace(opencl.facts, storage=Storage.IMAGE))
    if found is None:
        pytest.skip(f"the kernels of {opencl.facts.name} cannot read images of buffers")
    return found


def test_a_device_has_images_of_all_types(images: ImageSupport, opencl: DeviceContext) -> None:
    assert images.types == TYPES
    assert images.max_texels == opencl.facts.max_image_texels >= 1 << 16
    assert images.max_arguments >= 8
    assert images.alignment_bytes == opencl.facts.alignment_bytes


def test_images_of_open_devices(opencl: DeviceContext, images: ImageSupport) -> None:
    assert DeviceContext(replace(opencl.facts, storage=Storage.IMAGE)).facts.images == images
    assert DeviceContext(replace(opencl.facts, storage=Storage.BUFFER)).facts.images is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"has_images": False}, "it does not support images"),
        ({"max_image_texels": 0}, "it does not support images over buffers"),
    ],
)
def test_the_reason_for_buffers_is_logged(
    changes: dict[str, int], reason: str, opencl: DeviceContext, caplog: pytest.LogCaptureFixture
) -> None:
    facts = replace(opencl.facts, storage=Storage.IMAGE, **changes)
    with caplog.at_level("INFO"):
        assert images_of(opencl.context, facts) is None
    assert caplog.messages == [f"{facts.name}: kernels read buffers instead of images: {reason}"]


def test_devices_without_image_types(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cl, "get_supported_image_formats", lambda *_: [])
    with caplog.at_level("INFO"):
        assert images_of(opencl.context, replace(opencl.facts, storage=Storage.IMAGE)) is None
    assert "for no element type" in caplog.text


@pytest.mark.parametrize(
    ("right", "wrong"), [(".x", ".y"), ("READ(image", "no_function(image")], ids=["wrong", "fails"]
)
def test_devices_whose_kernels_cannot_read_images(
    right: str,
    wrong: str,
    opencl: DeviceContext,
    images: ImageSupport,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(images_module, "_CHECK", images_module._CHECK.replace(right, wrong))
    with caplog.at_level("INFO"):
        assert images_of(opencl.context, replace(opencl.facts, storage=Storage.IMAGE)) is None
    assert "its kernels cannot read images over buffers" in caplog.text


@pytest.mark.parametrize("kind", sorted(TYPES, key=str), ids=lambda kind: kind.name)
def test_images_show_what_an_earlier_kernel_wrote(
    kind: Scalar, images: ImageSupport, opencl: DeviceContext
) -> None:
    """All values, including infinities and NaN; devices may flush subnormal FLOAT32 to zero."""
    vector = texel_vector(kind)
    element = vector.removesuffix("4")
    text = f"""
kernel void copy(global uchar *arena) {{
  const int at = get_global_id(0);
  arena[{OFFSET} + at] = arena[at];
}}
kernel void widen(read_only image1d_buffer_t image, const int first, global {element} *result) {{
  const int at = get_global_id(0);
  vstore4({texel_text("image", "first + at", kind)}, at, result);
}}
"""
    program = cl.Program(opencl.context, text).build()
    queue = opencl.queue()
    size_bytes = COUNT * kind.size_bytes
    bits = np.random.default_rng(0).integers(0, 256, size_bytes).astype(np.uint8)
    arena = cl.Buffer(opencl.context, cl.mem_flags.READ_WRITE, 2 * OFFSET)
    result = np.empty(COUNT, np.dtype({"float": "f4", "int": "i4", "uint": "u4"}[element]))
    output = cl.Buffer(opencl.context, cl.mem_flags.WRITE_ONLY, result.nbytes)
    part = images.range_of(OFFSET, size_bytes, arena.size, kind)
    image = image_over(opencl.context, arena, part, kind, supports_sub_buffers=images.supports_sub_buffers)
    cl.enqueue_copy(queue, arena, bits)
    copy, widen = cl.Kernel(program, "copy"), cl.Kernel(program, "widen")
    copy(queue, (size_bytes,), None, arena)
    widen(queue, (COUNT // 4,), None, image, np.int32(part.first), output)
    cl.enqueue_copy(queue, result, output)
    expected = bits.view(kind.dtype).astype(result.dtype)
    if kind is Scalar.FLOAT32:
        for array in (expected, result):
            array[np.abs(array) < np.finfo(np.float32).tiny] = 0
    np.testing.assert_array_equal(result, expected)
