"""Faults while optimised code replaces a first tier, such as killed compilers and a full disk.

Models of the conformance records are prepared one after another with a first tier, and threads run
each while its optimised code is compiled and replaces it. At random moments, a fault strikes: the
process that compiles, the one that forks it, or the daemon that prepares the model is killed, the
disk of the cache is full, the application is forked, a signal interrupts it, or it may have no more
descriptors or memory for a while. Every result must be right, also in a forked child, and a step
that keeps its first tier must say why. Once the code of a daemon has replaced the first tier, the
daemon's death is an error, since the application has named its device. While the application lacks
a resource, its calls may fail with an error that says so.
"""

import contextlib
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

import numpy as np
from faults.daemon_process import DaemonProcess
from support.files.data import VECTORS

import neurald as nd
from neurald.hal.compiling import separate_compiler
from neurald.runtime.plan.status import StepTier
from neurald.service.conformance.records import Record, load_records, mismatches, record_files, run

THREADS: Final = 8
#: Runs of each thread after the code was replaced, or was not.
_RUNS_AFTER: Final = 2
#: How long after the beginning of a preparation faults strike, and how often at most.
_STRIKE_S: Final = 0.4
_MAX_STRIKES: Final = 3
_WAIT_S: Final = 240.0
_DISK_BYTES: Final = 1 << 20
_TOKEN_BYTES: Final = 32
#: How long a forked child may take.
_CHILD_S: Final = 120.0
#: How long the application lacks a resource at most.
_LACK_S: Final = 0.3
_SIGNAL: Final = signal.SIGUSR1

_T = TypeVar("_T")


class Disk:
    """A small file system for caches; without the right to mount one, it is never full.

    Args:
        folder: where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        command = [shutil.which("mount") or "false", "-t", "tmpfs", "-o", f"size={_DISK_BYTES},mode=700"]
        done = subprocess.run([*command, "tmpfs", str(folder)], stderr=subprocess.DEVNULL, check=False)
        self.is_mounted = done.returncode == 0
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Fills it."""
        if self.is_mounted:
            with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
                while True:
                    file.write(bytes(4096))

    def clear(self) -> None:
        """Removes everything."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmounts it."""
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


class Victim:
    """An application that prepares a model and runs it.

    Attributes:
        record: the model and what it must compute.
        disk: the disk of its cache.
        compilations: its compilations, the present one last.
        wrong: what was wrong.
        may_lack: whether it lacks a resource, or has lacked one during a call under way.
        starting: is held while a thread is started, or a resource is lacking: `Thread.start` waits
            for ever if the new thread finds no memory for its first step.
    """

    def __init__(self, record: Record, disk: Disk) -> None:
        self.record = record
        self.disk = disk
        self.compilations: list[nd.Compilation] = []
        self.wrong: list[str] = []
        self.may_lack = False
        self.starting = threading.Lock()


def kill_server(victim: Victim) -> None:
    """Kills the processes that fork compiling processes, which end with them."""
    for process in _servers():
        _kill(process)


def kill_compilers(victim: Victim) -> None:
    """Kills the processes that compile."""
    for server in _servers():
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{server}/task/{server}/children").read_text("ascii")
            for process in map(int, text.split()):
                _kill(process)


def kill_daemon(victim: Victim) -> None:
    """Kills the daemon that prepares the model."""
    for daemon in _daemons:
        daemon.process.kill()


def fill_disk(victim: Victim) -> None:
    """Fills the disk of the cache."""
    victim.disk.fill()


def fork_application(victim: Victim) -> None:
    """Forks the application; the child runs the model, and waits for its code."""
    if not victim.compilations:
        return
    compilation = victim.compilations[-1]
    process = os.fork()
    if process == 0:
        status = 1
        try:
            signal.alarm(int(_CHILD_S))
            lines = mismatches(victim.record, run(victim.record, lambda _: compilation))
            compilation.wait_until_optimized(_CHILD_S / 2)
            lines += mismatches(victim.record, run(victim.record, lambda _: compilation))
            status = 2 if lines else 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(process, 0)
    if status:
        victim.wrong.append(f"a forked child ended with status {status:#x}")


def interrupt(victim: Victim) -> None:
    """Interrupts the main thread by a signal whose handler raises an exception."""
    signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)


def exhaust_descriptors(victim: Victim) -> None:
    """Lets the application open hardly any more files for a while."""
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    _without(victim, resource.RLIMIT_NOFILE, lowest + random.randrange(3))


