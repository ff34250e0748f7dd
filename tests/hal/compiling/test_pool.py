"""Models compiled in other processes: fairly, within limits, without harm to the daemon."""

import itertools
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import is_alive
from support.devices.compiling import (
    DRIVER,
    FOR_EVER_S,
    NOTE,
    CompilingDevice,
    counts_path,
    doing,
    family_path,
)
from support.errors import error_code
from support.models.addition import AddingDevice, addition
from support.models.addition import request as bound
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.session import Session
from neurald.hal.compiling import compile_admission, fork_server_process, job_exchange
from neurald.hal.compiling.session_pool import SessionPool
from neurald.hal.device import CompileResult, Device, ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    BadData,
    Cancelled,
    DeadObject,
    MissedDeadlineTransient,
    OpFailed,
    ResourceExhaustedPersistent,
    ResultCode,
)
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.wire.model import encode_model
from neurald.hal.sync.cancellation import Cancellation

MODEL = addition(np.arange(6, dtype=np.float32).reshape(2, 3))
#: Processes have ended after this time, though the machine may be busy.
SOON_S = 20.0
#: A caller whose deadline has passed waits no longer than this.
QUICK_S = 2.0


@pytest.fixture(scope="module")
def kept_pool() -> Iterator[SessionPool]:
    pool = SessionPool(DRIVER, CompilingDevice(), Limits(compile_bytes=128 << 20))
    yield pool
    pool.close()


@pytest.fixture
def shared_pool(kept_pool: SessionPool) -> SessionPool:
    """A pool without processes of earlier tests: they end after they have answered."""
    wait_until(lambda: not processes_of(kept_pool))
    return kept_pool


@pytest.fixture
def session() -> Session:
    return Session(Limits())


Start = Callable[..., "Future[CompileResult]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Compiles in a separate thread, at most until the test ends."""
    sessions = []

    def started(
        pool: SessionPool, session: Session, *arguments: Any, **options: Any
    ) -> Future[CompileResult]:
        sessions.append(session)
        return threads.submit(compiled, pool, session, *arguments, **options)

    with ThreadPoolExecutor(16) as threads:
        yield started
        for session in sessions:
            session.close()


def compiled(
    pool: SessionPool,
    session: Session,
    options: PrepareOptions,
    deadline_s: float | None = None,
    cancellation: Cancellation | None = None,
) -> CompileResult:
    compiler = pool.compiler(session, encode_model(MODEL), MODEL.pools, options, lambda signal, name: None)
    return compiler.compile(deadline_s=deadline_s, cancellation=cancellation)


def processes_of(pool: SessionPool) -> set[int]:
    """Returns the compiling processes."""
    parent = pool.pool.process
    if parent is None:
        return set()
    return set(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()))


def test_the_processes_do_not_keep_descriptors_that_programs_inherit(session: Session) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    pool = SessionPool(DRIVER, CompilingDevice(), Limits(compile_bytes=128 << 20))
    try:
        compiled(pool, session, doing("echo"))
        os.close(writer)
        # All others have closed their ends.
        assert os.read(reader, 1) == b""
    finally:
        pool.close()
        os.close(reader)


def test_what_is_compiled_comes_back(shared_pool: SessionPool, session: Session) -> None:
    found = compiled(shared_pool, session, doing("echo", "some", "words"))
    assert found.note == NOTE
    assert found.artifact is not None
    assert [bytes(each.view()) for each in found.artifact.model] == [b"some words"]
    constant, empty = found.artifact.data
    assert np.array_equal(np.frombuffer(constant.view(), np.float32), np.arange(6, dtype=np.float32))
    assert empty.size == 0
    assert constant.readonly


def test_a_process_compiles_at_a_lower_priority_and_ends_with_its_model(
    shared_pool: SessionPool, session: Session, start: Start
) -> None:
    future = start(shared_pool, other := Session(Limits()), doing("spin"))
    wait_until(lambda: processes_of(shared_pool))
    (process,) = processes_of(shared_pool)
    assert os.getpriority(os.PRIO_PROCESS, process) > os.getpriority(os.PRIO_PROCESS, 0)
    other.close()
    assert isinstance(future.exception(SOON_S), Cancelled)
    compiled(shared_pool, session, doing("echo"))
    wait_until(lambda: not processes_of(shared_pool))


