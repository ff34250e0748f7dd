"""Runs plans over several devices from many threads while faults strike the drivers.

Drivers are killed, stopped, and hang; two of them lie to one model. Nothing may be wrong, lost,
late or leaked, and receipts must agree with what the devices counted: each execution whose success
a receipt tells has ended there, and none has begun there that no receipt tells. All threads may
also execute with receipts alone, until there are that many.
"""

import gc
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from faults.plans.calls import START_S, Calls
from faults.plans.driver import DRIVERS, KINDS
from faults.plans.driver_process import DriverProcess
from faults.plans.report import PlanReport
from faults.proc import Held, shared_memory_entries

#: The longest call while processes are killed.
CALL_S = 1.0
#: How much longer one takes while a process is stopped or hangs, until that is noticed.
HALTED_S = 2.0
#: The longest call without a device that replaces its own: two executions, each of which waits for
#: a driver until that is back, or known not to come back.
WAITING_S = 10.0
#: How late an execution ends after its deadline or cancellation.
LATE_S = 0.5
#: Time between the first use of a driver and the next fault.
_PAUSES_S = (0.05, 0.5)
#: A driver that is not used again by then counts as lost.
_USED_S = 60.0
_LOOK_S = 0.01
#: Kills are played more often, since they are over at once.
_FAULTS = ("kill", "kill", "stop", "hang")
#: How long what threads hold may stay after the last call.
_SETTLE_S = 20.0
_WARM_UP_S = 5.0
#: Threads that come and go by themselves.
_SPARE_THREADS = 4
_SPARE_DESCRIPTORS = 8
_SPARE_BYTES = 64 << 20
#: Threads that execute with receipts, where nothing else is called.
_RECEIPT_THREADS = 4


class _Play:
    """A play.

    Args:
        calls: what calls plans.
        drivers: that faults strike.
        chance: decides which, and when.
        has_receipts_only: whether all calls are executions with receipts.
    """

    def __init__(
        self, calls: Calls, drivers: Sequence[DriverProcess], chance: random.Random, has_receipts_only: bool
    ) -> None:
        self._calls = calls
        self._drivers = drivers
        self._chance = chance
        self._kinds: list[Callable[[int], None]] = (
            [calls.receipts] * _RECEIPT_THREADS
            if has_receipts_only
            else [
                *(calls.receipts, calls.receipts, calls.stream, calls.verified, calls.drifting, calls.runs),
                *(calls.compiles, calls.limited, calls.cancelled, calls.tried, calls.lied, calls.shared),
            ]
        )

    def go(self, seconds: float, receipts: int = 0) -> None:
        """Does all kinds of calls at once, and lets faults strike meanwhile.

        Args:
            seconds: for how long at least.
            receipts: how many executions with receipts there must be in all.
        """
        calls, chance = self._calls, self._chance
        calls.ended.clear()
        for driver in self._drivers:
            driver.connect()
        threads = [
            threading.Thread(target=self._guarded, args=(kind, number * 10**6))
            for number, kind in enumerate(self._kinds)
        ]
        calls.ready = threading.Barrier(len(threads) + 1)
        for thread in threads:
            thread.start()
        with suppress(threading.BrokenBarrierError):  # the report has the failure
            calls.ready.wait(START_S)
        end_s = time.monotonic() + seconds
        while (
            time.monotonic() < end_s or calls.report.calls["receipts"] < receipts
        ) and not calls.ended.wait(chance.uniform(*_PAUSES_S)):
            self._strike(chance.choice(self._drivers), chance.choice(_FAULTS))
        calls.ended.set()
        for thread in threads:
            thread.join(START_S)
            if thread.is_alive():
                calls.report.wrong.append("a call hangs")

    def _strike(self, driver: DriverProcess, fault: str) -> None:
        calls = self._calls
        if fault != "kill":
            calls.halted_s = float("inf")
        driver.faults()[fault]()
        if fault != "kill":
            calls.halted_s = time.monotonic()
        calls.report.faults[fault] += 1
        if driver.name in {kind.name.lower() for kind in KINDS}:
            self._wait_until_used(f"{driver.name}@{driver.name}")

    def _wait_until_used(self, device: str) -> None:
        """Waits until a device has run another step after a fault."""
        calls = self._calls
        before = calls.report.on_devices[device]
        begun_s = time.monotonic()
        while calls.report.on_devices[device] == before:
            if time.monotonic() > begun_s + _USED_S:
                calls.report.wrong.append(f"{device} is not used again")
                calls.ended.set()
            if calls.ended.wait(_LOOK_S):
                return
        calls.report.used_s.append(time.monotonic() - begun_s)

    def _guarded(self, kind: Callable[[int], None], number: int) -> None:
        calls = self._calls
        try:
            kind(number)
        except threading.BrokenBarrierError:  # another one has failed
            return
        except Exception as error:
            calls.report.wrong.append(f"{kind.__name__}: {type(error).__name__}: {error}")
            calls.ended.set()
            calls.ready.abort()


