"""Attack with several processes that have the daemon compute all the time."""

import itertools
import multiprocessing
import sys
from multiprocessing.sharedctypes import Synchronized
from typing import Any

import numpy as np
from faults.attacks.attack import Attack

import neurald as nd

_PROCESSES = 3
_SHAPE = (1, 25_000)
#: As many operations take about a millisecond.
_OPERATIONS = 40
_STEP_S = 0.2
_END_S = 30.0


class HoggingProcesses(Attack):
    """Three processes, each of which executes a model of a millisecond again and again."""

    name = "hogging processes"

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._is_over = context.Event()
        self._counts = [context.Value("q", 0) for _ in range(_PROCESSES)]
        self._wrong = context.Value("q", 0)
        self._processes = [
            context.Process(
                target=_hog, args=(sys.path, self.target.address, self._is_over, count, self._wrong)
            )
            for count in self._counts
        ]
        for process in self._processes:
            process.start()

    def step(self) -> None:
        self._is_over.wait(_STEP_S)
        self.expect(all(process.is_alive() for process in self._processes), "a client died")

    def stop(self) -> None:
        self._is_over.set()
        for process in self._processes:
            process.join(_END_S)
            self.expect(not process.is_alive(), "a client hangs")
            process.kill()
        self.outcomes["executions"] += sum(count.value for count in self._counts)
        self.expect(not self._wrong.value, f"{self._wrong.value} results are wrong")


def _hog(
    path: list[str], address: str, is_over: Any, count: "Synchronized[int]", wrong: "Synchronized[int]"
) -> None:
    sys.path[:] = path
    builder = nd.CompilationBuilder(_chain(), [nd.connect(address)])
    builder.set_caching(None)
    compilation = builder.finish()
    values = np.random.default_rng(0).random(_SHAPE, np.float32)
    (expected,) = compilation.run(values)
    while not is_over.is_set():
        (result,) = compilation.run(values)
        count.value += 1
        wrong.value += not np.array_equal(result, expected)


def _chain() -> nd.Model:
    builder = nd.ModelBuilder()
    operands = [builder.add_operand(nd.OperandType.TENSOR_FLOAT32, _SHAPE) for _ in range(_OPERATIONS + 1)]
    for source, result in itertools.pairwise(operands):
        builder.add_operation(nd.OperationType.TANH, inputs=[source], outputs=[result])
    builder.identify_inputs_and_outputs(operands[:1], operands[-1:])
    return builder.finish()
