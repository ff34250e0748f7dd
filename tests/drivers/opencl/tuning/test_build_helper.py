"""Programs that other processes build."""

import os
from pathlib import Path

import pytest
from support.opencl.trials import as_gpu, ends

from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.tuning import build_helper, helper_processes
from neurald.drivers.opencl.tuning.build_helper import build_in_helper
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
