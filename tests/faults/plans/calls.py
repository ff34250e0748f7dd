"""Calls plans while faults strike their drivers; each kind of call has threads of its own."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from faults.plans.driver import KINDS, LIED_ROWS, counts_of
from faults.plans.report import PlanReport
from support.models.chains import chain, ramp
from support.traces.receipt_counts import branches

import neurald as nd
from neurald.hal.errors import (
    Cancelled,
    DeadObject,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
)
from neurald.hal.lazy_numpy import Array
from neurald.hal.memory.pool import Memory
from neurald.runtime.costs import store
from neurald.runtime.costs.table import Average, CostTable, DeviceLink
from neurald.runtime.costs.work import kind_of, work_of
from neurald.runtime.execution.measurement.receipt import StepReceipt

START_S = 60.0
#: How long a device is slow or not.
_SLOW_S = 1.0
_VERIFIED_SHARE = 0.05
#: A wrong device must be found within this many runs at this share.
_LIED_SHARE = 0.01
MAX_LIED_RUNS = 1000
_DEADLINE_S = 30.0
#: Time limits of which some cannot be kept, and moments of cancellations.
_LIMITS_S = (5e-4, 0.03)
_CANCELLED_S = (0.0, 6e-3)
#: This many runs of a compilation with a trial, and after it is decided.
_MAX_TRIED_RUNS = 1000
_DECIDED_RUNS = 50
_SLOW_ALONE_S = 5e-3
_STOPPED_BY_LIMIT = (MissedDeadlineTransient, MissedDeadlinePersistent)
#: Rows of inputs, by which the devices tell executions apart.
_RECEIPTS, _STREAM, _VERIFIED, _DRIFTING, _RUNS, _NEW, _LIMITED, _CANCELLED, _TRIED = range(2, LIED_ROWS)
_WIDTH = 64
#: The factors of `chain`.
_FACTORS = np.linspace(0.5, 1.5, _WIDTH, dtype=np.float32)


class Calls:
    """All kinds of calls, and what they found.

    Args:
        folder: of the drivers.
        devices: by their names.

    Attributes:
        ended: is set when the calls are to end, also by the first one that fails.
        ready: the threads and the one that begins with faults meet there when everything is
            compiled.
        report: what happened.
        halted_s: when the last fault that lets calls wait ended; infinite while it lasts.
    """

    def __init__(self, folder: Path, devices: Mapping[str, nd.Device]) -> None:
        self.ended = threading.Event()
        self.ready = threading.Barrier(1)
        self.report = PlanReport()
        self.halted_s = 0.0
        self._folder = folder
        self._devices = devices
        self._cpu = nd.devices()[0]
        self._lock = threading.Lock()
        self._called: Counter[str] = Counter()

    def _builder(self, rows: int) -> nd.CompilationBuilder:
        builder = nd.CompilationBuilder(branches(rows))
        # By least cost, the CPU device would get all of so small a model.
        builder.set_partitioning("android")
        return builder

    def _compiled(self, rows: int, *, verified: float = 0.0) -> nd.Compilation:
        """Compiles a plan, before faults strike."""
        builder = self._builder(rows)
        builder.set_verification(verified)
        compilation = builder.finish()
        compilation.wait_until_optimized(START_S)
        self.ready.wait(START_S)
        return compilation

    def _values(self, rows: int, number: int) -> tuple[Array, Array]:
        """Returns an input of a run, and the right output."""
        x = np.random.default_rng(number).uniform(-2, 2, (rows, 3)).astype(np.float32)
        a = np.tanh(x)
        return x, a + 1 / (1 + np.exp(-a))

    def _check(self, what: str, output: Array, right: Array, begun_s: float) -> None:
        self._note(what, begun_s)
        if not _is_right(output, right):
            with self._lock:
                self.report.wrong.append(f"{what}: a wrong result")

    def _note(
        self, what: str, begun_s: float, due_s: float | None = None, *, awaits_driver: bool = False
    ) -> None:
        """Notes that a call has ended.

        Args:
            what: names what was called.
            begun_s: when it began.
            due_s: when it was due; None if that was not said.
            awaits_driver: whether no other device may replace its own, so that it waits for that
                one's driver to be started again.
        """
        now_s = time.monotonic()
        with self._lock:
            report = self.report
            report.calls[what] += 1
            is_halted = begun_s < self.halted_s
            key = f"{what}, halted" if is_halted else what
            times = {key: now_s - begun_s}
            if awaits_driver:
                report.longest_waiting_s = max(report.longest_waiting_s, now_s - begun_s)
            elif is_halted:
                report.longest_halted_s = max(report.longest_halted_s, now_s - begun_s)
            else:
                report.longest_s = max(report.longest_s, now_s - begun_s)
            if due_s is not None:
                times[f"{key}, late by"] = now_s - due_s
                report.late_s = max(report.late_s, now_s - due_s)
            for name, seconds in times.items():
                report.longest_of_s[name] = max(report.longest_of_s.get(name, 0.0), seconds)

    def _execution(self, compilation: nd.Compilation, rows: int) -> tuple[nd.Execution, Array, Array]:
        """Returns an execution with its input and its output."""
        execution = nd.Execution(compilation, reusable=True)
        given, output = (np.empty((rows, 3), np.float32) for _ in range(2))
        execution.set_input(0, given)
        execution.set_output(0, output)
        return execution, given, output

    def receipts(self, number: int) -> None:
        """Executes with receipts and a deadline."""
        execution, given, output = self._execution(self._compiled(_RECEIPTS), _RECEIPTS)
        execution.set_timeout(_DEADLINE_S)
        execution.enable_receipt()
        while not self.ended.is_set():
            number += 1
            x, right = self._values(_RECEIPTS, number)
            given[:], output[:] = x, np.nan
            begun_s = time.monotonic()
            execution.compute()
            self._check("receipts", output, right, begun_s)
            steps = execution.receipt.steps
            calls = [call for step in steps for call in step.calls]
            with self._lock:
                self.check_receipt(steps)
                for call in calls:
                    self._called[call.device] += 1
                    if call.error:
                        self.report.substituted += 1
                    else:
                        self.report.on_devices[call.device] += 1

    def check_receipt(self, steps: Sequence[StepReceipt]) -> None:
        """Finds steps of a successful execution that did not succeed once on the named device."""
        is_whole = any(step.step < 0 for step in steps)  # the CPU device ran the model in their place
        for step in steps:
            right = [call.device for call in step.calls if not call.error]
            if right != [step.ran_on] and (step.step < 0 or not is_whole or right):
                self.report.wrong.append(f"step {step.step} ran on {step.ran_on!r}, and {right} succeeded")

    def stream(self, number: int) -> None:
        """Streams inputs, whose outputs must come in order."""
        compilation = self._compiled(_STREAM)
        rights: list[Array] = []

        def inputs() -> Iterator[list[Array]]:
            nonlocal number
            while not self.ended.is_set():
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
        while not self.ended.is_set():
            number += 1
            x, right = self._values(rows, number)
            begun_s = time.monotonic()
            (output,) = compilation.run(x)
            self._check(what, output, right, begun_s)
        compilation.wait_until_investigated(START_S)
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
        self.ready.wait(START_S)
        while not self.ended.is_set():
            number += 1
            x, right = self._values(_NEW, number)
            begun_s = time.monotonic()
            (output,) = self._builder(_NEW).finish().run(x)
            self._check("compiles", output, right, begun_s)

    def limited(self, number: int) -> None:
        """Executes with time limits of which some cannot be kept."""
        compilation = self._compiled(_LIMITED)
        chance = random.Random(number)
        while not self.ended.is_set():
            number += 1
            execution, given, output = self._execution(compilation, _LIMITED)
            given[:], right = self._values(_LIMITED, number)
            output[:] = np.nan
            limit_s = chance.uniform(*_LIMITS_S)
            execution.set_timeout(limit_s)
            begun_s = time.monotonic()
            try:
                execution.compute()
            except _STOPPED_BY_LIMIT:
                self._note("limited: too late", begun_s, begun_s + limit_s)
            else:
                self._check("limited", output, right, begun_s)

    def cancelled(self, number: int) -> None:
        """Cancels executions in the background."""
        execution, given, output = self._execution(self._compiled(_CANCELLED), _CANCELLED)
        chance = random.Random(number)
        while not self.ended.is_set():
            number += 1
            given[:], right = self._values(_CANCELLED, number)
            output[:] = np.nan
            begun_s = time.monotonic()
            event = execution.start_compute()
            time.sleep(chance.uniform(*_CANCELLED_S))
            cancelled_s = time.monotonic()
            execution.cancel()
            try:
                event.wait()
            except Cancelled:
                self._note("cancelled: in time", begun_s, cancelled_s)
            else:
                self._check("cancelled", output, right, begun_s)

    def tried(self, number: int) -> None:
        """Runs plans of wrong costs while trials compare them with two devices alone."""
        with self._slow_alone():
            self._tried(number)

    @contextmanager
    def _slow_alone(self) -> Iterator[None]:
        """Makes the CPU device slower than the plan when it runs the whole model of the trials."""
        right = type(self._cpu).prepare_model

        def prepare(device: Any, model: nd.Model, options: Any) -> Any:
            prepared = right(device, model, options)
            graph = model.main
            (rows, *_) = graph.operands[graph.inputs[0]].dimensions or (0,)
            is_whole = rows == _TRIED and len(graph.operations) == len(branches(_TRIED).main.operations)
            return _Slowed(prepared) if is_whole else prepared

        with mock.patch.object(type(self._cpu), "prepare_model", prepare):
            yield

    def _tried(self, number: int) -> None:
        split = [self._devices[kind.name.lower()] for kind in KINDS]
        whole, model = self._devices["whole"], branches(_TRIED)
        self.ready.wait(START_S)
        while not self.ended.is_set():
            for device in (self._cpu, *split, whole):
                _give_costs(device, model, 1e-4 if device in split else 1e-3)
            builder = nd.CompilationBuilder(model)
            builder.set_partitioning("min_cost")
            builder.set_caching(None)
            compilation = builder.finish()
            compilation.wait_until_optimized(START_S)
            left = _MAX_TRIED_RUNS
            while left and not self.ended.is_set():
                number += 1
                left -= 1
                x, right = self._values(_TRIED, number)
                begun_s = time.monotonic()
                (output,) = compilation.run(x)
                self._check("tried", output, right, begun_s)
                if left > _DECIDED_RUNS and left % 10 == 0 and _is_decided(compilation):
                    left = _DECIDED_RUNS
            with self._lock:
                self.report.calls["tried: compilations"] += 1
                if left == 0 and _is_decided(compilation):
                    self.report.calls[f"tried: stays on {len(compilation.plan.steps)} steps"] += 1

    def lied(self, number: int) -> None:
        """Runs while devices flip a bit, until verification has found them, and on."""
        self.ready.wait(START_S)
        rows = LIED_ROWS
        while not self.ended.is_set():
            rows += 1  # what was found for a model stays known
            builder = self._builder(rows)
            builder.set_verification(_LIED_SHARE)
            builder.set_caching(None)
            compilation = builder.finish()
            runs: list[int] = []
            while not self.ended.is_set():
                number += 1
                x, _ = self._values(rows, number)
                begun_s = time.monotonic()
                compilation.run(x)
                self._note("lied", begun_s)
                # While the CPU device stands in, a device neither lies nor is verified.
                found = compilation.verifications
                runs = [each.runs for each in found]
                if all(each.is_wrong for each in found):
                    break
                if any(each.runs > MAX_LIED_RUNS and not each.is_wrong for each in found):
                    raise RuntimeError(f"devices that lie were not found: {found}")
            if self.ended.is_set():
                return
            with self._lock:
                self.report.found_runs += runs
            for _ in range(10):
                number += 1
                x, right = self._values(rows, number)
                begun_s = time.monotonic()
                (output,) = compilation.run(x)
                self._check("lied: found", output, right, begun_s)

    def shared(self, number: int) -> None:
        """Passes values through memory of two devices; a value may be lost with its only place."""
        compilations = [
            nd.CompilationBuilder(chain(["MUL"], size=_WIDTH), [device]).finish()
            for device in (self._devices["here"], self._devices["there"], self._cpu)
        ]
        description = nd.MemoryDesc()
        for compilation in compilations:
            description.add_input_role(compilation, 0).add_output_role(compilation, 0)
        memory = description.finish().allocate()
        self.ready.wait(START_S)
        chance = random.Random(number)
        while not self.ended.is_set():
            x = ramp(_WIDTH) * np.float32(chance.randrange(1, 1000))
            writer, reader = chance.choices(compilations, k=2)
            output = np.full_like(x, np.nan)
            begun_s = time.monotonic()
            try:
                _multiply(writer, x, memory)
                _multiply(reader, memory, output)
            except (DeadObject, OpFailed) as error:
                if not isinstance(error, DeadObject) and "its device was lost" not in str(error):
                    raise
                self._note("shared: told that a value or a device is lost", begun_s, awaits_driver=True)
            else:
                self._check("shared", output, x * _FACTORS * _FACTORS, begun_s)

    def compare_counts(self) -> None:
        """Compares receipts with what the devices counted."""
        for name in (kind.name.lower() for kind in KINDS):
            begun, ended = counts_of(self._folder, name, _RECEIPTS)
            device = self._devices[name].name
            right, called = self.report.on_devices[device], self._called[device]
            if not right <= ended <= begun <= called:
                self.report.wrong.append(
                    f"{device}: receipts tell {right} calls that succeeded of {called}, and the device "
                    f"ended {ended} of {begun}"
                )


class _Slowed:
    """A prepared model that takes longer."""

    def __init__(self, prepared: Any) -> None:
        self._prepared = prepared

    def execute(self, request: Any, options: Any) -> Any:
        time.sleep(_SLOW_ALONE_S)
        return self._prepared.execute(request, options)

    def artifact(self) -> None:
        """Has none."""


def _is_right(output: Array, right: Array) -> bool:
    return np.allclose(output, right, rtol=1e-4, atol=1e-5)


def _is_decided(compilation: nd.Compilation) -> bool:
    """Returns whether a trial has found the fastest of its contestants."""
    return any("measured in" in note for note in compilation.explain().notes)


def _give_costs(device: nd.Device, model: nd.Model, seconds: float) -> None:
    """Lets each operation of a model cost this much, whatever it does."""
    table = CostTable(launch=Average(seconds=1e-12), link=DeviceLink())
    graph = model.main
    for operation in graph.operations:
        table = table.observed(kind_of(graph, operation), work_of(graph, operation), seconds)
    store.costs_of(device).use(table)


def _multiply(compilation: nd.Compilation, source: Array | Memory, target: Array | Memory) -> None:
    execution = nd.Execution(compilation)
    if isinstance(source, Memory):
        execution.set_input_from_memory(0, source, 0, 0)
    else:
        execution.set_input(0, source)
    if isinstance(target, Memory):
        execution.set_output_from_memory(0, target, 0, 0)
    else:
        execution.set_output(0, target)
    execution.compute()
