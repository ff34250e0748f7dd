"""Inputs and outputs are transferred through pinned memory or directly."""

from typing import Any

import numpy as np
import pytest

from neurald.drivers.opencl.platform.device_facts import DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.errors import DeviceState
from neurald.drivers.opencl.platform.pinned_memory import PinnedAddress
from neurald.drivers.opencl.runtime import staging as staging_module
from neurald.drivers.opencl.runtime.launcher import CommandList
from neurald.drivers.opencl.runtime.staging import BufferRange, Staging, upload
from neurald.hal.errors import OpFailed, OutOfMemory
from neurald.hal.records import replace


@pytest.fixture(params=[DeviceKind.CPU, DeviceKind.GPU], ids=["direct", "pinned"])
def device(request: pytest.FixtureRequest, opencl: DeviceContext) -> DeviceContext:
    """Returns the device as a CPU, whose transfers are direct, or as a GPU."""
    return DeviceContext(replace(opencl.facts, kind=request.param))


def region(device: DeviceContext, size_bytes: int, offset_bytes: int = 0) -> BufferRange:
    import pyopencl as cl

    buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, size_bytes + offset_bytes + 1)
    return BufferRange(buffer=buffer, size_bytes=size_bytes, offset_bytes=offset_bytes)


def random_bytes(size: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(size).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("limit", [0, 100, 1 << 20])
def test_round_trips(device: DeviceContext, limit: int) -> None:
    """With limits for which all, some or none of the transfers are direct, and in several sizes."""
    queue = device.queue()
    with Staging(device, queue, [], [], max_pinned_bytes=limit) as staging:
        for round_ in range(4):
            if round_ != 1:
                factor = (1, 1, 3, 2)[round_]
                sizes = (60, 0), (1000, 12), (7, 1), (30, 0)
                ranges = [region(device, factor * size, offset) for size, offset in sizes]
                staging.place(ranges, ranges[::-1])
                commands = CommandList(device, [*staging.writes, *staging.reads])
            sources = [random_bytes(one.size_bytes) + np.uint8(round_) for one in ranges]
            targets = [np.zeros_like(source) for source in sources[::-1]]
            for index, source in enumerate(sources):
                staging.set_input(index, source.ctypes.data)
            for index, target in enumerate(targets):
                staging.set_output(index, target.ctypes.data)
            commands.run(queue)
            staging.complete()
            for source, target in zip(sources, targets[::-1], strict=True):
                np.testing.assert_array_equal(source, target)


def test_large_inputs_and_outputs_are_copied_in_pieces(
    device: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_module, "_LARGE_BYTES", 1000)
    monkeypatch.setattr(staging_module, "_PIECE_BYTES", 300)
    queue = device.queue()
    ranges = [region(device, 999), region(device, 1000, 12), region(device, 2411, 1), region(device, 1200)]
    with Staging(device, queue, ranges, ranges) as staging:
        if device.facts.kind is DeviceKind.GPU:
            assert len(staging.writes) == 1
        commands = CommandList(device, [*staging.writes, *staging.reads])
        for round_ in range(3):
            sources = [random_bytes(one.size_bytes) + np.uint8(round_) for one in ranges]
            targets = [np.zeros_like(source) for source in sources]
            for index, (source, target) in enumerate(zip(sources, targets, strict=True)):
                staging.set_input(index, source.ctypes.data)
                staging.set_output(index, target.ctypes.data)
            commands.run(queue)
            staging.complete()
            for source, target in zip(sources, targets, strict=True):
                np.testing.assert_array_equal(source, target)


def test_addresses_of_a_failed_execution_are_not_used_again(device: DeviceContext) -> None:
    """The next one may have fewer of them, or other memory at their place."""
    queue = device.queue()
    ranges = [region(device, 500), region(device, 700)]
    with Staging(device, queue, ranges, ranges) as staging:
        commands = CommandList(device, [*staging.writes, *staging.reads])
        sources = [random_bytes(one.size_bytes) for one in ranges]
        lost, targets = ([np.zeros_like(source) for source in sources] for _ in range(2))
        for index, (source, target) in enumerate(zip(sources, lost, strict=True)):
            staging.set_input(index, PinnedAddress(source.ctypes.data))
            staging.set_output(index, target.ctypes.data)
        staging.forget()
        assert not {each.address for each in (*staging.writes, *staging.reads)} & {
            each.ctypes.data for each in (*sources, *lost)
        }
        for index, (source, target) in enumerate(zip(sources, targets, strict=True)):
            staging.set_input(index, source.ctypes.data)
            staging.set_output(index, target.ctypes.data)
        commands.run(queue)
        staging.complete()
        assert not any(each.any() for each in lost)
        for source, target in zip(sources, targets, strict=True):
            np.testing.assert_array_equal(source, target)


@pytest.mark.parametrize("large_bytes", [1000, 1 << 20])
def test_pinned_addresses_are_transferred_directly(
    device: DeviceContext, monkeypatch: pytest.MonkeyPatch, large_bytes: int
) -> None:
    """Also between executions with others; an output that shares a transfer is copied."""
    monkeypatch.setattr(staging_module, "_LARGE_BYTES", large_bytes)
    monkeypatch.setattr(staging_module, "_PIECE_BYTES", 320)
    monkeypatch.setattr(staging_module, "_MIN_PAST_CACHES_BYTES", 500)
    monkeypatch.setattr(staging_module, "MIN_PINNED_BYTES", 1000)
    queue = device.queue()
    whole = region(device, 5000)
    inputs = [whole._replace(size_bytes=1200), whole._replace(size_bytes=600, offset_bytes=1300)]
    outputs = [inputs[0], *(whole._replace(size_bytes=300, offset_bytes=each) for each in (1300, 1600))]
    with Staging(device, queue, inputs, outputs) as staging:
        commands = CommandList(device, [*staging.writes, *staging.reads])
        for round_, is_pinned in enumerate((False, True, True, False, True)):
            sources = [random_bytes(each.size_bytes) + np.uint8(round_) for each in inputs]
            targets = [np.zeros(each.size_bytes, np.uint8) for each in outputs]
            kind = PinnedAddress if is_pinned else int
            for index, source in enumerate(sources):
                staging.set_input(index, kind(source.ctypes.data))
            for index, target in enumerate(targets):
                staging.set_output(index, kind(target.ctypes.data))
            if is_pinned and large_bytes > 1200:
                assert [each.address for each in staging.writes] == [each.ctypes.data for each in sources]
            commands.run(queue)
            staging.complete()
            np.testing.assert_array_equal(targets[0], sources[0])
            np.testing.assert_array_equal(np.concatenate(targets[1:]), sources[1])


def test_adjacent_outputs_share_a_transfer(device: DeviceContext) -> None:
    """With gaps between them, and with outputs inside of others."""
    import pyopencl as cl

    content = random_bytes(20_000)
    buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=content)
    ranges = [(9000, 11), (0, 100), (1000, 7), (40, 10), (8000, 500)]
    outputs = [BufferRange(buffer=buffer, size_bytes=size, offset_bytes=start) for start, size in ranges]
    queue = device.queue()
    with Staging(device, queue, [], outputs) as staging:
        assert len(staging.reads) == (5 if device.facts.is_cpu else 2)
        targets = [np.zeros(size, np.uint8) for _, size in ranges]
        for index, target in enumerate(targets):
            staging.set_output(index, target.ctypes.data)
        CommandList(device, staging.reads).run(queue)
        staging.complete()
    for target, (start, size) in zip(targets, ranges, strict=True):
        np.testing.assert_array_equal(target, content[start : start + size])


