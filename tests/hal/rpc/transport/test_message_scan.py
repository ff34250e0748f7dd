"""Counting the parts of serialized messages, and decoding them piece by piece."""

import random
import time
import tracemalloc
from typing import Any

import pytest
from google.protobuf.message import Message
from support.sweeps import sweep

from neurald._proto import device_pb2, types_pb2
from neurald.hal.errors import BadData, Error, ResourceExhaustedPersistent
from neurald.hal.rpc.transport import message_scan
from neurald.hal.rpc.transport.message_scan import count_parts, parse_in_pieces
from neurald.hal.rpc.transport.status import parse


def delimited(number: int, content: bytes) -> bytes:
    """Returns a field whose value has this many bytes."""
    length, size = b"", len(content)
    while size > 0x7F:
        length += bytes((size & 0x7F | 0x80,))
        size >>= 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + content


def model(rng: random.Random) -> types_pb2.Model:
    """Returns a message with every kind of field: packed numbers, maps, bytes, nested messages."""

    def graph() -> types_pb2.Subgraph:
        operands = [
            types_pb2.Operand(
                type=rng.randrange(16),  # type: ignore[arg-type]
                dimensions=types_pb2.Dimensions(
                    sizes=[rng.randrange(1 << 20) for _ in range(rng.randrange(5))]
                ),
                scale=rng.random(),
                zero_point=rng.randrange(-9, 300),
                channel_quant=types_pb2.ChannelQuant(dimension=1, scales=[0.5] * rng.randrange(9)),
                value=rng.randbytes(rng.randrange(20)),
                location=types_pb2.Location(pool=1, offset=rng.randrange(1 << 40), length=7),
                name="n" * rng.randrange(200),
                number=rng.randrange(1 << 30),
            )
            for _ in range(rng.randrange(12))
        ]
        operations = [
            types_pb2.Operation(type=3, inputs=range(rng.randrange(200)), outputs=[1])  # type: ignore[arg-type]
            for _ in range(rng.randrange(12))
        ]
        return types_pb2.Subgraph(operands=operands, operations=operations, inputs=[1, 2], outputs=[300])

    return types_pb2.Model(
        main=graph(),
        referenced=[graph() for _ in range(rng.randrange(4))],
        pools=[rng.randbytes(16) for _ in range(rng.randrange(20))],
        relaxed=True,
        input_names=["", "ü"],
        signatures={f"s{k}": types_pb2.Model.Signature(inputs=["a"] * k) for k in range(rng.randrange(5))},
    )


def request(rng: random.Random) -> device_pb2.PrepareModelRequest:
    options = device_pb2.PrepareOptions(deadline_s=rng.random(), threads=3, cache_key=bytes(32))
    return device_pb2.PrepareModelRequest(model=model(rng), options=options)


def parts(message: Any) -> int:
    """Returns the number of messages, and of strings and byte strings in repeated fields."""
    count = 0
    for field, value in message.ListFields():
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        values = list(value) if field.is_repeated else [value]
        if is_map:
            count += len(values) + sum(1 + parts(value[key]) for key in values)
        elif field.message_type is not None:
            count += sum(1 + parts(each) for each in values)
        elif field.is_repeated and isinstance(values[0], str | bytes):
            count += len(values)
    return count


@sweep("seed", range(20))
def test_parts_are_counted_and_pieces_make_up_the_message(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(message_scan, "_PIECE_BYTES", rng.choice((1, 10, 100, 1000, 1 << 20)))
    message = request(rng)
    data = message.SerializeToString()
    assert count_parts(type(message), data, 1 << 20) == parts(message)
    assert parse_in_pieces(type(message), data) == message
    # A message is also what several of them are one after another.
    data += request(rng).SerializeToString()
    assert parse_in_pieces(type(message), data) == device_pb2.PrepareModelRequest.FromString(data)


def outcome(call: Any) -> Message | type[Error]:
    try:
        found: Message = call()
    except Error as error:
        return type(error)
    return found


@sweep("seed", range(10))
def test_damaged_messages_are_refused_as_protobuf_refuses_them(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(message_scan, "_PIECE_BYTES", 50)
    rng = random.Random(seed)
    content = request(rng).SerializeToString()
    kind = device_pb2.PrepareModelRequest
    refused = 0
    for _ in range(300):
        data = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        damaged = bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])

        def scanned(damaged: bytes = damaged) -> Message:
            count_parts(kind, damaged, 1 << 20)
            return parse_in_pieces(kind, damaged)

        expected = outcome(lambda damaged=damaged: parse(kind, damaged))
        assert outcome(scanned) == expected, damaged
        refused += expected is BadData
    assert 50 < refused < 300


@sweep(
    "data",
    [
        b"\x0a",  # no length
        b"\x0a\x05abc",  # leads out of the message
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length of too many bytes
        b"\x0a\x02\x0a\x09" + bytes(20),  # leads out of the message inside, and not out of all
        b"\x08\x01",  # a number for a message
        b"\x7a\x00",  # a field that there is not
        b"\x0b\x0c",  # a group
        b"\x12\x02\x19\x00",  # half a number
        b"\x80" * 20,
    ],
)
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(BadData, match=r"not a valid message|not known here"):
        count_parts(device_pb2.PrepareModelRequest, data, 10)
    with pytest.raises(BadData):
        parse(device_pb2.PrepareModelRequest, data)


@pytest.mark.timed
@pytest.mark.parametrize("part", [b"\x0a\x00", b"\x0a\x02\x08\x01", b"\x12\x02\x12\x00"])
def test_messages_of_millions_of_parts_cost_nothing(part: bytes) -> None:
    """Decoded they would take gigabytes."""
    data = delimited(1, delimited(1, part * ((32 << 20) // len(part))))
    tracemalloc.start()
    started = time.thread_time()
    with pytest.raises(ResourceExhaustedPersistent, match=r"has \d+ parts in its first \d+"):
        count_parts(device_pb2.PrepareModelRequest, data, 20_000)
    taken_s = time.thread_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 16
    assert taken_s < 0.5


def test_parts_that_hold_nothing_are_not_counted_to_the_end() -> None:
    data = delimited(1, delimited(1, b"\x0a\x00" * 100_000))
    with pytest.raises(ResourceExhaustedPersistent, match="of which most are empty"):
        count_parts(device_pb2.PrepareModelRequest, data, 1 << 20)
    few = delimited(1, delimited(1, b"\x0a\x00" * 1000))
    assert count_parts(device_pb2.PrepareModelRequest, few, 1 << 20) == 1002
    with pytest.raises(ResourceExhaustedPersistent, match="at most 1001"):
        count_parts(device_pb2.PrepareModelRequest, few, 1001)
