"""Receipts: which device ran each step of one execution, with which driver, how, and how long.

An execution that wants a receipt has a recorder in the context of its threads. Every call of a
device's prepared model by a step is noted there, also one that fails, so that a receipt counts the
calls that the devices count.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final

import msgspec
from msgspec import Struct

from neurald.hal.device import Device, StepDuration
from neurald.hal.errors import Error
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.report import CompilationReport


class DeviceCall(Struct, frozen=True, kw_only=True):
    """One call of a device for a step.

    Attributes:
        device: the device that was called.
        is_first_tier: whether it ran a first tier, because the step was not compiled yet.
        duration_ns: the duration of the call.
        error: why it failed; empty if it succeeded.
    """

    device: str
    is_first_tier: bool
    duration_ns: int
    error: str = ""


class StepReceipt(Struct, frozen=True, kw_only=True):
    """The record of one step in one execution.

    Attributes:
        step: its position in the plan; -1 for the whole model, which the CPU device ran after a
            step failed everywhere.
        device: the device that it was planned for.
        driver_version: the driver version of that device.
        ran_on: the device whose results count; empty if none succeeded.
        tier: "optimized", or "first" for a first tier.
        cache: how its device obtained the prepared model: "hit", "miss" and so on.
        calls: the calls of devices, in order; several in loops, after failures, and while buffers
            grow.
        durations: the parts of the time, as far as devices report them; None without a call.
        fallback: why another device than planned ran it; empty if none did.
    """

    step: int
    device: str
    driver_version: str
    ran_on: str
    tier: str
    cache: str
    calls: tuple[DeviceCall, ...]
    durations: StepDuration | None
    fallback: str = ""


class ExecutionReceipt(Struct, frozen=True, kw_only=True):
    """The record of one execution.

    Attributes:
        steps: those that ran, in the order of the plan.
        duration_ns: the duration of the execution.
    """

    steps: tuple[StepReceipt, ...]
    duration_ns: int

    @property
    def calls_of_devices(self) -> dict[str, int]:
        """The number of calls of each device, by name."""
        counts: dict[str, int] = {}
        for step in self.steps:
            for call in step.calls:
                counts[call.device] = counts.get(call.device, 0) + 1
        return counts

    def to_json(self) -> dict[str, Any]:
        """Converts the receipt to dictionaries, lists, strings and numbers."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


class ReceiptRecorder:
    """The calls of one execution. Steps that run at the same time note them from their threads."""

    def __init__(self) -> None:
        self._calls: list[tuple[ExecutionStep | None, DeviceCall, str]] = []
        self._started_ns = time.perf_counter_ns()
        self._ended_ns = 0

    def note(self, step: ExecutionStep | None, call: DeviceCall, reason: str = "") -> None:
        """Notes a call; appending is atomic.

        Args:
            step: the step that ran; None for the whole model.
            call: the call of a device.
            reason: why another device than planned was called.
        """
        self._calls.append((step, call, reason))

    def end(self) -> None:
        """Notes that the execution has ended."""
        self._ended_ns = time.perf_counter_ns()

    def receipt(
        self,
        steps: Sequence[ExecutionStep],
        report: CompilationReport,
        durations: Sequence[StepDuration],
    ) -> ExecutionReceipt:
        """Returns the receipt.

        Args:
            steps: the steps of the plan that ran.
            report: the report of the compilation.
            durations: the durations of the steps.
        """
        numbers = {id(step): number for number, step in enumerate(steps)}
        by_step: dict[int, list[tuple[ExecutionStep | None, DeviceCall, str]]] = {}
        for step, call, reason in self._calls:
            number = -1 if step is None else numbers.get(id(step), 0)
            by_step.setdefault(number, []).append((step, call, reason))
        of_step = {each.step: each for each in durations}
        found = []
        for number in sorted(by_step, key=lambda each: (each < 0, each)):
            calls = by_step[number]
            step, last, reason = calls[-1]
            is_known = step is not None and id(step) in numbers and number < len(report.steps)
            found.append(
                StepReceipt(
                    step=number,
                    device=last.device if step is None else step.device.name,
                    driver_version="" if step is None else _version(step.device),
                    ran_on="" if last.error else last.device,
                    tier="first" if last.is_first_tier else "optimized",
                    cache=report.steps[number].cache.value if is_known else "",
                    calls=tuple(call for _, call, _ in calls),
                    durations=of_step.get(number) if is_known else None,
                    fallback=reason,
                )
            )
        return ExecutionReceipt(steps=tuple(found), duration_ns=max(0, self._ended_ns - self._started_ns))


def _version(device: Device) -> str:
    try:
        with convert_driver_faults(device.name):
            return device.version
    except Error:
        return ""


_recorder: ContextVar[ReceiptRecorder | None] = ContextVar("neurald receipt", default=None)
_NOTHING: Final[AbstractContextManager[None]] = nullcontext()


@contextmanager
def recording(recorder: ReceiptRecorder) -> Iterator[None]:
    """Notes calls in its context, also those of threads that are started with it."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)
        recorder.end()


def noted_call(
    step: ExecutionStep | None, device: Device, *, is_first_tier: bool = False, reason: str = ""
) -> AbstractContextManager[None]:
    """Returns a context manager of a call of a device, which notes it for the receipt, if any.

    Args:
        step: the step that the device runs; None for the whole model.
        device: the device.
        is_first_tier: whether it runs a first tier.
        reason: why it runs in place of the step's device; empty if it does not.
    """
    recorder = _recorder.get()
    return _NOTHING if recorder is None else _noted(recorder, step, device, is_first_tier, reason)


@contextmanager
def _noted(
    recorder: ReceiptRecorder, step: ExecutionStep | None, device: Device, is_first_tier: bool, reason: str
) -> Iterator[None]:
    started = time.perf_counter_ns()
    error = ""
    try:
        yield
    except BaseException as raised:
        error = str(raised) or type(raised).__name__
        raise
    finally:
        call = DeviceCall(
            device=device.name,
            is_first_tier=is_first_tier,
            duration_ns=time.perf_counter_ns() - started,
            error=error,
        )
        recorder.note(step, call, reason)
