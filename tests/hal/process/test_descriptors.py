"""A daemon that runs out of descriptors refuses new clients and keeps serving the others."""

import errno
import mmap
import os
import resource
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.daemon.open_files import open_files
from support.daemon.processes import daemon_process
from support.models.addition import addition, request
from support.sweeps import sweep
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import Error, OutOfMemory, ResourceExhaustedTransient, ResultCode
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.process.descriptors import Acceptor, connection_limit, is_scarce
from neurald.hal.rpc.client.device import RemoteDevice, connect

FEW = 64


@dataclass(frozen=True)
class Served:
    """A daemon and a client of it."""

    process: int
    path: Path
    device: RemoteDevice

    def limit(self, descriptors: int) -> None:
        _, most = resource.prlimit(self.process, resource.RLIMIT_NOFILE)
        resource.prlimit(self.process, resource.RLIMIT_NOFILE, (descriptors, most))

    def newcomer(self) -> tuple[socket.socket, int]:
        """Returns a connection to the side channel, and the code of its greeting."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(60)
        connection.connect(f"{self.path}.memory")
        return connection, connection.recv(1024)[8]


@pytest.fixture
def served() -> Iterator[Served]:
    with daemon_process("support.models.addition:create", None) as (process, address):
        device = connect(address)
        yield Served(process.pid, Path(address.removeprefix("unix://")), device)
        device.close()


@pytest.mark.slow
def test_newcomers_are_refused_and_others_go_on(served: Served) -> None:
    prepared = served.device.prepare_model(addition(np.ones(4)), PrepareOptions())
    burst = prepared.create_burst()
    values = np.ones(4, np.float32)

    def works() -> None:
        for execute in (prepared.execute, burst.execute):
            result = np.zeros(4, np.float32)
            assert execute(request(values, result), ExecuteOptions()).is_sufficient
            assert result.tolist() == [2] * 4

    works()
    served.limit(FEW)
    guests = [served.newcomer() for _ in range(FEW)]
    codes = {code for _, code in guests}
    assert codes == {ResultCode.NO_ERROR, ResultCode.RESOURCE_EXHAUSTED_TRANSIENT}
    works()
    larger = served.device.prepare_model(
        addition(np.ones(4)), PrepareOptions()
    )  # which takes descriptors for a while
    assert larger.create_burst() is not None
    for guest, _ in guests:
        guest.close()
    for _ in range(50):
        guest, code = served.newcomer()
        guest.close()
        if code == ResultCode.NO_ERROR:
            break
    assert code == ResultCode.NO_ERROR
    works()


@pytest.mark.slow
def test_descriptors_that_do_not_arrive_end_no_session(served: Served) -> None:
    prepared = served.device.prepare_model(addition(np.ones(4)), PrepareOptions())
    burst = prepared.create_burst()
    values = np.ones(4, np.float32)
    served.limit(3)
    for execute in (prepared.execute, burst.execute):
        with pytest.raises(ResourceExhaustedTransient, match="descriptors"):
            execute(request(values, values), ExecuteOptions())
    served.limit(1024)
    for execute in (prepared.execute, burst.execute):
        result = np.zeros(4, np.float32)
        assert execute(request(values, result), ExecuteOptions()).is_sufficient
        assert result.tolist() == [2] * 4


def test_what_is_scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(soft: int) -> None:
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, soft))

    limited(64)
    assert not is_scarce(55)
    assert is_scarce(56)
    limited(65_536)
    assert not is_scarce(65_279)
    assert is_scarce(65_280)
    limited(resource.RLIM_INFINITY)
    assert not is_scarce(10**6)


def test_an_acceptor_keeps_a_descriptor_and_gives_it_up() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as listener:
        before = open_files()
        acceptor = Acceptor(listener)
        wait_until(lambda: len(open_files() - before) == 1)
        acceptor.close()
        acceptor.close()
        wait_until(lambda: not open_files() - before)


@sweep(("number", "expected"), [(errno.ENOMEM, OutOfMemory), (errno.EMFILE, ResourceExhaustedTransient)])
def test_memory_that_cannot_be_mapped_is_not_called_bad(
    monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Error]
) -> None:
    memory = SharedMemory.create(4096)

    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(mmap, "mmap", fails)
    with pytest.raises(expected):
        SharedMemory.received(os.dup(memory.fd), 4096, constant=False)
    with pytest.raises(expected):
        Memory.from_fd(memory.fd, 4096)
    with pytest.raises(expected):
        Memory.from_fd(memory.fd, 100)


def test_connections_leave_descriptors_to_others() -> None:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connection_limit(1, 2) == 1
    if descriptors != resource.RLIM_INFINITY:
        assert connection_limit(2 * descriptors, 4) == descriptors // 4
