"""Application of the kill matrix: makes one call at a time, on command, with automatic devices.

    python -m faults.managed.matrix_application ADDRESS

Each line of its input is `arrange PHASE NUMBER`, `act PHASE NUMBER` or `use`; each line of its
output is a JSON object: whether the result was right, when the call ended, how long the longest
call took, and which failures the library has noticed.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from support.models.small import add_model

import neurald as nd
from neurald.hal.errors import Error
from neurald.hal.rpc.client.device import connect

_BURST = 50
_WAIT_S = 30.0


class MatrixApplication:
    """Calls of all phases.

    Args:
        address: of the driver.
        folder: for a cache.
    """

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self._model = add_model((4, 4))
        self._compilation = self._on_device(nd.CompilationBuilder(self._model).finish())
        self._arranged: Any = None
        self._longest_s = 0.0

    def arrange(self, phase: str, number: int) -> bool:
        """Does what comes before the call."""
        model = add_model((number, 2))
        self._arranged = None
        if phase == "load":
            self._arranged = model
            return self._run(self._on_device(self._compiled(model, number)))
        if phase in ("first run", "burst", "fenced", "drain"):
            compilation = self._on_device(nd.CompilationBuilder(model).finish())
            self._arranged = compilation
            if phase == "burst":
                burst = compilation.create_burst()
                self._arranged = compilation, burst
                return self._compute(compilation, burst)
            return phase == "first run" or self._run(compilation)
        return True

    def act(self, phase: str, number: int) -> bool:
        """Makes the call; returns whether its result is right."""
        if phase == "connect":
            # An explicit device has no fallback; that it ends in time is checked.
            with contextlib.suppress(Error):
                connect(self._address).close()
            return self._run(self._compilation)
        if phase == "load":
            return self._run(self._compiled(self._arranged, number))
        if phase in ("query", "prepare"):
            builder = nd.CompilationBuilder(add_model((number, 2)))
            # The default prepares in the background.
            builder.set_startup(nd.Startup.OPTIMIZED)
            return self._run(builder.finish())
        if phase == "burst":
            compilation, burst = self._arranged
            try:
                return all(self._compute(compilation, burst) for _ in range(_BURST))
            finally:
                burst.close()
        if phase == "fenced":
            return self._fenced(self._arranged)
        return self._run(self._arranged)

    def use(self) -> bool:
        """Makes a call; returns whether the device ran it."""
        before = self._substituted(self._compilation)
        is_right = self._run(self._compilation)
        if not is_right:
            raise RuntimeError("a wrong result")
        return not self._compilation.recovery.fallbacks and self._substituted(self._compilation) == before

    @staticmethod
    def _substituted(compilation: nd.Compilation) -> int:
        return sum(each.executions for each in compilation.recovery.substitutions)

    @staticmethod
    def _on_device(compilation: nd.Compilation) -> nd.Compilation:
        """Waits until the device has prepared a model."""
        compilation.wait_until_optimized(_WAIT_S)
        found = [step.device.name for step in compilation.plan.steps]
        if not all(name.startswith("matrix") for name in found):
            raise RuntimeError(f"the steps are on {found}: {compilation.explain().text()}")
        return compilation

    def _compiled(self, model: nd.Model, number: int) -> nd.Compilation:
        builder = nd.CompilationBuilder(model)
        builder.set_startup(nd.Startup.OPTIMIZED)
        builder.set_caching(self._folder, number.to_bytes(32, "little"))
        return builder.finish()

    def _timed(self, call: Callable[[], bool]) -> bool:
        started = time.monotonic()
        try:
            return call()
        finally:
            self._longest_s = max(self._longest_s, time.monotonic() - started)

    def _run(self, compilation: nd.Compilation) -> bool:
        first, second = self._values(compilation)
        return self._timed(lambda: bool(np.array_equal(compilation.run(first, second)[0], first + second)))

    def _compute(self, compilation: nd.Compilation, burst: nd.Burst) -> bool:
        first, second = self._values(compilation)
        output = np.full(first.shape, -1, np.float32)
        execution = nd.Execution(compilation)
        execution.set_input(0, first)
        execution.set_input(1, second)
        execution.set_output(0, output)

        def call() -> bool:
            execution.compute(burst=burst)
            return bool(np.array_equal(output, first + second))

        return self._timed(call)

    def _fenced(self, compilation: nd.Compilation) -> bool:
        first, second = self._values(compilation)
        size = first.nbytes
        memory = nd.Memory.allocate(3 * size)
        views = [
            np.frombuffer(memory.view(n * size, size), np.float32).reshape(first.shape) for n in range(3)
        ]
        views[0][:], views[1][:], views[2][:] = first, second, -1
        execution = nd.Execution(compilation)
        execution.set_input_from_memory(0, memory, 0, size)
        execution.set_input_from_memory(1, memory, size, size)
        execution.set_output_from_memory(0, memory, 2 * size, size)

        def call() -> bool:
            execution.start_compute_with_dependencies([]).wait(_WAIT_S)
            return bool(np.array_equal(views[2], first + second))

        return self._timed(call)

    @staticmethod
    def _values(compilation: nd.Compilation) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
        shape = compilation.model.main.operands[0].dimensions
        assert shape is not None
        first = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        return first, first + 3

    def answer(self, line: str) -> dict[str, Any]:
        """Does what a line says."""
        verb, _, rest = line.partition(" ")
        phase, _, number = rest.rpartition(" ")
        self._longest_s = 0.0
        try:
            if verb == "use":
                result = self.use()
            else:
                result = (self.arrange if verb == "arrange" else self.act)(phase, int(number))
            problem = ""
        except Exception as error:
            result, problem = False, f"{type(error).__name__}: {error}"
        return {
            "result": result,
            "end_s": time.monotonic(),
            "longest_s": self._longest_s,
            "problem": problem,
            "failures": [str(each) for each in self._compilation.recovery.fallbacks],
        }


def main() -> None:
    """Answers lines until its input ends."""
    application = MatrixApplication(sys.argv[1], Path(sys.argv[2]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(application.answer(line.strip())) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
