"""The side channel: sessions, memory in both directions, and clients that break its protocol."""

import array
import contextlib
import ctypes
import errno
import fcntl
import gc
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.daemon.open_files import open_files
from support.daemon.processes import python_path
from support.process.interruption import interruptions
from support.process.processes import has_pidfds_of_threads
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.sessions import Sessions
from neurald.hal.errors import (
    BadData,
    BadState,
    DeadObject,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
    ResultCode,
    UnavailableDevice,
)
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.client.channel import ChannelClient
from neurald.hal.rpc.server.channel import ChannelServer
from neurald.hal.rpc.transport.channel_messages import GREETING, REGISTER, THREAD, write_answer
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.fence import Fence

LIMITS = Limits(sessions=8, memories=4, memory_bytes=1 << 20)


def no_rings(session: Session, connection: int, memory: int) -> None:
    raise AssertionError("nobody asks for a ring")


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(LIMITS)


@pytest.fixture
def path(tmp_path: Path, sessions: Sessions) -> Iterator[Path]:
    server = ChannelServer(tmp_path / "x.memory", sessions, lambda: None, no_rings)
    server.start()
    yield tmp_path / "x.memory"
    server.close()
    assert not sessions.all()
    assert not (tmp_path / "x.memory").exists()


def connect(path: Path) -> ChannelClient:
    return ChannelClient.connect(path, 5.0)


def session_of(client: ChannelClient, sessions: Sessions) -> Session:
    return sessions.find(client.session)


def test_memory_is_shared_and_not_copied(path: Path, sessions: Sessions) -> None:
    client = connect(path)
    mine = SharedMemory.create(5000)
    theirs = session_of(client, sessions).memories.take(client.register(mine))
    assert theirs.size == 5000
    mine.view(4990, 5)[:] = b"hello"
    assert bytes(theirs.view(4990, 5)) == b"hello"
    theirs.view(0, 2)[:] = b"ok"
    assert bytes(mine.view(0, 2)) == b"ok"
    client.close()


def test_a_constant_memory_can_only_be_read(path: Path, sessions: Sessions) -> None:
    client = connect(path)
    theirs = session_of(client, sessions).memories.take(
        client.register(SharedMemory.constant(memoryview(b"12345")))
    )
    assert theirs.readonly
    assert bytes(theirs.view()) == b"12345"
    client.close()


def test_a_token_is_good_once_and_in_its_session(path: Path, sessions: Sessions) -> None:
    first, second = connect(path), connect(path)
    assert first.session != second.session
    token = first.register(SharedMemory.create(1))
    with pytest.raises(BadData, match="token"):
        session_of(second, sessions).memories.take(token)
    session_of(first, sessions).memories.take(token)
    with pytest.raises(BadData, match="token"):
        session_of(first, sessions).memories.take(token)
    first.close()
    second.close()


def test_each_memory_has_its_own_token_after_any_interruption(path: Path, sessions: Sessions) -> None:
    """An interruption may come between any two steps, as that of a keyboard."""
    clients, small, size, interrupted = [connect(path)], SharedMemory.create(1), 1000, 0
    module = ChannelClient.__module__
    for _ in interruptions(lambda: clients[-1].register(small), module):
        interrupted += 1
        size += 1
        client = clients[-1]
        session = session_of(client, sessions)
        assert session.memories.take(client.register(SharedMemory.create(size))).size == size
        for token in client.take_unused():
            assert session.memories.take(token).size == 1
        assert client.is_open
        if len(session.memories):  # the token was lost when it was returned
            clients.append(connect(path))
    assert interrupted > 15
    assert len(clients) <= 2
    for _ in interruptions(lambda: client.is_open, module):
        session.memories.take(client.register(small))
    for each in clients:
        each.close()


def test_the_call_of_a_signal_handler_does_not_wait_for_the_one_that_it_interrupts(
    path: Path, sessions: Sessions
) -> None:
    client, refused = connect(path), 0
    session = session_of(client, sessions)

    class Handler(Cancellation):
        def require_not_cancelled(self, where: str) -> None:
            nonlocal refused
            try:
                session.memories.take(client.register(SharedMemory.create(2)))
            except BadState:
                refused += 1

    token = client.register(SharedMemory.create(1), None, Handler())
    assert session.memories.take(token).size == 1
    assert refused
    client.close()


