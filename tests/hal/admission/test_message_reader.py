"""Decoding of requests in a server."""

import random
from contextlib import ExitStack
from typing import Any

import pytest
from support.sweeps import sweep

from neurald._proto import device_pb2, types_pb2
from neurald.hal.admission import message_reader as module
from neurald.hal.admission.message_reader import MessageReader
from neurald.hal.errors import BadData, ResourceExhaustedPersistent, ResourceExhaustedTransient
from neurald.hal.rpc.transport.status import SESSION_KEY

KIND = device_pb2.PrepareModelRequest


class Context:
    """The context of a call with a session."""

    def __init__(self, session: str) -> None:
        self._session = session

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("other", "x"), (SESSION_KEY, self._session))


def content(operands: int) -> bytes:
    rng = random.Random(operands)
    graph = types_pb2.Subgraph(
        operands=[types_pb2.Operand(scale=0.5, name=rng.randbytes(8).hex()) for _ in range(operands)]
    )
    return KIND(model=types_pb2.Model(main=graph)).SerializeToString()


@sweep("operands", [1, 1000, 10_000])
def test_messages_of_all_sizes(operands: int) -> None:
    data, reader, context = content(operands), MessageReader(), Context("a")
    with reader.reading(KIND, data, context) as message:  # type: ignore[arg-type]
        assert message() == KIND.FromString(data)
    for damaged in (data + b"\x7a\x00", data[:-1]):
        with pytest.raises(BadData), reader.reading(KIND, damaged, context) as message:  # type: ignore[arg-type]
            message()
    assert not reader._budget._taken


def test_parts_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MESSAGE_PARTS", 1001)
    reader: Any = MessageReader()
    for operands in (999, 1000):
        with reader.reading(KIND, content(operands), Context("a")) as message:
            if operands == 999:
                message()
                continue
            with pytest.raises(ResourceExhaustedPersistent, match="1002 parts"):
                message()


def test_what_is_made_of_messages_is_limited_for_as_long_as_it_is_worked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MAX_BYTES", 3_000_000)
    monkeypatch.setattr(module, "_MAX_CLIENT_BYTES", 2_000_000)
    monkeypatch.setattr(module, "_BUDGET_WAIT_S", 0.01)
    reader: Any = MessageReader()
    data = content(2000)  # 800,000 bytes for the operands, and 400,000 for their bytes
    with ExitStack() as held:
        held.enter_context(reader.reading(KIND, data, Context("a")))()
        with pytest.raises(ResourceExhaustedTransient, match="this client"):
            held.enter_context(reader.reading(KIND, data, Context("a")))()
        held.enter_context(reader.reading(KIND, data, Context("b")))()
        with pytest.raises(ResourceExhaustedTransient):
            held.enter_context(reader.reading(KIND, data, Context("c")))()
    with reader.reading(KIND, data, Context("c")) as message:
        message()
