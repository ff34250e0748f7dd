"""Clients of the update test, whose calls must all succeed.

    python -m faults.managed.update_client ADDRESS CLIENTS CALLS SEED PAUSE_MS

Each client is a thread. Half of them have a session of their own, and name the driver's device, for
which nothing stands in; the others choose devices automatically. When all calls are done, or the
input ends, it prints a JSON object.
"""

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from faults.proc import input_ends
from support.models.small import add_model

import neurald as nd
from neurald.hal.rpc.client.device import connect

SHAPE = (4, 8)
_WAIT_S = 60.0


class UpdateClient:
    """One client.

    Args:
        address: of the driver.
        number: of the client.
    """

    def __init__(self, address: str, number: int) -> None:
        self._random = random.Random(number)
        self._has_session = bool(number % 2)
        model = add_model(SHAPE)
        devices = [connect(address)] if self._has_session else None
        self._compilation = nd.CompilationBuilder(model, devices).finish()
        self._compilation.wait_until_optimized(_WAIT_S)
        self._burst = self._compilation.create_burst()
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.slowest_s = 0.0

    def call(self, number: int) -> None:
        """Makes one call."""
        first = np.full(SHAPE, number, np.float32)
        second = np.full(SHAPE, self._random.randrange(1 << 16), np.float32)
        way = self._random.choice(tuple(_WAYS))
        started = time.monotonic()
        kind = "session" if self._has_session else "automatic"
        try:
            result = _WAYS[way](self, first, second)
        except Exception as error:
            self.failures.append(f"{kind}, {way}: {type(error).__name__}: {error}")
        else:
            if not np.array_equal(result, first + second):
                self.failures.append(f"{kind}, {way}: wrong result")
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)
        self.outcomes[f"{kind}, {way}"] += 1

    def _run(self, first: Any, second: Any) -> Any:
        return self._compilation.run(first, second)[0]

    def _execution(self, first: Any, second: Any, output: Any) -> nd.Execution:
        execution = nd.Execution(self._compilation)
        execution.set_input(0, first)
        execution.set_input(1, second)
        execution.set_output(0, output)
        return execution

    def _compute(self, first: Any, second: Any) -> Any:
        output = np.full(SHAPE, -1, np.float32)
        self._execution(first, second, output).compute()
        return output

    def _in_burst(self, first: Any, second: Any) -> Any:
        output = np.full(SHAPE, -1, np.float32)
        self._execution(first, second, output).compute(burst=self._burst)
        return output

    def _start(self, first: Any, second: Any) -> Any:
        output = np.full(SHAPE, -1, np.float32)
        self._execution(first, second, output).start_compute().wait(_WAIT_S)
        return output

    @property
    def substituted(self) -> int:
        """The number of executions that the CPU ran."""
        return sum(each.executions for each in self._compilation.recovery.substitutions)


_WAYS: dict[str, Callable[[UpdateClient, Any, Any], Any]] = {
    "run": UpdateClient._run,
    "compute": UpdateClient._compute,
    "burst": UpdateClient._in_burst,
    "start": UpdateClient._start,
}


def main(address: str, clients: int, calls: int, seed: int, pause_ms: int) -> dict[str, Any]:
    """Calls until all calls are done; returns the report."""
    ended = input_ends()
    group = [UpdateClient(address, seed + number) for number in range(clients)]
    sys.stdout.write("ready\n")
    sys.stdout.flush()

    def use(client: UpdateClient) -> None:
        for number in range(calls // clients):
            if ended.is_set():
                return
            client.call(number)
            time.sleep(pause_ms / 1000)

    threads = [threading.Thread(target=use, args=(client,)) for client in group]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes: Counter[str] = Counter()
    for client in group:
        outcomes.update(client.outcomes)
    return {
        "outcomes": dict(sorted(outcomes.items())),
        "failures": [line for client in group for line in client.failures],
        "slowest_s": max(client.slowest_s for client in group),
        "substituted": sum(client.substituted for client in group),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], *map(int, sys.argv[2:]))) + "\n")
