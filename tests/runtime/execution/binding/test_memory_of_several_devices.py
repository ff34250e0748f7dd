import random
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process
from support.devices.buffers import KeepingDevice
from support.models.small import add_model

import neurald as nd
from neurald.hal.buffers.coherent_memory import CoherentMemory
from neurald.hal.errors import DeadObject, LostValue, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.rpc.client.buffer import RemoteBuffer
from neurald.hal.rpc.client.device import RemoteDevice
from neurald.runtime.execution.binding.device_memory import DeviceMemory

SHAPE = (2, 3)
ONES = np.ones(SHAPE, np.float32)


def compiled(*devices: nd.Device) -> nd.Compilation:
    return nd.CompilationBuilder(add_model(SHAPE), list(devices)).finish()


def shared(*compilations: nd.Compilation) -> DeviceMemory:
    """Allocates memory that each compilation reads as its first input and writes as its output."""
    desc = nd.MemoryDesc()
    for compilation in compilations:
        desc.add_input_role(compilation, 0).add_output_role(compilation, 0)
    return desc.finish().allocate()


def add_one(compilation: nd.Compilation, source: Any, target: Any, *, burst: nd.Burst | None = None) -> None:
    execution = nd.Execution(compilation)
    for number, value in enumerate((source, ONES)):
        if isinstance(value, Memory):
            execution.set_input_from_memory(number, value, 0, 0)
        else:
            execution.set_input(number, value)
    if isinstance(target, Memory):
        execution.set_output_from_memory(0, target, 0, 0)
    else:
        execution.set_output(0, target)
    execution.compute(burst=burst)


def content(memory: Memory) -> "np.ndarray":
    found = np.empty(SHAPE, np.float32)
    nd.Memory.copy(memory, HostMemory(found))
    return found


def test_a_value_is_copied_once_to_each_place_that_reads_it() -> None:
    first, second, cpu = compiled(KeepingDevice("a")), compiled(KeepingDevice("b")), compiled(nd.devices()[0])
    memory = shared(first, second, cpu)
    assert memory.is_on_device
    result = np.empty_like(ONES)
    add_one(first, ONES, memory)
    assert memory.copies == 0
    for _ in range(3):
        add_one(first, memory, result)
    assert memory.copies == 0
    for _ in range(3):
        add_one(second, memory, result)
        np.testing.assert_array_equal(result, ONES * 3)
    assert (memory.copies, memory.copied_bytes) == (1, ONES.nbytes)
    for _ in range(3):
        add_one(cpu, memory, result)
        np.testing.assert_array_equal(result, ONES * 3)
    assert memory.copies == 2
    # What is written anew is stale everywhere else.
    add_one(second, result, memory)
    add_one(second, memory, result)
    assert memory.copies == 2
    add_one(first, memory, result)
    np.testing.assert_array_equal(result, ONES * 5)
    assert memory.copies == 3


def test_random_uses_have_the_right_values_and_the_fewest_copies() -> None:
    devices = [KeepingDevice("a"), KeepingDevice("b"), nd.devices()[0], nd.open_device("reference")]
    compilations = [compiled(device) for device in devices]
    # The last two map host memory, and share a place.
    place = [0, 1, 2, 2]
    memories = [shared(*compilations) for _ in range(2)]
    values: list[float | None] = [None, None]
    valid: list[set[int]] = [set(), set()]
    copies = [0, 0]
    generator = random.Random(5)
    for _ in range(400):
        number = generator.randrange(4)
        source, target = generator.randrange(3), generator.randrange(3)
        if source == target or (source < 2 and values[source] is None):
            continue
        given: Any = np.full(SHAPE, 7, np.float32) if source == 2 else memories[source]
        value = 8.0 if source == 2 else (values[source] or 0.0) + 1
        result: Any = np.empty_like(ONES) if target == 2 else memories[target]
        add_one(compilations[number], given, result)
        if source < 2:
            copies[source] += place[number] not in valid[source]
            valid[source].add(place[number])
        if target == 2:
            np.testing.assert_array_equal(result, np.full(SHAPE, value, np.float32))
        else:
            values[target], valid[target] = value, {place[number]}
    assert [each.copies for each in memories] == copies
    assert min(copies) > 20
    for memory, expected in zip(memories, values, strict=True):
        np.testing.assert_array_equal(content(memory), np.full(SHAPE, expected, np.float32))


def test_nothing_is_copied_between_devices_that_map_the_same_memory() -> None:
    first, second = compiled(nd.devices()[0]), compiled(nd.open_device("reference"))
    memory = shared(first, second)
    assert not memory.is_on_device
    add_one(first, ONES, memory)
    other = shared(first, second)
    add_one(second, memory, other)
    add_one(first, other, memory)
    np.testing.assert_array_equal(content(memory), ONES * 4)
    assert (memory.copies, memory.copied_bytes, other.copies) == (0, 0, 0)


def test_bursts_use_the_places_of_their_devices() -> None:
    first, second = compiled(KeepingDevice("a")), compiled(KeepingDevice("b"))
    memory, other = shared(first, second), shared(first, second)
    with first.create_burst() as one, second.create_burst() as two:
        add_one(first, ONES, memory, burst=one)
        for _ in range(3):
            add_one(second, memory, other, burst=two)
            add_one(first, other, memory, burst=one)
    np.testing.assert_array_equal(content(memory), ONES * 8)
    assert (memory.copies, other.copies) == (3, 3)


