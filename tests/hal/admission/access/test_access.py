"""Who may call a daemon, on TCP and on UNIX sockets."""

import contextlib
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from support.daemon.peer import Peer
from support.models.addition import AddingDevice
from support.process.ports import free_port
from support.sweeps import sweep

import neurald as nd
from neurald._proto import device_pb2
from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.access.access import MAX_CONNECTION_SESSIONS
from neurald.hal.admission.access.served_clients import ServedClients
from neurald.hal.errors import BadData, BadState, DeadObject, UnavailableDevice
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.grpc_service import SERVICE
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.access_token import (
    TOKEN_BYTES,
    TOKEN_KEY,
    TOKEN_VARIABLE,
    client_token,
    create_token,
    read_token,
    remove_token,
    token_path,
)
from neurald.hal.rpc.transport.status import SESSION_KEY
from neurald.service.daemon.daemon import Daemon

METHODS = [f"/{SERVICE}/{method.name}" for method in device_pb2.DESCRIPTOR.services_by_name["Device"].methods]
METHODS += [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/no.such.Service/Call",
]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "neurald"


@pytest.fixture(params=["127.0.0.1:0", "[::1]:0", "localhost:0", "unix"])
def daemon(request: pytest.FixtureRequest, runtime: Path) -> Iterator[Daemon]:
    listen = f"unix://{runtime}/d.sock" if request.param == "unix" else request.param
    daemon = Daemon("support.models.addition:create", listen)
    daemon.startup()
    if request.param == "unix":
        (runtime / "d.sock").chmod(0o666)
    yield daemon
    daemon.shutdown()


def status_of(address: Address, method: str, metadata: tuple[tuple[str, str], ...]) -> grpc.StatusCode:
    """Returns the status of a call with a meaningless request that is never half-closed."""
    with grpc.insecure_channel(address.numeric.target, (("grpc.use_local_subchannel_pool", 1),)) as channel:
        requests: Any = iter([b"\xff" * 100])
        call: Any = channel.stream_stream(method)(requests, metadata=metadata, timeout=20)
        try:
            for _ in call:
                return grpc.StatusCode.OK
        except grpc.RpcError:
            pass
        if call.code() is grpc.StatusCode.UNAUTHENTICATED:
            has_session = any(key == SESSION_KEY for key, _ in metadata)
            reason = "no open session has this token" if has_session else str(token_path(address))
            assert reason in call.details()
        code: grpc.StatusCode = call.code()
        return code


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        ((TOKEN_KEY, "00" * TOKEN_BYTES),),
        ((TOKEN_KEY, ""),),
        ((TOKEN_KEY, "ümlaut".encode().hex()),),
        ((f"{TOKEN_KEY}-bin", b"\0\xff"),),
        ((SESSION_KEY, "ab" * 16),),
    ],
    ids=range(6),
)
def test_a_stranger_is_refused_whatever_it_calls(
    daemon: Daemon, metadata: tuple[tuple[str, str], ...]
) -> None:
    address = Address.parse(daemon.address)
    for method in METHODS:
        assert status_of(address, method, metadata) is grpc.StatusCode.UNAUTHENTICATED, method


def test_who_shows_the_token_is_served(daemon: Daemon) -> None:
    address = Address.parse(daemon.address)
    remote = connect(daemon.address)
    assert remote.status().sessions == 1
    remote.close()
    metadata = ((TOKEN_KEY, read_token(token_path(address)).hex()),)
    for method in METHODS:
        assert status_of(address, method, metadata) is not grpc.StatusCode.UNAUTHENTICATED, method
    with grpc.insecure_channel(address.numeric.target) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        reply = check(health_pb2.HealthCheckRequest(), metadata=metadata, timeout=60)
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
        questions = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        assert len(list(ask(questions, metadata=metadata, timeout=60))) == 1


def test_the_token_is_private_and_another_one_each_time(runtime: Path) -> None:
    tokens = set()
    for _ in range(2):
        server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"))
        server.start()
        path = token_path(server.address)
        assert path.parent == runtime
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        tokens.add(path.read_bytes())
        server.stop()
        assert not path.exists()
    assert {len(token) for token in tokens} == {TOKEN_BYTES}
    assert len(tokens) == 2


