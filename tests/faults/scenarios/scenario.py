"""Fault scenarios for daemons, their clients and their files.

Functions of the `Field` in `SCENARIOS`.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from faults.field import EXECUTION_S, Field
from faults.scenarios.disk import fill_disk, kill_writers
from faults.scenarios.victim import WAYS
from support.models.small import add_model

import neurald as nd
from neurald.hal.errors import Error
from neurald.hal.memory.pool import SharedMemory

#: Time after which a driver that should die of a request is killed, in case there is no request.
_POISONED_S = 2.0


def kill(field: Field) -> None:
    """Kills a daemon and restarts it."""
    daemon = field.any_daemon()
    daemon.process.kill()
    field.pause()
    daemon.restart()


def kill_all(field: Field) -> None:
    """Kills all daemons in short succession, and restarts them."""
    for daemon in field.daemons:
        daemon.process.kill()
        field.pause(0.0, 0.05)
    field.pause()
    for daemon in field.daemons:
        daemon.restart()


def freeze(field: Field) -> None:
    """Suspends a daemon for a while."""
    process = field.any_daemon().process
    process.send_signal(signal.SIGSTOP)
    field.pause(0.05, 0.5)
    process.send_signal(signal.SIGCONT)


def freeze_and_kill(field: Field) -> None:
    """Suspends a daemon, then kills it."""
    daemon = field.any_daemon()
    daemon.process.send_signal(signal.SIGSTOP)
    field.pause(0.0, 0.3)
    daemon.process.kill()
    field.pause()
    daemon.restart()


def freeze_for_long(field: Field) -> None:
    """Suspends a daemon for longer than its clients wait for a sign of life."""
    process = field.any_daemon().process
    process.send_signal(signal.SIGSTOP)
    field.pause(2.5, 4.0)
    process.send_signal(signal.SIGCONT)


def hang(field: Field) -> None:
    """Makes kernels of a driver run for longer than its daemon permits."""
    path = field.any_daemon().fault
    path.write_text("endless")
    field.pause(0.5 * EXECUTION_S, 2.0 * EXECUTION_S)
    path.unlink()


def poison(field: Field) -> None:
    """Makes preparations or executions kill a driver, also after a restart."""
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
    """Makes a driver slow, wrong or failing for a while."""
    path = field.any_daemon().fault
    path.write_text(field.random.choice(("delay", "lie", "fail")))
    field.pause(0.05, 0.5)
    path.unlink()


def kill_clients(field: Field) -> None:
    """Kills clients in the middle of calls, bursts, fenced executions and preparations."""
    ways = field.random.sample(WAYS, field.random.randint(1, len(WAYS)))
    victim = field.start("scenarios.victim", field.address, *ways)
    victim.wait_ready()
    field.pause(0.0, 0.05)
    victim.kill()


def truncate_memory(field: Field) -> None:
    """Tries to truncate shared memory, which must not affect its readers."""
    memory = SharedMemory.create(1 << 16)
    for size in (0, 1, 1 << 20):
        try:
            os.ftruncate(memory.fd, size)
        except PermissionError:
            continue
        field.wrong.append(f"shared memory was cut to {size} bytes")
    memory.close()


def damage_cache(field: Field) -> None:
    """Damages cache files between compilations, which must all give correct results.

    One cache belongs to this process, the other to the applications.
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
            continue  # an earlier scenario may still have an effect
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
