"""Fuzzes requests from a client with a session to a driver daemon, starting from accepted ones.

An input is the number of a call and its message. Tokens of memories and fences are valid for one
call only: the placeholders in a message are replaced by tokens of new memories and fences before it
is sent.
"""

import contextlib
import ctypes
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from faults.proc import Held
from fuzz.messages import mutate_message
from fuzz.target import Finding, byte_runs, kind_of, mutate_bytes
from google.protobuf.message import DecodeError, Message
from random_graphs.graph import random_graph
from support.models.addition import addition
from support.models.control_flow import below, counting, loop

from neurald._proto import device_pb2, types_pb2
from neurald._proto.device_pb2_grpc import DeviceStub
from neurald.hal.errors import Error
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.constants import seal_constants
from neurald.hal.model.model import Model
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.channel import ChannelClient
from neurald.hal.rpc.server.grpc_service import SERVICE
from neurald.hal.rpc.transport.status import SESSION_KEY
from neurald.hal.rpc.wire.model import model_to_wire
from neurald.hal.sync.fence import Fence

_TESTS = Path(__file__).resolve().parents[1]
_CONSTANT = np.arange(6, dtype=np.float32).reshape(2, 3)
_ANSWER_S = 25.0
#: Number of cases after which the session is closed, and the daemon's resources must not have
#: grown.
_SESSION_CASES = 300
#: Permitted growth: threads and descriptors of gRPC come and go, and allocators keep memory.
_DESCRIPTORS, _THREADS, _RSS_BYTES = 12, 40, 256 << 20
_SETTLE_S = 15.0
_DAEMON_ADDRESS_SPACE = 12 << 30

_CALLS: tuple[tuple[str, type[Any]], ...] = (
    ("GetSupportedOperations", device_pb2.GetSupportedOperationsRequest),
    ("PrepareModel", device_pb2.PrepareModelRequest),
    ("GetArtifact", device_pb2.GetArtifactRequest),
    ("GetImprovement", device_pb2.GetImprovementRequest),
    ("PrepareModelFromCache", device_pb2.PrepareModelFromCacheRequest),
    ("ReleasePreparedModel", device_pb2.ReleasePreparedModelRequest),
    ("Profile", device_pb2.ProfileRequest),
    ("Execute", device_pb2.ExecuteRequest),
    ("ExecuteFenced", device_pb2.ExecuteFencedRequest),
    ("GetFencedExecutionInfo", device_pb2.GetFencedExecutionInfoRequest),
    ("Allocate", device_pb2.AllocateRequest),
    ("CopyToBuffer", device_pb2.CopyToBufferRequest),
    ("CopyFromBuffer", device_pb2.CopyFromBufferRequest),
    ("ReleaseBuffer", device_pb2.ReleaseBufferRequest),
    ("ReleaseMemory", device_pb2.ReleaseMemoryRequest),
)
_NUMBERS = {name: number for number, (name, _) in enumerate(_CALLS)}
_REPLIES: dict[str, type[Any]] = {
    "PrepareModel": device_pb2.PrepareModelReply,
    "PrepareModelFromCache": device_pb2.PrepareModelReply,
    "Execute": device_pb2.ExecuteReply,
    "ExecuteFenced": device_pb2.ExecuteFencedReply,
    "Allocate": device_pb2.AllocateReply,
    "GetArtifact": device_pb2.GetArtifactReply,
    "CopyFromBuffer": device_pb2.CopyFromBufferReply,
}
#: Placeholders for tokens, of the same length.
_SCRATCH = tuple(b"<scratch memo %d>" % number for number in range(2))
_SIGNALLED, _UNSIGNALLED = b"<fence signall.>", b"<fence, waiting>"
_MODEL_TOKEN = "<pool of mod {:2}>"
#: Handles of a new session, which are assigned in order from 1.
_PLAIN, _LOOP = 1, 2
_SCRATCH_BYTES = 4096
_OPTIONS = device_pb2.PrepareOptions(preference=1, priority=100)  # type: ignore[arg-type]