@pytest.mark.parametrize(
    ("what", "kind", "says"),
    [
        ("refuse", BadData, "not to its taste"),
        ("fail", OpFailed, "the log of the daemon or application"),
        ("crash", OpFailed, "crashed on the model: SIGSEGV"),
        ("arrays", ResourceExhaustedPersistent, "134217728 bytes.*compile_bytes"),
        ("shared", ResourceExhaustedPersistent, "134217728 bytes.*compile_bytes"),
        ("abort", ResourceExhaustedPersistent, "134217728 bytes.*compile_bytes"),
    ],
)
def test_a_model_that_cannot_be_compiled_fails_alone(
    shared_pool: SessionPool, session: Session, what: str, kind: type[Exception], says: str
) -> None:
    compiled(shared_pool, session, doing("echo"))
    parent = shared_pool.pool.process
    with pytest.raises(kind, match=says):
        compiled(shared_pool, session, doing(what))
    assert compiled(shared_pool, session, doing("echo")).note == NOTE
    assert shared_pool.pool.process == parent


@pytest.mark.parametrize(
    ("what", "name", "limit_bytes"),
    [("shared", "RLIMIT_FSIZE", 1 << 20), ("arrays", "RLIMIT_DATA", 512 << 20)],
)
def test_a_limit_of_the_process_is_named_rather_than_that_of_the_compilation(
    session: Session, what: str, name: str, limit_bytes: int
) -> None:
    pool = SessionPool(DRIVER, CompilingDevice(), Limits(compile_bytes=1 << 30))
    try:
        compiled(pool, session, doing("echo"))
        parent = pool.pool.process
        assert parent is not None
        resource.prlimit(parent, getattr(resource, name), (limit_bytes, limit_bytes))
        with pytest.raises(ResourceExhaustedPersistent, match=rf"{limit_bytes} bytes.*\({name}\)"):
            compiled(pool, session, doing(what))
        assert compiled(pool, session, doing("echo")).note == NOTE
    finally:
        pool.close()


@pytest.mark.parametrize("what", [("spin",), ("sleep", FOR_EVER_S)], ids=lambda words: str(words[0]))
def test_compiling_may_take_so_long(session: Session, what: tuple[object, ...]) -> None:
    pool = SessionPool(DRIVER, CompilingDevice(), Limits(compile_s=1))
    try:
        with pytest.raises(ResourceExhaustedPersistent, match=r"1 s .*\(compile_s\)"):
            compiled(pool, session, doing(*map(str, what)))
        wait_until(lambda: not processes_of(pool))
    finally:
        pool.close()


def test_the_kernel_ends_a_process_that_nobody_watches(
    shared_pool: SessionPool, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pool.pool, "_limits", Limits(compile_s=1))
    monkeypatch.setattr(job_exchange, "_await_message", lambda connection, *_: connection.recv(1, 2))
    with pytest.raises(ResourceExhaustedPersistent, match=r"\(compile_s\)"):
        compiled(shared_pool, session, doing("spin"))


@pytest.mark.timed
def test_a_deadline_ends_a_compilation(shared_pool: SessionPool, session: Session) -> None:
    compiled(shared_pool, session, doing("echo"))
    began = time.monotonic()
    with pytest.raises(MissedDeadlineTransient, match="while the model was compiled"):
        compiled(shared_pool, session, doing("spin"), deadline_s=began + 0.2)
    assert 0.2 <= time.monotonic() - began < 0.2 + QUICK_S
    wait_until(lambda: not processes_of(shared_pool), SOON_S)


def test_cancelling_ends_a_compilation(shared_pool: SessionPool, session: Session, start: Start) -> None:
    cancellation = Cancellation()
    future = start(shared_pool, session, doing("spin"), cancellation=cancellation)
    wait_until(lambda: processes_of(shared_pool))
    cancellation.cancel()
    with pytest.raises(Cancelled):
        future.result(SOON_S)
    wait_until(lambda: not processes_of(shared_pool), SOON_S)


def test_the_end_of_a_session_ends_its_compilations_running_and_waiting(
    session: Session, shared_pool: SessionPool, start: Start
) -> None:
    futures = [start(shared_pool, session, doing("spin")) for _ in range(6)]
    wait_until(lambda: processes_of(shared_pool) and shared_pool.admission.waiting)
    session.close()
    for future in futures:
        with pytest.raises((Cancelled, DeadObject)):
            future.result(SOON_S)
    wait_until(lambda: not processes_of(shared_pool), SOON_S)
    with pytest.raises(DeadObject):
        compiled(shared_pool, session, doing("echo"))


def test_what_a_compiler_has_started_ends_with_it(
    shared_pool: SessionPool, session: Session, start: Start
) -> None:
    cancellation = Cancellation()
    path = family_path(os.getpid())
    future = start(shared_pool, session, doing("family", os.getpid()), cancellation=cancellation)
    wait_until(path.exists)
    family = [int(word) for word in path.read_text().split()]
    assert all(map(is_alive, family))
    cancellation.cancel()
    assert isinstance(future.exception(SOON_S), Cancelled)
    wait_until(lambda: not any(map(is_alive, family)), SOON_S)


