"""Conversion of kernel times: nothing is lost, and invalid messages are refused."""

import pytest
from support.sweeps import sweep

import neurald.hal.rpc.wire.profile as wire_profile
from neurald._proto import device_pb2
from neurald.hal.device import MAX_DURATION_NS, REFERENCE, KernelTime
from neurald.hal.errors import BadData
from neurald.hal.rpc.wire.profile import profile_from_wire, profile_to_wire

KERNELS = (
    KernelTime(name="run_0", duration_ns=1500, operations=(0, 2), label="tile 64x64, tensor cores"),
    KernelTime(name="SOFTMAX", duration_ns=0, operations=(1,), label=REFERENCE),
    KernelTime(name="µ", duration_ns=MAX_DURATION_NS, operations=()),
)


def message(**fields: object) -> device_pb2.ProfileReply:
    return device_pb2.ProfileReply(kernels=[device_pb2.KernelTime(**fields)])  # type: ignore[arg-type]


@sweep("operations", [3, 100, None])
def test_nothing_is_lost(operations: int | None) -> None:
    data = profile_to_wire(KERNELS).SerializeToString()
    assert profile_from_wire(device_pb2.ProfileReply.FromString(data), operations) == KERNELS
    assert profile_from_wire(profile_to_wire(()), operations) == ()


def test_long_and_odd_texts_can_be_sent() -> None:
    kernel = KernelTime(name="n" * 1000, duration_ns=1, operations=(), label="\udc80" * 1000)
    (received,) = profile_from_wire(profile_to_wire((kernel,)), 1)
    assert (received.name, received.label) == ("n" * 256, "?" * 256)


def test_operations_are_those_of_the_model() -> None:
    assert profile_from_wire(message(name="k", operations=[0, 2]), 3)[0].operations == (0, 2)
    with pytest.raises(BadData, match="kernel 'k' computes operation 3; the model has 3"):
        profile_from_wire(message(name="k", operations=[0, 3]), 3)
    with pytest.raises(BadData, match="operation 4294967295"):
        profile_from_wire(message(operations=[2**32 - 1]), None)


def test_what_is_no_time() -> None:
    with pytest.raises(BadData, match=r"at most \d+ are expected"):
        profile_from_wire(message(duration_ns=2**64 - 1), 1)


@sweep("field", ["name", "label"])
def test_long_texts_are_refused(field: str) -> None:
    with pytest.raises(BadData, match="256 characters"):
        profile_from_wire(message(**{field: "x" * 257}), 1)


def test_numbers_of_kernels_and_operations_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_profile, "_MAX_KERNELS", 3)
    monkeypatch.setattr(wire_profile, "_MAX_MENTIONS", 4)
    one = device_pb2.KernelTime(operations=[0])
    profile_from_wire(device_pb2.ProfileReply(kernels=[one] * 3), 1)
    with pytest.raises(BadData, match="4 kernels of 4 operations; at most 3 and 4"):
        profile_from_wire(device_pb2.ProfileReply(kernels=[one] * 4), 1)
    with pytest.raises(BadData, match="1 kernels of 5 operations"):
        profile_from_wire(message(operations=[0] * 5), 1)
