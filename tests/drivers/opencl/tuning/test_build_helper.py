"""Helper processes: their number, and a program that one of them builds."""

import os
from pathlib import Path

import pytest
from support.opencl.trials import as_gpu, good, slowed

from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.opencl.codegen.program_text import KernelTexts, kernel_name
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.program import BuiltProgram, missing_kernels
from neurald.drivers.opencl.tuning import build_helper
from neurald.drivers.opencl.tuning.build_helper import build_in_helper, build_kernels, process_count
from neurald.hal.records import replace

GOOD = "kernel void twice(global float* a) { a[get_global_id(0)] *= 2; }\n"
BROKEN = "kernel void twice(global float* a) {\n"


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[WorkerProcess]:
    """Records the processes that are started, even for little work, on two cores."""
    found: list[WorkerProcess] = []

    def start(script: Path, about: dict[str, object]) -> WorkerProcess:
        found.append(WorkerProcess(script, about))
        return found[-1]

    monkeypatch.setattr(build_helper, "WorkerProcess", start)
    monkeypatch.setattr(build_helper, "_MIN_WORK_BYTES", 1)
    monkeypatch.setattr(build_helper, "_MIN_PART_BYTES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    return found


def test_process_count(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(facts: DeviceFacts, cores: int) -> int:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
        return process_count(facts)

    facts = replace(opencl.facts, kind=DeviceKind.GPU, global_memory_bytes=16 << 30)
    assert [count(facts, cores) for cores in (1, 2, 16)] == [1, 2, 8]
    assert count(replace(facts, global_memory_bytes=3 << 30), 16) == 3
    assert count(replace(facts, global_memory_bytes=1 << 29), 16) == 1
    assert count(replace(facts, kind=DeviceKind.CPU), 16) == 1


def test_a_helper_builds(
    opencl: DeviceContext, processes: list[WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = as_gpu(opencl)
    monkeypatch.setattr(BuiltProgram, "from_source", None)
    with build_in_helper(device, GOOD) as finish:
        assert not processes[0].has_ended
        program = finish()
    assert program.kernel("twice", ()).int_ptr
    assert processes[0].has_ended


@pytest.mark.parametrize("failure", ["does not build", "ends", "says nonsense", "gives damaged bytes"])
def test_failures_of_a_helper(
    opencl: DeviceContext,
    processes: list[WorkerProcess],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    failure: str,
) -> None:
    device = as_gpu(opencl)
    # What an array of "", damaged bytes and no times is in msgpack.
    answer = b"\x93\xa0\xc4\x04abcd\x90" if failure == "gives damaged bytes" else b"nonsense"
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import struct, sys\n"
        "sys.stdin.buffer.read(8)\n"
        f"sys.stdout.buffer.write(struct.pack('<Q', {len(answer)}) + {answer!r} if {failure != 'ends'} else b'')\n"
    )
    if failure != "does not build":
        monkeypatch.setattr(build_helper, "_WORKER", worker)
        with build_in_helper(device, GOOD) as finish:
            assert finish().kernel("twice", ()).int_ptr
    else:
        with (
            pytest.raises(Exception, match="CL_BUILD_PROGRAM_FAILURE"),
            build_in_helper(device, BROKEN) as finish,
        ):
            finish()
    assert processes[0].has_ended


def test_an_abandoned_helper_ends(opencl: DeviceContext, processes: list[WorkerProcess]) -> None:
    with pytest.raises(KeyboardInterrupt), build_in_helper(as_gpu(opencl), GOOD):
        raise KeyboardInterrupt
    assert processes[0].has_ended


def test_small_programs_are_built_in_this_process(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_helper, "WorkerProcess", None)
    with build_in_helper(as_gpu(opencl), GOOD) as finish:
        assert finish().kernel("twice", ()).int_ptr


def test_kernels_of_a_step_are_built_in_parts(
    opencl: DeviceContext, processes: list[WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those that are missing, one part of them here."""
    # Parts are built in processes although one would not pay for a program of their size.
    monkeypatch.setattr(build_helper, "_MIN_WORK_BYTES", 1 << 30)
    device = as_gpu(opencl)
    uses = tuple((slowed(number), (Base.ARENA,) * len(good().arguments)) for number in range(4))
    kernels = KernelTexts(uses=uses, has_fp64=False)
    built: list[str] = []
    from_source = BuiltProgram.from_source

    def recorded(device: DeviceContext, text: str) -> BuiltProgram:
        built.append(text)
        return from_source(device, text)

    monkeypatch.setattr(BuiltProgram, "from_source", recorded)
    program = build_kernels(device, kernels)
    assert len(processes) == len(built) == 1, "two cores build two parts"
    names = [kernel_name(*use) for use in uses]
    for name in names:
        assert program.kernel(name, ()).int_ptr
    assert sum(name in built[0] for name in names) == 2
    assert not missing_kernels(device, kernels)
    assert build_kernels(device, kernels).kernel(names[0], ()).int_ptr
    assert len(processes) == len(built) == 1
