"""Client processes that try to use up a daemon's memory: it stays small and serves others."""

import array
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from support.daemon.processes import daemon_process
from support.errors import error_code
from support.models.greedy import tiled
from support.models.small import add_model
from support.waiting import wait_until

import neurald as nd
from neurald._proto import device_pb2
from neurald.hal.rpc.server.grpc_service import SERVICE
from neurald.hal.rpc.transport.channel_messages import ANSWER, GREETING, REGISTER
from neurald.hal.rpc.transport.status import SESSION_KEY, error_from

pytestmark = pytest.mark.slow
MIB = 1 << 20
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Watched:
    """A daemon whose process is observed."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process, self.address = process, address
        self.device = nd.connect(address)
        # Whatever the first execution loads stays.
        self.compilation = self.compiled(add_model())
        self.serves()

    def of(self, key: str) -> int:
        """Returns a value of the process's status, in MiB for memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == key:
                number = int(value.split()[0])
                return number >> 10 if "kB" in value else number
        raise AssertionError(key)

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def compiled(self, model: nd.Model) -> nd.Compilation:
        builder = nd.CompilationBuilder(model, [self.device])
        builder.set_caching(None)
        return builder.finish()

    def serves(self) -> None:
        """Runs a model for a client that was there before."""
        ones = np.ones((2, 3), np.float32)
        (result,) = self.compilation.run(ones, ones)
        assert np.array_equal(result, ones + ones)

    def is_back(self, before: "tuple[int, int, int]") -> bool:
        found = (self.of("VmRSS"), self.of("Threads"), self.descriptors)
        return found[0] <= before[0] + 24 and found[1] <= before[1] + 8 and found[2] <= before[2]

    def now(self) -> tuple[int, int, int]:
        return self.of("VmRSS"), self.of("Threads"), self.descriptors


@pytest.fixture(params=["cpu", "reference"])
def any_driver(request: pytest.FixtureRequest) -> Iterator[Watched]:
    with daemon_process(request.param, limits=("memory_bytes=64MiB",)) as (process, address):
        yield Watched(process, address)


@pytest.mark.full
@pytest.mark.sampled(2)
def test_a_request_of_four_bytes_that_needs_4_gib_between_operations(any_driver: Watched) -> None:
    daemon, before = any_driver, any_driver.now()
    for count in ((1 << 30) - 1, 1 << 26):
        for _ in range(3):
            model = tiled(count)
            code = error_code(lambda model=model: daemon.compiled(model).run(np.ones((1, 1), np.float32)))
            assert code == nd.ResultCode.RESOURCE_EXHAUSTED_PERSISTENT
            daemon.serves()
    assert daemon.of("VmHWM") <= before[0] + 96
    (largest,) = daemon.compiled(tiled(1000)).run(np.full((1, 1), 7, np.float32))
    assert largest.tolist() == [7]
    wait_until(lambda: daemon.is_back(before))


