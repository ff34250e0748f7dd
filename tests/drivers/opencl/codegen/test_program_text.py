"""Programs contain each function once, and a kernel for each combination of buffers."""

import pytest

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.program_text import function_text, kernel_name, program_text
from neurald.hal.records import replace

pytestmark = pytest.mark.quick

OUTPUT, INPUT = Value((4,), Scalar.FLOAT32), Value((4,), Scalar.INT8)
ARENA, CONSTANTS = Base.ARENA, Base.CONSTANTS


def source(body: str = "a0[0] = a1[0];", scratch_bytes: int = 0, workspace_bytes: int = 0) -> Source:
    text = f"static void {NAME}(...) {{ {body} }}\n"
    return Source(
        code=LazyCode.of(text),
        arguments=(OUTPUT, INPUT),
        groups=2,
        local_size=64,
        scratch_bytes=scratch_bytes,
        workspace_bytes=workspace_bytes,
    )


def test_names_are_derived_from_the_text() -> None:
    assert source().name == source().name
    assert source().name != source("a0[0] = 1;").name
    assert source().name.isidentifier()
    assert NAME not in function_text(source())
    assert kernel_name(source(), (ARENA, CONSTANTS)) == f"run_{source().name}_ac"


def test_functions_and_kernels_are_not_repeated() -> None:
    uses = [
        (source(), (ARENA, ARENA)),
        (source(), (ARENA, CONSTANTS)),
        (source(), (ARENA, ARENA)),
    ]
    text = program_text(uses, has_fp64=False)
    assert text.count("static void k") == 1
    assert text.count("__kernel") == 2
    assert "(__global float *)(arena + o0)" in text
    assert "(__global const char *)(constants + o1)" in text
    assert "FP64 1" not in text
    assert "FP64 1" in program_text(uses, has_fp64=True)


def test_layers_that_differ_in_numbers_share_a_kernel() -> None:
    first, second = (replace(source(), code=LazyCode.of(source().text, (number, 3))) for number in (1, 2))
    assert first != second
    text = program_text([(first, (ARENA, ARENA)), (second, (ARENA, ARENA))], has_fp64=False)
    assert text.count("static void k") == text.count("__kernel") == 1
    assert "const ulong o1, const int number0, const int number1) {" in text
    assert "(__global int *)(arena + status), number0, number1);" in text


def test_order_and_repetition_of_uses_affect_only_the_order() -> None:
    one, other = (source(), (ARENA, ARENA)), (source("a0[0] = neurald_sign(a1[0]);"), (ARENA, ARENA))
    first, second = (program_text(uses, has_fp64=False) for uses in ([one, other], [other, one, other]))
    assert sorted(first.splitlines()) == sorted(second.splitlines())
    assert "inline float neurald_sign(float" in first


def test_images_are_arguments_whatever_their_buffer() -> None:
    found = replace(source(), images=(1,))
    assert (
        kernel_name(found, (ARENA, CONSTANTS)) == kernel_name(found, (ARENA, ARENA)) == f"run_{found.name}_ai"
    )
    text = program_text([(found, (ARENA, CONSTANTS)), (found, (ARENA, ARENA))], has_fp64=False)
    assert text.count("__kernel") == 1
    assert "const ulong o0, read_only image1d_buffer_t i1, const int o1) {" in text
    assert "scratch, (__global float *)(arena + o0), i1, o1, (__global int *)(arena + status));" in text


def test_local_memory_and_workspaces() -> None:
    text = program_text([(source(scratch_bytes=100, workspace_bytes=32), (ARENA, ARENA))], has_fp64=False)
    assert "uchar scratch[100] __attribute__((aligned(16)))" in text
    assert ", arena + workspace, (__global int *)(arena + status));" in text
    assert "arena + workspace" not in program_text([(source(), (ARENA, ARENA))], has_fp64=False)
    assert "reqd_work_group_size(64, 1, 1)" in text
