"""The threads of the process that help executions, see `neurald.drivers.cpu.native.step_program`.

Workers are Python threads inside a call of native code that returns when the process ends. There is one pool for all prepared
models; it starts when the first model that uses several threads is made, and again in a child of a fork.
"""

import atexit
import contextlib
import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any, Final

from neurald.drivers.cpu.native.llvm import LoadedCode, linked
from neurald.drivers.cpu.native.step_program import (
    LINE,
    MOST_THREADS,
    POOL_BYTES,
    QUIT,
    SLEEPS,
    WORKER_COUNT,
    WORKERS,
    can_share,
    futex_number,
    runtime_text,
)
from neurald.drivers.cpu.target.target import Target
from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import anonymous

if TYPE_CHECKING:
    from neurald.drivers.cpu.native.work import Unit

#: How many threads an execution may use, where nobody says it for a model.
THREADS_VARIABLE = "NEURALD_THREADS"

#: More threads than cores are of no use, and as many do no harm.
_FEW_THREADS = 16
#: What an ending process waits for a worker that is in the middle of a call.
_FAREWELL_S = 1.0

_Run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_Work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def thread_count(wanted: int | None, settings: Settings) -> int:
    """How many threads an execution uses: as many as are wanted, else NEURALD_THREADS, else one for each core.

    Workers stay for as long as the process, and clients of a daemon say what they want: they get no more than there are cores, or
    than `_FEW_THREADS` on a small machine.

    Raises:
        BadData: the variable holds no positive number.
    """
    if wanted is not None:
        wanted = min(wanted, max(len(os.sched_getaffinity(0)), _FEW_THREADS))
    else:
        text = settings.text(THREADS_VARIABLE)
        if text:
            if not text.isdecimal() or int(text) < 1:
                raise BadData(f"{THREADS_VARIABLE} is {text!r}; a positive number is expected")
            wanted = int(text)
        else:
            wanted = len(os.sched_getaffinity(0))
    return max(1, min(wanted, WORKERS + 1)) if can_share() else 1


def runtime_unit() -> "Unit":
    """What the runtime is compiled from."""
    from neurald.drivers.cpu.native.work import Unit

    return Unit(name="neurald_runtime", text=runtime_text())


class Runtime:
    """The runtime's functions in this process."""

    def __init__(self, code: bytes) -> None:
        (code,) = linked((code,))
        loaded = LoadedCode((code,), ("neurald_run", "neurald_work"))
        # Workers are still in it when the process ends.
        loaded.keep_forever()
        self._loaded = loaded
        self.code = code
        self.run: Any = _Run(loaded.addresses["neurald_run"])
        self.work: Any = _Work(loaded.addresses["neurald_work"])


class Pool:
    """The workers of this process.

    Attributes:
        address: of the memory that native code shares, which stays for as long as the process.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._memory = anonymous(POOL_BYTES)
        self._words = (ctypes.c_int32 * (POOL_BYTES // 4)).from_buffer(self._memory)
        self.address = ctypes.addressof(self._words)
        self._workers: list[threading.Thread] = []
        self._grows = threading.Lock()

    def grow(self, threads: int) -> None:
        """Has workers for executions with so many threads."""
        with self._grows:
            self._words[MOST_THREADS // 4] = max(threads, self._words[MOST_THREADS // 4])
            while len(self._workers) < threads - 1:
                number = len(self._workers)
                worker = threading.Thread(
                    target=self._work,
                    args=(number,),
                    name=f"neurald-cpu-{number}",
                    daemon=True,
                )
                worker.start()
                self._workers.append(worker)
                self._words[WORKER_COUNT // 4] = len(self._workers)

    def _work(self, number: int) -> None:
        """What a worker does. It waits for a core that is free, and takes none from whoever wakes it, who would have done the work."""
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            # A sandbox may forbid it.
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        self._runtime.work(self.address, number)

    def close(self) -> None:
        """Ends the workers, apart from one that does not come to an end."""
        self._words[QUIT // 4] = 1
        for number in range(len(self._workers)):
            place = SLEEPS + number * LINE
            self._words[place // 4] = 0
            _wake(self.address + place)
        for worker in self._workers:
            worker.join(_FAREWELL_S)


def _wake(address: int) -> None:
    """Wakes whoever sleeps on a futex."""
    ctypes.CDLL(None).syscall(
        ctypes.c_long(futex_number()), ctypes.c_void_p(address), ctypes.c_int(129), ctypes.c_int(1)
    )


class Team:
    """The threads that run the steps of one model.

    Attributes:
        threads: how many there are, the one that executes included.
        run: runs a step, see `neurald.drivers.cpu.native.step_program`.
        runtime: what it is a function of.
    """

    def __init__(self, runtime: Runtime, threads: int) -> None:
        self.threads = threads
        self.run = runtime.run
        self.runtime = runtime

    def pool(self) -> int:
        """The address of the pool in this process; its workers are there. 0: none help."""
        return process.pool(self.runtime, self.threads)


class _Process:
    """What there is once for a process.

    Attributes:
        forks: how many forks it is away from where it began; pools from before the last one are without workers.
    """

    def __init__(self) -> None:
        self.forks = 0
        self._lock = threading.Lock()
        self._runtime: Runtime | None = None
        self._pool: Pool | None = None

    def runtime(self, target: Target, code: bytes | None = None) -> Runtime:
        """The runtime, of this object code where there is none yet, or compiled."""
        with self._lock:
            if self._runtime is None:
                if code is None:
                    from neurald.drivers.cpu.native.object_code import object_codes

                    (code,) = object_codes([runtime_unit()], target)
                self._runtime = Runtime(code)
            return self._runtime

    @property
    def has_runtime(self) -> bool:
        """Whether the runtime is there."""
        return self._runtime is not None

    def pool(self, runtime: Runtime, threads: int) -> int:
        """See `Team.pool`."""
        if threads < 2:
            return 0
        with self._lock:
            if self._pool is None:
                self._pool = Pool(runtime)
            pool = self._pool
        pool.grow(threads)
        return pool.address

    def after_fork(self) -> None:
        """Workers do not come along, nor does whoever held the lock; the memory of the old pool is left to itself."""
        self.forks += 1
        self._lock = threading.Lock()
        if self._pool is not None:
            _abandoned.append(self._pool)
            self._pool = None

    def close(self) -> None:
        """Ends the workers."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
            _abandoned.append(pool)


#: Pools whose memory somebody may still look at.
_abandoned: list[Pool] = []

process: Final = _Process()
os.register_at_fork(after_in_child=process.after_fork)
atexit.register(process.close)
