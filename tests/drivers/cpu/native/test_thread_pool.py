"""The thread pool: results, concurrent executions, forks, and the end of the process."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from support.cpu.routines import adding, bound, native, side_by_side
from support.daemon.forking import in_child
from support.sweeps import sweep
from support.waiting import wait_until

from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.thread_pool import process, thread_count
from neurald.drivers.cpu.target.target import THREADS_VARIABLE
from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData
from neurald.hal.memory.private_memory import aligned_zeros

#: Calls of this duration are shared.
LONG_NS = 1e6


def shared(threads: int, count: int = 500) -> NativeModel:
    return native([adding(number, count, cost_ns=LONG_NS) for number in range(10)], threads=threads)


def run(model: NativeModel, times: int, first: int = 0) -> bool:
    values = np.arange(first, first + 500, dtype=np.int32)
    return all(bool((model.run_arrays([values])[0] == values + 45).all()) for _ in range(times))


def test_how_many_threads() -> None:
    def count(wanted: int | None, variable: str = "") -> int:
        return thread_count(wanted, Settings(THREADS_VARIABLE, environment={THREADS_VARIABLE: variable}))

    assert count(None) == len(os.sched_getaffinity(0))
    assert count(3) == 3
    # Workers never end, so a client must not be able to start hundreds of them.
    assert count(10**6) == max(16, len(os.sched_getaffinity(0)))
    assert count(None, "100") == 100
    assert count(None, "5") == 5
    assert count(2, "5") == 2
    for wrong in ("0", "-1", "many", "１", "9" * 10, "9" * 5000):
        with pytest.raises(BadData, match="positive number"):
            count(None, wrong)


@sweep("threads", [1, 2, 3, 8])
def test_results_are_those_of_one_thread(threads: int) -> None:
    assert run(shared(threads), 100)


def test_models_with_different_threads_at_the_same_time() -> None:
    models = [shared(threads) for threads in (1, 2, 4)]
    right: list[bool] = []
    side_by_side(
        [
            threading.Thread(target=lambda m=model, n=number: right.append(run(m, 60, n)))
            for number, model in enumerate(models * 3)
        ]
    )
    assert right == [True] * 9


def test_idle_workers_sleep() -> None:
    assert run(shared(4), 5)
    workers = [each for each in threading.enumerate() if each.name.startswith("neurald-cpu")]
    assert len(workers) >= 3
    # Other threads of this process may compute, and workers may be late on a busy machine.
    clocks = [time.pthread_getcpuclockid(each.ident or 0) for each in workers]

    def used_s() -> float:
        return sum(map(time.clock_gettime, clocks))

    def are_idle() -> bool:
        """Returns whether the workers have used a small part of the processor time of a while."""
        before_s = used_s()
        time.sleep(0.2)
        return used_s() - before_s < 0.05

    wait_until(are_idle)


def test_workers_do_not_preempt_the_thread_that_wakes_them() -> None:
    assert run(shared(3), 1)
    workers = [each for each in threading.enumerate() if each.name.startswith("neurald-cpu")]
    assert len(workers) >= 2
    own = os.sched_getscheduler(0)
    expected = os.SCHED_BATCH if own == os.SCHED_OTHER else own
    assert {os.sched_getscheduler(each.native_id or 0) for each in workers} == {expected}


@pytest.mark.forks
def test_a_forked_child_has_its_own_workers() -> None:
    model = shared(3)
    assert run(model, 10)

    def workers() -> int:
        return sum(thread.name.startswith("neurald-cpu") for thread in threading.enumerate())

    def check() -> None:
        assert workers() == 0
        assert run(model, 20)
        assert workers() >= 2

    in_child(check)
    assert run(model, 10)


def test_calls_are_not_shared_after_a_long_sleep() -> None:
    """No other step runs in this process meanwhile; a step has ten calls, each of which counts."""
    model = shared(2)
    assert run(model, 1)
    pool = process._pool
    assert pool is not None
    words = (ctypes.c_int32 * 6).from_address(pool.address)
    whole, following = 4, 5
    # The units of time that a call takes.
    units = 1 + (int(LONG_NS) >> 13)
    words[whole], words[following] = 15 * units, 100 * units
    assert run(model, 1)
    assert (words[whole], words[following]) == (5 * units, 100 * units)
    for _ in range(50):
        words[whole], words[following] = 5 * units - 1, 100 * units
        assert run(model, 1)
        # Five calls were not shared, and five were, unless a worker was preempted meanwhile.
        if (words[whole], words[following]) == (-1, 95 * units):
            break
    else:
        pytest.fail(f"{words[whole]} units are left to be run whole, {words[following]} come next")
    words[following] = 0
    assert run(model, 10)


@pytest.mark.forks
def test_bindings_from_before_a_fork() -> None:
    model = shared(3)
    values, result = (aligned_zeros(2000).view(np.int32) for _ in range(2))
    binding = bound(model, values, result)
    model.run(binding)

    def check() -> None:
        values[:] = 1
        model.run(binding)
        assert (result == 46).all()

    in_child(check)
    model.run(binding)
    assert (result == 45).all()


_READS_AT_EXIT = """
import ctypes
from neurald.drivers.cpu.native.thread_pool import Team, process
from neurald.drivers.cpu.target.target import TARGETS

