"""Descriptions of tensors in arenas, which are not trusted."""

import numpy as np
import pytest

from neurald.hal.errors import BadData
from neurald.hal.lanes.packets import (
    BYTES,
    MAX_PACKET_BYTES,
    Arena,
    RingMemory,
    RunOrder,
    TensorAt,
    aligned,
    decode_order,
    encode,
    kind_of,
    type_named,
)

ARENA = memoryview(bytearray(256))


def test_tensors_are_arrays_on_the_arena() -> None:
    array = TensorAt(kind="int16", shape=(2, 3), offset=64, size=12).in_arena(ARENA)
    array[1, 2] = 7
    assert ARENA[74] == 7
    assert TensorAt(kind="float32", shape=(0, 3), offset=256, size=0).in_arena(ARENA).shape == (0, 3)


@pytest.mark.parametrize(
    "tensor",
    [
        TensorAt(kind="int16", shape=(2, 3), offset=250, size=12),
        TensorAt(kind="int16", shape=(2, 3), offset=-12, size=12),
        TensorAt(kind="int16", shape=(2, 3), offset=2**63, size=12),
        TensorAt(kind="int16", shape=(2, 3), offset=0, size=11),
        TensorAt(kind="int16", shape=(-2, -3), offset=0, size=12),
        TensorAt(kind="int16", shape=(2**62, 2**62), offset=0, size=0),
        TensorAt(kind="int16", shape=(1,) * 33, offset=0, size=2),
        TensorAt(kind="complex64", shape=(1,), offset=0, size=8),
        TensorAt(kind="object", shape=(1,), offset=0, size=8),
        TensorAt(kind=BYTES, shape=(100,), offset=0, size=8),
        # An empty array, too, has lengths whose product can be counted.
        TensorAt(kind="float32", shape=(0, 2**40, 2**40), offset=0, size=0),
        TensorAt(kind="bool", shape=(2**62, 0), offset=0, size=0),
        TensorAt(kind="bool", shape=(0, 2**63 - 1), offset=0, size=0),
        TensorAt(kind="bool", shape=(0, 2**64), offset=0, size=0),
        TensorAt(kind=BYTES, shape=(1, 0, 2**31, 2**31), offset=0, size=0),
    ],
)
def test_tensors_that_are_not_in_the_arena_are_refused(tensor: TensorAt) -> None:
    with pytest.raises(BadData):
        tensor.in_arena(ARENA)


def test_packets_are_the_same_after_encoding() -> None:
    tensor = TensorAt(kind="int8", shape=(1, 2), offset=0, size=2)
    for packet in (
        RunOrder(number=1, slot=0, inputs=(tensor,), results_at=64, wanted=(0,)),
        Arena(size=5),
        RingMemory(size=4096),
    ):
        assert decode_order(encode(packet)) == packet
    many = RunOrder(number=1, slot=0, inputs=(tensor,) * MAX_PACKET_BYTES, results_at=0, wanted=())
    with pytest.raises(BadData, match="describe"):
        encode(many)


def test_types_have_names() -> None:
    assert kind_of(np.dtype("<f2")) == "float16"
    assert kind_of(np.dtype(object)) == BYTES
    assert type_named("uint64") == np.uint64
    with pytest.raises(BadData):
        kind_of(np.dtype("c8"))
    assert [aligned(each) for each in (0, 1, 64, 65)] == [0, 64, 64, 128]
