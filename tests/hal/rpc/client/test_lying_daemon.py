"""A daemon that lies in any field of a reply is refused with a reason, or without effect."""

import collections
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message
from support.models.addition import AddingDevice, addition, request

import neurald as nd
from neurald._proto import device_pb2
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.calls import answer_silence
from neurald.hal.rpc.client.calls.carried_answer import CarriedAnswer
from neurald.hal.rpc.client.calls.client_calls import ClientCalls
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer

_SIGNED = {Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_SINT32, Field.TYPE_SINT64, Field.TYPE_ENUM}
_WIDE = {Field.TYPE_INT64, Field.TYPE_UINT64, Field.TYPE_SINT64, Field.TYPE_FIXED64}
_UNSIGNED = {Field.TYPE_UINT32, Field.TYPE_UINT64, Field.TYPE_FIXED32, Field.TYPE_FIXED64}
_MANY = 3000
#: Calls whose answers are seen here after it has been checked that there is one.
_CHECKED_LATER = ("Describe", "ExecuteWithData")
_LIMIT_S = 60.0

#: The fields that lead to a field, with the index of an element or None, and what happens to it.
Lie = tuple[tuple[tuple[str, int | None], ...], str, Any]


def _values(descriptor: Any) -> Sequence[Any]:
    """Returns values that a field may have."""
    kind = descriptor.type
    if kind in _SIGNED | _UNSIGNED:
        bits = (64 if kind in _WIDE else 32) - (kind in _SIGNED)
        lowest = -(1 << bits) if kind in _SIGNED else 0
        return (0, 1, 7, 255, 1 << bits - 1, (1 << bits) - 1, lowest, -1 if lowest else 0)
    if kind in (Field.TYPE_DOUBLE, Field.TYPE_FLOAT):
        return (0.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e-300, 1e300)
    if kind == Field.TYPE_BOOL:
        return (False, True)
    if kind == Field.TYPE_STRING:
        return ("", "x\n\x1b[31m", "a" * 100_000, "../../x")
    return (b"", bytes(16), b"\xff" * 40, bytes(1 << 16)) if kind == Field.TYPE_BYTES else ()


def _lies(message: Message, before: tuple[tuple[str, int | None], ...] = ()) -> Iterator[Lie]:
    """Yields all lies in a message and the messages in it."""
    for descriptor in message.DESCRIPTOR.fields:
        name, value = descriptor.name, getattr(message, descriptor.name)
        if descriptor.is_repeated:
            yield before, "clear", name
            if len(value):
                yield before, "repeat", name
                if descriptor.message_type is not None:
                    yield from _lies(value[0], (*before, (name, 0)))
                for each in _values(descriptor):
                    yield before, "first", (name, each)
        elif descriptor.message_type is not None:
            yield before, "clear" if message.HasField(name) else "add", name
            if message.HasField(name):
                yield from _lies(value, (*before, (name, None)))
        else:
            for each in _values(descriptor):
                yield before, "set", (name, each)


def _lied(message: Any, lie: Lie) -> Any:
    """Returns a copy of a message with a lie."""
    copy = type(message).FromString(message.SerializeToString())
    path, how, what = lie
    if how == "nothing":
        return None
    place = copy
    for name, number in path:
        place = getattr(place, name) if number is None else getattr(place, name)[number]
    if how == "clear":
        place.ClearField(what)
    elif how == "repeat":
        getattr(place, what).extend([getattr(place, what)[0]] * _MANY)
    elif how == "first":
        getattr(place, what[0])[0] = what[1]
    elif how == "add":
        getattr(place, what).SetInParent()
    else:
        setattr(place, *what)
    return copy


@dataclass
class Liar:
    """Changes replies on their way to the client; without a lie it notes them.

    Attributes:
        lie: the name of the reply, its number, and what is changed.
        seen: the replies.
    """

    lie: tuple[str, int, Lie] | None = None
    seen: list[tuple[str, int, Message]] = field(default_factory=list)
    counts: "collections.Counter[str]" = field(default_factory=collections.Counter)

    def reply(self, name: str, message: Any) -> Any:
        number, self.counts[name] = self.counts[name], self.counts[name] + 1
        if self.lie is None:
            self.seen.append((name, number, message))
        elif self.lie[:2] == (name, number):
            return _lied(message, self.lie[2])
        return message


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch) -> Liar:
    found = Liar()
    invoke, first_call, take = ClientCalls.invoke, Connection._first_call, CarriedAnswer.take

    def lying_invoke(calls: ClientCalls, method: str, *arguments: Any) -> Any:
        reply = invoke(calls, method, *arguments)
        return reply if isinstance(reply, bytes) else found.reply(method, reply)

    def lying_first_call(connection: Connection, limit_s: float) -> Any:
        return found.reply("Describe", first_call(connection, limit_s))

    def lying_take(answer: CarriedAnswer, data: bytes) -> bool:
        message = device_pb2.ExecuteWithDataReply.FromString(bytes(data))
        changed = found.reply("ExecuteWithData", message)
        return take(answer, data if changed is message else changed.SerializeToString())

    monkeypatch.setattr(ClientCalls, "invoke", lying_invoke)
    monkeypatch.setattr(Connection, "_first_call", lying_first_call)
    monkeypatch.setattr(CarriedAnswer, "take", lying_take)
    return found