pool = Team(process.step_program(TARGETS["generic"]), 2).pool()
library = ctypes.CDLL(None)
at_exit = library["__cxa_atexit"]
at_exit.argtypes = (ctypes.c_void_p,) * 3
assert at_exit(ctypes.cast(library.strlen, ctypes.c_void_p), pool, None) == 0
"""


def _run(code: str) -> None:
    """Runs a Python program, which must succeed."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_native_code_may_read_the_pool_after_the_interpreter_has_ended() -> None:
    _run(_READS_AT_EXIT)


def test_the_process_ends() -> None:
    """It also ends while another thread executes."""
    text = (
        "import threading, time\n"
        "from tests_support import adding, native\n"
        "import numpy as np\n"
        "model = native([adding(1, 1000, cost_ns=1e6)] , threads=3)\n"
        "values = np.zeros(1000, np.int32)\n"
        "def work():\n"
        "    while True:\n"
        "        model.run_arrays([values])\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.1)\n"
    ).replace("tests_support", "support.cpu.routines")
    _run(text)


_STAYS = """
import os, threading
import numpy as np
from support.cpu.routines import adding, native
from neurald.drivers.cpu.native import thread_pool

thread_pool._MIN_HOMES = 1
cores = sorted(os.sched_getaffinity(0))
values = np.arange(500, dtype=np.int32)

def check(threads):
    model = native([adding(number, 500, cost_ns=1e6) for number in range(10)], threads=threads)
    for core in cores:
        os.sched_setaffinity(0, (core,))
        for _ in range(30):
            assert (model.run_arrays([values])[0] == values + 45).all()
    os.sched_setaffinity(0, cores)

check(len(cores))
workers = [each for each in threading.enumerate() if each.name.startswith("neurald-cpu")]
assert [os.sched_getaffinity(each.native_id) for each in workers] == [{core} for core in cores]
for threads in (2, len(cores) + 3):
    check(threads)
workers = [each for each in threading.enumerate() if each.name.startswith("neurald-cpu")]
assert len(workers) == len(cores) + 2
assert all(os.sched_getaffinity(each.native_id) == {*cores} for each in workers[len(cores):])
"""


def test_workers_stay_on_a_core_each_if_all_are_used() -> None:
    """Whichever core the application's thread is on, its worker does not help it."""
    _run(_STAYS)


_MOST = """
import os, threading
import numpy as np
from support.cpu.routines import adding, native
from neurald.drivers.cpu.native import thread_pool

os.sched_getaffinity = lambda _: {0, 1, 2, 3}
thread_pool.MAX_WORKERS = 3
values = np.arange(500, dtype=np.int32)
model = native([adding(number, 500, cost_ns=1e6) for number in range(10)], threads=4)
for _ in range(30):
    assert (model.run_arrays([values])[0] == values + 45).all()
assert sum(each.name.startswith("neurald-cpu") for each in threading.enumerate()) == 3
"""


def test_there_are_no_more_workers_than_the_pool_has_room_for() -> None:
    """Not even if there is one more core, on each of which a worker should stay."""
    _run(_MOST)


_FREED = """
import os, threading, time
import numpy as np
from support.cpu.routines import adding, codes, counting, native
from neurald.drivers.cpu.native import thread_pool
from neurald.drivers.cpu.native.programs.step_program import HOMES_OFFSET, NO_WORKER
from neurald.hal.records import replace

thread_pool._MIN_HOMES = 1
cores = sorted(os.sched_getaffinity(0))
values = np.arange(500, dtype=np.int32)
shared = native([adding(1, 500, cost_ns=1e6)], threads=len(cores))
assert (shared.run_arrays([values])[0] == values + 1).all()
words = thread_pool.process._pool._words

def affinities():
    workers = [each for each in threading.enumerate() if each.name.startswith("neurald-cpu")]
    return {frozenset(os.sched_getaffinity(each.native_id)) for each in workers}

assert affinities() == {frozenset((core,)) for core in cores}
# The first work item takes 2 ms, and each other one longer by far than the call is said to take.
slow = counting(500, milliseconds=len(cores))
slow = replace(
    slow,
    text=slow.text.replace(
        "%work_items = sub i64 %end, %begin",
        "%later = mul i64 %begin, 8\\n  %work_items = add i64 %later, 2",
    ),
    cost_ns=6e3,
)
late = native([slow], threads=len(cores))
# Another program may keep the workers from running at all for a while.
end = time.monotonic() + 60
while time.monotonic() < end:
    late.run_arrays([values])
    words[4] = 0
    if affinities() == {frozenset(cores)}:
        break
assert affinities() == {frozenset(cores)}
assert all(words[HOMES_OFFSET // 4 + core] == NO_WORKER for core in cores)
assert (shared.run_arrays([values])[0] == values + 1).all()
"""


def test_workers_may_run_on_all_cores_if_they_are_often_late() -> None:
    _run(_FREED)
