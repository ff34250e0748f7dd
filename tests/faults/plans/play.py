"""Runs plans over several devices from many threads while the drivers are killed.

Nothing may be wrong or late, and receipts must agree with what the devices counted: each execution
whose success a receipt tells has ended there, and none has begun there that no receipt tells.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from faults.plans.driver import FOLDER_VARIABLE, KINDS, counts_of, driver_of
from support.daemon.processes import python_path, stop_process
from support.receipt_counts import branches

import neurald as nd
from neurald.hal.lazy_numpy import Array

_START_S = 60.0
#: The longest call.
CALL_S = 1.0
#: Between the first use of a driver and the next kill.
_PAUSES_S = (0.05, 0.5)
#: A driver that is not used again by then counts as lost.
_USED_S = 60.0
#: For how long a device is slow or not.
_SLOW_S = 1.0
_LOOK_S = 0.01
_VERIFIED_SHARE = 0.05
_DEADLINE_S = 30.0
#: Rows of inputs, by which the devices tell executions apart.
_RECEIPTS, _STREAM, _VERIFIED, _DRIFTING, _RUNS, _NEW = range(2, 8)


@dataclass(slots=True)
class PlanReport:
    """Counts what happened.

    Attributes:
        calls: by what was called, how many ended.
        kills: how many processes were killed.
        on_devices: how many calls of devices succeeded, as receipts tell.
        substituted: how many calls of devices failed, so that the CPU device stood in.
        longest_s: the longest call.
        used_s: after each kill, when the device ran a step again.
        wrong: what must not have happened.
    """

    calls: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    on_devices: Counter[str] = field(default_factory=Counter)
    substituted: int = 0
    longest_s: float = 0.0
    used_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Returns the report for JSON."""
        return {
            "calls": dict(sorted(self.calls.items())),
            "kills": self.kills,
            "on_devices": dict(sorted(self.on_devices.items())),
            "substituted": self.substituted,
            "longest_s": round(self.longest_s, 3),
            "used_s": {"median": median(self.used_s), "max": max(self.used_s)} if self.used_s else {},
            "wrong": self.wrong,
        }


