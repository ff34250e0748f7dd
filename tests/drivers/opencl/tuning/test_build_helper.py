"""Programs that other processes build."""

import os
from itertools import product
from pathlib import Path

import pytest
from support.opencl.trials import as_gpu, ends, good, slowed

from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.opencl.codegen.program_text import KernelTexts, kernel_name
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.program import BuiltProgram, missing_kernels
from neurald.drivers.opencl.tuning import build_helper, helper_processes
from neurald.drivers.opencl.tuning.build_helper import build_in_helper, build_kernels
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses

GOOD = "kernel void twice(global float* a) { a[get_global_id(0)] *= 2; }\n"
BROKEN = "kernel void twice(global float* a) {\n"


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[WorkerProcess]:
    """Records the processes that are started, even for little work, on two cores."""
    found: list[WorkerProcess] = []

    def start(script: Path, about: dict[str, object]) -> WorkerProcess:
        found.append(WorkerProcess(script, about))
        return found[-1]

    monkeypatch.setattr(helper_processes, "WorkerProcess", start)
    monkeypatch.setattr(build_helper, "_MIN_WORK_BYTES", 1)
    monkeypatch.setattr(build_helper, "_MIN_PART_BYTES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    return found


def test_a_helper_builds(
    opencl: DeviceContext, processes: list[WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = as_gpu(opencl)
    monkeypatch.setattr(BuiltProgram, "from_source", None)
    with build_in_helper(device, GOOD, HelperProcesses(device.facts)) as finish:
        assert not processes[0].has_ended
        program = finish()
    assert program.kernel("twice", ()).int_ptr
    assert ends(processes[0])


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
        monkeypatch.setattr(helper_processes, "_WORKER", worker)
        with build_in_helper(device, GOOD, HelperProcesses(device.facts)) as finish:
            assert finish().kernel("twice", ()).int_ptr
    else:
        with (
            pytest.raises(Exception, match="CL_BUILD_PROGRAM_FAILURE"),
            build_in_helper(device, BROKEN, HelperProcesses(device.facts)) as finish,
        ):
            finish()
    assert ends(processes[0])


def test_an_abandoned_helper_ends(opencl: DeviceContext, processes: list[WorkerProcess]) -> None:
    device = as_gpu(opencl)
    with pytest.raises(KeyboardInterrupt), build_in_helper(device, GOOD, HelperProcesses(device.facts)):
        raise KeyboardInterrupt
    assert ends(processes[0])


def test_small_programs_are_built_in_this_process(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper_processes, "WorkerProcess", None)
    device = as_gpu(opencl)
    with build_in_helper(device, GOOD, HelperProcesses(device.facts)) as finish:
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


def test_processes_that_start_ahead(opencl: DeviceContext, processes: list[WorkerProcess]) -> None:
    """Large models get them, kernels are built in them, and those that nothing needs end."""
    device = as_gpu(opencl)
    HelperProcesses(device.facts, 1).close()
    assert not processes
    ready = HelperProcesses(device.facts, 100)
    assert len(processes) == 1
    uses = tuple((slowed(10 + number), (Base.ARENA,) * len(good().arguments)) for number in range(4))
    build_kernels(device, KernelTexts(uses=uses, has_fp64=False), ready)
    ready.close()
    assert len(processes) == 1
    unused = HelperProcesses(device.facts, 100)
    unused.close()
    assert len(processes) == 2
    assert all(map(ends, processes))


def test_functions_of_several_kernels_count_once(
    opencl: DeviceContext, processes: list[WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels with the same text are one function, so that parts are about equally long."""
    monkeypatch.setattr(build_helper, "_MIN_PART_BYTES", 2 * len(good().text))
    uses = tuple((good(), bases) for bases in product((Base.ARENA, Base.CONSTANTS), repeat=2))
    padded = tuple((source, (*bases, *(Base.ARENA,) * (len(source.arguments) - 2))) for source, bases in uses)
    build_kernels(as_gpu(opencl), KernelTexts(uses=padded, has_fp64=False))
    assert not processes
