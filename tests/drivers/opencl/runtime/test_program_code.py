"""The code of programs is complete, and reading it does not stop other threads."""

import threading
import time

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.program_code import code_of


def test_other_threads_run_while_a_runtime_compiles(opencl: DeviceContext) -> None:
    """A runtime may compile when code is read; this source is new to every cache."""
    import pyopencl as cl

    statements = "".join(f"x = sin(x * {number}.5f) + cos(x);" for number in range(60))
    source = f"kernel void f(global float* a) {{ float x = a[0] + {time.time_ns()}; {statements} a[0] = x; }}"
    program = cl.Program(opencl.context, source).build()
    ticks: list[float] = []
    is_over = threading.Event()

    def tick() -> None:
        while not is_over.wait(0.001):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.monotonic()
    code = code_of(opencl, program)
    ended = time.monotonic()
    is_over.set()
    thread.join()
    assert code == program.get_info(cl.program_info.BINARIES)[0]
    longest_s = max(after - before for before, after in zip([began, *ticks], [*ticks, ended], strict=True))
    assert ended - began < 0.1 or longest_s < (ended - began) / 2
