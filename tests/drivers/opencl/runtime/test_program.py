"""Programs are built, saved and loaded, and damage is detected before a runtime sees it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.models.chains import unary_chain
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.errors import DeviceState
from neurald.drivers.opencl.runtime.launcher import CommandList, Launch
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.runtime.staging import BufferRange, Staging
from neurald.hal.errors import DeadObject, OpFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.records import replace

SOURCE = """
kernel void twice(global float* a) { a[get_global_id(0)] *= 2; }
kernel void add(global float* a) { a[get_global_id(0)] += AMOUNT; }
"""


def results(opencl: DeviceContext, program: BuiltProgram) -> list[float]:
    """Returns the results of both kernels for 0, 1, 2 and 3."""
    import pyopencl as cl

    values = np.arange(4, dtype=np.float32)
    buffer = cl.Buffer(opencl.context, cl.mem_flags.READ_WRITE, values.nbytes)
    launches = []
    for name in ("twice", "add"):
        launches.append(Launch(kernel=program.kernel(name, (buffer,)), name=name, groups=2, local_size=2))
    region = [BufferRange(buffer=buffer, size_bytes=values.nbytes)]
    queue = opencl.queue()
    with Staging(opencl, queue, region, region) as staging:
        staging.set_input(0, values.ctypes.data)
        staging.set_output(0, values.ctypes.data)
        CommandList(opencl, [*staging.writes, *launches, *staging.reads]).run(queue)
        staging.complete()
    return [float(value) for value in values]


def test_a_program_is_built_saved_and_loaded(opencl: DeviceContext) -> None:
    program = BuiltProgram.from_source(opencl, SOURCE, ["-DAMOUNT=3"])
    assert results(opencl, program) == [3, 5, 7, 9]
    assert results(opencl, BuiltProgram.from_binary(opencl, program.binary)) == [3, 5, 7, 9]


def test_build_errors(opencl: DeviceContext) -> None:
    with pytest.raises(OpFailed, match=r"CL_BUILD_PROGRAM_FAILURE(.|\n)*AMOUNT"):
        BuiltProgram.from_source(opencl, SOURCE)


@sweep("damage", ["empty", "short", "cut", "flipped", "longer"])
def test_a_damaged_binary_is_refused(opencl: DeviceContext, damage: str) -> None:
    program = BuiltProgram.from_source(opencl, SOURCE, ["-DAMOUNT=3"])
    results(opencl, program)
    binary = program.binary
    flipped = bytearray(binary)
    flipped[len(binary) // 2] ^= 1
    damaged = {
        "empty": b"",
        "short": binary[:32],
        "cut": binary[:-1],
        "flipped": bytes(flipped),
        "longer": binary + b"\0",
    }[damage]
    with pytest.raises(OpFailed, match="damaged"):
        BuiltProgram.from_binary(opencl, damaged)


def test_a_binary_of_another_driver_is_refused(opencl: DeviceContext) -> None:
    program = BuiltProgram.from_source(opencl, SOURCE, ["-DAMOUNT=3"])
    results(opencl, program)
    newer = DeviceContext(replace(opencl.facts, driver_version="another one"))
    with pytest.raises(OpFailed, match="built for another device"):
        BuiltProgram.from_binary(newer, program.binary)


def test_a_lost_device_builds_nothing(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    state = DeviceState("Test")
    state.error(-2, "testing")
    monkeypatch.setattr(opencl, "state", state)
    with pytest.raises(DeadObject):
        BuiltProgram.from_source(opencl, SOURCE)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the sources that OpenCL has built."""
    import pyopencl as cl

    from neurald.drivers.opencl.runtime import program as module

    found: list[str] = []
    built = module._built

    def recorded(device: DeviceContext, program: cl.Program, options: Sequence[str]) -> cl.Program:
        # What is loaded from a binary has no source.
        source = vars(program).get("_source")
        if source is not None:
            found.append(str(source))
        return built(device, program, options)

    monkeypatch.setattr(module, "_built", recorded)
    return found


def test_a_source_is_built_once_for_each_set_of_options(opencl: DeviceContext, builds: list[str]) -> None:
    device = DeviceContext(opencl.facts)
    first = BuiltProgram.from_source(device, SOURCE, ["-DAMOUNT=3"])
    again = BuiltProgram.from_source(device, SOURCE, ["-DAMOUNT=3"])
    assert len(builds) == 1
    assert again.kernel("twice", ()).int_ptr != first.kernel("twice", ()).int_ptr
    BuiltProgram.from_source(device, SOURCE, ["-DAMOUNT=4"])
    BuiltProgram.from_source(device, SOURCE + "\n", ["-DAMOUNT=4"])
    BuiltProgram.from_source(DeviceContext(opencl.facts), SOURCE, ["-DAMOUNT=4"])
    assert len(builds) == 4


def test_a_kernel_is_built_once_for_all_models(
    opencl: DeviceContext, builds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NEURALD_OPENCL_TUNING", "fast")
    capabilities = CpuDevice().capabilities()
    monkeypatch.setattr("neurald.drivers.opencl.device.calibrated", lambda _: capabilities)
    device = OpenClDevice(opencl.facts, is_fused=False)
    given = np.linspace(-2, 2, 24, dtype=np.float32).reshape(1, 24)

    def compiled(on: OpenClDevice, *kinds: OperationType) -> nd.Compilation:
        builder = nd.CompilationBuilder(unary_chain(*kinds, shape=(1, 24)), [on])
        builder.set_caching(tmp_path, bytes(32))
        return builder.finish()

    def kernels() -> int:
        return sum(text.count("__kernel ") for text in builds)

    tanh, relu, logistic = OperationType.TANH, OperationType.RELU, OperationType.LOGISTIC
    compiled(device, tanh, relu)
    assert (len(builds), kernels()) == (1, 2)
    # Another model with one kernel more, of which only that one is built.
    both = compiled(device, tanh, relu, logistic)
    assert (len(builds), kernels()) == (2, 3)
    # And one of known kernels alone.
    compiled(device, relu)
    swapped = compiled(device, tanh, relu)
    assert len(builds) <= 3
    expected = 1 / (1 + np.exp(-np.maximum(np.tanh(given), 0)))
    np.testing.assert_allclose(both.run(given)[0], expected, rtol=1e-5)
    np.testing.assert_allclose(swapped.run(given)[0], np.maximum(np.tanh(given), 0), rtol=1e-5)
    # What comes from parts of several programs is whole in the cache.
    warm = compiled(OpenClDevice(opencl.facts, is_fused=False), tanh, relu, logistic)
    assert warm.report.steps[0].cache.value == "hit", [each.report.steps[0].reason for each in (both, warm)]
    np.testing.assert_array_equal(warm.run(given)[0], both.run(given)[0])
