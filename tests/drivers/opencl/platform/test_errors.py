"""OpenCL's error codes become errors, and a lost device stays lost."""

import pytest
from support.sweeps import sweep

from neurald.drivers.opencl.platform import errors
from neurald.drivers.opencl.platform.errors import DeviceState
from neurald.hal.errors import DeadObject, Error, OpFailed, OutOfMemory

pytestmark = pytest.mark.quick


@sweep(
    ("code", "kind", "name"),
    [
        (-1, DeadObject, "CL_DEVICE_NOT_FOUND"),
        (-2, DeadObject, "CL_DEVICE_NOT_AVAILABLE"),
        (-4, OutOfMemory, "CL_MEM_OBJECT_ALLOCATION_FAILURE"),
        (-5, OutOfMemory, "CL_OUT_OF_RESOURCES"),
        (-6, OutOfMemory, "CL_OUT_OF_HOST_MEMORY"),
        (-11, OpFailed, "CL_BUILD_PROGRAM_FAILURE"),
        (-30, OpFailed, "CL_INVALID_VALUE"),
        (-34, DeadObject, "CL_INVALID_CONTEXT"),
        (-36, DeadObject, "CL_INVALID_COMMAND_QUEUE"),
        (-61, OutOfMemory, "CL_INVALID_BUFFER_SIZE"),
        (-9999, DeadObject, "NVIDIA"),
        (-777, OpFailed, "unknown error code (-777)"),
    ],
)
def test_a_code_becomes_an_error_with_its_name(code: int, kind: type[Error], name: str) -> None:
    state = DeviceState("OpenCL device Test")
    error = state.error(code, "trying")
    assert type(error) is kind
    assert name in str(error)
    assert "OpenCL device Test: trying" in str(error)
    assert state.is_lost == (kind is DeadObject)


def test_the_kernel_is_named() -> None:
    state = DeviceState("Test")
    assert "launching of kernel conv_3: CL_INVALID_WORK_GROUP_SIZE (-54)" in str(
        state.error(-54, "launching", kernel="conv_3")
    )


@sweep(
    ("is_nvidia", "kernel", "after_launch", "kind"),
    [
        (True, "", True, DeadObject),
        (True, "conv_3", False, OpFailed),
        (True, "", False, OutOfMemory),
        (False, "", True, OpFailed),
        (False, "conv_3", False, OpFailed),
    ],
)
def test_a_failed_kernel_loses_only_nvidia_devices(
    is_nvidia: bool, kernel: str, after_launch: bool, kind: type[Error]
) -> None:
    state = DeviceState("Test", is_nvidia=is_nvidia)
    assert type(state.error(-5, "running", kernel=kernel, after_launch=after_launch)) is kind


def test_a_lost_device_fails_at_once() -> None:
    pytest.importorskip("pyopencl")
    state = DeviceState("Test")
    state.check()
    state.error(errors.DEVICE_NOT_AVAILABLE, "running kernels")
    state.error(errors.INVALID_CONTEXT, "something later")
    with pytest.raises(DeadObject, match="lost earlier: running kernels: CL_DEVICE_NOT_AVAILABLE"):
        state.check()
    with pytest.raises(DeadObject, match="lost earlier"), state.guard("making a buffer"):
        pytest.fail("nothing is tried any more")


def test_errors_of_pyopencl_are_converted() -> None:
    cl = pytest.importorskip("pyopencl")
    state = DeviceState("Test")
    with pytest.raises(OutOfMemory, match="making a buffer"), state.guard("making a buffer"):
        raise cl.MemoryError(cl._cl._ErrorRecord(msg="none left", code=-4, routine="clCreateBuffer"))
    with pytest.raises(OpFailed, match="pyopencl says this"), state.guard("making a buffer"):
        raise cl.Error("pyopencl says this")
    with pytest.raises(ZeroDivisionError), state.guard("making a buffer"):
        raise ZeroDivisionError


def test_build_logs_are_shortened() -> None:
    log = "\n".join(["warning: harmless", "", "a.cl:3: error: what is wrong", *["more"] * 50])
    error = DeviceState("Test").error(errors.BUILD_PROGRAM_FAILURE, "building a program", detail=log)
    lines = str(error).splitlines()
    assert lines[1].strip() == "a.cl:3: error: what is wrong"
    assert len(lines) < 20
    old = "clang: error: unknown target CPU 'znver9'"
    error = DeviceState("Test").error(errors.BUILD_PROGRAM_FAILURE, "building a program", detail=old)
    assert "too old for this CPU" in str(error)