def exhaust_memory(victim: Victim) -> None:
    """Lets the application map hardly any more memory for a while."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    _without(victim, resource.RLIMIT_AS, pages * resource.getpagesize() + (random.randrange(32) << 20))


def _without(victim: Victim, kind: int, limit: int) -> None:
    soft, hard = resource.getrlimit(kind)
    with victim.starting:
        victim.may_lack = True
        resource.setrlimit(kind, (limit, hard))
        try:
            time.sleep(random.uniform(0.0, _LACK_S))
        finally:
            resource.setrlimit(kind, (soft, hard))


def nothing(victim: Victim) -> None:
    """Does no harm."""


FAULTS: Final[Mapping[str, Callable[[Victim], None]]] = {
    each.__name__: each
    for each in (
        kill_server,
        kill_compilers,
        kill_daemon,
        fill_disk,
        fork_application,
        interrupt,
        exhaust_descriptors,
        exhaust_memory,
        nothing,
    )
}


class _Interrupted(BaseException):
    """Is raised by the handler of a signal."""


class _Interruptible:
    """Calls that a signal may interrupt; it does nothing to what the main thread does otherwise."""

    def __init__(self) -> None:
        self._is_armed = False

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handles signals during the context, in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(_SIGNAL, self._handle)
        try:
            yield
        finally:
            signal.signal(_SIGNAL, before)

    def _handle(self, number: int, frame: object) -> None:
        if self._is_armed:
            self._is_armed = False
            raise _Interrupted

    def repeated(self, call: Callable[[], _T]) -> _T:
        """Makes a call, again each time that it is interrupted."""
        while True:
            try:
                self._is_armed = True
                try:
                    return call()
                finally:
                    self._is_armed = False
            except _Interrupted:
                continue


#: The errors of an application that lacks descriptors or memory.
_LACKING: Final = (
    nd.OutOfMemory,
    nd.ResourceExhaustedPersistent,
    nd.ResourceExhaustedTransient,
    nd.Unmappable,
    MemoryError,
)

#: The daemon of the model, if there is one.
_daemons: list[DaemonProcess] = []


@contextlib.contextmanager
def _device(fault: str, folder: Path) -> Iterator[nd.Device]:
    """Yields the device that prepares a model: that of a daemon if this is to be killed."""
    if fault != kill_daemon.__name__:
        yield nd.devices()[0]
        return
    with DaemonProcess(folder) as daemon:
        device = nd.connect(daemon.address)
        _daemons.append(daemon)
        try:
            yield device
        finally:
            _daemons.remove(daemon)
            device.close()


def _servers() -> list[int]:
    processes = [pool.process for pool in list(separate_compiler._pools.values())]
    return [process for process in processes if process is not None]


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def play(count: int, seed: int, *, faults: Sequence[str] = tuple(FAULTS)) -> dict[str, Any]:
    """Prepares models with faults; returns a report.

    Args:
        count: number of models.
        seed: determines models, faults and moments.
        faults: the names of those to draw from.
    """
    draw = random.Random(seed)
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ns") as folder, _quick_compilers():
        disk = Disk(Path(folder) / "disk")
        _allocate_for_products()
        library = nd.devices()[0].first_tier.library  # type: ignore[attr-defined]
        library.code(None)
        if not library.wait(_WAIT_S):
            wrong.append("there are no kernels of the first tier")
        try:
            for number, record in enumerate(_records(draw, count)):
                name = draw.choice(faults)
                with _device(name, Path(folder) / str(number)) as device:
                    outcome, lines = _replaced(record, number, name, disk, draw, device)
                outcomes[f"{name}: {outcome}"] += 1
                wrong += [f"{record.name}, {name}: {line}" for line in lines]
                disk.clear()
        finally:
            separate_compiler.end_processes()
            is_mounted = disk.is_mounted
            disk.close()
    return {
        "models": count,
        "disk": "mounted" if is_mounted else "cannot be mounted, so it was never full",
        "outcomes": dict(sorted(outcomes.items())),
        "wrong": wrong,
    }


@contextlib.contextmanager
def _quick_compilers() -> Iterator[None]:
    """Compiles with the priority of other processes, so that a busy machine does not delay it."""
    with patch.object(separate_compiler, "NICENESS", 0):
        yield


def _records(draw: random.Random, count: int) -> Iterator[Record]:
    """Yields records whose results are determined, of different specs in turn."""
    if VECTORS is None:
        return
    left, paths = count, sorted(record_files(VECTORS))
    while left:
        for path in draw.sample(paths, len(paths)):
            usable = [
                each
                for each in load_records(path)
                if not each.expect_failure and not each.multinomial_tolerance
            ]
            if usable and left:
                left -= 1
                yield draw.choice(usable)


def _replaced(
    record: Record, number: int, fault: str, disk: Disk, draw: random.Random, device: nd.Device
) -> tuple[str, list[str]]:
    """Prepares a model, runs it while a fault strikes, and returns the outcome and errors."""
    victim, calls = Victim(record, disk), _Interruptible()
    moments = sorted(draw.uniform(0, _STRIKE_S) for _ in range(draw.randint(1, _MAX_STRIKES)))
    started = time.monotonic()
    is_over = threading.Event()

    def strike() -> None:
        for moment in moments:
            if is_over.wait(max(0.0, started + moment - time.monotonic())):
                return
            FAULTS[fault](victim)

    striking = threading.Thread(target=strike)

    def compile_model(model: nd.Model) -> nd.Compilation:
        builder = nd.CompilationBuilder(model, [device])
        builder.set_startup(nd.Startup.INSTANT)
        builder.set_caching(disk.folder / str(number), bytes(_TOKEN_BYTES))
        victim.compilations.append(builder.finish())
        return victim.compilations[-1]

    wrong, compilations = victim.wrong, victim.compilations
    threads: list[threading.Thread] = []
    with calls.handled():
        striking.start()
        try:
            try:
                wrong += mismatches(record, calls.repeated(lambda: run(record, compile_model)))
            except (nd.Error, MemoryError, OSError) as error:
                if not _is_excused(error, device, victim):
                    wrong.append(f"{type(error).__name__}: {error}")
                if not compilations:
                    return "refused", wrong
            compilation = compilations[-1]
            threads += [
                threading.Thread(target=_call, args=(victim, compilation, device)) for _ in range(THREADS)
            ]
            with victim.starting:
                for thread in threads:
                    thread.start()
            is_optimized = calls.repeated(lambda: compilation.wait_until_optimized(_WAIT_S))
            for thread in threads:
                thread.join(_WAIT_S)
        finally:
            is_over.set()
            striking.join()
    if victim.may_lack:
        # Nothing is missing any more.
        wrong += mismatches(record, run(record, lambda _: compilation))
    if any(thread.is_alive() for thread in threads):
        wrong.append("a thread hangs")
    if is_optimized:
        return "optimised", wrong
    wrong += [
        f"step {step.step} keeps its first tier without a reason"
        for step in compilation.status.steps
        if step.tier is StepTier.FIRST and not step.reason
    ]
    return "first tier", wrong


def _allocate_for_products() -> None:
    """Lets NumPy allocate what products of all threads need; it ends a process that cannot."""
    together = threading.Barrier(THREADS + 1)

    def multiply() -> None:
        matrix = np.ones((768, 768))
        together.wait()
        np.matmul(matrix, matrix)

    threads = [threading.Thread(target=multiply) for _ in range(THREADS + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _is_excused(error: BaseException, device: nd.Device, victim: Victim) -> bool:
    """Returns True if an error is that of a daemon that was killed, or of a resource that lacks.

    A daemon that is killed while it looks at a model supports no operation of it.
    """
    if victim.may_lack:
        # A module that is imported when it is needed first may find no descriptor.
        return isinstance(error, _LACKING) or (isinstance(error, OSError) and error.errno == errno.EMFILE)
    if not device.is_remote:
        return False
    texts = ("is gone", "no driver daemon listens")
    return isinstance(error, nd.DeadObject | nd.UnavailableDevice) or any(
        text in str(error) for text in texts
    )


def _call(victim: Victim, compilation: nd.Compilation, device: nd.Device) -> None:
    """Runs a record until its code was replaced, or will not be, and some more."""
    record, wrong, left = victim.record, victim.wrong, _RUNS_AFTER
    while left:
        left -= not compilation.status.is_pending
        try:
            wrong += mismatches(record, run(record, lambda _: compilation))
        except (nd.Error, MemoryError, OSError) as error:
            is_first_tier = any(step.tier is StepTier.FIRST for step in compilation.status.steps)
            if victim.may_lack and _is_excused(error, device, victim):
                continue
            if is_first_tier or not _is_excused(error, device, victim):
                wrong.append(f"{type(error).__name__}: {error}")
            return


def main(count: int, seed: int, path: Path | None) -> int:
    """Plays and writes the report; returns the exit status."""
    if VECTORS is None:
        sys.stderr.write("there are no conformance records\n")
        return 1
    report = play(count, seed)
    text = json.dumps(report, indent=2) + "\n"
    sys.stdout.write(text)
    if path is not None:
        path.write_text(text, "utf-8")
    return 1 if report["wrong"] else 0
