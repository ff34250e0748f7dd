"""Application that uses one device all the time while the device's driver is killed or stopped.

    python -m faults.managed.heal_application DEVICE

One thread runs a model, for which the CPU stands in, back to back; another lists the devices. Each
line of its input is `struck TIME`, which asks what happened since that time on the clock of
`time.monotonic()`; the answer is a line of JSON, at the latest after a minute.
"""

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from support.models.small import add_model

import neurald as nd

_SHAPE = (512, 512)
_OPERATIONS = 32
_WAIT_S = 60.0
_LOOK_S = 0.005


@dataclass(frozen=True, slots=True)
class HealAnswer:
    """Times of events after a fault, in seconds.

    Attributes:
        used_s: when the first call that began after the fault ended on the device; None if none
            did.
        unlisted_s: when the devices were first listed without it; None if its successor was there
            before anybody looked.
        slowest_s: the longest call.
        calls: how many ended.
        wrong: what must not have happened.
    """

    used_s: float | None
    unlisted_s: float | None
    slowest_s: float
    calls: int
    wrong: list[str]


class HealApplication:
    """Calls and looks.

    Args:
        device: the name of the device.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._compilation = self._compiled()
        self._values = [np.full(_SHAPE, value, np.float32) for value in (1, 2)]
        self._expected = np.full(_SHAPE, 1 + 2 * _OPERATIONS, np.float32)
        self._lock = threading.Condition()
        #: Begin, end, and whether it was on the device, of each call since the last question.
        self._calls: list[tuple[float, float, bool]] = []
        self._missing: list[float] = []
        self._wrong: list[str] = []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._call, self._look)]

    def start(self) -> None:
        """Starts both threads once the device is used and listed."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Ends both threads."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _is_listed(self) -> bool:
        return self._device in {device.name for device in nd.devices()}

    def _compiled(self) -> nd.Compilation:
        end = time.monotonic() + _WAIT_S
        while not self._is_listed() and time.monotonic() < end:
            time.sleep(_LOOK_S)
        builder = nd.CompilationBuilder(add_model(_SHAPE, _OPERATIONS))
        builder.set_partitioning(nd.Partitioning(overrides=(nd.prefer(self._device, range(_OPERATIONS)),)))
        compilation = builder.finish()
        compilation.wait_until_optimized(_WAIT_S)
        found = {step.device.name for step in compilation.plan.steps}
        if found != {self._device}:
            raise RuntimeError(f"the steps are on {found}: {compilation.explain().text()}")
        return compilation

    def _substituted(self) -> int:
        return sum(each.executions for each in self._compilation.recovery.substitutions)

    def _call(self) -> None:
        while not self._end.is_set():
            before = self._substituted()
            began = time.monotonic()
            problem = ""
            try:
                if not np.array_equal(self._compilation.run(*self._values)[0], self._expected):
                    problem = "a wrong result"
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            ended = time.monotonic()
            is_used = not self._compilation.recovery.fallbacks and self._substituted() == before
            with self._lock:
                self._calls.append((began, ended, is_used and not problem))
                self._wrong += [problem] if problem else []
                self._lock.notify_all()

    def _look(self) -> None:
        while not self._end.wait(_LOOK_S):
            if not self._is_listed():
                with self._lock:
                    self._missing.append(time.monotonic())

    def _used_s(self, struck_s: float) -> float | None:
        """Returns when the device was used again, if it was."""
        for began, ended, is_used in self._calls:
            if began > struck_s and is_used:
                return ended - struck_s
        return None

    def answer(self, struck_s: float) -> HealAnswer:
        """Waits until the device is used after a fault; returns what happened."""
        with self._lock:
            self._lock.wait_for(lambda: self._used_s(struck_s) is not None, _WAIT_S)
            used_s = self._used_s(struck_s)
            missing = [when - struck_s for when in self._missing if when > struck_s]
            slowest_s = max((end - begin for begin, end, _ in self._calls), default=0.0)
            found = HealAnswer(
                used_s=used_s,
                unlisted_s=missing[0] if missing else None,
                slowest_s=slowest_s,
                calls=len(self._calls),
                wrong=self._wrong,
            )
            self._calls, self._missing, self._wrong = [], [], []
        return found


def _print(line: Any) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Answers lines until its input ends."""
    application = HealApplication(sys.argv[1])
    application.start()
    _print("ready")
    for line in sys.stdin:
        _print(json.dumps(asdict(application.answer(float(line.split()[1])))))
    application.close()


if __name__ == "__main__":
    main()
