"""Clients' accounts pay for prepared models and executions in advance, and are repaid."""

import gc
import threading
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.models.greedy import tiled, tiled_request

from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import choose, discover
from neurald.drivers.opencl.settings import process_settings
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.accounting.account import Account, charging
from neurald.hal.device import Device, ExecuteOptions, PrepareOptions
from neurald.hal.errors import Error, ResourceExhaustedPersistent, ResourceExhaustedTransient

MIB = 1 << 20
COUNT = 1 << 18
COUNT_BYTES = 4 * COUNT
#: What is left for everything else that a small model takes.
REST = 4 * MIB


def opencl() -> OpenClDevice:
    settings = process_settings()
    discovery = discover(settings)
    if not discovery.devices:
        pytest.skip("there is no OpenCL device")
    return OpenClDevice(choose(discovery, ""), settings=settings)


@pytest.fixture(params=[CpuDevice, ReferenceDevice, opencl])
def device(request: pytest.FixtureRequest) -> Device:
    made: Device = request.param()
    return made


@pytest.fixture(params=[CpuDevice, opencl])
def compiler(request: pytest.FixtureRequest) -> Device:
    made: Device = request.param()
    return made


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No collection happens meanwhile: what comes back does so with the last reference."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def account(limit: int) -> Account:
    return Account("a session", limit, name="memory_bytes")


def runs(device: Device, charged: Account, count: int, *, is_dynamic: bool = False) -> None:
    with charging(charged):
        prepared = device.prepare_model(tiled(count, is_dynamic=is_dynamic), PrepareOptions())
        request, largest = tiled_request(count if is_dynamic else None)
        result = prepared.execute(request, ExecuteOptions())
    assert result.is_sufficient
    assert largest.tolist() == [3]


@pytest.mark.usefixtures("uncollected")
def test_what_fits_runs_and_all_of_it_comes_back(device: Device) -> None:
    charged = account(64 * COUNT_BYTES)
    for _ in range(3):
        runs(device, charged, COUNT)
    assert charged.used == 0


@pytest.mark.parametrize(
    ("make", "count", "is_dynamic"),
    [
        *((make, 17 * MIB, False) for make in (CpuDevice, ReferenceDevice, opencl)),
        *((make, (1 << 30) - 1, kind) for make in (CpuDevice, ReferenceDevice) for kind in (False, True)),
    ],
)
def test_values_between_operations_are_refused_before_they_are_made(
    make: Callable[[], Device], count: int, is_dynamic: bool
) -> None:
    device, charged = make(), account(64 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(
            ResourceExhaustedPersistent, match=r"a session may have 67108864 \(memory_bytes\)"
        ):
            runs(device, charged, count, is_dynamic=is_dynamic)
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()
    gc.collect()
    assert charged.used == 0
    runs(device, charged, 1000, is_dynamic=is_dynamic)


def test_what_is_computed_from_constants_is_refused_before_it_is_made(compiler: Device) -> None:
    charged = account(64 * MIB)
    tracemalloc.start()
    try:
        with charging(charged), pytest.raises(ResourceExhaustedPersistent):
            compiler.prepare_model(tiled(17 * MIB, is_constant=True), PrepareOptions())
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()
    gc.collect()
    assert charged.used == 0


@pytest.mark.usefixtures("uncollected")
def test_an_arena_is_charged_as_long_as_its_model_is_there(compiler: Device) -> None:
    charged = account(64 * COUNT_BYTES)
    with charging(charged):
        prepared = compiler.prepare_model(tiled(COUNT), PrepareOptions())
    assert COUNT_BYTES <= charged.used <= 8 * COUNT_BYTES + REST
    before = charged.used
    request, _ = tiled_request()
    with charging(charged):
        prepared.execute(request, ExecuteOptions())
    assert charged.used == before
    del prepared
    assert charged.used == 0


def test_where_there_is_no_room_for_another_arena_executions_share_the_one_there_is(compiler: Device) -> None:
    charged = account(64 * COUNT_BYTES)
    with charging(charged):
        prepared = compiler.prepare_model(tiled(COUNT), PrepareOptions())
    limit = charged.limit = charged.used + COUNT_BYTES // 2
    failures: list[Error] = []

    def work() -> None:
        request, largest = tiled_request()
        with charging(charged):
            for _ in range(3):
                try:
                    prepared.execute(request, ExecuteOptions())
                except Error as error:
                    failures.append(error)
        assert largest.tolist() == [3]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert charged.used <= limit


def test_references_charge_values_until_they_were_read_last() -> None:
    charged = account(1 << 40)
    most = []
    reserve = charged.reserve

    def watched(amount: int, what: str):  # type: ignore[no-untyped-def]
        found = reserve(amount, what)
        most.append(charged.used)
        return found

    charged.reserve = watched  # type: ignore[method-assign]
    runs(ReferenceDevice(), charged, COUNT)
    assert COUNT_BYTES < max(most) < 64 * COUNT_BYTES
    assert charged.used == 0


def test_shapes_that_only_results_tell_count_once_they_are_known() -> None:
    charged = account(1 << 40)
    runs(ReferenceDevice(), charged, COUNT, is_dynamic=True)
    charged = account(MIB // 2)
    with pytest.raises((ResourceExhaustedPersistent, ResourceExhaustedTransient)):
        runs(ReferenceDevice(), charged, COUNT, is_dynamic=True)
    assert charged.used == 0


def test_a_model_from_the_cache_is_charged_too(compiler: Device) -> None:
    prepared = compiler.prepare_model(tiled(COUNT), PrepareOptions(cache_key=bytes(32)))
    artifact = prepared.artifact()
    assert artifact is not None
    charged = account(COUNT_BYTES // 2)
    with charging(charged), pytest.raises(ResourceExhaustedPersistent):
        compiler.prepare_model_from_cache(artifact, PrepareOptions())
    gc.collect()
    assert charged.used == 0


def test_an_application_is_charged_for_nothing(device: Device) -> None:
    prepared = device.prepare_model(tiled(COUNT), PrepareOptions())
    request, largest = tiled_request()
    prepared.execute(request, ExecuteOptions())
    assert np.array_equal(largest, [3])