def test_the_end_of_a_client_is_the_end_of_its_session(path: Path, sessions: Sessions) -> None:
    client = connect(path)
    token = client.session
    client.register(SharedMemory.create(100))
    assert client.is_open
    client.close()
    assert not client.is_open
    wait_until(lambda: not sessions.all())
    with pytest.raises(DeadObject):
        sessions.find(token)
    with pytest.raises(DeadObject):
        client.register(SharedMemory.create(100))


def test_the_end_of_the_daemon_is_seen(tmp_path: Path, sessions: Sessions) -> None:
    server = ChannelServer(tmp_path / "s", sessions, lambda: None, no_rings)
    server.start()
    client = connect(tmp_path / "s")
    server.close()
    wait_until(lambda: not client.is_open)
    with pytest.raises(DeadObject):
        client.register(SharedMemory.create(100))
    client.close()


def test_limits(path: Path, sessions: Sessions) -> None:
    client = connect(path)
    with pytest.raises(ResourceExhaustedPersistent, match="1048577 bytes"):
        client.register(SharedMemory.create((1 << 20) + 1))
    tokens = [client.register(SharedMemory.create(1 << 19)) for _ in range(2)]
    with pytest.raises(ResourceExhaustedTransient):
        client.register(SharedMemory.create(1))
    session = session_of(client, sessions)
    session.memories.take(tokens.pop())
    gc.collect()
    one = SharedMemory.create(1)
    for _ in range(3):
        client.register(one)
    with pytest.raises(ResourceExhaustedTransient, match="has 4 memories"):
        client.register(one)
    client.close()


def test_a_file_that_is_mapped_twice_counts_once(path: Path) -> None:
    client = connect(path)
    large = SharedMemory.create(1 << 20)
    for _ in range(LIMITS.memories):
        client.register(large)
    client.close()


def test_sessions_are_limited(path: Path, sessions: Sessions) -> None:
    clients = [connect(path) for _ in range(LIMITS.sessions)]
    with pytest.raises(ResourceExhaustedTransient, match="8 sessions"):
        connect(path)
    clients.pop().close()
    wait_until(lambda: len(sessions.all()) == LIMITS.sessions - 1)
    connect(path).close()
    for client in clients:
        client.close()


class RawMemory:
    """A memory with any descriptor behind it."""

    def __init__(self, fd: int, size: int, *, readonly: bool = False) -> None:
        self.fd, self.size, self.readonly = fd, size, readonly


def test_memory_that_is_not_safe_is_refused(path: Path, tmp_path: Path) -> None:
    client = connect(path)
    good = SharedMemory.create(4096)
    unsealed = os.memfd_create("x", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(unsealed, 4096)
    plain = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(plain, 4096)
    reader, writer = os.pipe()
    cases = [
        (RawMemory(unsealed, 4096), "seals"),
        (RawMemory(plain, 4096), "seals|shared memory"),
        (RawMemory(reader, 4096), "not shared memory"),
        (RawMemory(good.fd, 4095), "4096 bytes; 4095"),
        (RawMemory(good.fd, 8192), "4096 bytes; 8192"),
        (RawMemory(good.fd, 0), "4096 bytes; 0"),
        (RawMemory(good.fd, 4096, readonly=True), "seals"),
    ]
    for memory, reason in cases:
        with pytest.raises(BadData, match=reason):
            client.register(memory)  # type: ignore[arg-type]
    client.register(good)
    client.close()
    for fd in (unsealed, plain, reader, writer):
        os.close(fd)
    good.close()
    with pytest.raises(BadState):
        connect(path).register(good)


def test_huge_pages_are_refused(path: Path) -> None:
    size = 2 << 20
    fd = os.memfd_create("x", os.MFD_ALLOW_SEALING | os.MFD_HUGETLB | os.MFD_HUGE_2MB)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        client = connect(path)
        # Without any huge page in the system it cannot be mapped in the first place.
        with pytest.raises((BadData, ResourceExhaustedPersistent)):
            client.register(RawMemory(fd, size))  # type: ignore[arg-type]
        client.close()
    except OSError as error:
        pytest.skip(f"no huge pages here: {error}")
    finally:
        os.close(fd)


def raw_connection(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(60)
    connection.connect(str(path))
    assert len(connection.recv(1000)) == 8 + 17
    return connection


GOOD_PACKET = (4096).to_bytes(8, "little") + b"\0"


@pytest.mark.parametrize(
    ("packet", "count"),
    [
        (GOOD_PACKET, 0),
        (GOOD_PACKET, 2),
        (GOOD_PACKET, 3),
        (GOOD_PACKET, 100),
        (GOOD_PACKET[:-1], 1),
        (GOOD_PACKET + b"\0", 1),
        (b"", 1),
        (b"", 0),
        (b"x" * 5000, 1),
        (b"x" * 5000, 0),
    ],
)
def test_whoever_breaks_the_rules_is_cut_off(
    path: Path, sessions: Sessions, packet: bytes, count: int
) -> None:
    memory = SharedMemory.create(4096)
    other = connect(path)
    before = open_files()
    connection = raw_connection(path)
    ancillary = (
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory.fd] * count))] if count else []
    )
    connection.sendmsg([packet], ancillary)
    assert connection.recv(100) == b""
    connection.close()
    wait_until(lambda: len(sessions.all()) == 1 and not open_files() - before)
    other.register(memory)
    other.close()


