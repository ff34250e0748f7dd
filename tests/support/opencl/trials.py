"""Sources of different speeds, and faulty ones, for tests of tuning."""

import time

from support.opencl.kernels import GRAPHS, kernels

from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.platform.device_facts import DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.hal.records import replace


def good() -> Source:
    """Creates a source that adds a bias and applies an activation."""
    (kernel,) = kernels(GRAPHS["elementwise"]())
    return render(kernel)


def slowed(times: int) -> Source:
    """Creates the same with `times` additional stores."""
    text = good().text.replace(
        "  if (at >=",
        f"  for (int i = 0; i < {times}; ++i) ((__local volatile uchar *)scratch)[0] = i;\n  if (at >=",
    )
    assert text != good().text
    return replace(good(), code=LazyCode.of(text), groups=4)


def broken(number: int = 0) -> Source:
    """Creates a source that cannot be built."""
    return replace(good(), code=LazyCode.of(f"/* {number} */ static void {NAME}(;\n"))


def as_gpu(device: DeviceContext) -> DeviceContext:
    """Returns the same device as a GPU, for which other processes help to build."""
    facts = replace(device.facts, kind=DeviceKind.GPU, global_memory_bytes=16 << 30, compute_units=1)
    return DeviceContext(facts)


def ends(process: WorkerProcess) -> bool:
    """Returns True if a process ends soon."""
    deadline_s = time.monotonic() + 10
    while not process.has_ended and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return process.has_ended
