"""Arguments as text: their declarations, and the accesses to them."""

from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArgument, KernelArguments, as_images
from neurald.drivers.opencl.platform.storage import ImageSupport

OUTPUT, INPUT, WEIGHTS = (
    Value((8,), Scalar.FLOAT32),
    Value((8,), Scalar.FLOAT16),
    Value((8,), Scalar.INT8),
)


def test_pointers_and_images_of_a_function() -> None:
    arguments = KernelArguments((OUTPUT, INPUT, WEIGHTS), frozenset((OUTPUT, WEIGHTS)))
    assert arguments.image_positions == (2,), "what is written is a buffer"
    assert arguments.pointers == (
        "__global float *restrict a0, __global const half *restrict a1, "
        "read_only image1d_buffer_t a2, const int s2, __global int *status"
    )
    assert (
        arguments.parameters
        == f"const int group, const int lid, __local uchar *scratch, {arguments.pointers}"
    )
    assert arguments.call_arguments == "a0, a1, a2, s2, status"
    assert arguments.by_value[WEIGHTS] == arguments[2] == KernelArgument("a2", Scalar.INT8, "s2")


@sweep(
    ("kind", "pointer", "image"),
    [
        (Scalar.FLOAT32, "*(__global const float4 *)(p + at)", "read_imagef(p, s + ((at) >> 2))"),
        (
            Scalar.FLOAT16,
            "neurald_float4_of_halves(*(__global const uint2 *)(p + at))",
            "read_imagef(p, s + ((at) >> 2))",
        ),
        (Scalar.INT8, "*(__global const char4 *)(p + at)", "read_imagei(p, s + ((at) >> 2))"),
        (Scalar.UINT8, "*(__global const uchar4 *)(p + at)", "read_imageui(p, s + ((at) >> 2))"),
        (Scalar.UINT32, "*(__global const uint4 *)(p + at)", "read_imageui(p, s + ((at) >> 2))"),
    ],
)
def test_four_elements(kind: Scalar, pointer: str, image: str) -> None:
    assert KernelArgument("p", kind).load4("at") == pointer
    assert KernelArgument("p", kind, "s").load4("at") == image


def test_one_element() -> None:
    assert KernelArgument("p", Scalar.INT8).load("at") == "p[at]"
    expected = "neurald_part_int4(read_imagei(p, s + ((at) >> 2)), at)"
    assert KernelArgument("p", Scalar.INT8, "s").load("at") == expected


def test_only_supported_types_are_images() -> None:
    others = [Value((8,), Scalar.FLOAT32) for _ in range(3)]
    allowed = ImageSupport(
        types=frozenset((Scalar.FLOAT32,)),
        max_texels=100,
        max_arguments=2,
        supports_sub_buffers=False,
        alignment_bytes=128,
    )
    assert as_images((OUTPUT, INPUT, WEIGHTS), allowed) == {OUTPUT}
    assert as_images((INPUT, others[0], others[0], *others), allowed) == set(others[:2])
    assert as_images((OUTPUT,), None) == frozenset()
