"""Limits, each tested just below, at and just above it.

Also what other users of this machine can do to a daemon, which is nothing.
"""

import contextlib
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from support.daemon.peer import Peer
from support.daemon.processes import daemon_process
from support.errors import error_code
from support.models.addition import AddingDevice, addition
from support.models.addition import request as bound
from support.sweeps import sweep

import neurald as nd
from neurald._proto import device_pb2
from neurald.hal.accounting.limits import Limits, parse_limits
from neurald.hal.admission.executions.admission_queue import MAX_RUNNING_EXECUTIONS
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.sessions import Sessions
from neurald.hal.device import ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.errors import BadData, ResourceExhaustedPersistent, ResourceExhaustedTransient
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.process.address import Address
from neurald.hal.process.memory import machine
from neurald.hal.records import replace
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.status import MAX_MESSAGE_BYTES
from neurald.hal.rpc.wire import model as wire
from neurald.hal.validation.model_rules import MAX_DEPTH, validate_model

CONSTANT = np.ones((2, 3), np.float32)


def served(
    tmp_path: Path, pytest_request: pytest.FixtureRequest, limits: Limits, device: AddingDevice | None = None
) -> DeviceServer:
    server = DeviceServer(device or AddingDevice(), Address.parse(f"unix://{tmp_path}/d.sock"), limits=limits)
    server.start()
    pytest_request.addfinalizer(server.stop)
    return server


def test_limits_can_be_set() -> None:
    limits = parse_limits(("sessions=8", "memory_bytes=512MiB", "model_bytes=1Gi"))
    assert limits == replace(Limits(), sessions=8, memory_bytes=512 << 20, model_bytes=1 << 30)
    assert parse_limits(()) == Limits()
    for wrong in (
        "seats=1",
        "sessions",
        "sessions=",
        "sessions=0",
        "sessions=-1",
        "sessions=1.5",
        "sessions=1kB",
        "sessions=512MiB",
        "memory_bytes=1kB",
    ):
        with pytest.raises(BadData, match=r"limit"):
            parse_limits((wrong,))


def test_weights_are_those_of_users() -> None:
    limits = parse_limits(("weight.root=4", "weight.1000=2", "weight.cert:laptop=3", "weight.root=5"))
    assert dict(limits.weights) == {0: 5, 1000: 2, "certificate laptop": 3}
    for wrong, message in (
        ("weight.=1", "there is no user ''"),
        ("weight.nobody at all=1", "there is no user"),
        ("weight.root=0", "takes a positive number"),
        ("weight.root=1001", "at most 1000"),
        ("weight.root=1KiB", "takes a positive number"),
        ("weights=1", "there is no limit"),
    ):
        with pytest.raises(BadData, match=message):
            parse_limits((wrong,))


def test_every_limit_is_positive_and_leaves_something_to_others() -> None:
    limits = Limits()
    assert all(getattr(limits, name) > 0 for name in Limits.__struct_fields__ if name != "weights")
    assert limits.user_sessions < limits.sessions


def test_sessions_of_one_user() -> None:
    sessions = Sessions(Limits(sessions=4, user_sessions=2))
    first, _ = sessions.open(1), sessions.open(1)
    with pytest.raises(ResourceExhaustedTransient, match=r"2 sessions of one user.*\(user_sessions\)"):
        sessions.open(1)
    sessions.open(2)
    sessions.open(None)
    with pytest.raises(ResourceExhaustedTransient, match=r"4 sessions are open.*\(sessions\)"):
        sessions.open(3)
    sessions.close(first)
    sessions.open(1)


def test_calls_of_one_session() -> None:
    session = Session(Limits(calls=2))
    with session.call():
        refusal = pytest.raises(ResourceExhaustedTransient, match=r"2 calls.*\(calls\)")
        with session.call(), refusal, session.call():
            pass
        with session.call():
            pass


