"""Kernels in columns are those that they were made of, and damaged columns are refused."""

import msgspec
import pytest

from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.cpu.target.kernel_calls import KernelCall, KernelCalls
from neurald.hal.errors import BadData

CALLS = (
    KernelCall(
        function="first",
        locations=(BufferLocation(Base.ARENA, 64), BufferLocation(Base.CONSTANTS, 0)),
        work_items=3,
        cost_ns=12.5,
        messages=("a", "b"),
        label="adds",
        operations=(0, 2),
    ),
    KernelCall(
        function="second",
        locations=(
            BufferLocation(Base.ARENA, 128),
            BufferLocation(Base.STRINGS, 0),
            BufferLocation(Base.EXTENTS, 8),
        ),
        work_items=0,
        cost_ns=0.0,
    ),
)
SIZES = [128, 64, 8, 0, 0]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_columns_hold_all_of_a_kernel(count: int) -> None:
    calls = KernelCalls.of(CALLS[:count])
    assert tuple(calls) == CALLS[:count]
    assert len(calls) == count
    assert [calls[number] for number in range(count)] == list(CALLS[:count])
    assert KernelCalls.of(calls) is calls
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(calls), type=KernelCalls)
    assert again == calls
    again.check(SIZES)
    assert tuple(again) == CALLS[:count]


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_an_argument_beyond_its_buffer(number: int) -> None:
    sizes = list(SIZES)
    sizes[number] -= 1
    calls = KernelCalls.of(CALLS)
    if number in {
        place.base for call in CALLS for place in call.locations if place.offset == SIZES[place.base]
    }:
        with pytest.raises(BadData, match="outside its buffer"):
            calls.check(sizes)


@pytest.mark.parametrize(
    "changes",
    [
        {"functions": ("first",)},
        {"work_items": (1,)},
        {"work_items": (1, -1)},
        {"work_items": (1, 1 << 63)},
        {"costs_ns": ()},
        {"costs_ns": (1.0, float("nan"))},
        {"costs_ns": (1.0, -1.0)},
        {"counts": (5,)},
        {"counts": (5, 0)},
        {"counts": (2, 2)},
        {"bases": b"\0" * 4},
        {"bases": b"\x05" * 5},
        {"offsets": bytes(39)},
        {"offsets": bytes(48)},
        {"offsets": bytes(32) + b"\xff" * 8},
        {"functions": (), "work_items": (), "costs_ns": (), "counts": ()},
    ],
)
def test_columns_that_do_not_fit(changes: dict[str, object]) -> None:
    with pytest.raises(BadData):
        msgspec.structs.replace(KernelCalls.of(CALLS), **changes).check(SIZES)


@pytest.mark.parametrize("details", [b"\xc1", b"\x90", b"\x93\x90\x90\x90"])
def test_damaged_details(details: bytes) -> None:
    calls = msgspec.structs.replace(KernelCalls.of(CALLS), details=msgspec.Raw(details))
    calls.check(SIZES)
    with pytest.raises(BadData, match="the details"):
        tuple(calls)
