"""Applications that fork while connected to a daemon.

A child gets right results or a clear error, and its parent is not disturbed.
"""

import contextlib
import gc
import importlib
import os
import pkgutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon.forking import fork_untold, in_child
from support.daemon.processes import daemon_process, python_path
from support.models.small import add_model
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.native.objects import llvm
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process import fork
from neurald.hal.process.fork import forkable_lock
from neurald.hal.process.memory import gc_pause
from neurald.hal.rpc.client.device import RemoteDevice

SHAPE = (64,)
#: Ways to fork: one that Python knows of, and one that it does not.
FORKS = pytest.mark.parametrize("fork", [os.fork, fork_untold], ids=["told", "untold"])


@pytest.fixture
def device() -> Iterator[RemoteDevice]:
    with daemon_process("sample-float-fast", None) as (_, address):
        remote = nd.connect(address)
        yield remote
        remote.close()


def run(compilation: nd.Compilation, value: float) -> bool:
    values = np.full(SHAPE, value, np.float32)
    return bool((compilation.run(values, values)[0] == 2 * value).all())


def compiled(device: RemoteDevice) -> nd.Compilation:
    return nd.CompilationBuilder(add_model(SHAPE), devices=[device]).finish()


@pytest.mark.forks
@pytest.mark.slow
@pytest.mark.parametrize("how", ["run", "burst"])
@FORKS
def test_a_child_process_has_no_session(device: RemoteDevice, how: str, fork: Callable[[], int]) -> None:
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
        in_child(work, fork=fork)
        values[:] = turn
        execution.compute(burst=burst)
        assert (result == 2 * turn).all()


@pytest.mark.forks
@pytest.mark.slow
@FORKS
def test_a_child_process_has_no_session_with_another_host(fork: Callable[[], int]) -> None:
    """Neither through the call that stays open, nor through the channel of its parent."""
    with daemon_process("sample-float-fast", "127.0.0.1:0") as (_, address):
        remote = nd.connect(address)
        compilation = compiled(remote)
        assert run(compilation, 2)

        def work() -> None:
            for _ in range(3):
                with pytest.raises(nd.Error, match="forked"):
                    run(compilation, 3)

        for _ in range(3):
            in_child(work, fork=fork)
            assert run(compilation, 4)
        remote.close()


@pytest.mark.forks
@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_child_process_cannot_connect(device: RemoteDevice, is_busy: bool) -> None:
    """This must not depend on what other threads of the parent do with gRPC during the fork."""
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


@pytest.mark.forks
@pytest.mark.slow
@FORKS
def test_the_cpu_stands_in_in_children(
    device: RemoteDevice, monkeypatch: pytest.MonkeyPatch, fork: Callable[[], int]
) -> None:
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (nd.devices()[0], device))
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

    # Other threads may hold what the interpreter needs in a child, and does not reset if untold.
    count = 2 if fork is os.fork else 0
    workers = [threading.Thread(target=work_on, daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(ends.set)
        for _ in range(4):
            in_child(work, fork=fork)
    for worker in workers:
        worker.join()
    assert not wrong


_POOL = """
import multiprocessing, os, sys
import numpy as np
import neurald as nd
from support.models.small import add_model

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
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[2]), *filter(None, sys.path))),
    }
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert found.stdout.split("\n")[:2] == ["['told']", "0 right"], found.stderr


_BUSY = """
import collections, os, signal, sys, threading
import numpy as np
import neurald as nd
from support.models.small import add_model

device = nd.connect(sys.argv[1])
compilation = nd.CompilationBuilder(add_model((64,)), devices=[device]).finish()


def run():
    values = np.ones((64,), np.float32)
    while True:
        compilation.run(values, values)


for _ in range(4):
    threading.Thread(target=run, daemon=True).start()
ends = collections.Counter()
for number in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            if number % 2:
                thread = threading.Thread(target=int)
                thread.start()
                thread.join()
            elif not (grandchild := os.fork()):
                os._exit(0)
            elif os.waitpid(grandchild, 0)[1]:
                os._exit(1)
            os._exit(0)
        finally:
            os._exit(2)
    ends[os.waitpid(child, 0)[1]] += 1
print(dict(ends), flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_children_of_a_process_that_uses_grpc_may_start_threads_and_fork() -> None:
    """gRPC's own handlers of forks would let some of them crash."""
    with daemon_process("sample-float-fast", "127.0.0.1:0") as (_, address):
        command = [sys.executable, "-c", _BUSY, address, "200"]
        environment = {**os.environ, "PYTHONPATH": python_path()}
        found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert found.stdout == "{0: 200}\n", found.stderr


@pytest.mark.forks
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


def matrices(size: int, count: int) -> nd.Model:
    """Builds a model that repeatedly multiplies a matrix by the identity, with values in device
    memory in between.
    """
    builder = nd.ModelBuilder()
    source = value = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (size, size))
    weights = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (size, size))
    builder.set_operand_value(weights, np.eye(size, dtype=np.float32))
    bias = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (size,))
    builder.set_operand_value(bias, np.zeros(size, np.float32))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    for _ in range(count):
        result = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (size, size))
        builder.add_operation(nd.OperationType.FULLY_CONNECTED, [value, weights, bias, activation], [result])
        value = result
    builder.identify_inputs_and_outputs([source], [value])
    return builder.finish()