def main(seconds: float, seed: int, slack: float, file: Path | None, receipts: int = 0) -> int:
    """Plays and prints the report; returns the exit status.

    Args:
        seconds: for how long, unless a number of receipts ends the play.
        seed: of the faults.
        slack: factor of the limits of times.
        file: for the report in JSON as well; None for none.
        receipts: see `play`.
    """
    report = play(0.0 if receipts else seconds, seed, receipts)
    report.wrong += too_late(report, slack)
    text = json.dumps(report.document(), indent=2) + "\n"
    sys.stdout.write(text)
    if file is not None:
        file.write_text(text)
    return int(bool(report.wrong))


def too_late(report: PlanReport, slack: float) -> list[str]:
    """Returns which limits of times were not kept.

    Args:
        report: of a play.
        slack: factor of the limits.
    """
    return [
        f"{what} {seconds:.2f} s; the limit is {limit_s * slack:.2f} s"
        for what, seconds, limit_s in (
            ("a call took", report.longest_s, CALL_S),
            ("a call of a halted device took", report.longest_halted_s, CALL_S + HALTED_S),
            ("a call that waited for a driver took", report.longest_waiting_s, WAITING_S),
            ("after its limit or cancellation an execution took", report.late_s, LATE_S),
        )
        if seconds > limit_s * slack
    ]


def play(seconds: float, seed: int = 1, receipts: int = 0) -> PlanReport:
    """Runs plans for some time while faults strike; returns what happened.

    Args:
        seconds: for how long at least.
        seed: of the faults.
        receipts: if not 0, nothing is called but executions with receipts, until there are this
            many.
    """
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="np") as name, ExitStack() as stack:
        folder = Path(name)
        names = [kind.name.lower() for kind in KINDS] if receipts else list(DRIVERS)
        drivers = [DriverProcess(each, folder, chance) for each in names]
        for driver in drivers:
            stack.callback(driver.stop)
        calls = Calls(folder, {driver.name: driver.connect() for driver in drivers})
        playing = _Play(calls, drivers, chance, has_receipts_only=bool(receipts))
        # Threads and connections of the first calls and faults may stay.
        playing.go(_WARM_UP_S)
        before, entries = Held.here(), shared_memory_entries()
        if not calls.report.wrong:
            playing.go(seconds, receipts)
        calls.compare_counts()
        calls.report.wrong += _leaks(before, entries)
        return calls.report


def _leaks(before: Held, entries: int) -> list[str]:
    """Returns what this process holds more than before, once that has settled."""
    end_s = time.monotonic() + _SETTLE_S
    while True:
        gc.collect()
        found = Held.here().more_than(
            before, descriptors=_SPARE_DESCRIPTORS, threads=_SPARE_THREADS, rss_bytes=_SPARE_BYTES
        )
        if shared_memory_entries() > entries:
            found.append("there are more entries of shared memory")
        if not found or time.monotonic() > end_s:
            return found
        time.sleep(_LOOK_S * 10)
