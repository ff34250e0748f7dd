"""Models of this process are compiled in another one, which ends with it."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.daemon.processes import bare_environment
from support.models.small import add_model
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.loading import ArtifactLoader
from neurald.drivers.sample.device import create_all
from neurald.drivers.sample.extension import EXTENSION
from neurald.hal.cache.secret import SECRET_VARIABLE
from neurald.hal.cache.store import MAX_BYTES_VARIABLE, Cache
from neurald.hal.cache.variants import SharedCache
from neurald.hal.compiling import separate_compiler
from neurald.hal.compiling.job import LocalModel
from neurald.hal.compiling.separate_compiler import SeparateCompiler, end_processes, start_ahead
from neurald.hal.errors import Cancelled
from neurald.hal.sync.cancellation import Cancellation


def test_models_are_compiled_in_another_process() -> None:
    device = CpuDevice()
    model = add_model((0, 3))
    shapes = dict.fromkeys(model.main.inputs, (4, 3))
    compiler = SeparateCompiler("cpu", device, model)
    for _ in range(2):
        compiled = compiler.compile(shapes)
        assert compiled.artifact is not None
        native = ArtifactLoader(device._target, threads=1).restore(compiled.artifact)
        given = np.arange(12, dtype=np.float32).reshape(4, 3)
        np.testing.assert_array_equal(native.run_arrays([given, given])[0], 2 * given)
        end_processes()


def test_the_process_that_compiles_ends_when_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    end_processes()
    monkeypatch.setattr(separate_compiler, "_IDLE_S", 0.05)
    model = add_model((4, 3))
    compiler = SeparateCompiler("cpu", CpuDevice(), model)
    assert compiler.compile().artifact is not None
    (pool,) = separate_compiler._pools.values()
    wait_until(lambda: pool.process is None, 30.0)
    assert compiler.compile().artifact is not None  # It starts again.
    end_processes()


def test_the_process_that_compiles_can_start_ahead() -> None:
    end_processes()
    device = CpuDevice()
    start_ahead("cpu", device, is_awaited=True)
    (pool,) = separate_compiler._pools.values()
    process = pool.process
    assert process is not None
    compiled = SeparateCompiler("cpu", device, add_model((4, 3)), is_awaited=True).compile()
    assert compiled.artifact is not None
    assert pool.process == process
    end_processes()


def test_the_process_that_compiles_opens_the_cache_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment may have changed since that process started."""
    end_processes()
    device = CpuDevice()
    with monkeypatch.context() as earlier:
        earlier.setenv(SECRET_VARIABLE, str(tmp_path / "another"))
        earlier.setenv(MAX_BYTES_VARIABLE, "10")
        start_ahead("cpu", device, is_awaited=True)
    cache = Cache(tmp_path / "cache")
    shared = SharedCache(cache, device, pytest.fail)
    compiler = SeparateCompiler("cpu", device, add_model((4, 3)), shared, is_awaited=True)
    assert compiler.compile().artifact is not None
    (pack,) = cache.verify()
    assert not pack.damage
    assert pack.manifest is not None
    assert pack.manifest.parts.variant.startswith("kernels ")
    end_processes()


def test_models_are_sent_without_messages_of_the_wire_protocol() -> None:
    sent = separate_compiler._encoded(add_model((4, 3)))
    assert isinstance(sent, LocalModel)
    found = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=LocalModel).model(())
    assert found.main == add_model((4, 3)).main
    builder = nd.ModelBuilder([create_all()])
    gray = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (2, 3))
    pixels = builder.add_operand(builder.extension_operand_type(EXTENSION.name, 0), (2, 3))
    builder.add_operation(builder.extension_operation_type(EXTENSION.name, 1), [gray], [pixels])
    builder.identify_inputs_and_outputs([gray], [pixels])
    assert isinstance(separate_compiler._encoded(builder.finish()), bytes)


def test_a_cancelled_compilation_ends() -> None:
    end_processes()
    cancellation = Cancellation()
    cancellation.cancel()
    model = add_model((0, 3))
    with pytest.raises(Cancelled):
        SeparateCompiler("cpu", CpuDevice(), model).compile(
            dict.fromkeys(model.main.inputs, (4, 3)), cancellation=cancellation
        )
    assert not separate_compiler._pools, "a process was started for nothing"


def test_a_compilation_that_begins_leaves_no_process_when_all_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its thread may be about to start the process."""
    end_processes()
    started, choose, chosen = threading.Event(), separate_compiler._pool, threading.Event()

    def later(*arguments: Any, **named: Any) -> Any:
        started.set()
        assert chosen.wait(60.0)
        return choose(*arguments, **named)

    monkeypatch.setattr(separate_compiler, "_pool", later)
    stop, errors = Cancellation(), []

    def compile_model() -> None:
        try:
            SeparateCompiler("cpu", CpuDevice(), add_model((4, 3))).compile(cancellation=stop)
        except Cancelled as error:
            errors.append(error)

    thread = threading.Thread(target=compile_model)
    thread.start()
    assert started.wait(60.0)
    stop.call_on_cancel(chosen.set)
    end_processes()
    thread.join()
    assert len(errors) == 1
    assert not separate_compiler._pools


_EXITS_MEANWHILE = """
import numpy as np
from support.models.small import add_model
import neurald as nd
from neurald.drivers.compiler.frontend.variants import variant_uses

variant_uses.FREQUENT_USES = 2
compilation = nd.CompilationBuilder(add_model((0, 3)), [nd.devices()[0]]).finish()
given = np.ones((40, 3), np.float32)
for _ in range(5):
    (found,) = compilation.run(given, given)
assert (found == 2).all()
"""


@pytest.mark.timed
def test_a_process_exits_while_it_compiles_in_the_background() -> None:
    started = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", _EXITS_MEANWHILE],
        env=bare_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert time.monotonic() - started < 50


_PRIORITIES = """
import os
BEFORE = os.getpriority(os.PRIO_PROCESS, 0)
from support.daemon.processes import held_streams
from support.models.small import add_model
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.compiling import separate_compiler
from neurald.hal.compiling.separate_compiler import SeparateCompiler

device = CpuDevice()
SeparateCompiler("cpu", device, add_model()).compile()
(pool,) = separate_compiler._pools.values()
own = os.getpriority(os.PRIO_PROCESS, 0)
print(os.getpriority(os.PRIO_PROCESS, pool.process) == min(19, own + 16), own == BEFORE)
print(os.sched_getscheduler(pool.process) == os.SCHED_BATCH)
print(os.getsid(pool.process) == os.getsid(0), os.getpgid(pool.process) == pool.process)
print(held_streams(pool.process))
"""


def test_applications_have_precedence_and_nobody_waits_for_compiling_processes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PRIORITIES],
        env={**bare_environment(), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Readers of its pipes, such as `tee`, wait for the program only.
    assert done.stdout.split() == ["True", "True", "True", "True", "True", "[]"]