def test_flags_that_are_not_known_are_refused(path: Path) -> None:
    memory = SharedMemory.create(4096)
    connection = raw_connection(path)
    before = open_files()
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory.fd]))]
    connection.sendmsg([GOOD_PACKET[:-1] + b"\2"], ancillary)
    assert b"flags 0x2" in connection.recv(1000)
    wait_until(lambda: not open_files() - before)
    connection.close()


def test_a_client_that_reads_nothing_stops_nobody(path: Path) -> None:
    memory = SharedMemory.create(4096)
    lazy = raw_connection(path)
    lazy.settimeout(0.2)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory.fd]))]
    with contextlib.suppress(OSError):  # a full queue, or the daemon has hung up
        for _ in range(100_000):
            lazy.sendmsg([GOOD_PACKET], ancillary)
    client = connect(path)
    client.register(memory)
    client.close()
    lazy.close()


SETRESUID = {"x86_64": 117, "aarch64": 147}.get(os.uname().machine, 0)


@pytest.mark.skipif(os.geteuid() != 0 or not SETRESUID, reason="only root can be another user")
def test_other_users_are_turned_away(sessions: Sessions) -> None:
    answers: list[bytes] = []

    def visit(path: Path) -> None:
        # The system call changes this thread alone; the C function would change all.
        assert ctypes.CDLL(None).syscall(SETRESUID, -1, 65534, -1) == 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(60)
            connection.connect(str(path))
            answers.append(connection.recv(1000))

    # Not in pytest's own folder, which other users cannot enter anyway.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        server = ChannelServer(path, sessions, lambda: None, no_rings)
        server.start()
        path.parent.chmod(0o755)
        path.chmod(0o666)
        thread = threading.Thread(target=visit, args=(path,))
        thread.start()
        thread.join()
        server.close()
    assert b"permission denied: user nobody (65534) is not the user of this driver" in answers[0]


def test_sockets_are_for_their_user_alone(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.timed
def test_whoever_else_listens_there_is_no_daemon(tmp_path: Path) -> None:
    with pytest.raises(UnavailableDevice):
        ChannelClient.connect(tmp_path / "nothing", 1.0)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(tmp_path / "s"))
    with pytest.raises(UnavailableDevice):
        ChannelClient.connect(tmp_path / "s", 1.0)
    listener.listen()
    started = time.monotonic()
    with pytest.raises(UnavailableDevice):  # it never says a word
        ChannelClient.connect(tmp_path / "s", 0.2)
    assert time.monotonic() - started < 20
    listener.close()


