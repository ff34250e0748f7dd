"""Storage that kernels of a device read from, and the limits on images."""

import pytest
from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.platform.storage import (
    STORAGE_VARIABLE,
    ImageRange,
    ImageSupport,
    Storage,
    storage_of,
)
from neurald.drivers.settings import Settings
from neurald.hal.errors import UnavailableDevice
from neurald.hal.records import replace

pytestmark = pytest.mark.quick

DIVIDED = ImageSupport(
    types=frozenset((Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT8)),
    max_texels=1000,
    max_arguments=8,
    supports_sub_buffers=True,
    alignment_bytes=128,
)
WHOLE = replace(DIVIDED, supports_sub_buffers=False)


def settings(text: str) -> Settings:
    return Settings(STORAGE_VARIABLE, environment={STORAGE_VARIABLE: text})


@sweep(
    ("name", "vendor", "is_gpu", "expected"),
    [
        ("QUALCOMM Adreno(TM) 740", "QUALCOMM", True, Storage.IMAGE),
        ("Mali-G78", "ARM", True, Storage.IMAGE),
        ("PowerVR B-Series BXM-8-256", "Imagination Technologies", True, Storage.IMAGE),
        ("Intel(R) UHD Graphics 770", "Intel(R) Corporation", True, Storage.BUFFER),
        ("gfx1100", "Advanced Micro Devices, Inc.", True, Storage.BUFFER),
        ("NVIDIA H200", "NVIDIA Corporation", True, Storage.BUFFER),
        ("cpu-cortex-a76", "ARM", False, Storage.BUFFER),
        ("pthread-snapdragon", "Qualcomm", False, Storage.BUFFER),
    ],
)
def test_default_storage_of_devices(name: str, vendor: str, is_gpu: bool, expected: Storage) -> None:
    assert storage_of(name, vendor, settings(""), is_gpu=is_gpu) is expected
    for forced in Storage:
        assert storage_of(name, vendor, settings(forced.value), is_gpu=is_gpu) is forced


def test_an_unknown_storage_is_refused() -> None:
    with pytest.raises(UnavailableDevice, match="'texture'; buffer or image is expected"):
        storage_of("Mali-G78", "ARM", settings("texture"), is_gpu=True)


@sweep(
    ("value", "reason"),
    [
        (Value((5, 7), Scalar.FLOAT32), ""),
        (Value((5, 7), Scalar.INT64), "images of INT64 are not supported"),
        (Value((0, 7), Scalar.FLOAT32), "it has no elements"),
        # An image of a part begins up to 8 texels before a value of floats, and up to 32 before one
        # of bytes.
        (Value((4 * 992,), Scalar.FLOAT32), ""),
        (Value((4 * 992 + 1,), Scalar.FLOAT32), "an image of 1001 texels exceeds the limit of 1000"),
        (Value((4 * 968,), Scalar.INT8), ""),
        (Value((4 * 968 + 1,), Scalar.INT8), "an image of 1001 texels exceeds the limit of 1000"),
    ],
)
def test_values_that_cannot_be_images(value: Value, reason: str) -> None:
    assert DIVIDED.unsupported_reason(value) == reason


def test_buffers_that_cannot_be_images() -> None:
    assert WHOLE.unsupported_reason(Value((4000,), Scalar.FLOAT32)) == ""
    assert WHOLE.unsupported_reason(Value((4001,), Scalar.FLOAT32))
    assert WHOLE.whole_buffer_unsupported_reason(16 * 1000 + 15, Scalar.FLOAT32) == ""
    assert "1001 texels" in WHOLE.whole_buffer_unsupported_reason(16 * 1001, Scalar.FLOAT32)
    assert "the limit of 1000" in WHOLE.whole_buffer_unsupported_reason(16 * 1000, Scalar.FLOAT16)
    assert DIVIDED.whole_buffer_unsupported_reason(1 << 40, Scalar.INT8) == ""


def test_ranges_of_images() -> None:
    size = 4 * 35
    assert DIVIDED.range_of(256, size, 1024, Scalar.FLOAT32) == ImageRange(start=256, texels=9, first=0)
    assert DIVIDED.range_of(256 + 48, size, 1024, Scalar.FLOAT32) == ImageRange(start=256, texels=12, first=3)
    assert WHOLE.range_of(256 + 48, size, 1030, Scalar.FLOAT32) == ImageRange(start=0, texels=64, first=19)
    assert WHOLE.range_of(256 + 48, 35, 1030, Scalar.INT8) == ImageRange(start=0, texels=257, first=76)
