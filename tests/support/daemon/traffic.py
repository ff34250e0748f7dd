"""Counts the messages and bytes that clients in this process exchange with daemons."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from google.protobuf.message import Message

from neurald.hal.memory.pool import Memory
from neurald.hal.rpc.client.calls.carried_answer import CarriedAnswer
from neurald.hal.rpc.client.calls.client_calls import ClientCalls
from neurald.hal.rpc.client.calls.kept_stream import KeptStream
from neurald.hal.rpc.client.connection import Connection


class Traffic:
    """The gRPC messages of all connections, and their sizes without overhead.

    The opening of sessions, and the release of memories in the background, are not counted.

    Args:
        monkeypatch: has the methods of connections replaced by counting ones.

    Attributes:
        messages_sent: the number of messages to daemons.
        bytes_sent, bytes_received: the sizes of all messages to and from daemons.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.messages_sent = self.bytes_sent = self.bytes_received = 0
        invoke, replies, exchange = ClientCalls.invoke, ClientCalls.replies, KeptStream.exchange
        read_memory, take = Connection.read_memory, CarriedAnswer.take

        def counted_invoke(own: ClientCalls, method: str, stub: Any, message: Any, *rest: Any) -> Any:
            reply = invoke(own, method, stub, self._counted(message), *rest)
            if isinstance(reply, Message):  # others are counted when an answer takes them
                self.bytes_received += reply.ByteSize()
            return reply

        def counted_replies(own: ClientCalls, method: str, stub: Any, messages: Any, *rest: Any) -> Any:
            return replies(own, method, stub, self._each(messages), *rest)

        def counted_exchange(own: KeptStream, messages: Any, *rest: Any) -> bool:
            return exchange(own, self._each(messages), *rest)

        def counted_read(
            own: Connection, token: bytes, target: Memory, deadline_s: float | None = None
        ) -> None:
            read_memory(own, token, target, deadline_s)
            self._sent(len(token))
            self.bytes_received += target.size

        def counted_take(own: CarriedAnswer, data: bytes) -> bool:
            self.bytes_received += len(data)
            return take(own, data)

        monkeypatch.setattr(ClientCalls, "invoke", counted_invoke)
        monkeypatch.setattr(ClientCalls, "replies", counted_replies)
        monkeypatch.setattr(KeptStream, "exchange", counted_exchange)
        monkeypatch.setattr(Connection, "read_memory", counted_read)
        monkeypatch.setattr(CarriedAnswer, "take", counted_take)

    def _counted(self, message: Any) -> Any:
        if isinstance(message, Message | bytes):
            self._sent(message.ByteSize() if isinstance(message, Message) else len(message))
            return message
        return self._each(message)

    def _each(self, messages: Iterable[Any]) -> Iterator[Any]:
        for message in messages:
            yield self._counted(message)

    def _sent(self, size_bytes: int) -> None:
        self.messages_sent += 1
        self.bytes_sent += size_bytes
