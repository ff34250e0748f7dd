"""Copies between memories of the host, memory behind descriptors, and padding in requests."""

import fcntl
import os
from pathlib import Path

import numpy as np
import pytest
from support.models.addition import FLOAT
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import BadData, UnexpectedNull, Unmappable
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.graph import Operand
from neurald.hal.model.request import Argument, Request
from neurald.hal.rpc.wire.model import request_from_wire, request_to_wire
from neurald.hal.validation.request_rules import validate_argument

pytestmark = pytest.mark.quick

CONTENT = bytes(range(100))


def test_copies_between_memories_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    with path.open("r+b") as file:
        mapped = Memory.from_fd(file.fileno(), 100)
    shared, array = nd.Memory.allocate(100), HostMemory(np.zeros(25, np.float32))
    source: Memory = HostMemory(CONTENT)
    for target in (shared, array, mapped):
        nd.Memory.copy(source, target)
        assert bytes(target.view()) == CONTENT
        source = target
    assert path.read_bytes() == CONTENT
    nd.Memory.copy(shared, shared)


def test_refused_copies() -> None:
    target = nd.Memory.allocate(100)
    for source, other, error in (
        (None, target, UnexpectedNull),
        (target, None, UnexpectedNull),
        (HostMemory(bytes(99)), target, BadData),
        (HostMemory(bytes(101)), target, BadData),
        (target, HostMemory(bytes(100)), BadData),
        (target, SharedMemory.constant(memoryview(CONTENT)), BadData),
    ):
        with pytest.raises(error):
            nd.Memory.copy(source, other)  # type: ignore[arg-type]
    assert not any(target.view())


# Behind descriptors


def test_a_sealed_memfd_goes_to_drivers_as_it_is() -> None:
    origin = SharedMemory.create(100)
    again = Memory.from_fd(origin.fd, 100)
    assert isinstance(again, SharedMemory)
    assert not again.readonly
    again.view()[:] = CONTENT
    assert bytes(origin.view()) == CONTENT
    origin.close()
    assert os.fstat(again.fd).st_size == 100
    part = Memory.from_fd(again.fd, 50, 10)
    assert not isinstance(part, SharedMemory)
    assert bytes(part.view()) == CONTENT[10:60]


def test_a_constant_memfd_stays_constant() -> None:
    origin = SharedMemory.constant(memoryview(CONTENT))
    again = Memory.from_fd(origin.fd, 100)
    assert isinstance(again, SharedMemory)
    assert again.readonly
    assert bytes(again.view()) == CONTENT


@sweep("seals", [0, fcntl.F_SEAL_GROW, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW])
def test_a_memfd_that_can_change_does_not(seals: int) -> None:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 100)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    assert not isinstance(Memory.from_fd(fd, 100), SharedMemory)
    os.close(fd)


def test_a_sealed_memfd_open_for_reading_only() -> None:
    origin = SharedMemory.create(100)
    fd = os.open(f"/proc/self/fd/{origin.fd}", os.O_RDONLY)
    memory = Memory.from_fd(fd, 100)
    os.close(fd)
    assert memory.readonly
    assert not isinstance(memory, SharedMemory)


def test_access_is_that_of_the_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    for flags, readonly in ((os.O_RDONLY, True), (os.O_RDWR, False)):
        fd = os.open(path, flags)
        memory = Memory.from_fd(fd, 60, 40)
        os.close(fd)
        assert memory.readonly is readonly
        assert bytes(memory.view()) == CONTENT[40:]
    fd = os.open(path, os.O_WRONLY)
    with pytest.raises(Unmappable):
        Memory.from_fd(fd, 100)
    os.close(fd)


def test_what_is_no_file(tmp_path: Path) -> None:
    ends = os.pipe()
    descriptors = (*ends, os.open(tmp_path, os.O_RDONLY), os.open("/dev/zero", os.O_RDWR))
    for fd in descriptors:
        with pytest.raises(Unmappable):
            Memory.from_fd(fd, 1)
        os.close(fd)
    for fd in (-1, 10**6, 1 << 40):
        with pytest.raises(BadData):
            Memory.from_fd(fd, 1)


@sweep(
    ("size", "offset"), [(0, 0), (-1, 0), (101, 0), (100, 1), (1, 100), (1, -1), (1 << 70, 0), (1, 1 << 70)]
)
def test_ranges_outside_of_the_file(tmp_path: Path, size: int, offset: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with path.open("rb") as file, pytest.raises(BadData):
        Memory.from_fd(file.fileno(), size, offset)


# Padding in requests

OPERAND = Operand(type=FLOAT, dimensions=(5,))


@sweep("is_output", [False, True])
@sweep(
    ("offset", "length", "padding", "is_valid"),
    [
        (0, 20, 0, True),
        (0, 20, 80, True),
        (60, 20, 20, True),
        (0, 24, 0, False),
        (0, 24, 4, False),
        (0, 16, 4, False),
        (0, 20, 81, False),
        (64, 20, 20, False),
        (0, 20, -1, False),
    ],
)
def test_more_memory_is_declared_as_padding(
    is_output: bool, offset: int, length: int, padding: int, is_valid: bool
) -> None:
    argument = Argument(pool=0, offset=offset, length=length, padding=padding)
    pools = (HostMemory(bytearray(100)),)
    if is_valid:
        validate_argument(argument, OPERAND, pools, "argument", is_output=is_output)
        return
    with pytest.raises(BadData):
        validate_argument(argument, OPERAND, pools, "argument", is_output=is_output)


def test_padding_of_nothing() -> None:
    with pytest.raises(BadData):
        validate_argument(Argument(padding=1), OPERAND, (), "argument", is_output=False)


def test_padding_travels() -> None:
    argument = Argument(pool=0, offset=4, length=20, padding=44)
    pool = HostMemory(bytearray(100))
    request = Request(inputs=(argument,), outputs=(Argument(pool=0, length=1),), pools=(pool,))
    assert request_from_wire(request_to_wire(request, ()), (pool,)) == request
