"""Fixtures of the tests of daemons whose rings native code serves."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.process.address import Address
from neurald.hal.rpc.server import native_executions
from neurald.hal.rpc.server.server import DeviceServer


@pytest.fixture
def native_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceServer]:
    """A daemon of the CPU device, in which native code may run every model."""
    # However long its first execution takes.
    monkeypatch.setattr(native_executions, "_MAX_NATIVE_S", 1000.0)
    # Tests fill all slots, however many processors the machine has.
    monkeypatch.setattr(CpuDevice, "executions_at_once", 2)
    server = DeviceServer(CpuDevice(), Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def ring_count() -> Callable[[], int]:
    """Counts the threads of rings that have begun during the test."""
    # Numbers of threads may be used again.
    before = set(threading.enumerate())

    def count() -> int:
        return sum(thread.name == "neurald ring" and thread not in before for thread in threading.enumerate())

    return count