class _Driver:
    """A driver's process, which is started again when it ends."""

    def __init__(self, kind: nd.OperationType, folder: Path) -> None:
        self.name = kind.name.lower()
        self.address = f"unix://{folder}/{self.name}.sock"
        self._command = [
            *(sys.executable, "-m", "neurald", "driver", driver_of(kind)),
            *("--listen", self.address, "--writable", str(folder)),
        ]
        self._environment = {**os.environ, "PYTHONPATH": python_path(), FOLDER_VARIABLE: str(folder)}
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def connect(self) -> nd.Device:
        """Waits until it serves; returns its device."""
        end_s = time.monotonic() + _START_S
        while True:
            try:
                return nd.connect(self.address)
            except nd.Error:
                if time.monotonic() > end_s:
                    raise
                time.sleep(_LOOK_S)

    def kill(self) -> None:
        """Kills the process, and starts another one."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = self._started()

    def stop(self) -> None:
        """Stops the process."""
        stop_process(self.process)


class _Play:
    def __init__(self, folder: Path, devices: list[nd.Device], seed: int) -> None:
        self._folder = folder
        self._devices = devices
        self._seed = seed
        self._lock = threading.Lock()
        self._end = threading.Event()
        #: Everything is compiled.
        self._ready = threading.Barrier(1)
        self.report = PlanReport()
        self._called: Counter[str] = Counter()

    def _compiled(self, rows: int, *, verified: float = 0.0) -> nd.Compilation:
        """Compiles a plan, before drivers are killed."""
        builder = nd.CompilationBuilder(branches(rows))
        # By least cost, the CPU device would get all of so small a model.
        builder.set_partitioning("android")
        builder.set_verification(verified)
        compilation = builder.finish()
        compilation.wait_until_optimized(_START_S)
        self._ready.wait(_START_S)
        return compilation

    def _values(self, rows: int, number: int) -> tuple[Array, Array]:
        """Returns an input of a run, and the right output."""
        x = np.random.default_rng(number).uniform(-2, 2, (rows, 3)).astype(np.float32)
        a = np.tanh(x)
        return x, a + 1 / (1 + np.exp(-a))

    def _check(self, what: str, output: Array, right: Array, begun_s: float) -> None:
        seconds = time.monotonic() - begun_s
        is_right = np.allclose(output, right, rtol=1e-4, atol=1e-5)
        with self._lock:
            self.report.calls[what] += 1
            self.report.longest_s = max(self.report.longest_s, seconds)
            if not is_right:
                self.report.wrong.append(f"{what}: a wrong result")

    def receipts(self, number: int) -> None:
        """Executes with receipts and a deadline."""
        compilation = self._compiled(_RECEIPTS)
        execution = nd.Execution(compilation, reusable=True)
        given, output = (np.empty((_RECEIPTS, 3), np.float32) for _ in range(2))
        execution.set_input(0, given)
        execution.set_output(0, output)
        execution.set_timeout(_DEADLINE_S)
        execution.enable_receipt()
        while not self._end.is_set():
            number += 1
            x, right = self._values(_RECEIPTS, number)
            given[:], output[:] = x, np.nan
            begun_s = time.monotonic()
            execution.compute()
            self._check("receipts", output, right, begun_s)
            calls = [call for step in execution.receipt.steps for call in step.calls]
            with self._lock:
                for call in calls:
                    self._called[call.device] += 1
                    if call.error:
                        self.report.substituted += 1
                    else:
                        self.report.on_devices[call.device] += 1

    def stream(self, number: int) -> None:
        """Streams inputs, whose outputs must come in order."""
        compilation = self._compiled(_STREAM)
        rights: list[Array] = []

        def inputs() -> Iterator[list[Array]]:
            nonlocal number
            while not self._end.is_set():
                number += 1
                x, right = self._values(_STREAM, number)
                rights.append(right)
                yield [x]

        begun_s = time.monotonic()
        for (output,) in compilation.stream(inputs(), depth=4):
            self._check("stream", output, rights.pop(0), begun_s)
            begun_s = time.monotonic()
        if rights:
            raise RuntimeError(f"{len(rights)} outputs of a stream are missing")

    def _run(self, what: str, rows: int, number: int, verified: float = 0.0) -> None:
        compilation = self._compiled(rows, verified=verified)
        while not self._end.is_set():
            number += 1
            x, right = self._values(rows, number)
            begun_s = time.monotonic()
            (output,) = compilation.run(x)
            self._check(what, output, right, begun_s)
        compilation.wait_until_investigated(_START_S)
        found = [each for each in compilation.verifications if each.is_wrong]
        if found:
            raise RuntimeError(f"a right device was found to be wrong: {found[0]}")

    def verified(self, number: int) -> None:
        """Runs whose results the CPU device verifies."""
        self._run("verified", _VERIFIED, number, _VERIFIED_SHARE)

    def drifting(self, number: int) -> None:
        """Runs while a device is slow for moments."""
        with self._slow_for_moments():
            self._run("drifting", _DRIFTING, number)

    @contextmanager
    def _slow_for_moments(self) -> Iterator[None]:
        file = self._folder / f"slow-{KINDS[0].name.lower()}"
        ended = threading.Event()

        def toggle() -> None:
            while not ended.wait(_SLOW_S):
                file.unlink() if file.exists() else file.touch()

        thread = threading.Thread(target=toggle)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def runs(self, number: int) -> None:
        """Runs the plan."""
        self._run("runs", _RUNS, number)

    def compiles(self, number: int) -> None:
        """Compiles the model anew for each run."""
        self._ready.wait(_START_S)
        while not self._end.is_set():
            number += 1
            x, right = self._values(_NEW, number)
            begun_s = time.monotonic()
            builder = nd.CompilationBuilder(branches(_NEW))
            builder.set_partitioning("android")
            (output,) = builder.finish().run(x)
            self._check("compiles", output, right, begun_s)

    def go(self, seconds: float, drivers: list[_Driver], kinds: Sequence[Callable[[int], None]]) -> None:
        """Does all kinds of calls at once, and kills drivers meanwhile."""
        threads = [
            threading.Thread(target=self._guarded, args=(kind, number * 10**6))
            for number, kind in enumerate(kinds)
        ]
        self._ready = threading.Barrier(len(threads) + 1)
        for thread in threads:
            thread.start()
        self._ready.wait(_START_S)
        chance = random.Random(self._seed)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and not self._end.wait(chance.uniform(*_PAUSES_S)):
            number = chance.randrange(len(drivers))
            drivers[number].kill()
            self.report.kills += 1
            self._wait_until_used(self._devices[number].name)
        self._end.set()
        for thread in threads:
            thread.join(_START_S)
            if thread.is_alive():
                self.report.wrong.append("a call hangs")

    def _wait_until_used(self, device: str) -> None:
        """Waits until a device whose process was killed has run another step."""
        before = self.report.on_devices[device]
        begun_s = time.monotonic()
        while self.report.on_devices[device] == before:
            if time.monotonic() > begun_s + _USED_S:
                self.report.wrong.append(f"{device} is not used again")
                self._end.set()
            if self._end.wait(_LOOK_S):
                return
        self.report.used_s.append(time.monotonic() - begun_s)

    def _guarded(self, kind: Callable[[int], None], number: int) -> None:
        try:
            kind(number)
        except Exception as error:
            with self._lock:
                self.report.wrong.append(f"{kind.__name__}: {type(error).__name__}: {error}")
            self._end.set()
            self._ready.abort()

    def compare_counts(self) -> None:
        """Compares receipts with what the devices counted."""
        for device, kind in zip(self._devices, KINDS, strict=True):
            begun, ended = counts_of(self._folder, kind.name.lower(), _RECEIPTS)
            right, called = self.report.on_devices[device.name], self._called[device.name]
            if not right <= ended <= begun <= called:
                self.report.wrong.append(
                    f"{device.name}: receipts tell {right} calls that succeeded of {called}, and the device "
                    f"ended {ended} of {begun}"
                )


def main(seconds: float, seed: int, slack: float, file: Path | None) -> int:
    """Plays and prints the report; returns the exit status.

    Args:
        seconds: for how long.
        seed: of the kills.
        slack: factor of the limit of a call's time.
        file: for the report in JSON as well; None for none.
    """
    report = play(seconds, seed)
    if report.longest_s > CALL_S * slack:
        report.wrong.append(f"a call took {report.longest_s:.2f} s")
    text = json.dumps(report.document(), indent=2) + "\n"
    sys.stdout.write(text)
    if file is not None:
        file.write_text(text)
    return int(bool(report.wrong))


def play(seconds: float, seed: int = 1) -> PlanReport:
    """Runs plans for some time while drivers are killed; returns what happened."""
    with tempfile.TemporaryDirectory(prefix="np") as name, ExitStack() as stack:
        folder = Path(name)
        drivers = [_Driver(kind, folder) for kind in KINDS]
        for driver in drivers:
            stack.callback(driver.stop)
        devices = [driver.connect() for driver in drivers]
        playing = _Play(folder, devices, seed)
        kinds = [
            *(playing.receipts, playing.receipts, playing.stream, playing.verified),
            *(playing.drifting, playing.runs, playing.compiles),
        ]
        playing.go(seconds, drivers, kinds)
        playing.compare_counts()
        return playing.report