def test_no_more_compile_at_a_time_than_there_are_compilers(
    session: Session, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts_path(os.getpid()).unlink(missing_ok=True)
    # None takes so long that another one starts beside it.
    monkeypatch.setattr(compile_admission, "_LONG_S", 1000.0)
    pool = SessionPool(DRIVER, CompilingDevice(), Limits(compilers=2))
    try:
        compiled(pool, session, doing("echo"))
        futures = [start(pool, Session(Limits()), doing("count", os.getpid(), 0.2)) for _ in range(6)]
        assert [future.result().note for future in futures] == [NOTE] * 6
        # Processes that have compiled may still be there on a busy machine.
        steps = [1 if sign == "+" else -1 for sign in counts_path(os.getpid()).read_text()]
        assert len(steps) == 12
        assert max(itertools.accumulate(steps)) <= 2
    finally:
        pool.close()


def test_users_take_turns(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """One user wants ten models compiled before another one asks for one."""
    monkeypatch.setattr(compile_admission, "_LONG_S", 1000.0)
    pool = SessionPool(DRIVER, CompilingDevice(), Limits(compilers=1))
    ended: list[str] = []
    lock = threading.Lock()

    def note(name: str) -> Callable[[Future[CompileResult]], None]:
        def append(future: Future[CompileResult]) -> None:
            with lock:
                ended.append(name)

        return append

    try:
        many, few = Session(Limits(), user=1), Session(Limits(), user=2)
        compiled(pool, many, doing("echo"))
        # Another one is compiled until all have asked.
        first = start(pool, before := Session(Limits(), user=3), doing("spin"))
        wait_until(lambda: processes_of(pool))
        futures = [start(pool, many, doing("sleep", 0.05)) for _ in range(10)]
        wait_until(lambda: pool.admission.waiting == 10)
        for future in futures:
            future.add_done_callback(note("many"))
        other = start(pool, few, doing("sleep", 0.05))
        other.add_done_callback(note("few"))
        wait_until(lambda: pool.admission.waiting == 11)
        before.close()
        assert isinstance(first.exception(SOON_S), Cancelled)
        for future in (*futures, other):
            future.result()
        assert ended.index("few") <= 3
    finally:
        pool.close()


def test_a_compilation_that_takes_long_does_not_keep_others_waiting(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_admission, "_LONG_S", 0.1)
    pool = SessionPool(DRIVER, CompilingDevice(), Limits(compilers=1))
    try:
        bomb = start(pool, stuck := Session(Limits()), doing("spin"))
        assert start(pool, Session(Limits()), doing("echo")).result(30.0).note == NOTE
        assert not bomb.done()
        stuck.close()
        assert isinstance(bomb.exception(SOON_S), Cancelled)
    finally:
        pool.close()


def test_the_process_that_forks_is_started_again(
    shared_pool: SessionPool, session: Session, start: Start
) -> None:
    compiled(shared_pool, session, doing("echo"))
    before = shared_pool.pool.process
    assert before is not None
    wait_until(lambda: not processes_of(shared_pool))
    future = start(shared_pool, session, doing("spin"))
    wait_until(lambda: processes_of(shared_pool))
    (child,) = processes_of(shared_pool)
    os.kill(before, signal.SIGKILL)
    with pytest.raises(OpFailed, match="prepare the model again"):
        future.result(SOON_S)
    wait_until(lambda: not is_alive(child), SOON_S)
    assert compiled(shared_pool, session, doing("echo")).note == NOTE
    assert shared_pool.pool.process != before


def test_an_application_may_ignore_the_ends_of_its_children(session: Session) -> None:
    pool = SessionPool(DRIVER, CompilingDevice(), Limits(compile_bytes=128 << 20))
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        compiled(pool, session, doing("echo"))
    finally:
        signal.signal(signal.SIGCHLD, before)
    parent = pool.pool.process
    with pytest.raises(OpFailed, match="SIGSEGV"):
        compiled(pool, session, doing("crash"))
    assert pool.pool.process == parent
    pool.close()


def test_nothing_is_left_of_a_pool_that_was_closed(session: Session, start: Start) -> None:
    pool = SessionPool(DRIVER, CompilingDevice(), Limits())
    future = start(pool, session, doing("spin"))
    wait_until(lambda: processes_of(pool))
    parent, children = pool.pool.process, processes_of(pool)
    assert parent is not None
    pool.close()
    assert isinstance(future.exception(SOON_S), OpFailed)
    wait_until(lambda: not any(map(is_alive, (parent, *children))), SOON_S)
    with pytest.raises(OpFailed, match="about to end"):
        compiled(pool, session, doing("echo"))


def test_compilations_are_cancelled_when_their_pool_is_closed(
    session: Session, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    pool = SessionPool(DRIVER, CompilingDevice(), Limits())
    future = start(pool, session, doing("spin"))
    wait_until(lambda: processes_of(pool))
    pool.close()
    with pytest.raises(Cancelled, match="were ended"):
        future.result(SOON_S)
    assert not caplog.records


def test_a_driver_that_cannot_be_made_is_told(session: Session) -> None:
    pool = SessionPool("support.devices.compiling:NoSuchDevice", CompilingDevice(), Limits())
    try:
        with pytest.raises(OpFailed, match="NoSuchDevice"):
            compiled(pool, session, doing("echo"))
    finally:
        pool.close()


def free_descriptors(count: int) -> list[int]:
    """Returns the numbers that the next descriptors will have."""
    found = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
    for each in found:
        os.close(each)
    return found


@pytest.mark.parametrize("left", range(5))
def test_without_descriptors_no_process_is_started_and_none_are_lost(left: int) -> None:
    pool = SessionPool(DRIVER, CompilingDevice(), Limits())
    free = free_descriptors(left + 1)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[left], limits[1]))
    try:
        with pytest.raises(OpFailed, match=r"no compiler process can be started|gets no jobs"):
            pool.pool.begin()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    try:
        assert free_descriptors(left + 1) == free
        pool.pool.begin().close()
    finally:
        pool.close()


def test_what_a_compiler_process_says_before_it_dies_is_told(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fork_server_process, "_PROGRAM", "raise SystemExit('no memory for imports')")
    pool = SessionPool(DRIVER, CompilingDevice(), Limits())
    try:
        with pytest.raises(OpFailed, match=r"has ended.*, with the output: no memory for imports"):
            compiled(pool, session, doing("echo"))
        with pytest.raises(OpFailed):
            compiled(pool, session, doing("echo"))
        assert "has ended, with the output: no memory for imports" in caplog.text
    finally:
        pool.close()


def test_a_driver_that_was_changed_meanwhile_is_told(session: Session) -> None:
    pool = SessionPool(DRIVER, CompilingDevice(version="0"), Limits())
    try:
        with pytest.raises(OpFailed, match=r"from 0 to 1\); restart"):
            compiled(pool, session, doing("echo"))
    finally:
        pool.close()


def test_the_log_comes_back_within_bounds(
    shared_pool: SessionPool, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "neurald"):
        compiled(shared_pool, session, doing("log"))
    messages = [record.getMessage() for record in caplog.records if record.name == "neurald.test"]
    assert messages[1] == "line 0"
    assert 10 < len(messages) < 1000
    assert max(map(len, messages)) < 3000


# Through a daemon


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DeviceServer]:
    server = served(CompilingDevice(), tmp_path, DRIVER)
    yield server
    server.stop()


