"""Decoding of requests in a server."""

import random
import threading
from contextlib import ExitStack
from typing import Any

import pytest
from support.sweeps import sweep
from support.waiting import wait_until

from neurald._proto import device_pb2, types_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.calls import message_reader as module
from neurald.hal.admission.calls.message_reader import MessageReader
from neurald.hal.admission.executions.serving_turns import ServingTurns
from neurald.hal.admission.sessions.session import Session
from neurald.hal.errors import BadData, ResourceExhaustedPersistent, ResourceExhaustedTransient

KIND = device_pb2.PrepareModelRequest


def new_reader() -> MessageReader:
    return MessageReader(ServingTurns(), {})


def content(operands: int) -> bytes:
    rng = random.Random(operands)
    graph = types_pb2.Subgraph(
        operands=[types_pb2.Operand(scale=0.5, name=rng.randbytes(8).hex()) for _ in range(operands)]
    )
    return KIND(model=types_pb2.Model(main=graph)).SerializeToString()


@sweep("operands", [1, 1000, 10_000])
def test_messages_of_all_sizes(operands: int) -> None:
    data, reader, session = content(operands), new_reader(), Session(Limits())
    with reader.reading(KIND, data) as message:
        assert message(session) == KIND.FromString(data)
    for damaged in (data + b"\x7a\x00", data[:-1]):
        with pytest.raises(BadData), reader.reading(KIND, damaged) as message:
            message(session)
    assert not reader._budget._taken


def test_parts_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MESSAGE_PARTS", 1001)
    reader, session = new_reader(), Session(Limits())
    for operands in (999, 1000):
        with reader.reading(KIND, content(operands)) as message:
            if operands == 999:
                message(session)
                continue
            with pytest.raises(ResourceExhaustedPersistent, match="1002 parts"):
                message(session)


def test_what_is_made_of_messages_is_limited_for_as_long_as_it_is_worked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MAX_BYTES", 3_000_000)
    monkeypatch.setattr(module, "_MAX_CLIENT_BYTES", 2_000_000)
    monkeypatch.setattr(module, "_BUDGET_WAIT_S", 0.01)
    reader, (a, b, c) = new_reader(), (Session(Limits()) for _ in range(3))
    data = content(2000)  # 800,000 bytes for the operands, and 400,000 for their bytes
    with ExitStack() as held:
        held.enter_context(reader.reading(KIND, data))(a)
        with pytest.raises(ResourceExhaustedTransient, match="this client"):
            held.enter_context(reader.reading(KIND, data))(a)
        held.enter_context(reader.reading(KIND, data))(b)
        with pytest.raises(ResourceExhaustedTransient):
            held.enter_context(reader.reading(KIND, data))(c)
    with reader.reading(KIND, data) as message:
        message(c)


def test_users_take_turns_and_a_turn_ends_before_the_wait() -> None:
    """A large message of another user is decoded before further ones of the first user."""
    reader, data = new_reader(), content(10_000)
    first, second = Session(Limits(), 1), Session(Limits(), 2)
    order: list[Any] = []
    decode = reader._read
    started, proceed = threading.Event(), threading.Event()

    def decoding(kind: Any, data: bytes, owner: Any, held: Any) -> Any:
        order.append(owner)
        started.set()
        assert proceed.wait(30)
        return decode(kind, data, owner, held)

    reader._read = decoding  # type: ignore[method-assign]

    def read(session: Session) -> None:
        with reader._turns.turn(session.user, session.token), reader.reading(KIND, data) as message:
            message(session)

    threads = []
    for waiting, session in enumerate((first, first, first, second)):
        threads.append(threading.Thread(target=read, args=(session,)))
        threads[-1].start()
        assert started.wait(30)
        wait_until(lambda waiting=waiting: reader._queue.waiting == waiting)  # type: ignore[misc]
        assert reader._turns._holder is None
    proceed.set()
    for thread in threads:
        thread.join(30)
    assert order == [first.token, second.token, first.token, first.token]
