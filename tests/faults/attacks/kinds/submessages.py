"""Attack with millions of empty submessages, which grow many times over when parsed."""

from typing import Any

from faults.attacks.attack import MIB, Attack
from support.daemon.raw_client import RawClient, closed, reply_of

#: Sizes of messages; the limit is 16.
_MESSAGE_MIB = (15, 32, 60)
_AT_ONCE = 3
#: An empty operand in the main graph of a model.
_PART = b"\x0a\x00"


class Submessages(Attack):
    """Models of empty operands, in all sizes, with and without a session."""

    name = "tiny submessages"

    def start(self) -> None:
        self._clients = [RawClient(self.target.address), RawClient.opened(self.target.address)]
        self._messages = [_model(self.scaled(size * MIB)) for size in _MESSAGE_MIB]
        self._under_way: list[Any] = []

    def step(self) -> None:
        self._under_way = [
            client.begin(method, message, 60.0)
            for client in self._clients
            for message in self._messages
            for method in ("PrepareModel", "GetSupportedOperations")[: self.scaled(_AT_ONCE)]
        ]
        for call in self._under_way:
            reply = reply_of(call)
            self.outcomes[reply.status] += 1
            self.expect(not reply.is_ok, "a model of empty operands was taken")

    def stop(self) -> None:
        for call in self._under_way:
            call.cancel()
        closed(*self._clients)


def _model(size_bytes: int) -> bytes:
    graph = _field(1, _PART * (size_bytes // len(_PART)))
    return _field(1, graph)


def _field(number: int, content: bytes) -> bytes:
    """Encodes a length-delimited field of a message."""
    length = len(content)
    head = bytearray([number << 3 | 2])
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + content