class _Client:
    """Session with the models, the buffer and the artifact that requests refer to."""

    def __init__(self, address: str, models: Sequence[Model]) -> None:
        where = Address.parse(address)
        self._channel = grpc.insecure_channel(where.target, (("grpc.use_local_subchannel_pool", 1),))
        self.side = ChannelClient.connect(where.memory_path, 20.0)
        self.metadata = ((SESSION_KEY, self.side.session.hex()),)
        self.stub: Any = DeviceStub(self._channel)  # type: ignore[no-untyped-call]
        self._models = models
        self.prepared = [self._prepared(number) for number in range(2)]
        role = device_pb2.BufferRole(prepared_model=_PLAIN, index=0, probability=1.0)
        self.buffer = self.call("Allocate", device_pb2.AllocateRequest(inputs=[role])).buffer

    def _prepared(self, number: int) -> int:
        message = device_pb2.PrepareModelRequest(
            model=wire_model(self._models[number], number), options=_OPTIONS
        )
        data = self.with_tokens(message.SerializeToString())
        reply = self.raw("PrepareModel", data)
        return int(device_pb2.PrepareModelReply.FromString(reply).prepared_model)

    def call(self, name: str, message: Message) -> Any:
        """Returns the reply to a call."""
        return getattr(self.stub, name)(message, metadata=self.metadata, timeout=_ANSWER_S)

    def raw(self, name: str, data: bytes) -> bytes:
        """Returns the bytes of the reply."""
        send: Any = self._channel.unary_unary(f"/{SERVICE}/{name}")
        reply: bytes = send(data, metadata=self.metadata, timeout=_ANSWER_S)
        return reply

    def with_tokens(self, data: bytes) -> bytes:
        """Replaces the placeholders in a message by tokens of new memories and fences."""
        for word in _SCRATCH:
            if word in data:
                memory = SharedMemory.create(_SCRATCH_BYTES)
                data = data.replace(word, self.side.register(memory))
        for word in (_SIGNALLED, _UNSIGNALLED):
            if word in data:
                fence = Fence()
                if word is _SIGNALLED:
                    fence.signal()
                data = data.replace(word, self.side.register_fence(fence))
        for number, model in enumerate(self._models):
            word = _MODEL_TOKEN.format(number).encode()
            # A damaged message may refer to a model without a pool.
            if word in data and model.pools:
                (pool,) = model.pools
                assert isinstance(pool, SharedMemory)
                data = data.replace(word, self.side.register(pool))
        return data

    def works(self) -> bool:
        """Returns True if the first model still gives the correct result."""
        values, result = SharedMemory.create(24), SharedMemory.create(24)
        np.frombuffer(values.view(), np.float32)[:] = 2
        pools = [types_pb2.RequestPool(memory=self.side.register(memory)) for memory in (values, result)]
        request = types_pb2.Request(
            inputs=[types_pb2.Argument(pool=0, length=24)],
            outputs=[types_pb2.Argument(pool=1, length=24)],
            pools=pools,
        )
        self.call("Execute", device_pb2.ExecuteRequest(prepared_model=_PLAIN, request=request))
        return np.array_equal(np.frombuffer(result.view(), np.float32), _CONSTANT.reshape(-1) + 2)

    def close(self) -> None:
        self.side.close()
        self._channel.close()


def wire_model(model: Model, number: int) -> types_pb2.Model:
    """Encodes a model; a placeholder stands for the token of its pool."""
    return model_to_wire(model, [_MODEL_TOKEN.format(number).encode()] * len(model.pools))