def served(device: Device, tmp_path: Path, driver: str | None) -> DeviceServer:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"), driver=driver)
    server.start()
    return server


def connected(server: DeviceServer) -> RemoteDevice:
    return connect(str(server.address))


def test_a_daemon_executes_what_was_compiled_elsewhere(server: DeviceServer) -> None:
    prepared = connected(server).prepare_model(MODEL, doing("echo"))
    values, result = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    prepared.execute(bound(values, result), ExecuteOptions())
    assert np.array_equal(result, np.arange(1, 7, dtype=np.float32).reshape(2, 3))


def test_a_device_that_does_not_compile_apart_prepares_where_it_is(tmp_path: Path) -> None:
    seen: list[PrepareOptions] = []
    device = AddingDevice()
    device.on_prepare = lambda model, options: seen.append(options)
    server = served(device, tmp_path, "support.models.addition:create")
    try:
        connected(server).prepare_model(MODEL, PrepareOptions())
    finally:
        server.stop()
    assert seen[0].compiler is None


def test_a_client_whose_deadline_passes_leaves_no_process(server: DeviceServer) -> None:
    pool = server.handler.models._compilers
    assert pool is not None
    device = connected(server)
    device.prepare_model(MODEL, doing("echo"))
    options = PrepareOptions(cache_key=doing("spin").cache_key, deadline_s=time.monotonic() + 0.3)
    assert error_code(lambda: device.prepare_model(MODEL, options)) in (
        ResultCode.MISSED_DEADLINE_TRANSIENT,
        ResultCode.MISSED_DEADLINE_PERSISTENT,
    )
    wait_until(lambda: not processes_of(pool), SOON_S)


def test_a_client_that_goes_leaves_no_process(server: DeviceServer, start: Start) -> None:
    pool = server.handler.models._compilers
    assert pool is not None
    device = connected(server)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(device.prepare_model, MODEL, doing("spin"))
        wait_until(lambda: processes_of(pool))
        for session in server.handler.sessions.all():
            server.handler.sessions.close(session)
        wait_until(lambda: not processes_of(pool), SOON_S)
        assert future.exception(SOON_S) is not None
