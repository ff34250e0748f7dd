"""Attack with many more threads on one compilation than it can run concurrently."""

import sys
import threading
import time

import numpy as np
from faults.attacks.attack import Attack
from support.models.small import add_model

import neurald as nd

_THREADS = 16
_SHAPE = (64,)
#: Permitted lead of the thread with the most executions over that with the fewest: as a factor, and
#: in executions. In short runs each thread must only get a turn in time: a busy machine may not run
#: some threads at all for most of the time.
_MAX_AHEAD = 1.5
_SLACK = 40
_TURN_S = 30.0
#: How long executions are counted at the end, when the attacker has ordinary priority. Threads of
#: idle priority get shares of a busy machine that differ by a factor of three.
_COUNTED_S = 5.0
#: Time slice of a thread. Short executions keep the GIL, so that the interpreter shares it among
#: the threads, in random order. Its usual slices are so long that some threads get none in a short
#: run.
_SLICE_S = 1e-4


class CrowdedThreads(Attack):
    """Sixteen threads on a compilation for the daemon, and sixteen on one for the local CPU."""

    name = "crowded threads"

    def start(self) -> None:
        self._slice_s = sys.getswitchinterval()
        sys.setswitchinterval(_SLICE_S)
        self._is_over = threading.Event()
        self._begin = threading.Event()
        self._compilations = [
            _compiled(device) for device in (nd.connect(self.target.address), nd.devices()[0])
        ]
        self._counts = [[0] * _THREADS for _ in self._compilations]
        self._threads = [
            threading.Thread(target=self._run, args=(compilation, counts, number))
            for compilation, counts in zip(self._compilations, self._counts, strict=True)
            for number in range(_THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def step(self) -> None:
        self._begin.set()
        time.sleep(0.2)

    def _run(self, compilation: nd.Compilation, counts: list[int], number: int) -> None:
        values = np.full(_SHAPE, number, np.float32)
        self._begin.wait()
        while not self._is_over.is_set():
            (result,) = compilation.run(values, values)
            counts[number] += 1
            self.expect(np.array_equal(result, 2 * values), "a result is another thread's")

    def stop(self) -> None:
        self._begin.set()
        before = [tuple(counts) for counts in self._counts]
        time.sleep(_COUNTED_S * self.intensity)
        seen = [
            [count - old for count, old in zip(counts, olds, strict=True)]
            for counts, olds in zip(self._counts, before, strict=True)
        ]
        end_s = time.monotonic() + _TURN_S
        while not all(map(all, self._counts)) and time.monotonic() < end_s:
            time.sleep(0.01)
        self._is_over.set()
        for thread in self._threads:
            thread.join(30)
        sys.setswitchinterval(self._slice_s)
        self.expect(not any(thread.is_alive() for thread in self._threads), "a thread waits for ever")
        for where, counts, own in zip(("daemon", "process"), self._counts, seen, strict=True):
            self.outcomes[f"{where}: executions"] += sum(counts)
            self.expect(all(counts), f"{where}: a thread had no execution within {_TURN_S} s")
            fewest, most = min(own), max(own)
            self.expect(
                self.intensity < 1 or most <= fewest * _MAX_AHEAD + _SLACK,
                f"{where}: one thread had {most} executions, another {fewest}",
            )


def _compiled(device: nd.Device) -> nd.Compilation:
    builder = nd.CompilationBuilder(add_model(_SHAPE), [device])
    builder.set_caching(None)
    return builder.finish()
