"""Answers are complete once all memories are full, and other answers are refused."""

import pytest

from neurald._proto import device_pb2, types_pb2
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import HostMemory
from neurald.hal.rpc.client.calls.carried_answer import CarriedAnswer


def message(*sizes: int, is_sufficient: bool | None = None) -> bytes:
    """Encodes a message with chunks of some sizes, and with a reply unless that is None."""
    reply = None
    if is_sufficient is not None:
        reply = device_pb2.ExecuteReply(output_shapes=[types_pb2.OutputShape(sufficient=is_sufficient)])
    chunks = [device_pb2.DataChunk(content=b"x" * size) for size in sizes]
    return device_pb2.ExecuteWithDataReply(reply=reply, chunks=chunks).SerializeToString()


@pytest.fixture
def memory() -> HostMemory:
    return HostMemory(bytearray(8))


@pytest.fixture
def answer(memory: HostMemory) -> CarriedAnswer:
    return CarriedAnswer([memory], "10.0.0.1:1")


def test_it_is_complete_once_the_memories_are_full(answer: CarriedAnswer, memory: HostMemory) -> None:
    assert [
        answer.take(message(4, is_sufficient=True)),
        answer.take(message(3)),
        answer.take(message(1)),
    ] == [
        False,
        False,
        True,
    ]
    assert bytes(memory.view()) == b"x" * 8
    assert answer.reply.output_shapes[0].sufficient


def test_outputs_that_do_not_fit_have_no_content(answer: CarriedAnswer, memory: HostMemory) -> None:
    assert answer.take(message(is_sufficient=False))
    assert not answer.reply.output_shapes[0].sufficient
    assert bytes(memory.view()) == bytes(8)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [message(4, is_sufficient=True)],
        [message(9, is_sufficient=True)],
        [message(8, is_sufficient=True), message(1)],
        [b"\xff"],
    ],
    ids=["none", "too little", "too much", "more than all", "no message"],
)
def test_answers_that_are_not_valid(answer: CarriedAnswer, messages: list[bytes]) -> None:
    def read() -> None:
        for each in messages:
            answer.take(each)
        answer.reply  # noqa: B018

    with pytest.raises(OpFailed, match=r"invalid reply from the daemon at 10\.0\.0\.1:1"):
        read()