def test_a_client_of_a_daemon_that_started_anew_meets_a_dead_one(runtime: Path) -> None:
    first = DeviceServer(AddingDevice(), Address.parse(f"127.0.0.1:{free_port()}"))
    first.start()
    peer = Peer(first)
    first.stop()
    second = DeviceServer(AddingDevice(), first.address)
    second.start()
    with pytest.raises((UnavailableDevice, DeadObject)):
        peer.call("GetStatus", device_pb2.GetStatusRequest())
    remote = connect(str(second.address))
    assert remote.status().sessions == 1
    remote.close()
    peer.close()
    second.stop()


def test_insecure_asks_nobody(runtime: Path) -> None:
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"), clients=ServedClients(insecure=True))
    server.start()
    assert not token_path(server.address).exists()
    assert status_of(server.address, f"/{SERVICE}/GetStatus", ()) is not grpc.StatusCode.UNAUTHENTICATED
    server.stop()


def test_a_socket_with_its_modes_needs_no_token_until_they_were_changed(runtime: Path) -> None:
    daemon = Daemon("support.models.addition:create", f"unix://{runtime}/d.sock")
    daemon.startup()
    address, method = Address.parse(daemon.address), f"/{SERVICE}/NoSuchCall"
    assert status_of(address, method, ()) is grpc.StatusCode.UNIMPLEMENTED
    (runtime / "d.sock").chmod(0o666)
    (runtime / "d.sock").chmod(0o600)  # clients that connected in between are still there
    assert status_of(address, method, ()) is grpc.StatusCode.UNAUTHENTICATED
    connect(daemon.address).close()
    daemon.shutdown()