def _use(address: str) -> str:
    """Uses a daemon as the runtime does; returns what is wrong, apart from errors of neurald."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    try:
        remote = connect(address)
        try:
            remote.capabilities()
            for is_open in (False, True):
                model = addition(values, dynamic=is_open)
                remote.supported_operations(model)
                prepared = remote.prepare_model(model, PrepareOptions(cache_key=bytes(32)))
                prepared.artifact()
                for _ in range(2):
                    result = np.full_like(values, np.nan)
                    answer = prepared.execute(request(values, result), ExecuteOptions())
                    if not answer.is_sufficient or not np.array_equal(result, 2 * values):
                        return "wrong results"
        finally:
            remote.close()
    except nd.Error as error:
        return "" if str(error) else f"{type(error).__name__} without a reason"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _outcome(address: str) -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(_use(address)), daemon=True)
    thread.start()
    thread.join(_LIMIT_S)
    return found[0] if found else "it hangs"


def _is_about_results(name: str, lie: Lie) -> bool:
    """Returns True for lies about the results themselves, which only the runtime can find."""
    path, _, what = lie
    return name == "ExecuteWithData" and (bool(path) or what in ("chunks", "reply"))


@pytest.mark.parametrize("place", ["unix", "tcp"])
def test_lies_are_survived(place: str, liar: Liar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"unix://{tmp_path}/d.sock" if place == "unix" else "127.0.0.1:0"
    server = DeviceServer(AddingDevice(), Address.parse(address))
    server.start()
    try:
        assert _outcome(str(server.address)) == ""
        seen, wrong = liar.seen, []
        lies = [(name, number, lie) for name, number, message in seen for lie in _lies(message)]
        # The call ends without an answer, and successfully.
        lies += [
            (name, number, ((), "nothing", "")) for name, number, _ in seen if name not in _CHECKED_LATER
        ]
        if place == "tcp":
            # Other replies are those of a daemon on this host.
            lies = [each for each in lies if each[0] == "ExecuteWithData" and each[1] < 1]
        assert len(lies) > 30
        # Only now, since a daemon on a busy machine may be silent for so long.
        monkeypatch.setattr(answer_silence, "MAX_SILENCE_S", 0.2)
        for each in lies:
            liar.lie = each
            liar.counts.clear()
            why = _outcome(str(server.address))
            if why and not (why == "wrong results" and _is_about_results(each[0], each[2])):
                wrong.append(f"{each[0]} {each[1]} {str(each[2])[:150]}: {why}")
        assert wrong == []
    finally:
        server.stop()


class _Forger(AddingDevice):
    """A device whose texts control terminals and forge lines."""

    name = "adder\x1b[2J\nforged"

    def __init__(self) -> None:
        super().__init__("1\x1b[2J\nforged")
        self.on_prepare = self._fail

    def _fail(self, model: nd.Model, options: PrepareOptions) -> None:
        raise nd.OpFailed("it failed\x1b[2J\nfor a reason")

    def supported_operations(self, model: nd.Model) -> Sequence[nd.Verdict]:
        return [nd.Verdict(ok=False, reason="never\x1b[2J\nof course") for _ in model.main.operations]


def test_texts_of_daemons_control_no_terminal(tmp_path: Path) -> None:
    server = DeviceServer(_Forger(), Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    try:
        remote = connect(str(server.address))
        assert (remote.name.partition("@")[0], remote.version) == ("adder [2J forged", "1 [2J forged")
        model = addition(np.ones(3, np.float32))
        assert [each.reason for each in remote.supported_operations(model)] == ["never [2J\nof course"]
        with pytest.raises(nd.OpFailed, match=r"^it failed \[2J\nfor a reason$"):
            remote.prepare_model(model, PrepareOptions())
        remote.close()
    finally:
        server.stop()
