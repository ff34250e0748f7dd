"""Worker threads of the process; see `neurald.drivers.cpu.native.programs.step_program`.

Workers are Python threads inside a native call that returns when the process ends. All prepared
models share one pool. It starts with the first model that uses several threads, and again in a
forked child.
"""

import atexit
import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from neurald.drivers.cpu.native.objects.llvm import LoadedCode, link_image
from neurald.drivers.cpu.native.programs.sizing_program import SIZING_FUNCTIONS
from neurald.drivers.cpu.native.programs.step_program import (
    BANDS_CALLER,
    COMMON_ARGUMENTS,
    HOMES_OFFSET,
    LINE_BYTES,
    MASK_BYTES,
    MASK_OFFSET,
    MAX_CORES,
    MAX_WORKERS,
    NO_WORKER,
    POOL_BYTES,
    QUIT_OFFSET,
    SLEEP_FLAGS_OFFSET,
    STAY_OFFSET,
    TASKS_OFFSET,
    THREAD_LIMIT_OFFSET,
    WORKER_COUNT_OFFSET,
    caller_name,
    futex_number,
    step_program_text,
    supports_sharing,
)
from neurald.drivers.cpu.native.python_calls.python_call import PYTHON_FUNCTIONS
from neurald.drivers.cpu.native.python_calls.recorded_call import RECORD_FUNCTIONS, call_recorder
from neurald.drivers.cpu.target.target import THREADS_VARIABLE, Target
from neurald.drivers.settings import Settings
from neurald.hal.digests import DIGEST_BYTES
from neurald.hal.errors import BadData
from neurald.hal.execution.native_serving import RING_FUNCTIONS
from neurald.hal.execution.recorded_calls import offer_recorded_calls
from neurald.hal.memory.private_memory import anonymous
from neurald.hal.process.fork import in_each_child
from neurald.hal.process.threads.checked_thread import CheckedThread

if TYPE_CHECKING:
    from neurald.drivers.cpu.native.objects.unit_queue import Unit

#: Number of threads that a model may request even if there are fewer cores.
_MIN_THREAD_LIMIT = 16
#: The most digits of a number of threads in the environment.
_MAX_DIGITS = 9
#: Minimum number of cores that workers stay on: with few, threads are rarely on the same one.
_MIN_HOMES = 4
#: Time that an exiting process waits for a worker in the middle of a call.
_MAX_JOIN_S = 1.0

_Run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_Work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def thread_count(wanted: int | None, settings: Settings) -> int:
    """Returns the number of threads of an execution.

    It is `wanted`, or else the value of NEURALD_THREADS, or else the number of cores.

    Workers live as long as the process, and the clients of a daemon choose `wanted`. It is
    therefore limited to the number of cores, or to `_MIN_THREAD_LIMIT` on a small machine.

    Raises:
        BadData: the variable is not a positive number.
    """
    if wanted is not None:
        wanted = min(wanted, max(len(os.sched_getaffinity(0)), _MIN_THREAD_LIMIT))
    else:
        text = settings.text(THREADS_VARIABLE)
        if text:
            if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS) or int(text) < 1:
                raise BadData(
                    f"{THREADS_VARIABLE} is {text[:100]!r}; expected a positive number of at most {_MAX_DIGITS} digits"
                )
            wanted = int(text)
        else:
            wanted = len(os.sched_getaffinity(0))
    return max(1, min(wanted, MAX_WORKERS + 1)) if supports_sharing() else 1


def step_program_unit() -> "Unit":
    """Returns the compilation unit of the step program."""
    from neurald.drivers.cpu.native.objects.unit_queue import Unit

    return Unit(name="neurald_step_program", text=step_program_text())


def _built() -> "StepProgram | None":
    """Loads the step program of the package; None if it has none."""
    from neurald.drivers.cpu.native.programs.built_program import program_of, text_digest

    digest = text_digest(step_program_text())
    image = program_of(digest)
    return None if image is None else StepProgram(image, digest)


def _compiled(target: Target) -> "StepProgram":
    from neurald.drivers.cpu.native.objects.object_code import object_codes

    (code,) = object_codes([step_program_unit()], target)
    return StepProgram(code)


def _restored(stored: bytes) -> "StepProgram":
    """Loads the step program of an artifact; see `StepProgram.stored`.

    Raises:
        BadData: it is another one than that of the package.
    """
    if len(stored) != DIGEST_BYTES:
        return StepProgram(stored)
    from neurald.drivers.cpu.native.programs.built_program import program_of

    image = program_of(stored)
    if image is None:
        raise BadData("the code of these cache files needs a step program that this package does not have")
    return StepProgram(image, stored)


class StepProgram:
    """The native functions that run steps and workers; see `step_program`.

    Args:
        code: object code, or an image.
        digest: the digest of its text, if it is that of the package.

    Attributes:
        stored: identifies it in artifacts: the digest, or else the code.
    """

    def __init__(self, code: bytes, digest: bytes = b"") -> None:
        (code,) = link_image((code,))
        callers = (caller_name(count) for count in range(1, COMMON_ARGUMENTS + 1))
        own = ("neurald_run", "neurald_work", BANDS_CALLER)
        names = (*own, *PYTHON_FUNCTIONS, *RECORD_FUNCTIONS, *RING_FUNCTIONS, *SIZING_FUNCTIONS, *callers)
        loaded = LoadedCode((code,), names)
        # Workers still run the code when the process exits.
        loaded.keep_forever()
        self._loaded = loaded
        self.stored = digest or code
        self.addresses = loaded.addresses
        (recorded_call,) = RECORD_FUNCTIONS
        offer_recorded_calls(partial(call_recorder, loaded.addresses[recorded_call]))
        self.run: Any = _Run(loaded.addresses["neurald_run"])
        self.work: Any = _Work(loaded.addresses["neurald_work"])


