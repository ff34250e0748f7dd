"""Attack by processes that fork after opening a session, and use the inherited objects."""

import multiprocessing
from typing import Any

import numpy as np
from faults.attacks.attack import Attack
from support.models.small import add_model

import neurald as nd

_WORKERS = 4
_CALLS = 100
_MAX_STALL_S = 60.0
_SHAPE = (8,)

#: State that the children inherit.
_inherited: list[Any] = []


def _called(number: int) -> str:
    """Returns the outcome of a call in a child."""
    compilation, burst, _ = _inherited
    values = np.full(_SHAPE, number, np.float32)
    result = np.empty(_SHAPE, np.float32)
    try:
        if number % 2:
            (result,) = compilation.run(values, values)
        else:
            execution = nd.Execution(compilation)
            execution.set_input(0, values)
            execution.set_input(1, values)
            execution.set_output(0, result)
            execution.compute(burst=burst)
    except nd.Error as error:
        return error.code.name
    return "right" if np.array_equal(result, 2 * values) else "wrong"


def _connected(_: int) -> str:
    """Returns the outcome of a new connection in a child."""
    address = _inherited[2]
    try:
        device = nd.connect(address)
        builder = nd.CompilationBuilder(add_model(_SHAPE), [device])
        builder.set_caching(None)
        (result,) = builder.finish().run(np.ones(_SHAPE, np.float32), np.ones(_SHAPE, np.float32))
    except nd.Error as error:
        return error.code.name
    return "right" if np.array_equal(result, np.full(_SHAPE, 2, np.float32)) else "wrong"


class Forks(Attack):
    """Pools of children that use one compilation while their parent uses it too."""

    name = "forks"

    def start(self) -> None:
        builder = nd.CompilationBuilder(add_model(_SHAPE), [nd.connect(self.target.address)])
        builder.set_caching(None)
        compilation = builder.finish()
        _inherited[:] = [compilation, compilation.create_burst(), self.target.address]
        self._count("parent", [_called(1), _called(2)])

    def step(self) -> None:
        with multiprocessing.get_context("fork").Pool(_WORKERS) as pool:
            children = pool.map_async(_called, range(self.scaled(_CALLS)), chunksize=4)
            self._count("parent", [_called(number) for number in range(self.scaled(_CALLS))])
            own = pool.map_async(_connected, range(_WORKERS), chunksize=1)
            try:
                self._count("child", children.get(_MAX_STALL_S))
                self._count("child that connects", own.get(_MAX_STALL_S))
            except multiprocessing.TimeoutError:
                self.expect(False, "a forked process hangs")

    def _count(self, who: str, results: list[str]) -> None:
        self.outcomes.update(f"{who}: {result}" for result in results)
        self.expect("wrong" not in results, f"{who}: a wrong result without an error")
        if who == "parent":
            self.expect(set(results) <= {"right"}, f"parent: {results}")

    def stop(self) -> None:
        _, burst, _ = _inherited
        burst.close()
        _inherited.clear()