def test_a_step_of_a_plan_reads_and_writes_in_its_place() -> None:
    first = KeepingDevice("a")
    automatic = nd.CompilationBuilder(add_model(SHAPE), [first, KeepingDevice("b")])
    automatic.set_partitioning(nd.Partitioning(policy="android", overrides=(nd.pin("b", [0]),)))
    split = automatic.finish()
    alone = compiled(first)
    memory = shared(alone, split)
    result = np.empty_like(ONES)
    add_one(alone, ONES, memory)
    add_one(split, memory, result)
    np.testing.assert_array_equal(result, ONES * 3)
    assert memory.copies == 1


def test_a_failed_execution_leaves_no_value() -> None:
    broken = KeepingDevice("a")
    first, second = compiled(broken), compiled(KeepingDevice("b"))
    memory = shared(first, second)
    add_one(second, ONES, memory)
    broken.fails = OpFailed("broken")
    with pytest.raises(OpFailed, match="broken"):
        add_one(first, ONES, memory)
    with pytest.raises(OpFailed, match="holds no value"):
        add_one(second, memory, np.empty_like(ONES))


def test_the_host_copies_to_and_from_it() -> None:
    first, second = compiled(KeepingDevice("a")), compiled(KeepingDevice("b"))
    memory = shared(first, second)
    nd.Memory.copy(HostMemory(ONES * 5), memory)
    result = np.empty_like(ONES)
    for compilation in (first, second):
        add_one(compilation, memory, result)
        np.testing.assert_array_equal(result, ONES * 6)
    np.testing.assert_array_equal(content(memory), ONES * 5)


def test_daemons_keep_their_own_and_a_lost_place_is_filled_again() -> None:
    driver = "support.devices.buffers:create"
    with daemon_process(driver) as (process, address), daemon_process(driver) as (_, other_address):
        device, other = nd.connect(address), nd.connect(other_address)
        try:
            first, second, cpu = compiled(device), compiled(other), compiled(nd.devices()[0])
            memory = shared(first, second, cpu)
            result = np.empty_like(ONES)
            add_one(first, ONES, memory)
            add_one(second, memory, result)
            assert memory.copies == 1
            process.kill()
            process.wait()
            # The other daemon still has the value.
            add_one(second, memory, result)
            np.testing.assert_array_equal(result, ONES * 3)
            with pytest.raises(DeadObject):
                add_one(first, memory, result)
            add_one(cpu, memory, result)
            np.testing.assert_array_equal(result, ONES * 3)
        finally:
            device.close()
            other.close()


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_lost_value_is_no_failure_of_the_device_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """It is told at once, and nothing is prepared again for it."""
    monkeypatch.setattr(RemoteBuffer, "is_lost", False)  # as if the loss were noticed by the copy only
    driver = "support.devices.buffers:create"
    with daemon_process(driver) as (process, address), daemon_process(driver) as (_, other_address):
        device, other = nd.connect(address), nd.connect(other_address)
        try:
            first, second, cpu = compiled(device), compiled(other), compiled(nd.devices()[0])
            memory, result = shared(first, second, cpu), np.empty_like(ONES)
            add_one(first, ONES, memory)
            (process.kill if is_killed else process.terminate)()
            process.wait()
            prepared: list[RemoteDevice] = []
            monkeypatch.setattr(RemoteDevice, "prepare_model", lambda each, *_: prepared.append(each))
            with pytest.raises(LostValue, match="write it again"):
                add_one(second, memory, result)
            with pytest.raises(OpFailed, match="holds no value"):
                add_one(cpu, memory, result)
            for writer in (second, cpu):
                add_one(writer, ONES, memory)
                add_one(cpu, memory, result)
                np.testing.assert_array_equal(result, ONES * 3)
            assert not prepared
        finally:
            device.close()
            other.close()


def test_a_value_in_two_places_survives_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (KeepingDevice(name) for name in "abc")
    compilations = [compiled(each) for each in (first, second, third)]
    memory, result = shared(*compilations), np.empty_like(ONES)
    add_one(compilations[0], ONES, memory)
    add_one(compilations[1], memory, result)
    coherent = memory.memory
    assert isinstance(coherent, CoherentMemory)
    lost = coherent._places[coherent._valid_place()]

    def read(target: Memory) -> None:
        raise DeadObject("gone")

    monkeypatch.setattr(lost, "read", read)
    add_one(compilations[2], memory, result)
    np.testing.assert_array_equal(result, ONES * 3)


def test_the_cpu_device_and_a_daemon_of_it_copy_nothing() -> None:
    with daemon_process("cpu") as (_, address):
        device = nd.connect(address)
        try:
            here, there = compiled(nd.devices()[0]), compiled(device)
            memory, other = shared(here, there), shared(here, there)
            add_one(here, ONES, memory)
            add_one(there, memory, other)
            add_one(here, other, memory)
            np.testing.assert_array_equal(content(memory), ONES * 4)
            assert not memory.is_on_device
            assert (memory.copies, other.copies) == (0, 0)
        finally:
            device.close()