def test_a_copy_of_the_token_is_taken_where_it_is_named(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"))
    server.start()
    copy = tmp_path / "copy"
    copy.touch(mode=0o600)
    copy.write_bytes(token_path(server.address).read_bytes())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "other"))
    address = f"tcp://{server.address}"
    with pytest.raises(
        UnavailableDevice, match=r"token file .*token_file=, --token-file or NEURALD_TOKEN_FILE"
    ):
        nd.connect(address)
    nd.connect(address, token_file=copy).close()
    nd.connect(address).close()  # it is known by now, also to the reconnections of the runtime
    monkeypatch.setenv(TOKEN_VARIABLE, str(copy))
    connect(str(server.address)).close()
    monkeypatch.setenv(TOKEN_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(BadState, match=r"none cannot be read: No such file"):
        connect(str(server.address))
    server.stop()


@pytest.mark.parametrize("fault", ["mode", "link", "directory", "pipe", "short", "long"])
def test_the_token_of_an_own_daemon_must_be_private(runtime: Path, fault: str) -> None:
    address = Address.parse("127.0.0.1:1")
    path = token_path(address)
    runtime.mkdir(mode=0o700)
    if fault == "pipe":
        os.mkfifo(path, 0o600)
    else:
        path.touch(mode=0o600)
        path.write_bytes(b"x" * (TOKEN_BYTES + {"short": -1, "long": 1}.get(fault, 0)))
    if fault == "mode":
        path.chmod(0o640)
    elif fault == "link":
        path.rename(runtime / "real")
        path.symlink_to(runtime / "real")
    elif fault == "directory":
        path.parent.chmod(0o777)
    with pytest.raises(BadState):
        client_token(address)


@sweep("fault", ["pipe", "directory", "missing", "short", "long"])
def test_copies_that_hold_no_token_are_refused(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "copy"
    if fault == "pipe":
        os.mkfifo(path)
    elif fault == "directory":
        path.mkdir()
    elif fault != "missing":
        path.write_bytes(b"x" * (TOKEN_BYTES + {"short": -1, "long": 1}[fault]))
    with pytest.raises(BadState, match="copy"):
        client_token(Address.parse("127.0.0.1:1"), path)


@pytest.mark.parametrize(("mode", "warnings"), [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_copies_may_be_shared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warnings: int
) -> None:
    (tmp_path / "real").write_bytes(b"x" * TOKEN_BYTES)
    (tmp_path / "real").chmod(mode)
    (tmp_path / "copy").symlink_to("real")
    assert client_token(Address.parse("127.0.0.1:1"), tmp_path / "copy") == b"x" * TOKEN_BYTES
    assert len(caplog.records) == warnings


def test_tokens_do_not_leave_this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_bytes(bytes(TOKEN_BYTES))
    far = Address.parse("192.0.2.1:7000")
    with pytest.raises(BadData, match="unencrypted"):
        client_token(far, path)
    monkeypatch.setenv(TOKEN_VARIABLE, str(path))
    assert client_token(far) is None
    assert client_token(Address.parse("127.0.0.1:7000")) == bytes(TOKEN_BYTES)


def test_what_was_planted_in_place_of_a_token_file_is_not_followed(runtime: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    runtime.mkdir(mode=0o700)
    address = Address.parse("127.0.0.1:9")
    token_path(address).symlink_to(victim)
    token = create_token(address)
    assert victim.read_text() == "precious"
    assert read_token(token_path(address)) == token
    again = create_token(address)  # of another daemon, which the first one's end leaves alone
    remove_token(address, token)
    assert read_token(token_path(address)) == again
    runtime.chmod(0o777)
    with pytest.raises(BadState, match="other users"):
        create_token(address)


def test_a_token_file_is_never_incomplete(runtime: Path) -> None:
    address = Address.parse("127.0.0.1:9")
    create_token(address)
    ends = threading.Event()

    def replace() -> None:
        while not ends.is_set():
            create_token(address)

    with ThreadPoolExecutor(1) as pool:
        replacing = pool.submit(replace)
        try:
            for _ in range(2000):
                read_token(token_path(address))
        finally:
            ends.set()
        replacing.result()
    assert [path.name for path in runtime.iterdir()] == [token_path(address).name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_another_user_of_this_machine_gets_nothing(runtime: Path, tmp_path: Path, kind: str) -> None:
    daemon = Daemon("cpu", "127.0.0.1:0" if kind == "tcp" else f"unix://{tmp_path}/d.sock")
    daemon.startup()
    if kind == "unix":
        (tmp_path / "d.sock").chmod(0o666)
        (tmp_path / "d.sock.memory").chmod(0o666)
    # The socket is named from here, since another user cannot go through the folders above.
    tmp_path.chmod(0o711)
    target = "unix:d.sock" if kind == "unix" else daemon.address
    program = (
        "import os, sys, grpc\n"
        "def call(target, method):\n"
        "    try:\n"
        "        grpc.insecure_channel(target).unary_unary(method)(b'', timeout=60); return 'served ' + method\n"
        "    except grpc.RpcError as error:\n"
        "        return error.code().name\n"
        "call('unix:none', '/x')  # imports what another user may not read\n"
        "os.setgroups([]); os.setgid(54321); os.setuid(54321)\n"
        "for method in sys.argv[1:]:\n"
        f"    print(call({target!r}, method))\n"
    )
    methods = [f"/{SERVICE}/Describe", f"/{SERVICE}/GetStatus", "/grpc.health.v1.Health/Check"]
    out = subprocess.run(
        [sys.executable, "-c", program, *methods], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    daemon.shutdown()
    assert out.stdout.split() == ["UNAUTHENTICATED"] * 3, out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_with_a_copy_of_the_token_is_served(runtime: Path, tmp_path: Path) -> None:
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"))
    server.start()
    copy = tmp_path / "copy"
    copy.write_bytes(token_path(server.address).read_bytes())
    copy.chmod(0o600)
    os.chown(copy, 54321, 54321)
    tmp_path.chmod(0o711)
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from neurald.hal.errors import Error\n"
        "from neurald.hal.rpc.client.device import connect\n"
        "def sessions(address, copy):\n"
        "    try:\n"
        "        remote = connect(address, token_file=copy)\n"
        "        return remote.status().sessions\n"
        "    except Error as error:\n"
        "        return type(error).__name__\n"
        "sessions(sys.argv[1], None)  # imports what another user may not read\n"
        "os.setgroups([]); os.setgid(54321); os.setuid(54321)\n"
        "os.environ['XDG_RUNTIME_DIR'] = '/nonexistent'\n"
        "print(sessions(sys.argv[1], None), sessions(sys.argv[1], Path('copy')))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program, str(server.address)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    server.stop()
    assert out.stdout.split()[0] == "UnavailableDevice", out
    assert int(out.stdout.split()[1]) >= 1, out


def test_one_connection_cannot_take_all_sessions(runtime: Path) -> None:
    server = DeviceServer(AddingDevice(), Address.parse("127.0.0.1:0"), limits=Limits(sessions=64))
    server.start()
    peer = Peer(server)
    streams = [
        peer.stub.OpenSession(device_pb2.OpenSessionRequest(), metadata=peer.access) for _ in range(20)
    ]
    refused = []
    for stream in streams:
        with contextlib.suppress(grpc.RpcError):
            next(stream)
            continue
        refused.append((stream.code(), stream.details()))
    assert len(streams) - len(refused) + 1 == MAX_CONNECTION_SESSIONS
    assert {code for code, _ in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert all("one connection" in details for _, details in refused)
    connect(str(server.address)).close()
    peer.close()
    server.stop()
