"""The kernels of a step, which several processes build in parts."""

import os
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from support.opencl.trials import as_gpu, ends, good, slowed

from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.opencl.codegen.program_text import KernelTexts, kernel_name
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.program import BuiltProgram, missing_kernels
from neurald.drivers.opencl.tuning import helper_processes, kernel_builds
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses
from neurald.drivers.opencl.tuning.kernel_builds import build_kernels
from neurald.hal.errors import OpFailed
from neurald.hal.records import replace


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[WorkerProcess]:
    """Records the processes that are started, even for little work, on two cores."""
    found: list[WorkerProcess] = []

    def start(script: Path, about: dict[str, object]) -> WorkerProcess:
        found.append(WorkerProcess(script, about))
        return found[-1]

    monkeypatch.setattr(helper_processes, "WorkerProcess", start)
    monkeypatch.setattr(kernel_builds, "_MIN_PART_BYTES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    return found


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the texts that this process builds."""
    found: list[str] = []
    from_source = BuiltProgram.from_source

    def recorded(device: DeviceContext, text: str) -> BuiltProgram:
        found.append(text)
        return from_source(device, text)

    monkeypatch.setattr(BuiltProgram, "from_source", recorded)
    return found


def _kernels(numbers: Sequence[int]) -> KernelTexts:
    """Returns kernels, one function for each number."""
    return KernelTexts(
        uses=tuple((slowed(number), (Base.ARENA,) * len(good().arguments)) for number in numbers),
        has_fp64=False,
    )


def test_kernels_of_a_step_are_built_in_parts(
    opencl: DeviceContext, processes: list[WorkerProcess], built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those that are missing, some of them in another process."""
    loaded: list[int] = []
    from_binary = BuiltProgram.from_binary

    def recorded(device: DeviceContext, binary: bytes) -> BuiltProgram:
        loaded.append(len(binary))
        return from_binary(device, binary)

    monkeypatch.setattr(BuiltProgram, "from_binary", recorded)
    device, kernels = as_gpu(opencl), _kernels(range(4))
    # The other process has the first part before this one asks for any.
    start = kernel_builds._PartBuilds.start

    def started(self: kernel_builds._PartBuilds, count: int) -> None:
        start(self, count)
        while len(self._pending) == 4:
            os.sched_yield()

    monkeypatch.setattr(kernel_builds._PartBuilds, "start", started)
    program = build_kernels(device, kernels)
    assert len(processes) == 1
    assert loaded
    assert len(built) < 4
    names = [kernel_name(*use) for use in kernels.uses]
    for name in names:
        assert program.kernel(name, ()).int_ptr
    assert not missing_kernels(device, kernels)
    assert build_kernels(device, kernels).kernel(names[0], ()).int_ptr
    assert len(processes) == 1
    assert ends(processes[0])


@pytest.mark.parametrize("failure", ["ends", "says nonsense", "does not start"])
def test_parts_of_a_process_that_fails_are_built_here(
    opencl: DeviceContext,
    processes: list[WorkerProcess],
    built: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    failure: str,
) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import struct, sys\n"
        "sys.stdin.buffer.read(8)\n"
        f"sys.stdout.buffer.write(struct.pack('<Q', 8) + b'nonsense' if {failure != 'ends'} else b'')\n"
    )
    monkeypatch.setattr(helper_processes, "_WORKER", worker)
    if failure == "does not start":
        monkeypatch.setattr(HelperProcesses, "take", lambda self: None)
    kernels = _kernels(range(20, 24))
    program = build_kernels(as_gpu(opencl), kernels)
    assert len(built) == 4
    for use in kernels.uses:
        assert program.kernel(kernel_name(*use), ()).int_ptr
    assert all(map(ends, processes))


def test_a_kernel_that_does_not_build(
    opencl: DeviceContext, processes: list[WorkerProcess], built: list[str]
) -> None:
    """Its error is reported, and the other process ends."""
    kernels = _kernels(range(30, 34))
    (source, bases), *others = kernels.uses
    broken = replace(source, text=source.text + "broken\n")
    with pytest.raises(OpFailed, match="CL_BUILD_PROGRAM_FAILURE"):
        build_kernels(as_gpu(opencl), replace(kernels, uses=((broken, bases), *others)))
    assert built
    assert all(map(ends, processes))


def test_processes_that_start_ahead(opencl: DeviceContext, processes: list[WorkerProcess]) -> None:
    """Large models get them, kernels are built in them, and those that nothing needs end."""
    device = as_gpu(opencl)
    HelperProcesses(device.facts, 1).close()
    assert not processes
    ready = HelperProcesses(device.facts, 100)
    assert len(processes) == 1
    build_kernels(device, _kernels(range(10, 14)), ready)
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
    monkeypatch.setattr(kernel_builds, "_MIN_PART_BYTES", 2 * len(good().text))
    uses = tuple((good(), bases) for bases in product((Base.ARENA, Base.CONSTANTS), repeat=2))
    padded = tuple((source, (*bases, *(Base.ARENA,) * (len(source.arguments) - 2))) for source, bases in uses)
    build_kernels(as_gpu(opencl), KernelTexts(uses=padded, has_fp64=False))
    assert not processes


@pytest.mark.parametrize(
    ("work", "count", "part"),
    [(3_000, 8, 10_000), (160_000, 16, 10_000), (640_000, 16, 20_000), (800_000, 2, 200_000)],
)
def test_each_process_builds_some_parts(work: int, count: int, part: int) -> None:
    assert kernel_builds._part_bytes(work, count) == part
