"""Application process under fault injection.

Every call must succeed, whatever happens to the daemons.

    python -m faults.scenarios.application SEED

It uses the client library as applications do, and lets the CPU replace devices. One model is an
addition, which the daemon `first` runs; the other has three steps, which `first` and `second` run
alternately. When its input ends, the devices must soon be used again. It reports a line of JSON.
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from faults.proc import Held, input_ends
from faults.scenarios.client import CALL_S, PAUSE_S, SLACK_S
from support.models.small import FLOAT, add_model

import neurald as nd
from neurald.hal.memory.pool import HostMemory

SHAPE = (16, 64)
BYTES = 16 * 64 * 4
#: Warm-up calls, after which its resources count as normal.
_WARM_CALLS = 60
#: Time limit for using the devices again after the last fault: the longest pause of a device that
#: was told to fail a few times.
_RECOVERY_S = 60.0
#: Limit on how often device memory may lose its value before two executions succeed.
_ATTEMPTS = 1000
#: Time limit for device memory to keep a value.
_KEPT_S = 0.1
_MEMORY_SLACK_BYTES = 24 << 20

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class Program:
    """Compilation with a reference function, a burst and device memory.

    Args:
        model: a model with two inputs and one output.
        reference: computes the same.
        devices: the devices that must run it.
    """

    def __init__(
        self, model: nd.Model, reference: Callable[[Array, Array], Array], devices: tuple[str, ...]
    ) -> None:
        self.compilation = nd.CompilationBuilder(model).finish()
        self.reference = reference
        found = tuple(step.device.name.split("@")[0] for step in self.compilation.plan.steps)
        if found != devices:
            raise RuntimeError(f"the steps lie on {found}; expected {devices}")
        self.burst = self.compilation.create_burst()
        self.memory = (
            nd.MemoryDesc()
            .add_output_role(self.compilation, 0)
            .add_input_role(self.compilation, 0)
            .finish()
            .allocate()
        )

    def renew_burst(self) -> nd.Burst:
        """Replaces the burst by a new one."""
        self.burst.close()
        self.burst = self.compilation.create_burst()
        return self.burst

    def bound(self, first: Array, second: Array, output: Array) -> nd.Execution:
        """Returns an execution on arrays."""
        execution = nd.Execution(self.compilation)
        execution.set_input(0, first)
        execution.set_input(1, second)
        execution.set_output(0, output)
        return execution


def _alternating_model() -> nd.Model:
    """Builds `(first + second) * second + first`."""
    builder = nd.ModelBuilder()
    first, second, total, product, output = (builder.add_operand(FLOAT, SHAPE) for _ in range(5))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(nd.OperationType.ADD, [first, second, activation], [total])
    builder.add_operation(nd.OperationType.MUL, [total, second, activation], [product])
    builder.add_operation(nd.OperationType.ADD, [product, first, activation], [output])
    builder.identify_inputs_and_outputs([first, second], [output])
    return builder.finish()


def _sum(first: Array, second: Array) -> Array:
    return first + second


def _alternating(first: Array, second: Array) -> Array:
    return (first + second) * second + first


def _adding() -> Program:
    return Program(add_model(SHAPE), _sum, ("first",))


class Application:
    """Calls in all available ways; `wrong` lists failures.

    Args:
        seed: determines the calls and their numbers.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._programs = [
            _adding(),
            Program(_alternating_model(), _alternating, ("first", "second", "first")),
        ]
        self._ways = (self._call, self._start, self._burst, self._fenced, self._device_memory, self._anew)
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.slowest_s = 0.0

    def pause_s(self) -> float:
        """Returns a pause between two calls."""
        return self._random.uniform(0.0, PAUSE_S)

    def call(self) -> None:
        """Makes one call, in a random way."""
        program = self._random.choice(self._programs)
        way = self._random.choice(self._ways)
        first = np.full(SHAPE, self._random.randint(0, 63), np.float32)
        second = np.full(SHAPE, self._random.randint(1, 63), np.float32)
        name = f"application, {way.__name__.strip('_').replace('_', ' ')}"
        started = time.monotonic()
        try:
            result, expected = way(program, first, second)
        except Exception as error:  # no exception is allowed
            self.wrong.append(f"{name}: {type(error).__name__}: {error}")
        else:
            if np.array_equal(result, expected):
                self.outcomes[f"{name}: right"] += 1
            else:
                self.wrong.append(f"{name}: {result.flat[0]}; {expected.flat[0]} is right")
        if program.compilation.recovery.fallbacks:
            self.outcomes["application, calls while the CPU stood in"] += 1
        elapsed = time.monotonic() - started
        self.slowest_s = max(self.slowest_s, elapsed)
        if elapsed > CALL_S + SLACK_S:
            self.wrong.append(f"{name}: it took {elapsed:.1f} s")

    def _call(self, program: Program, first: Array, second: Array) -> tuple[Array, Array]:
        output = np.full(SHAPE, -1, np.float32)
        program.bound(first, second, output).compute()
        return output, program.reference(first, second)

    def _start(self, program: Program, first: Array, second: Array) -> tuple[Array, Array]:
        output = np.full(SHAPE, -1, np.float32)
        program.bound(first, second, output).start_compute().wait(CALL_S + SLACK_S)
        return output, program.reference(first, second)

    def _burst(self, program: Program, first: Array, second: Array) -> tuple[Array, Array]:
        burst = program.burst if self._random.random() < 0.9 else program.renew_burst()
        output = np.full(SHAPE, -1, np.float32)
        for _ in range(8):
            output[:] = -1
            program.bound(first, second, output).compute(burst=burst)
            if not np.array_equal(output, program.reference(first, second)):
                break
        return output, program.reference(first, second)

    def _fenced(self, program: Program, first: Array, second: Array) -> tuple[Array, Array]:
        """Runs two executions, the second of which waits for the first and uses its output."""
        other = self._random.choice(self._programs)
        memory = nd.Memory.allocate(4 * BYTES)
        views = [np.frombuffer(memory.view(n * BYTES, BYTES), np.float32).reshape(SHAPE) for n in range(4)]
        views[0][:], views[1][:], views[2][:], views[3][:] = first, second, -1, -1
        event = None
        for each, inputs, output in ((program, (0, 1), 2), (other, (2, 1), 3)):
            execution = nd.Execution(each.compilation)
            for index, place in enumerate(inputs):
                execution.set_input_from_memory(index, memory, place * BYTES, BYTES)
            execution.set_output_from_memory(0, memory, output * BYTES, BYTES)
            event = execution.start_compute_with_dependencies([] if event is None else [event])
        assert event is not None
        event.wait(CALL_S + SLACK_S)
        return views[3], other.reference(program.reference(first, second), second)

    def _device_memory(self, program: Program, first: Array, second: Array) -> tuple[Array, Array]:
        """Runs two executions with device memory between them.

        Repeats both if its value is lost.
        """
        middle = program.reference(first, second)
        for _ in range(_ATTEMPTS):
            output = np.full(SHAPE, -1, np.float32)
            writing = nd.Execution(program.compilation)
            writing.set_input(0, first)
            writing.set_input(1, second)
            writing.set_output_from_memory(0, program.memory, 0, 0)
            writing.compute()
            time.sleep(self._random.choice((0.0, self._random.uniform(0.0, _KEPT_S))))
            reading = nd.Execution(program.compilation)
            reading.set_input_from_memory(0, program.memory, 0, 0)
            reading.set_input(1, second)
            reading.set_output(0, output)
            try:
                reading.compute()
                copy = np.full(SHAPE, -1, np.float32)
                nd.Memory.copy(program.memory, HostMemory(copy))
            except nd.Error as error:
                if program.memory.dimensions is not None and error.code is not nd.ResultCode.DEAD_OBJECT:
                    raise
                self.outcomes["application, device memory: lost its value"] += 1
                continue
            return np.stack((copy, output)), np.stack((middle, program.reference(middle, second)))
        raise RuntimeError(f"device memory lost its value {_ATTEMPTS} times")

    def _anew(self, program: Program, first: Array, second: Array) -> tuple[Array, Array]:
        """Compiles anew for the devices that are present."""
        compilation = nd.CompilationBuilder(program.compilation.model).finish()
        (result,) = compilation.run(first, second)
        return result, program.reference(first, second)

    def recover(self) -> None:
        """Calls until the devices are used again, by old and new compilations."""
        end = time.monotonic() + _RECOVERY_S
        first, second = np.full(SHAPE, 2, np.float32), np.full(SHAPE, 3, np.float32)
        while left := [
            state for program in self._programs for state in program.compilation.recovery.fallbacks
        ]:
            if time.monotonic() > end:
                self.wrong.append(f"a device is not used again: {left}")
                return
            for program in self._programs:
                self._call(program, first, second)
            time.sleep(0.02)
        _adding().burst.close()

    def close(self) -> None:
        """Releases everything."""
        for program in self._programs:
            program.burst.close()
        self._programs.clear()


def main(seed: int) -> dict[str, Any]:
    """Calls until its input ends; returns the report."""
    ended = input_ends()
    application = Application(seed)
    for _ in range(_WARM_CALLS):
        application.call()
    base = Held.here()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not ended.wait(application.pause_s()):
        application.call()
    application.recover()
    now = Held.here()
    # A reconnected device may have a second connection, which lives as long as the compilations
    # that use it.
    application.wrong += now.more_than(base, descriptors=24, threads=12, rss_bytes=_MEMORY_SLACK_BYTES)
    application.close()
    return {
        "outcomes": dict(application.outcomes),
        "wrong": application.wrong,
        "slowest_s": application.slowest_s,
        "memory_growth_bytes": now.rss_bytes - base.rss_bytes,
        "descriptors": [base.descriptors, now.descriptors],
        "threads": [base.threads, now.threads],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(int(sys.argv[1]))) + "\n")