def test_another_protocol_is_no_daemon(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    thread = threading.Thread(target=lambda: listener.accept()[0].send(b"220 mail.example.org"))
    thread.start()
    with pytest.raises(UnavailableDevice, match="not a neurald daemon"):
        ChannelClient.connect(tmp_path / "s", 5.0)
    thread.join()
    listener.close()


def test_threads_may_share_a_client(path: Path, sessions: Sessions) -> None:
    client = connect(path)
    session = session_of(client, sessions)
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            for _ in range(50):
                memory = SharedMemory.create(number + 1)
                assert session.memories.take(client.register(memory)).size == number + 1
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    client.close()


def test_nothing_leaks(path: Path, sessions: Sessions) -> None:
    connect(path).close()
    wait_until(lambda: not sessions.all())
    gc.collect()
    before = open_files()
    for _ in range(100):
        client = connect(path)
        client.register(SharedMemory.create(4096))
        client.close()
    wait_until(lambda: not sessions.all())
    gc.collect()
    wait_until(lambda: not open_files() - before)


#: Its thread ends with standard input, and it ends a minute later.
_CLIENT = """
import os, sys, threading, time
from pathlib import Path
from neurald.hal.rpc.client.channel import ChannelClient

client = ChannelClient.connect(Path(sys.argv[1]), 5.0)
thread = threading.Thread(target=lambda: os.read(0, 1))
thread.start()
client.end_with(thread.native_id, time.monotonic() + 60)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not has_pidfds_of_threads(), reason="needs Linux 6.9, which tells the end of threads")
def test_a_session_ends_with_the_thread_of_its_client(path: Path, sessions: Sessions) -> None:
    """Before the connection does, which is when the memory of the process was given back."""
    command = [sys.executable, "-c", _CLIENT, str(path)]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert len(sessions.all()) == 1
        process.stdin.close()
        wait_until(lambda: not sessions.all())
        assert process.poll() is None
        process.kill()
    other = connect(path)  # everybody else is served
    assert len(sessions.all()) == 1
    other.close()


def test_a_thread_that_cannot_be_watched(
    path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is kept, and the session ends like others."""
    client = connect(path)
    session = session_of(client, sessions)
    pidfd = os.pidfd_open(os.getpid())
    register = selectors.DefaultSelector.register

    def refused(self: Any, file: Any, events: int, data: object = None) -> selectors.SelectorKey:
        if not isinstance(file, int):
            return register(self, file, events, data)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(selectors.DefaultSelector, "register", refused)
    with pytest.raises(BadData, match="cannot be used"):
        client._send(REGISTER.pack(0, THREAD), pidfd)
    os.close(pidfd)
    wait_until(lambda: session.accounts.descriptors.used == 0)
    client.close()
    wait_until(lambda: not sessions.all())


@pytest.mark.skipif(not has_pidfds_of_threads(), reason="needs Linux 6.9, which tells the end of threads")
def test_descriptors_of_threads(path: Path, sessions: Sessions) -> None:
    client = connect(path)
    session = session_of(client, sessions)
    pidfd = os.pidfd_open(threading.get_native_id(), os.O_EXCL)
    with Path("/dev/null").open("rb") as file, pytest.raises(BadData, match="is not a pidfd"):
        client._send(REGISTER.pack(0, THREAD), file.fileno())
    fence = Fence()
    with pytest.raises(BadData, match="is not a pidfd"):
        client._send(REGISTER.pack(0, THREAD), fence.fd)
    client._send(REGISTER.pack(0, THREAD), pidfd)
    assert session.accounts.descriptors.used == 1
    with pytest.raises(BadData, match="another thread"):
        client._send(REGISTER.pack(0, THREAD), pidfd)
    with pytest.raises(BadData, match="flags"):
        client._send(REGISTER.pack(1, THREAD), pidfd)
    assert sessions.all()
    client.close()
    wait_until(lambda: not sessions.all())
    wait_until(lambda: session.accounts.descriptors.used == 0)
    os.close(pidfd)


@pytest.mark.skipif(not has_pidfds_of_threads(), reason="needs Linux 6.9, which tells the end of threads")
def test_a_daemon_that_does_not_watch_a_thread_in_time(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    greeted: list[socket.socket] = []

    def greet() -> None:
        greeted.append(listener.accept()[0])
        greeted[0].send(GREETING + write_answer(ResultCode.NO_ERROR, bytes(16)))

    greeting = threading.Thread(target=greet)
    greeting.start()
    client = ChannelClient.connect(tmp_path / "s", 60.0)
    greeting.join()
    thread = threading.get_native_id()
    asking = threading.Thread(target=lambda: client.end_with(thread, time.monotonic() + 0.1), daemon=True)
    asking.start()
    asking.join(30)  # less than other calls wait
    assert not asking.is_alive()
    assert client.is_open
    client.close()
    for each in (listener, *greeted):
        each.close()
