"""The socket that stands in for a driver, while the driver's process comes and goes."""

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.hal.process.activation import GREETING, READY, STANDBY, START, STATE, is_served
from neurald.service.manager.supervision.standby_socket import StandbySocket, bind_private


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ns") as folder:  # a short path
        yield Path(folder) / "driver.sock"


def standby(path: Path) -> StandbySocket:
    async def activate() -> bytes:
        return READY

    return StandbySocket(path, activate, lambda: STANDBY, lambda _: b"")


async def _asked(path: Path, request: bytes) -> tuple[bytes, bytes]:
    reader, writer = await asyncio.open_unix_connection(path)
    greeting = await reader.readline()
    writer.write(request)
    answer = await reader.readline()
    writer.close()
    return greeting, answer


def test_clients_ask_for_the_driver_or_for_its_state(path: Path) -> None:
    async def main() -> None:
        socket_ = standby(path)
        await socket_.open()
        assert await _asked(path, STATE) == (GREETING, STANDBY)
        assert await _asked(path, START) == (GREETING, READY)
        socket_.close(removes=True)
        assert not path.exists()

    asyncio.run(main())


def test_the_socket_of_a_driver_is_not_removed(path: Path) -> None:
    async def main() -> None:
        socket_ = standby(path)
        await socket_.open()
        with bind_private(path.with_name("staging")) as driver:
            driver.listen()
            path.with_name("staging").replace(path)
            socket_.close(removes=True)
            assert is_served(path)

    asyncio.run(main())


def test_what_is_closed_while_it_opens_does_not_take_the_path_of_a_driver(path: Path) -> None:
    """The process of the driver may become ready meanwhile."""

    async def main() -> None:
        socket_ = standby(path)
        with bind_private(path) as driver:
            driver.listen()
            opening = asyncio.create_task(socket_.open())
            await asyncio.sleep(0)
            socket_.close()
            await opening
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                driver.accept()[0].close()
            assert [each.name for each in path.parent.iterdir()] == [path.name]
        await socket_.open()
        assert await _asked(path, STATE) == (GREETING, STANDBY)
        socket_.close(removes=True)

    asyncio.run(main())