class ThreadPool:
    """The workers of this process.

    Attributes:
        address: address of the memory shared with native code; it lives as long as the process.
    """

    def __init__(self, program: StepProgram) -> None:
        self._program = program
        self._memory = anonymous(POOL_BYTES)
        self._words = (ctypes.c_int32 * (POOL_BYTES // 4)).from_buffer(self._memory)
        self.address = ctypes.addressof(self._words)
        # Native code may read it until the process has ended, which is after the interpreter has.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._memory))
        self._workers: list[threading.Thread] = []
        self._grows = threading.Lock()
        self._has_homes = False
        for core in range(MAX_CORES):
            self._words[HOMES_OFFSET // 4 + core] = NO_WORKER

    def grow(self, threads: int) -> None:
        """Starts workers for executions with this many threads."""
        with self._grows:
            self._words[THREAD_LIMIT_OFFSET // 4] = max(threads, self._words[THREAD_LIMIT_OFFSET // 4])
            cores = sorted(os.sched_getaffinity(0))
            # A thread of the application has a core, too; which one may change.
            needs_homes = threads >= len(cores) >= _MIN_HOMES
            wanted = max(threads - 1, len(cores)) if needs_homes else threads - 1
            while len(self._workers) < min(wanted, MAX_WORKERS):
                number = len(self._workers)
                worker = CheckedThread(
                    target=self._work,
                    args=(number,),
                    name=f"neurald-cpu-{number}",
                    daemon=True,
                )
                worker.start()
                self._workers.append(worker)
                self._words[WORKER_COUNT_OFFSET // 4] = len(self._workers)
            if needs_homes and not self._has_homes:
                self._has_homes = True
                self._stay(cores)

    def _stay(self, cores: Sequence[int]) -> None:
        """Binds a worker to each core, until other programs use them again and again."""
        known = [core for core in cores if core < MAX_CORES]
        mask = sum(1 << core for core in known).to_bytes(MASK_BYTES, sys.byteorder)
        self._memory[MASK_OFFSET : MASK_OFFSET + MASK_BYTES] = mask
        for number, (core, worker) in enumerate(zip(known, self._workers, strict=False)):
            task = worker.native_id or -1
            self._words[TASKS_OFFSET // 4 + number] = task
            # A sandbox may forbid it, and a core may have become unavailable.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(task, (core,))
                self._words[HOMES_OFFSET // 4 + core] = number
        self._words[STAY_OFFSET // 4] = min(len(known), len(self._workers))

    def _work(self, number: int) -> None:
        """Runs a worker. Batch scheduling keeps it from preempting the thread that wakes it."""
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            # A sandbox may forbid it.
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        self._program.work(self.address, number)

    def close(self) -> None:
        """Ends the workers, without waiting for one that does not finish."""
        self._words[QUIT_OFFSET // 4] = 1
        for number in range(len(self._workers)):
            offset = SLEEP_FLAGS_OFFSET + number * LINE_BYTES
            self._words[offset // 4] = 0
            _wake(self.address + offset)
        for worker in self._workers:
            worker.join(_MAX_JOIN_S)


def _wake(address: int) -> None:
    """Wakes the thread that sleeps on a futex."""
    ctypes.CDLL(None).syscall(
        ctypes.c_long(futex_number()), ctypes.c_void_p(address), ctypes.c_int(129), ctypes.c_int(1)
    )


class Team:
    """The threads that run the steps of one model.

    Attributes:
        threads: number of threads, including the one that executes.
        run: runs a step, see `neurald.drivers.cpu.native.programs.step_program`.
        program: the native functions.
    """

    def __init__(self, program: StepProgram, threads: int) -> None:
        self.threads = threads
        self.run = program.run
        self.program = program

    def pool(self) -> int:
        """Returns the address of the pool with started workers; 0 if none help."""
        return process.pool(self.program, self.threads)


class _ProcessState:
    """State that exists once per process.

    Attributes:
        forks: number of forks since the original process; older pools have no workers.
    """

    def __init__(self) -> None:
        self.forks = 0
        self._lock = threading.Lock()
        self._program: StepProgram | None = None
        self._pool: ThreadPool | None = None

    def step_program(self, target: Target, stored: bytes | None = None) -> StepProgram:
        """Returns the native functions.

        On first use, they are loaded as an artifact has stored them, or from the package, or
        compiled.

        Raises:
            BadData: the package does not have what the artifact refers to.
        """
        with self._lock:
            if self._program is None:
                self._program = _restored(stored) if stored else _built() or _compiled(target)
            return self._program

    def load_step_program(self) -> bool:
        """Loads the native functions if the package has them; returns whether they are loaded."""
        with self._lock:
            if self._program is None:
                self._program = _built()
            return self._program is not None

    def pool(self, program: StepProgram, threads: int) -> int:
        """See `Team.pool`."""
        if threads < 2:
            return 0
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPool(program)
            pool = self._pool
        pool.grow(threads)
        return pool.address

    def after_fork(self) -> None:
        """Resets the state in a child, where neither workers nor the lock's holder exist."""
        self.forks += 1
        self._lock = threading.Lock()
        self._pool = None

    def close(self) -> None:
        """Ends the workers."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


process: Final = _ProcessState()
in_each_child(process.after_fork)
atexit.register(process.close)
