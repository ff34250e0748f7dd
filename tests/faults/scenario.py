"""What is done to daemons, their clients and their files. Each scenario is a function of the `Field`; add more to `SCENARIOS`."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from faults.disk import fill_disk, kill_writers
from faults.field import EXECUTION_S, Field
from faults.victim import WAYS
from support.models.small import add_model

import neurald as nd
from neurald.hal.errors import Error
from neurald.hal.memory.pool import SharedMemory

#: How long a driver that dies of what it is asked may stay alive, since nobody asks it for that.
_POISONED_S = 2.0


def kill(field: Field) -> None:
    """A daemon dies, and another one takes its place."""
    daemon = field.any_daemon()
    daemon.process.kill()
    field.pause()
    daemon.restart()


def kill_all(field: Field) -> None:
    """All daemons die, one shortly after the other."""
    for daemon in field.daemons:
        daemon.process.kill()
        field.pause(0.0, 0.05)
    field.pause()
    for daemon in field.daemons:
        daemon.restart()


def freeze(field: Field) -> None:
    """A daemon stands still for a while."""
    process = field.any_daemon().process
    process.send_signal(signal.SIGSTOP)
    field.pause(0.05, 0.5)
    process.send_signal(signal.SIGCONT)


def freeze_and_kill(field: Field) -> None:
    """A daemon stands still, and then dies."""
    daemon = field.any_daemon()
    daemon.process.send_signal(signal.SIGSTOP)
    field.pause(0.0, 0.3)
    daemon.process.kill()
    field.pause()
    daemon.restart()


def freeze_for_long(field: Field) -> None:
    """A daemon stands still for longer than its clients wait for a sign of life."""
    process = field.any_daemon().process
    process.send_signal(signal.SIGSTOP)
    field.pause(2.5, 4.0)
    process.send_signal(signal.SIGCONT)


def hang(field: Field) -> None:
    """Kernels of a driver do not end for longer than its daemon lets them run."""
    path = field.any_daemon().fault
    path.write_text("endless")
    field.pause(0.5 * EXECUTION_S, 2.0 * EXECUTION_S)
    path.unlink()


def poison(field: Field) -> None:
    """What a driver prepares or executes kills it, and so again once it was started anew."""
    daemon = field.any_daemon()
    daemon.fault.write_text(field.random.choice(("die in prepare", "die in execute")))
    for _ in range(2):
        end = time.monotonic() + _POISONED_S
        while daemon.process.poll() is None and time.monotonic() < end:
            field.pause(0.0, 0.05)
        daemon.process.kill()
        daemon.restart()
    daemon.fault.unlink()


def misbehave(field: Field) -> None:
    """A driver is slow, lies or fails for a while."""
    path = field.any_daemon().fault
    path.write_text(field.random.choice(("delay", "lie", "fail")))
    field.pause(0.05, 0.5)
    path.unlink()


def kill_clients(field: Field) -> None:
    """Clients are killed in the middle of what they do: calls, bursts, fenced executions, preparations."""
    ways = field.random.sample(WAYS, field.random.randint(1, len(WAYS)))
    victim = field.start("victim", field.address, *ways)
    victim.wait_ready()
    field.pause(0.0, 0.05)
    victim.kill()


def truncate_memory(field: Field) -> None:
    """Shared memory cannot be pulled away under those who read it."""
    memory = SharedMemory.create(1 << 16)
    for size in (0, 1, 1 << 20):
        try:
            os.ftruncate(memory.fd, size)
        except PermissionError:
            continue
        field.wrong.append(f"shared memory was cut to {size} bytes")
    memory.close()


def damage_cache(field: Field) -> None:
    """Files of caches are flipped, cut, swapped and removed between compilations, which all give right results.

    One cache is of this process, the other that of the applications.
    """
    folder = field.folder / "cache"
    folder.mkdir(exist_ok=True, mode=0o700)
    model = add_model((2, 3))
    for _ in range(3):
        try:
            builder = nd.CompilationBuilder(model, [nd.connect(field.address)])
            builder.set_caching(folder, bytes(range(32)))
            (result,) = builder.finish().run(np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32))
        except Error:
            continue  # a scenario before this one may still be felt
        if not np.array_equal(result, np.full((2, 3), 3, np.float32)):
            field.wrong.append("a damaged cache changed a result")
        for damaged in (folder, field.folder / "caches"):
            _damage(field, [path for path in sorted(damaged.rglob("*")) if path.is_file()])


def _damage(field: Field, files: list[Path]) -> None:
    if not files:
        return
    path = field.random.choice(files)
    kind = field.random.choice(("flip", "cut", "swap", "remove"))
    try:
        content = bytearray(path.read_bytes())
        if kind == "remove":
            path.unlink()
        elif kind == "cut" or not content:
            path.write_bytes(content[: len(content) // 2])
        elif kind == "swap":
            path.write_bytes(field.random.choice(files).read_bytes())
        else:
            content[field.random.randrange(len(content))] ^= 1 << field.random.randrange(8)
            path.write_bytes(content)
    except FileNotFoundError:
        pass  # an application was faster


SCENARIOS: Mapping[str, Callable[[Field], None]] = {
    "kill": kill,
    "kill all": kill_all,
    "freeze": freeze,
    "freeze and kill": freeze_and_kill,
    "freeze for long": freeze_for_long,
    "hang": hang,
    "poison": poison,
    "misbehave": misbehave,
    "kill clients": kill_clients,
    "truncate memory": truncate_memory,
    "damage cache": damage_cache,
    "fill disk": fill_disk,
    "kill writers": kill_writers,
}