def on_cpu(model: nd.Model, threads: int) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, [nd.devices()[0]], threads)
    builder.set_caching(None)
    return builder.finish()


def shared_mappings() -> set[str]:
    """Returns the writable mappings of this process that belong to no file and that a child would
    share.
    """
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line for line in lines if line.split()[1] == "rw-s" and "/dev/zero" in line}


@sweep("threads", [1, 2])
def test_a_device_in_this_process_computes_in_memory_of_its_own(threads: int) -> None:
    """Otherwise a child and its parent would overwrite each other's intermediate values."""
    before = shared_mappings()
    compilation = on_cpu(matrices(16, 3), threads)
    values = np.arange(256, dtype=np.float32).reshape(16, 16)
    assert (compilation.run(values)[0] == values).all()
    assert shared_mappings() <= before


@pytest.mark.forks
@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_children_compute_on_the_cpu_at_the_same_time(threads: int) -> None:
    compilation = on_cpu(matrices(64, 6), threads)

    def check() -> None:
        for number in range(100):
            values = np.full((64, 64), 1000 * os.getpid() % 65_521 + number, np.float32)
            assert (compilation.run(values)[0] == values).all()

    check()
    children = [threading.Thread(target=in_child, args=(check,)) for _ in range(3)]
    results: list[BaseException] = []
    hook, threading.excepthook = threading.excepthook, lambda told: results.append(told.exc_value)  # type: ignore[arg-type]
    try:
        for child in children:
            child.start()
        check()
        for child in children:
            child.join()
    finally:
        threading.excepthook = hook
    assert not results


def test_no_module_keeps_a_lock_that_a_child_could_find_taken() -> None:
    held_over = {
        ("neurald.drivers.cpu.native.objects.llvm", "_lock"),
        ("neurald.drivers.opencl.platform.native_halves", "_lock"),
        ("neurald.drivers.opencl.runtime.native_loop", "_lock"),
    }
    daemons = {("neurald.hal.rpc.server.server", "_parsing_large")}
    found = set()
    for folder in ("hal", "runtime", "drivers"):
        root = importlib.import_module(f"neurald.{folder}")
        for module in pkgutil.walk_packages(root.__path__, f"neurald.{folder}."):
            if module.name.endswith(("_worker", "__main__")):
                continue
            try:
                members = vars(importlib.import_module(module.name))
            except (ImportError, nd.Error):
                continue  # of a library that is not installed
            found |= {
                (module.name, name)
                for name, member in members.items()
                if isinstance(member, type(threading.Lock()) | type(threading.RLock()))
                and weakref.ref(member) not in fork._locks
            }
    assert found - daemons <= held_over
    assert ("neurald.drivers.cpu.native.objects.llvm", "_lock") in found


@pytest.mark.forks
def test_a_fork_waits_while_llvm_is_in_use() -> None:
    taken = threading.Event()
    ended: list[bool] = []

    def hold() -> None:
        with llvm._lock:
            taken.set()
            time.sleep(0.1)
            ended.append(True)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()

    def work() -> None:
        assert ended, "the other thread was in the midst of it"
        assert llvm._lock.acquire(blocking=False)

    in_child(work)
    holder.join()
    assert llvm._lock.acquire(blocking=False)
    llvm._lock.release()


@pytest.mark.forks
def test_a_child_collects_garbage_though_others_compiled() -> None:
    taken, ends = threading.Event(), threading.Event()

    def hold() -> None:
        with gc_pause.paused_gc():
            taken.set()
            ends.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()

    def work() -> None:
        assert gc.isenabled()
        with gc_pause.paused_gc():
            assert not gc.isenabled()
        assert gc.isenabled()

    in_child(work)
    assert not gc.isenabled()
    ends.set()
    holder.join()
    assert gc.isenabled()


_IN_A_SUBINTERPRETER = """
import sys
sys.path[:] = {path!r}
import numpy as np
import neurald as nd
try:
    nd.compile({model!r})(np.zeros({shape!r}, np.float32))
except nd.Error as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="NumPy cannot be imported in subinterpreters")
def test_an_isolated_subinterpreter_gets_an_error_that_blames_no_driver() -> None:
    path = Path(nd.__file__).parent / "service" / "demo" / "digits.tflite"
    main = nd.load_tflite(path).main
    shape = main.operands[main.inputs[0]].dimensions
    code = _IN_A_SUBINTERPRETER.format(path=sys.path, model=str(path), shape=shape)
    program = f"import _xxsubinterpreters as each; each.run_string(each.create(), {code!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("BadState cpu needs threads, which this interpreter of Python cannot start")
    assert "not supported for isolated subinterpreters" in done.stdout
    assert "use neurald in the main interpreter" in done.stdout
    assert "fault" not in done.stdout


@pytest.mark.forks
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