class RequestsTarget:
    """Implements `Target` with its own daemon."""

    limit_s = 60.0
    address_space = 4 << 30

    def __init__(self) -> None:
        self._models = _models()
        self._folder = tempfile.TemporaryDirectory(prefix="nf")
        self._address = f"unix://{self._folder.name}/d.sock"
        self._log = Path(self._folder.name) / "log"
        self._daemon: subprocess.Popen[bytes] | None = None
        self._client: _Client | None = None
        self._before: Held | None = None
        self._cases = 0

    def _start(self) -> None:
        program = (
            "import logging, sys; from neurald.service.daemon.daemon import Daemon; "
            "from neurald.service.daemon.running import run_daemon; logging.basicConfig(level=logging.INFO); "
            "daemon = Daemon('cpu', sys.argv[1], drain_s=2.0); "
            "sys.exit(run_daemon(daemon, ready=lambda address: print(address, flush=True)))"
        )
        worker = os.getpid()

        def limited() -> None:
            # It must not outlive the worker.
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            if os.getppid() != worker:
                os._exit(1)
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            if hard == resource.RLIM_INFINITY:
                resource.setrlimit(resource.RLIMIT_AS, (_DAEMON_ADDRESS_SPACE, _DAEMON_ADDRESS_SPACE))

        path = os.pathsep.join(filter(None, (str(_TESTS), os.environ.get("PYTHONPATH"))))
        with self._log.open("wb") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-c", program, self._address],
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=limited,
                env={**os.environ, "PYTHONPATH": path},
            )
        assert self._daemon.stdout is not None
        if not self._daemon.stdout.readline():
            raise RuntimeError(f"the daemon does not start: {self._log.read_text()[-500:]}")
        # Creates what is created once.
        client = _Client(self._address, self._models)
        client.works()
        client.close()
        self._settled(lambda: self._status().sessions == 0)
        self._before = Held.by(self._daemon.pid)

    def _status(self) -> Any:
        with grpc.insecure_channel(Address.parse(self._address).target) as channel:
            stub: Any = DeviceStub(channel)  # type: ignore[no-untyped-call]
            return stub.GetStatus(device_pb2.GetStatusRequest(), timeout=_ANSWER_S)

    def _settled(self, done: Callable[[], bool]) -> bool:
        end = time.monotonic() + _SETTLE_S
        while not done():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def seeds(self) -> Sequence[bytes]:
        """See `Target.seeds`: returns requests that the daemon accepts."""
        arguments = {
            "inputs": [types_pb2.Argument(pool=0, length=24)],
            "outputs": [types_pb2.Argument(pool=1, offset=64, length=24)],
        }
        loop_arguments = {
            "inputs": [types_pb2.Argument(pool=0, length=4), types_pb2.Argument(pool=0, offset=64, length=8)],
            "outputs": [
                types_pb2.Argument(pool=1, length=4),
                types_pb2.Argument(pool=1, offset=64, length=8),
            ],
        }
        memories = [types_pb2.RequestPool(memory=word) for word in _SCRATCH]
        results = [types_pb2.RequestPool(memory=_SCRATCH[0]), types_pb2.RequestPool(results_bytes=512)]
        buffers = [types_pb2.RequestPool(buffer=1), types_pb2.RequestPool(results_bytes=512)]
        options = device_pb2.ExecuteOptions(measure=True, deadline_s=5.0, loop_timeout_s=0.2)
        messages: list[tuple[str, Any]] = []
        for number, model in enumerate(self._models):
            wire = wire_model(model, number)
            prepare = device_pb2.PrepareOptions(preference=1, priority=100, deadline_s=20.0)  # type: ignore[arg-type]
            messages.append(("GetSupportedOperations", device_pb2.GetSupportedOperationsRequest(model=wire)))
            messages.append(("PrepareModel", device_pb2.PrepareModelRequest(model=wire, options=prepare)))
            prepare.cache_key = bytes(range(32))
            messages.append(("PrepareModel", device_pb2.PrepareModelRequest(model=wire, options=prepare)))
        for pools in (memories, results, buffers):
            request = types_pb2.Request(**arguments, pools=pools)
            call = device_pb2.ExecuteRequest(prepared_model=_PLAIN, request=request, options=options)
            messages += [("Execute", call)] * 3
            for waits in ((), (_SIGNALLED,)):
                fenced = device_pb2.ExecuteFencedRequest(
                    prepared_model=_PLAIN,
                    request=request,
                    options=options,
                    wait_for=waits,
                    fence=_UNSIGNALLED,
                    after_fences_s=2.0,
                )
                messages.append(("ExecuteFenced", fenced))
        looping = types_pb2.Request(**loop_arguments, pools=memories)
        messages.append(
            ("Execute", device_pb2.ExecuteRequest(prepared_model=_LOOP, request=looping, options=options))
        )
        role = device_pb2.BufferRole(prepared_model=_PLAIN, index=0, probability=0.5)
        artifact = device_pb2.Artifact(model_cache=[_SCRATCH[0]], data_cache=[_SCRATCH[1]], seal=bytes(80))
        keyed = device_pb2.PrepareOptions(preference=1, priority=100, cache_key=bytes(range(32)))  # type: ignore[arg-type]
        shape = types_pb2.Dimensions(sizes=[2, 3])
        messages += [
            ("Allocate", device_pb2.AllocateRequest(inputs=[role])),
            ("Allocate", device_pb2.AllocateRequest(dimensions=shape, outputs=[role])),
            ("CopyToBuffer", device_pb2.CopyToBufferRequest(buffer=1, memory=_SCRATCH[0], dimensions=shape)),
            ("CopyFromBuffer", device_pb2.CopyFromBufferRequest(buffer=1)),
            ("CopyFromBuffer", device_pb2.CopyFromBufferRequest(buffer=1, memory=_SCRATCH[0])),
            ("GetArtifact", device_pb2.GetArtifactRequest(prepared_model=_PLAIN)),
            ("GetImprovement", device_pb2.GetImprovementRequest(prepared_model=_PLAIN)),
            ("Profile", device_pb2.ProfileRequest(prepared_model=_PLAIN)),
            (
                "PrepareModelFromCache",
                device_pb2.PrepareModelFromCacheRequest(options=keyed, artifact=artifact),
            ),
            ("ReleaseMemory", device_pb2.ReleaseMemoryRequest(memories=[_SCRATCH[0]])),
            ("ReleasePreparedModel", device_pb2.ReleasePreparedModelRequest(prepared_model=_LOOP)),
            ("ReleaseBuffer", device_pb2.ReleaseBufferRequest(buffer=1)),
            ("GetFencedExecutionInfo", device_pb2.GetFencedExecutionInfoRequest(execution=3)),
        ]
        return [bytes([_NUMBERS[name]]) + message.SerializeToString() for name, message in messages]

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """See `Target.mutate`."""
        number = content[0] % len(_CALLS) if content else 0
        data = content[1:]
        if rng.random() < 0.75:
            message: Any = _CALLS[number][1]()
            with contextlib.suppress(DecodeError):
                message.ParseFromString(data)
                with contextlib.suppress(ValueError, OverflowError, TypeError):
                    what = mutate_message(message, rng)
                    return bytes([number]) + message.SerializeToString(), what
        changed, what = mutate_bytes(data, rng)
        return bytes([number]) + changed, what

    def run(self, content: bytes) -> str:
        """See `Target.run`."""
        name = _CALLS[content[0] % len(_CALLS)][0] if content else _CALLS[0][0]
        if self._daemon is None:
            self._start()
        if self._client is None:
            self._client = _Client(self._address, self._models)
        client = self._client
        try:
            data = client.with_tokens(content[1:])
            outcome = self._outcome(client, name, data)
        except (grpc.RpcError, Error) as error:
            raise self._broken(f"the session is gone: {error}") from None
        self._cases += 1
        if (
            name.startswith(("Release", "GetFenced"))
            or self._cases % _SESSION_CASES == 0
            or not self._is_fine(client)
        ):
            self._reopen()
        return f"{name}: {outcome}"

    def _outcome(self, client: _Client, name: str, data: bytes) -> str:
        try:
            reply = client.raw(name, data)
        except grpc.RpcError as error:
            code, details = error.code(), str(error.details())
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED):
                raise self._broken(f"{name} ended with {code.name}: {details}") from None
            if "internal error of the daemon" in details or "the driver has a fault" in details:
                raise self._broken(f"{name}: {details}: {self._last_error()}") from None
            if code is grpc.StatusCode.DEADLINE_EXCEEDED and "Deadline Exceeded" in details:
                raise self._broken(f"{name} was not answered after {_ANSWER_S:g} s") from None
            return f"{code.name} {kind_of(details)}"
        kind = _REPLIES.get(name)
        if kind is not None:
            self._clean_up(client, name, kind.FromString(reply))
        return "OK"

    def _clean_up(self, client: _Client, name: str, reply: Any) -> None:
        """Releases what an accepted request has created."""
        tokens: list[bytes] = []
        if name.startswith("PrepareModel"):
            client.call(
                "ReleasePreparedModel",
                device_pb2.ReleasePreparedModelRequest(prepared_model=reply.prepared_model),
            )
        elif name == "Allocate":
            client.call("ReleaseBuffer", device_pb2.ReleaseBufferRequest(buffer=reply.buffer))
        elif name == "Execute":
            tokens = list(reply.results)
        elif name == "GetArtifact":
            tokens = [*reply.artifact.model_cache, *reply.artifact.data_cache]
        elif name == "CopyFromBuffer":
            tokens = [reply.result] if reply.result else []
        if tokens:
            client.call("ReleaseMemory", device_pb2.ReleaseMemoryRequest(memories=tokens))

    def _is_fine(self, client: _Client) -> bool:
        if self._cases % 10:
            return True
        try:
            if not client.works():
                raise self._broken("the session's own model gives a wrong result")
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                return False
            raise self._broken(f"an honest execution fails: {error.code().name} {error.details()}") from None
        return True

    def _reopen(self) -> None:
        """Closes the session; sometimes checks that the daemon's resources have not grown."""
        assert self._client is not None
        self._client.close()
        self._client = None
        if self._cases % _SESSION_CASES == 0:
            self._check_leaks()

    def _check_leaks(self) -> None:
        def is_empty() -> bool:
            status = self._status()
            return not (status.sessions or status.prepared_models or status.memories or status.calls)

        if not self._settled(is_empty):
            raise self._broken(
                f"a session is closed, and the daemon still has {self._status()}".replace("\n", " ")
            )
        assert self._daemon is not None
        assert self._before is not None
        pid, before = self._daemon.pid, self._before

        def more() -> list[str]:
            return Held.by(pid).more_than(
                before, descriptors=_DESCRIPTORS, threads=_THREADS, rss_bytes=_RSS_BYTES
            )

        if not self._settled(lambda: not more()):
            raise self._broken(f"the daemon keeps {more()}")

    def _last_error(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return " ".join(line.strip() for line in lines[-6:])[-600:]

    def _broken(self, text: str) -> Finding:
        """Returns a finding; the next case gets a new daemon."""
        if self._daemon is not None:
            status = self._daemon.poll()
            if status is not None:
                text += f"; the daemon ended with {status}: {self._last_error()}"
        self._stop()
        return Finding(text)

    def _stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
            if self._daemon.stdout is not None:
                self._daemon.stdout.close()
            self._daemon = None

    def pieces(self, content: bytes) -> Sequence[bytes]:
        """See `Target.pieces`."""
        return byte_runs(content[1:])

    def joined(self, pieces: Sequence[bytes], content: bytes) -> bytes:
        """See `Target.joined`."""
        return content[:1] + b"".join(pieces)

    def close(self) -> None:
        """See `Target.close`."""
        try:
            if self._daemon is not None and self._client is not None:
                self._client.close()
                self._client = None
                self._check_leaks()
        finally:
            self._stop()
            self._folder.cleanup()


def _models() -> list[Model]:
    """Returns the models for requests; the first two are prepared in every session."""
    found = [addition(_CONSTANT), loop(below(3, extra=1), counting(1.0, 2.0))]
    found += [random_graph(seed, 6).model for seed in (3, 17, 40)]
    return [seal_constants(model) for model in found]


def create(models: Path | None) -> RequestsTarget:
    """Creates the target."""
    del models
    return RequestsTarget()