def test_addresses_are_dropped_after_an_execution(opencl: DeviceContext) -> None:
    queue = opencl.queue()
    where, source, target = region(opencl, 4), random_bytes(4), np.zeros(4, np.uint8)
    with Staging(opencl, queue, [where], [where], max_pinned_bytes=0) as staging:
        commands = CommandList(opencl, [*staging.writes, *staging.reads])
        staging.set_input(0, source.ctypes.data)
        staging.set_output(0, target.ctypes.data)
        commands.run(queue)
        staging.complete()
        with pytest.raises(OpFailed, match="writing to a buffer: CL_INVALID_VALUE"):
            commands.run(queue)


def test_without_pinned_memory_transfers_are_direct(
    device: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_staging: Staging, size_bytes: int) -> None:
        raise OutOfMemory(f"{size_bytes} bytes")

    monkeypatch.setattr(Staging, "_pinned", refuse)
    queue = device.queue()
    where, source, target = region(device, 100), random_bytes(100), np.zeros(100, np.uint8)
    with Staging(device, queue, [where], [where]) as staging:
        staging.set_input(0, source.ctypes.data)
        assert staging.writes[0].address == source.ctypes.data
        staging.set_output(0, target.ctypes.data)
        CommandList(device, [*staging.writes, *staging.reads]).run(queue)
        staging.complete()
    np.testing.assert_array_equal(target, source)


def test_pinned_memory_is_released_once(device: DeviceContext) -> None:
    staging = Staging(device, device.queue(), [region(device, 100)], [region(device, 100)])
    staging.set_input(0, random_bytes(100).ctypes.data)
    staging.close()
    staging.close()
    assert all(transfer.address == 0 for transfer in (*staging.writes, *staging.reads))


def test_pinned_memory_of_a_lost_device(device: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = Staging(device, device.queue(), [region(device, 100)], [])
    state = DeviceState("Test")
    state.error(-2, "testing")
    with monkeypatch.context() as patch:
        patch.setattr(device, "state", state)
        staging.close()


def test_constants_are_uploaded(opencl: DeviceContext) -> None:
    queue = opencl.queue()
    where = region(opencl, 12)
    target = np.zeros(3, np.float32)
    upload(opencl, queue, where.buffer, np.array([[1, 2, 3]], np.float32))
    upload(opencl, queue, where.buffer, b"")
    with Staging(opencl, queue, [], [where]) as staging:
        staging.set_output(0, target.ctypes.data)
        CommandList(opencl, staging.reads).run(queue)
        staging.complete()
    assert target.tolist() == [1, 2, 3]
