"""Attack with executions of many long steps that must end early."""

import statistics
import threading
import time

import numpy as np
from faults.attacks.attack import Attack
from support.models.hostile import slow_steps

import neurald as nd

_SIZE = 700
_STEPS = 200
_DEADLINE_S = 0.1
#: Permitted delay of the end, at the median and at most. With little intensity other programs may
#: hold all cores meanwhile, and this process waits for them at the lowest priority.
_MEDIAN_LATE_S = 0.05
_MOST_LATE_S = 1.0
_MOST_LATE_BUSY_S = 30.0


class LateExecutions(Attack):
    """Deadlines and cancellations in the middle of long models.

    In process, in calls and in bursts.
    """

    name = "late executions"

    def start(self) -> None:
        model = slow_steps(_SIZE, _STEPS)
        self._values = np.full((_SIZE, _SIZE), 1e-3, np.float32)
        self._ways: list[tuple[str, nd.Compilation, nd.Burst | None]] = []
        self._late: dict[str, list[float]] = {}
        for name, device in (("process", nd.devices()[0]), ("daemon", nd.connect(self.target.address))):
            builder = nd.CompilationBuilder(model, [device])
            builder.set_caching(None)
            compilation = builder.finish()
            burst = compilation.create_burst() if name == "daemon" else None
            self._ways += [(name, compilation, None)]
            self._ways += [(f"{name}, burst", compilation, burst)] if burst else []

    def step(self) -> None:
        for name, compilation, burst in self._ways:
            execution = self._execution(compilation)
            execution.set_timeout(_DEADLINE_S)
            began = time.monotonic()
            code = _outcome(execution, burst)
            self._note(f"{name}, deadline", code, time.monotonic() - began - _DEADLINE_S)
            execution = self._execution(compilation)
            cancelled: list[float] = []

            def cancel(execution: nd.Execution = execution, cancelled: list[float] = cancelled) -> None:
                execution.cancel()
                cancelled.append(time.monotonic())

            timer = threading.Timer(_DEADLINE_S, cancel)
            timer.start()
            code = _outcome(execution, burst)
            ended = time.monotonic()
            timer.join()
            if cancelled[0] < ended:
                self._note(f"{name}, cancel", code, ended - cancelled[0])

    def _execution(self, compilation: nd.Compilation) -> nd.Execution:
        execution = nd.Execution(compilation)
        execution.set_input(0, self._values)
        execution.set_input(1, self._values)
        execution.set_output(0, np.empty((_SIZE, _SIZE), np.float32))
        return execution

    def _note(self, way: str, code: str, late_s: float) -> None:
        self.outcomes[f"{way}: {code}"] += 1
        self.expect(code != "right", f"{way}: it went on to its end")
        most_s = _MOST_LATE_S if self.intensity == 1 else _MOST_LATE_BUSY_S
        self.expect(late_s < most_s, f"{way}: it ended more than {most_s} s late")
        self._late.setdefault(way, []).append(late_s)

    def stop(self) -> None:
        for _, _, burst in self._ways:
            if burst is not None:
                burst.close()
        for way, late in self._late.items():
            median = statistics.median(late)
            # With few executions, delays of a busy machine are not significant.
            self.expect(
                self.intensity < 1 or median < _MEDIAN_LATE_S,
                f"{way}: {median * 1e3:.0f} ms late at the median",
            )


def _outcome(execution: nd.Execution, burst: nd.Burst | None) -> str:
    try:
        execution.compute(burst=burst)
    except nd.Error as error:
        return error.code.name
    return "right"