class Side:
    """A session on the side channel, without the client library."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(address.removeprefix("unix://") + ".memory")
        greeting = self.socket.recv(1024)
        assert greeting.startswith(GREETING)
        _, self.token = ANSWER.unpack_from(greeting[len(GREETING) :])
        self.address = address

    def give(self, size: int, descriptor: int) -> int:
        """Registers a memory; returns the result code."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        self.socket.sendmsg([REGISTER.pack(size, 0)], rights)
        code: int = ANSWER.unpack_from(self.socket.recv(1024))[0]
        return code

    def write(self, size: int) -> nd.ResultCode:
        """Has the daemon hold this many bytes; returns the result code."""
        message = device_pb2.WriteMemoryRequest
        chunks = (message(chunk=bytes(MIB)) for _ in range(size // MIB))
        parts = (part.SerializeToString() for part in (message(size_bytes=size), *chunks))
        with grpc.insecure_channel(self.address) as channel:
            call: Any = channel.stream_unary(f"/{SERVICE}/WriteMemory")
            try:
                call(parts, metadata=((SESSION_KEY, self.token.hex()),), timeout=30)
            except grpc.RpcError as error:
                return error_from(error, "WriteMemory").code
        return nd.ResultCode.NO_ERROR


def memfd(size: int) -> int:
    descriptor = os.memfd_create("greedy", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    return descriptor


@pytest.mark.full
def test_one_memory_given_16000_times() -> None:
    limits = ("memory_bytes=8GiB", "user_memory_bytes=33GiB", "total_memory_bytes=64GiB")
    with daemon_process("cpu", limits=limits) as (process, address):
        daemon = Watched(process, address)
        before, size_before = daemon.now(), daemon.of("VmSize")
        size = 8 << 30
        descriptor, sides, given = memfd(size), [], 0
        for _ in range(16):
            sides.append(Side(address))
            for _ in range(1000):
                given += sides[-1].give(size, descriptor) == nd.ResultCode.NO_ERROR
        os.close(descriptor)
        assert given == 4000, "four sessions of 8 GiB are what the user may have"
        assert daemon.of("VmSize") - size_before <= 33 << 10
        # A socket for each session, and each memory that was accepted. The first client's ring may
        # have opened some meanwhile.
        assert daemon.descriptors <= before[2] + 16 + 4 + 4
        daemon.serves()
        daemon.compiled(add_model((3, 3)))
        for side in sides:
            side.socket.close()
        wait_until(lambda: daemon.is_back(before) and daemon.of("VmSize") <= size_before + 512)


@pytest.mark.parametrize("limit", ["memory_bytes=256MiB", "user_memory_bytes=256MiB"])
def test_six_sessions_of_250_mib(limit: str) -> None:
    with daemon_process("cpu", limits=(limit,)) as (process, address):
        daemon = Watched(process, address)
        before = daemon.now()
        sides = [Side(address) for _ in range(6)]
        codes = [side.write(250 * MIB) for side in sides]
        assert codes == [nd.ResultCode.NO_ERROR] + 5 * [nd.ResultCode.RESOURCE_EXHAUSTED_TRANSIENT]
        assert daemon.of("VmHWM") <= before[0] + 300
        daemon.serves()
        for side in sides:
            side.socket.close()
        wait_until(lambda: daemon.is_back(before))


_KILLED = """
import sys, time
import numpy as np
import neurald as nd
from support.models.greedy import tiled
device = nd.connect(sys.argv[1])
kept = []
for _ in range(4):
    builder = nd.CompilationBuilder(tiled(4 << 20), [device])
    builder.set_caching(None)
    kept.append(builder.finish())
    kept[-1].run(np.ones((1, 1), np.float32))
print("ready", flush=True)
while True:
    kept[-1].run(np.ones((1, 1), np.float32))
"""


@pytest.mark.parametrize("driver", ["cpu", "reference"])
@pytest.mark.sampled(2)
def test_what_a_killed_client_had_is_there_for_others(driver: str) -> None:
    limits = ("memory_bytes=256MiB", "user_memory_bytes=256MiB")
    with daemon_process(driver, limits=limits) as (process, address):
        daemon = Watched(process, address)
        before = daemon.now()
        path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        for _ in range(2):
            client = subprocess.Popen(
                [sys.executable, "-c", _KILLED, address],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
            assert client.stdout is not None
            assert client.stdout.readline().strip() == "ready"
            time.sleep(0.05)
            client.send_signal(signal.SIGKILL)
            client.wait()
            client.stdout.close()
            # All of the user's memory but a little can be had again.
            wait_until(lambda: _can_take(address, 250 * MIB))
        wait_until(lambda: daemon.is_back(before))
        daemon.serves()


def _can_take(address: str, size: int) -> bool:
    side = Side(address)
    descriptor = memfd(size)
    try:
        return side.give(size, descriptor) == nd.ResultCode.NO_ERROR
    finally:
        os.close(descriptor)
        side.socket.close()
