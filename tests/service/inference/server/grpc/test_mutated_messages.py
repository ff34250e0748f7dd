"""Mutated messages over gRPC get an answer or a status with a cause; the service goes on."""

import random
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving

from neurald.service.inference.protocol.messages import SERVICE, message_type

#: What a message that is damaged, or asks for something that is not there, may end with. INTERNAL,
#: UNKNOWN and CANCELLED are failures of the service.
_CAUSES = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}
#: How many requests are under way at once.
_WINDOW = 32


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("models")
    zoo.write_plain(folder, "same", zoo.reshaping())
    zoo.write_plain(folder, "add", zoo.addition())
    zoo.write_plain(folder, "text", zoo.reshaping("STRING"))
    with Serving(folder, http="", allow_client_shm=True) as found:
        yield found.wait_ready()


def inference(model: str, kind: str, names: str, *, raw: bytes | None, **contents: Any) -> bytes:
    """Returns a ModelInferRequest with a value in each kind of field."""
    message = message_type("ModelInferRequest")(model_name=model, model_version="1", id="a")
    message.parameters["receipt"].bool_param = True
    message.parameters["timeout"].int64_param = 5_000_000
    for name in names:
        tensor = message.inputs.add(name=name, datatype=kind, shape=[1, 4])
        if raw is None:
            for field, values in contents.items():
                getattr(tensor.contents, field).extend(values)
        else:
            message.raw_input_contents.append(raw)
    wanted = message.outputs.add(name="sum" if model == "add" else "y")
    wanted.parameters["classification"].int64_param = 0 if kind == "BYTES" else 2
    encoded: bytes = message.SerializeToString()
    return encoded


def seeds() -> list[tuple[str, bytes]]:
    """Returns a valid message of each call."""
    text = b"".join(len(each).to_bytes(4, "little") + each for each in (b"a", b"", b"bc", b"d"))
    named = message_type("ModelConfigRequest")(name="same", version="1").SerializeToString()
    region = message_type("SystemSharedMemoryRegisterRequest")(name="r", key="/none", offset=0, byte_size=64)
    load = message_type("RepositoryModelLoadRequest")(model_name="none")
    load.parameters["config"].string_param = '{"max_batch_size": 1}'
    found = [
        ("ModelInfer", inference("same", "FP32", "x", raw=np.arange(4, dtype="<f4").tobytes())),
        ("ModelInfer", inference("same", "FP32", "x", raw=None, fp32_contents=[1, 2, 3, 4])),
        ("ModelInfer", inference("add", "INT32", "ab", raw=None, int_contents=[1, 2, 3, -4])),
        ("ModelInfer", inference("text", "BYTES", "x", raw=text)),
        ("ModelInfer", inference("text", "BYTES", "x", raw=None, bytes_contents=[b"a", b"", b"bc", b"d"])),
        ("RepositoryIndex", message_type("RepositoryIndexRequest")(ready=True).SerializeToString()),
        ("RepositoryModelLoad", load.SerializeToString()),
        (
            "RepositoryModelUnload",
            message_type("RepositoryModelUnloadRequest")(model_name="none").SerializeToString(),
        ),
        ("SystemSharedMemoryRegister", region.SerializeToString()),
        (
            "SystemSharedMemoryStatus",
            message_type("SystemSharedMemoryStatusRequest")(name="r").SerializeToString(),
        ),
        ("TraceSetting", message_type("TraceSettingRequest")(model_name="same").SerializeToString()),
    ]
    return found + [
        (name, named) for name in ("ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics")
    ]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Returns a message with one to four faults."""
    content = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content)) if content else 0
        kind = chance.randrange(6)
        if kind == 0 and content:
            content[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and content:
            content[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del content[at:]
        elif kind == 3:
            content[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 4:
            end = min(len(content), at + chance.randint(1, 16))
            content[at:at] = content[at:end] * chance.randint(1, 20)
        else:
            del content[at : at + chance.randint(1, 8)]
    return bytes(content)


def send(service: Serving, count: int, seed: int) -> None:
    """Sends mutated messages, and checks each status."""
    chance = random.Random(seed)
    known = seeds()
    waiting: list[tuple[str, bytes, Any]] = []

    def check(number: int) -> None:
        for name, data, call in waiting[:number]:
            code = call.code()
            assert code is grpc.StatusCode.OK or code in _CAUSES, (name, data.hex(), code, call.details())
            assert service.folder not in (call.details() or ""), call.details()
        del waiting[:number]

    with grpc.insecure_channel(service.grpc) as channel:
        calls: dict[str, Any] = {
            name: channel.unary_unary(f"/{SERVICE}/{name}") for name in {name for name, _ in known}
        }
        for _ in range(count):
            name, data = chance.choice(known)
            data = mutated(data, chance)
            waiting.append((name, data, calls[name].future(data, timeout=60)))
            if len(waiting) >= _WINDOW:
                check(_WINDOW // 2)
        check(len(waiting))
        answer = calls["ModelInfer"](known[0][1], timeout=60)
        assert message_type("ModelInferResponse").FromString(answer).model_name == "same"


def test_mutated_messages(service: Serving) -> None:
    before = service.status.process
    send(service, 2000, 1)
    assert service.status.process == before
    assert service.process.poll() is None


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_mutated_messages(service: Serving) -> None:
    for seed in range(2, 52):
        send(service, 2000, seed)
    assert service.process.poll() is None