def test_calls_of_one_user() -> None:
    """More sessions give a user no more calls, but each may have one; another user has its own."""
    sessions = Sessions(Limits(calls=3, user_calls=4))
    first, second, third, other = (sessions.open(user) for user in (1, 1, 1, 2))
    with contextlib.ExitStack() as under_way:
        for session in (first, first, first, second):
            under_way.enter_context(session.call())
        with pytest.raises(ResourceExhaustedTransient, match="4 calls of one user"):
            under_way.enter_context(second.call())
        under_way.enter_context(third.call())
        for _ in range(3):
            under_way.enter_context(other.call())
    for _ in range(3):
        with second.call(), second.call(), second.call():
            pass


def test_two_clients_with_all_their_calls_leave_threads_to_others(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    device, proceed = AddingDevice(), threading.Event()
    request.addfinalizer(proceed.set)
    server = served(tmp_path, request, Limits(), device)
    started = threading.Event()

    def wait(*_: object) -> None:
        started.set()
        assert proceed.wait(30)

    device.on_execute = wait
    threads = []
    for _ in range(2):
        prepared = connect(str(server.address)).prepare_model(addition(CONSTANT), PrepareOptions())
        threads += [
            threading.Thread(target=execute, args=(prepared,), daemon=True) for _ in range(Limits().calls)
        ]
    for thread in threads:
        thread.start()
    assert started.wait(30)
    while server.handler.admission.waiting < len(threads) - MAX_RUNNING_EXECUTIONS:
        time.sleep(0.001)
    device.on_execute = lambda *_: None
    honest = connect(str(server.address)).prepare_model(addition(CONSTANT), PrepareOptions())
    # The others have had their place for long soon.
    execute(honest)
    assert not proceed.is_set()
    proceed.set()
    for thread in threads:
        thread.join(30)


def test_one_client_cannot_take_all_threads(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    device, proceed = AddingDevice(), threading.Event()
    request.addfinalizer(proceed.set)
    server = served(tmp_path, request, Limits(calls=3), device)
    greedy, other = connect(str(server.address)), connect(str(server.address))
    prepared = greedy.prepare_model(addition(CONSTANT), PrepareOptions())
    started = threading.Semaphore(0)

    def wait(*_: object) -> None:
        started.release()
        assert proceed.wait(30)

    device.on_execute = wait
    threads = [threading.Thread(target=execute, args=(prepared,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert started.acquire(timeout=30)
    with pytest.raises(ResourceExhaustedTransient, match="3 calls"):
        execute(prepared)
    other.prepare_model(addition(CONSTANT), PrepareOptions())
    proceed.set()
    for thread in threads:
        thread.join()
    execute(prepared)


def execute(prepared: PreparedModel) -> None:
    prepared.execute(bound(CONSTANT, np.zeros((2, 3), np.float32)), ExecuteOptions())


@pytest.mark.parametrize(("limit", "is_allowed"), [(23, False), (24, True), (25, True)])
def test_constants_of_a_model(
    tmp_path: Path, request: pytest.FixtureRequest, limit: int, is_allowed: bool
) -> None:
    device = connect(str(served(tmp_path, request, Limits(model_bytes=limit)).address))
    prepare(device, ResourceExhaustedPersistent if not is_allowed else None, "24 bytes")


@pytest.mark.parametrize(("limit", "is_allowed"), [(1, True), (0, False)])
def test_prepared_models(
    tmp_path: Path, request: pytest.FixtureRequest, limit: int, is_allowed: bool
) -> None:
    device = connect(str(served(tmp_path, request, Limits(prepared_models=1)).address))
    kept = [device.prepare_model(addition(CONSTANT), PrepareOptions()) for _ in range(1 - limit)]
    prepare(device, ResourceExhaustedTransient if not is_allowed else None, "1 prepared models")
    assert len(kept) == 1 - limit


def test_what_is_being_released_does_not_count(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = connect(str(served(tmp_path, request, Limits(prepared_models=1)).address))
    kept = device.prepare_model(addition(CONSTANT), PrepareOptions())
    stub = kept.connection._stub
    release = stub.ReleasePreparedModel

    def late(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.1)
        return release(*arguments, **options)

    monkeypatch.setattr(stub, "ReleasePreparedModel", late)
    for _ in range(3):
        del kept
        kept = device.prepare_model(addition(CONSTANT), PrepareOptions())
    execute(kept)


def prepare(device: RemoteDevice, error: type[nd.Error] | None, words: str) -> None:
    def call() -> object:
        return device.prepare_model(addition(CONSTANT), PrepareOptions())

    if error is None:
        call()
        return
    with pytest.raises(error, match=words):
        call()


@sweep(("operands", "is_allowed"), [(3, True), (4, True), (5, False)])
def test_operands_of_a_model(monkeypatch: pytest.MonkeyPatch, operands: int, is_allowed: bool) -> None:
    monkeypatch.setattr(wire, "MAX_OPERANDS", 4)
    graph = Subgraph(
        operands=(Operand(type=OperandType.INT32),) * operands, operations=(), inputs=(), outputs=()
    )
    data = wire.encode_model(Model(main=graph))
    if is_allowed:
        assert len(wire.decode_model(data, ()).main.operands) == operands
        return
    with pytest.raises(ResourceExhaustedPersistent, match="5 operands; at most 4"):
        wire.decode_model(data, ())


def nested(depth: int) -> Model:
    """Returns a model with IF nested to a depth."""
    kind = OperandType.TENSOR_FLOAT32
    outer = Operand(type=kind, dimensions=(1,), lifetime=Lifetime.SUBGRAPH_INPUT)
    result = Operand(type=kind, dimensions=(1,), lifetime=Lifetime.SUBGRAPH_OUTPUT)
    leaf = Subgraph(
        operands=(
            Operand(type=OperandType.TENSOR_BOOL8, dimensions=(1,), lifetime=Lifetime.SUBGRAPH_INPUT),
            outer,
            result,
        ),
        operations=(Operation(type=nd.OperationType.FLOOR, inputs=(1,), outputs=(2,)),),
        inputs=(0, 1),
        outputs=(2,),
    )
    graphs = [leaf]
    for index in range(depth):
        condition = Operand(type=OperandType.TENSOR_BOOL8, dimensions=(1,), lifetime=Lifetime.SUBGRAPH_INPUT)
        inner = Operand(type=OperandType.MODEL, lifetime=Lifetime.SUBGRAPH, subgraph=index)
        graphs.append(
            Subgraph(
                operands=(condition, inner, outer, result),
                operations=(Operation(type=nd.OperationType.IF, inputs=(0, 1, 1, 0, 2), outputs=(3,)),),
                inputs=(0, 2),
                outputs=(3,),
            )
        )
    *referenced, main = graphs
    return Model(main=main, referenced=tuple(referenced))


def test_depth_of_control_flow() -> None:
    for depth in (MAX_DEPTH - 1, MAX_DEPTH):
        validate_model(nested(depth))
    with pytest.raises(ResourceExhaustedPersistent, match="17 levels deep; at most 16"):
        validate_model(nested(MAX_DEPTH + 1))


def test_bytes_of_a_message(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    peer = Peer(served(tmp_path, request, Limits()))
    request.addfinalizer(peer.close)
    # Bytes that are not a message: whether they get as far as being read is what tells.
    assert peer.raw("PrepareModel", b"\xff" * MAX_MESSAGE_BYTES) is grpc.StatusCode.INVALID_ARGUMENT
    too_long = peer.raw("PrepareModel", b"\xff" * (MAX_MESSAGE_BYTES + 1))
    assert too_long is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_tokens_are_of_one_connection(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    server = served(tmp_path, request, Limits())
    first, second = Peer(server), Peer(server)
    for peer in (first, second):
        request.addfinalizer(peer.close)
    token = first.memory(CONSTANT.tobytes(), constant=True)
    assert len(token) == 16
    assert token != first.memory(CONSTANT.tobytes(), constant=True)
    message = device_pb2.PrepareModelRequest(model=wire.model_to_wire(addition(CONSTANT), [token]))
    assert error_code(second.call, "PrepareModel", message) is nd.ResultCode.BAD_DATA
    handle = first.prepare()
    release = device_pb2.ReleasePreparedModelRequest(prepared_model=handle)
    assert error_code(second.call, "ReleasePreparedModel", release) is nd.ResultCode.BAD_DATA


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("existing", [False, True])
def test_sockets_and_their_directory_are_of_their_user_alone(existing: bool) -> None:
    # The path of a test's own directory may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="n") as home:
        directory = Path(home) / "neurald"
        if existing:
            directory.mkdir(mode=0o755, parents=True)
        with daemon_process(listen="", environment={"XDG_RUNTIME_DIR": home}):
            assert mode(directory) == 0o700
            paths = [path for path in directory.iterdir() if path.is_socket()]
            assert len(paths) == 2
            assert {mode(path) for path in paths} == {0o600}


_STRANGER = """
import os, socket, sys
path, connecting = sys.argv[1:]
os.setgid(65534); os.setuid(65534)
side = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
side.settimeout(20)
try:
    side.connect(path)
    print(side.recv(1024))
    print(side.recv(1024))
except PermissionError:
    print("refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_gets_nothing(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    server = served(tmp_path, request, Limits())
    path = server.address.memory_path

    def stranger() -> str:
        arguments = [sys.executable, "-c", _STRANGER, str(path), ""]
        return subprocess.run(
            arguments, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and not mode(folder) & stat.S_IXOTH:
            before = mode(folder)
            request.addfinalizer(partial(folder.chmod, before))
            folder.chmod(before | stat.S_IXOTH)
    assert stranger() == "refused"
    path.chmod(0o666)
    reply, end = stranger().splitlines()
    assert "permission denied: user nobody" in reply, "the daemon itself turns it away"
    assert end == "b''"
    assert not server.handler.sessions.all()


def test_nothing_that_executes_data_is_used() -> None:
    root = Path(nd.__file__).parent
    forbidden = (
        "import pickle",
        "from pickle",
        "marshal",
        "shelve",
        "allow_pickle=True",
        "diskcache",
        "yaml.load",
    )
    called = ("eval(", "exec(")
    found = []
    for path in root.rglob("*.py"):
        # Bytecode is read where the interpreter would read it.
        if "_proto" in path.parts or path == root / "_module_finder.py":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            words = line.replace(".", " .").replace("(", "( ").split()
            if any(each in line for each in forbidden) or any(word in called for word in words):
                found.append(f"{path.relative_to(root)}:{number}: {line.strip()}")
    assert not found


def test_the_memory_of_a_user_follows_from_that_of_a_session() -> None:
    half = machine.memory_bytes() // 2
    assert Limits().user_memory_limit == half
    assert parse_limits(("memory_bytes=256MiB",)).user_memory_limit == 256 << 20
    assert parse_limits(("memory_bytes=256MiB", "user_memory_bytes=2GiB")).user_memory_limit == 2 << 30
    assert parse_limits(("user_memory_bytes=1GiB",)).user_memory_limit == 1 << 30
    assert parse_limits(("memory_bytes=100TiB",)).user_memory_limit == 100 << 40
    assert 0 < Limits().total_memory_bytes < machine.memory_bytes()
    assert 0 < Limits().user_descriptors < Limits().total_descriptors < machine.descriptors()


def test_a_wrong_limit_is_answered_with_a_right_one() -> None:
    for wrong in ("sessions=512MiB", "memory_bytes=many"):
        with pytest.raises(BadData) as raised:
            parse_limits((wrong,))
        example = str(raised.value).rsplit(" ", 1)[-1]
        assert example.startswith(wrong.partition("=")[0])
        parse_limits((example,))
