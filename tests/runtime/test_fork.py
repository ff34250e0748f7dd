"""Applications that fork while they are connected to a daemon: children are right or told why not, parents undisturbed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon import daemon_process
from support.models import add_model

import neurald as nd
from neurald.hal.fork import forkable_lock
from neurald.hal.memory import SharedMemory
from neurald.hal.remote import RemoteDevice

SHAPE = (64,)


@pytest.fixture
def device() -> Iterator[RemoteDevice]:
    with daemon_process("sample-float-fast", None) as (_, address):
        remote = nd.connect(address)
        yield remote
        remote.close()


def in_child(work: Callable[[], None], timeout_s: float = 20.0) -> None:
    """Runs `work` in a forked process, and fails as that does. The child is killed if it hangs."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            signal.alarm(int(timeout_s))
            work()
            status = 0
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(process, 0)
    assert status == 0, said or f"the child ended with status {status:#x}; 0xe means that it hung"


def run(compilation: nd.Compilation, value: float) -> bool:
    values = np.full(SHAPE, value, np.float32)
    return bool((compilation.run(values, values)[0] == 2 * value).all())


def compiled(device: RemoteDevice) -> nd.Compilation:
    return nd.CompilationBuilder(add_model(SHAPE), devices=[device]).finish()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["run", "burst"])
def test_a_child_is_told_that_it_has_no_session(device: RemoteDevice, how: str) -> None:
    compilation = compiled(device)
    burst = compilation.create_burst() if how == "burst" else None
    execution = nd.Execution(compilation, reusable=True)
    values, result = np.full(SHAPE, 3, np.float32), np.zeros(SHAPE, np.float32)
    execution.set_input(0, values)
    execution.set_input(1, values)
    execution.set_output(0, result)
    execution.compute(burst=burst)

    def work() -> None:
        for _ in range(3):
            with pytest.raises(nd.Error, match="forked"):
                execution.compute(burst=burst)

    for turn in range(3):
        in_child(work)
        values[:] = turn
        execution.compute(burst=burst)
        assert (result == 2 * turn).all()


@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_child_that_connects_is_told_why_it_cannot(device: RemoteDevice, is_busy: bool) -> None:
    """Whatever other threads of the parent are doing with gRPC at the time of the fork."""
    compilation = compiled(device)
    wrong: list[int] = []
    ends = threading.Event()

    def work_on() -> None:
        number = 0
        while not ends.is_set():
            number += 1
            if not run(compilation, number):
                wrong.append(number)

    worker = threading.Thread(target=work_on, daemon=True)
    if is_busy:
        worker.start()

    def work() -> None:
        with pytest.raises(nd.Error, match="spawn"):
            nd.connect(device.address)
        with pytest.raises(nd.Error, match="spawn"):
            nd.connect(f"unix:///nowhere-{os.getpid()}.sock")
        with pytest.raises(nd.Error, match="forked"):
            compiled(device)

    for _ in range(8):
        in_child(work)
    ends.set()
    if is_busy:
        worker.join()
    assert not wrong
    assert run(compilation, 7)


@pytest.mark.slow
def test_the_cpu_stands_in_in_children(device: RemoteDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neurald.runtime.compilation.devices", lambda: (nd.devices()[0], device))
    compilation = nd.CompilationBuilder(add_model(SHAPE)).finish()
    assert compilation.plan.steps[0].device is device
    assert run(compilation, 1)
    wrong: list[int] = []
    ends = threading.Event()

    def work_on() -> None:
        number = 0
        while not ends.is_set():
            number += 1
            if not run(compilation, number):
                wrong.append(number)

    def work() -> None:
        assert all(run(compilation, 1000 + number) for number in range(200))

    workers = [threading.Thread(target=work_on, daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(ends.set)
        for _ in range(4):
            in_child(work)
    for worker in workers:
        worker.join()
    assert not wrong


_POOL = """
import multiprocessing, os, sys
import numpy as np
import neurald as nd
from support.models import add_model

device = nd.connect(sys.argv[1])
compilation = nd.CompilationBuilder(add_model((64,)), devices=[device]).finish()
burst = compilation.create_burst()


def run(number):
    values = np.full((64,), number, np.float32)
    try:
        return "right" if (compilation.run(values, values)[0] == 2 * number).all() else "wrong"
    except nd.Error as error:
        return "told" if "forked" in str(error) or "spawn" in str(error) else repr(error)


if __name__ == "__main__":
    assert run(1) == "right"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print(sorted(set(pool.map(run, range(400)))), flush=True)
    process = os.fork()
    if process == 0:
        sys.exit(0)  # with all that interpreters do at their end
    print(os.waitpid(process, 0)[1], run(2))
"""


@pytest.mark.slow
def test_a_pool_of_processes_and_a_child_that_ends_as_interpreters_do(device: RemoteDevice) -> None:
    command = [sys.executable, "-c", _POOL, device.address]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert found.stdout.split("\n")[:2] == ["['told']", "0 right"], found.stderr


def test_working_memory_is_a_copy_in_a_child() -> None:
    memory = SharedMemory.working(10_000)
    shared = SharedMemory.create(10_000)
    before = np.frombuffer(memory.view(), np.uint8)
    before[:] = 5
    copy_of_descriptor = memory.fd

    def work() -> None:
        assert (before == 5).all()
        before[:] = 9
        shared.view()[0] = 1
        assert memory.fd == copy_of_descriptor
        assert os.pread(memory.fd, 3, 0) == b"\x09\x09\x09", (
            "the descriptor is of other memory than the mapping"
        )
        again = SharedMemory.received(os.dup(memory.fd), memory.size, constant=False)
        again.view()[0] = 77
        assert before[0] == 77

    in_child(work)
    assert (before == 5).all()
    assert shared.view()[0] == 1, "memory that an application made is shared"


def test_locks_that_others_held_are_free_in_a_child() -> None:
    lock = forkable_lock()
    taken, ends = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            ends.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()

    def work() -> None:
        assert lock.acquire(timeout=1)

    in_child(work)
    assert lock.locked()
    ends.set()
    holder.join()
