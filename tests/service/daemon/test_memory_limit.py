"""The kernel's limit on a daemon's memory.

It is set, it leaves enough memory for the daemon, and a lower limit that exists is kept.
"""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.daemon.processes import daemon_process
from support.models.small import add_model
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.opencl.platform.discovery import discover
from neurald.drivers.opencl.settings import process_settings

pytestmark = pytest.mark.slow
GIB = 1 << 30

_PROGRAM = """
import resource, sys
from neurald.hal.errors import OutOfMemory
from neurald.hal.accounting.limits import Limits
from neurald.hal.memory.pool import SharedMemory
from neurald.service.daemon.memory_limit import limited_memory
from neurald.hal.model.types import DeviceType

class Device:
    type = DeviceType[sys.argv[1]]

if sys.argv[2] != "none":
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), resource.RLIM_INFINITY))
kinds = resource.RLIMIT_AS, resource.RLIMIT_DATA
before = [resource.getrlimit(kind) for kind in kinds]
with limited_memory(Device(), Limits(total_memory_bytes=1 << 30)):
    print(*(resource.getrlimit(kind)[0] for kind in kinds))
    try:
        SharedMemory.create(1 << 40)
        print("made")
    except OutOfMemory:
        print("refused")
print([resource.getrlimit(kind) for kind in kinds] == before)
"""


def limits(kind: str, before: str = "none") -> tuple[int, int, str]:
    """Returns the soft limits of address space and data while a device of this type is served.

    The third value is the outcome of allocating 1 TiB.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, kind, before], capture_output=True, text=True, check=True
    )
    numbers, outcome, is_as_before = done.stdout.splitlines()
    assert is_as_before == "True"
    space, data = numbers.split()
    return int(space), int(data), outcome


def test_a_processor_has_a_limit_of_addresses() -> None:
    space, data, outcome = limits("CPU")
    assert 1 * GIB < space < 1 << 40
    assert (data, outcome) == (resource.RLIM_INFINITY, "refused")


@sweep("kind", ["GPU", "ACCELERATOR"])
def test_other_drivers_reserve_addresses_as_they_like(kind: str) -> None:
    space, data, outcome = limits(kind)
    assert (space, outcome) == (resource.RLIM_INFINITY, "made")
    assert 1 * GIB < data < 1 << 40


def test_a_lower_limit_stays() -> None:
    assert limits("CPU", str(5 * GIB))[0] == 5 * GIB
    assert limits("CPU", str(1 << 45))[0] < 1 << 40


@pytest.mark.parametrize("driver", ["cpu", "opencl"])
def test_a_daemon_works_below_its_wall(driver: str) -> None:
    if driver == "opencl" and not discover(process_settings()).devices:
        pytest.skip("there is no OpenCL device")
    with daemon_process(driver, limits=("total_memory_bytes=1GiB",)) as (process, address):
        lines = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
        walls = [line.split()[-3] for line in lines if "address space" in line or "data size" in line]
        builder = nd.CompilationBuilder(add_model((64, 64)), [nd.connect(address)])
        builder.set_caching(None)
        compilation = builder.finish()
        ones = np.ones((64, 64), np.float32)
        for _ in range(3):
            (result,) = compilation.run(ones, ones)
            assert np.array_equal(result, ones + ones)
        assert walls.count("unlimited") == 1
