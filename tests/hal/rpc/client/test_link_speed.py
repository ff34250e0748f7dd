"""The measured speed of links whose true speed is known. Limits leave much for a busy machine."""

import itertools
import time
from collections.abc import Iterator

import pytest
from support.daemon.link import Link as ThrottledLink
from support.daemon.traffic import Traffic
from support.models.addition import AddingDevice

from neurald.hal.device import Link
from neurald.hal.memory.pool import Memory
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.link_speed import measure_link
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.access_token import token_path


class SimulatedConnection:
    """A connection to nowhere, on which time passes as on a link.

    Args:
        trip_s: the time of a round trip.
        calls: how many round trips a burst takes there and back.
        bytes_per_s: the speed in each direction.
        disturbed: every so many bursts one takes ten times as long.
    """

    def __init__(self, trip_s: float, calls: int, bytes_per_s: float, disturbed: int = 0) -> None:
        self.now_s = 0.0
        self.sent_bytes = 0
        self._trip_s, self._calls, self._bytes_per_s, self._disturbed = trip_s, calls, bytes_per_s, disturbed
        self._bursts = itertools.count(1)

    def call(self, *_: object) -> None:
        self.now_s += self._trip_s

    def send_memories(self, memories: tuple[Memory], *_: object) -> list[bytes]:
        self.sent_bytes += memories[0].size
        return [b""]

    def read_memory(self, token: bytes, target: Memory, *_: object) -> None:
        taken_s = self._calls * self._trip_s + 2 * target.size / self._bytes_per_s
        is_disturbed = self._disturbed and next(self._bursts) % self._disturbed == 0
        self.now_s += taken_s * (10 if is_disturbed else 1)


@pytest.mark.parametrize("trip_s", [5e-5, 1e-3, 0.04, 0.2])
@pytest.mark.parametrize("bytes_per_s", [2e5, 1e7, 1.2e8, 3e9])
@pytest.mark.parametrize("calls", [2, 3, 4])
@pytest.mark.parametrize("disturbed", [0, 2])
def test_what_calls_take_is_not_the_speed(
    trip_s: float, bytes_per_s: float, calls: int, disturbed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = SimulatedConnection(trip_s, calls, bytes_per_s, disturbed if trip_s < 0.1 else 0)
    monkeypatch.setattr("neurald.hal.rpc.client.link_speed.time.perf_counter", lambda: connection.now_s)
    link = measure_link(connection)  # type: ignore[arg-type]
    assert link.latency_s == pytest.approx(trip_s)
    # Of long round trips there may be time for the smallest bursts only, whose data may take too
    # small a share of their time to be told from disturbances.
    told = 2 * 2**14 / (0.05 * calls * trip_s) if trip_s >= 0.01 else bytes_per_s
    assert min(bytes_per_s, told) * 0.9 <= link.bytes_per_s <= bytes_per_s * 1.05
    assert connection.sent_bytes < 34e6
    assert connection.now_s < (2.5 if not disturbed else 10)


def measured(device: RemoteDevice) -> Link:
    return measure_link(device._connection, time.monotonic() + 20)


@pytest.fixture
def server() -> Iterator[DeviceServer]:
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"))
    server.start()
    yield server
    server.stop()


@pytest.mark.timed
@pytest.mark.parametrize("bytes_per_s", [3e5, 4e6])
@pytest.mark.parametrize("delay_s", [0.0, 0.01])
def test_a_slow_link(server: DeviceServer, bytes_per_s: float, delay_s: float) -> None:
    with ThrottledLink(server.address.port) as link:
        device = connect(link.address, token_file=token_path(server.address))
        link.bytes_per_s, link.delay_s = bytes_per_s, delay_s
        found = measured(device)
        assert found.latency_s >= 2 * delay_s
        assert bytes_per_s / 4 < found.bytes_per_s < bytes_per_s * 1.5
        device.close()


def test_no_link_is_slow_for_want_of_data(
    server: DeviceServer, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = connect(str(server.address))
    before = traffic.bytes_sent
    # Both ends are in this process, so this is what the data takes, whatever else the machine does.
    monkeypatch.setattr("neurald.hal.rpc.client.link_speed.time.perf_counter", time.process_time)
    found = measured(device)
    assert found.bytes_per_s > 1e7
    assert traffic.bytes_sent - before < 34e6
    device.close()
