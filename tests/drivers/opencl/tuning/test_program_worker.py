"""The process that builds for another one, also if that one has no terminal, is interrupted, or has
ended.
"""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from support.opencl.trials import good, slowed
from support.sweeps import sweep

from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.tuning.helper_processes import _WORKER
from neurald.drivers.opencl.tuning.program_messages import Answer, Build, Measure
from neurald.drivers.opencl.tuning.trials import trials_of


def about(facts: DeviceFacts) -> dict[str, Any]:
    return {
        "path": [*map(os.path.abspath, sys.path)],
        "process": os.getpid(),
        "place": f"{facts.platform_index}:{facts.device_index}",
        "digest": facts.digest,
    }


def framed(request: Build | Measure) -> bytes:
    encoded = msgspec.msgpack.encode(request)
    return struct.pack("<Q", len(encoded)) + encoded


def answers(told: dict[str, Any], requests: bytes) -> list[Answer]:
    """Returns the worker's answers to requests until it ends."""
    # Without the packages of the environment, it finds all of them on the path that it is told.
    command = [sys.executable, "-I", "-S", str(_WORKER), json.dumps(told)]
    output = subprocess.run(command, input=requests, capture_output=True, timeout=120, check=False).stdout
    found = []
    while output:
        end = 8 + struct.unpack("<Q", output[:8])[0]
        found.append(msgspec.msgpack.decode(output[8:end], type=Answer))
        output = output[end:]
    return found


def test_requests_are_answered_in_order(opencl: DeviceContext) -> None:
    text, trials = trials_of([good(), slowed(20000)], opencl.facts, is_resident=False)
    missing = msgspec.structs.replace(
        trials, calls=(trials.calls[0], msgspec.structs.replace(trials.calls[1], kernel="missing"))
    )
    requests: list[Build | Measure] = [
        Build(text=text),
        Measure.of(trials),
        Build(text="kernel void"),
        Measure.of(missing),
        Build(text=text, wants_binary=True),
    ]
    first, times, failed, some, last = answers(about(opencl.facts), b"".join(map(framed, requests)))
    assert first == Answer()
    fast, slow = times.times_ns
    assert fast is not None
    assert slow is not None
    assert 0 < fast < slow
    assert "CL_BUILD_PROGRAM_FAILURE" in failed.error
    # The program before the one that does not build is still there.
    assert some.times_ns[0] is not None
    assert some.times_ns[1] is None
    assert BuiltProgram.from_binary(opencl, last.binary).kernel(trials.calls[0].kernel, ()).int_ptr


def test_another_device_is_refused(opencl: DeviceContext) -> None:
    told = about(opencl.facts)
    for change in ({"digest": "another one"}, {"place": "99:0"}, {"process": 1}):
        assert answers({**told, **change}, framed(Build(text="kernel void k() {}"))) == []


#: A process that has nothing but its program: it measures with a helper, and says how many kernels,
#: or why there are none.
LONELY = """
import os, sys, traceback
for descriptor in (0, 1, 2):
    os.close(descriptor)
os.setsid()
def tell(text):
    open(sys.argv[1], "w").write(text)
sys.excepthook = lambda *failure: tell("".join(traceback.format_exception(*failure)))
from support.opencl.trials import as_gpu, good, slowed
from neurald.drivers.opencl.tuning import measuring
from neurald.drivers.opencl.platform.discovery import DeviceContext, choose, discover
measuring._TARGET_SHARD_BYTES = measuring._MIN_SHARDS_PER_PROCESS = 1
measuring.process_count = lambda facts: 2
def wait(work, device, **options):
    with work._changed:
        work._changed.wait_for(lambda: not work._waiting and not work._taken, 60)
measuring._measure_here = wait
times = measuring.times_ns(as_gpu(DeviceContext(choose(discover()))), [good(), slowed(30)], is_resident=False)
tell(str(len(times)))
"""


def test_helpers_of_a_daemon(opencl: DeviceContext, tmp_path: Path) -> None:
    result = tmp_path / "result"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", LONELY, str(result)], env=environment, timeout=120, check=False
    )
    assert result.exists(), f"it has ended with status {done.returncode}"
    assert result.read_text() == "2"


#: A process that starts a helper, and waits for ever.
PARENT = """
import json, os, subprocess, sys, time
about = json.loads(sys.argv[2]) | {"process": os.getpid()}
child = subprocess.Popen([sys.executable, "-I", sys.argv[1], json.dumps(about)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
request = bytes.fromhex(sys.argv[3])
child.stdin.write(request)
child.stdin.flush()
child.stdout.read(8)
print(child.pid, flush=True)
time.sleep(600)
"""


def is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@sweep("how", ["interrupted", "gone"])
def test_the_worker_ends_with_its_parent(opencl: DeviceContext, how: str) -> None:
    request = framed(Build(text="kernel void k(global int* a) { *a = 1; }")).hex()
    command = [sys.executable, "-c", PARENT, str(_WORKER), json.dumps(about(opencl.facts)), request]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_there(worker)
        if how == "interrupted":
            os.kill(worker, signal.SIGINT)
            time.sleep(0.2)
            assert is_there(worker)
        parent.kill()
    deadline = time.monotonic() + 60
    while is_there(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_there(worker)
