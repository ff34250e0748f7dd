"""Long-running client that prepares models, executes them in every way, drops them, and reconnects.

python -m faults.soak.soak_client ADDRESS SEED LOAD
"""

import json
import random
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
from faults.proc import input_ends
from support.models.small import add_model

import neurald as nd

#: Number of models of a client, and the shares of actions that replace one, or the connection.
_MODELS = 4
_REPLACED = 0.05
_RECONNECTED = 0.01
_LENGTHS = tuple(range(8, 512, 24))
_DEPTHS = (1, 2, 3, 5)


class _Program:
    """Compiled model: `first + depth * second`."""

    def __init__(self, device: nd.Device, length: int, depth: int) -> None:
        builder = nd.CompilationBuilder(add_model((length,), depth), [device])
        builder.set_caching(None)
        self.compilation = builder.finish()
        self.burst = self.compilation.create_burst()
        self.length, self.depth = length, depth

    def close(self) -> None:
        self.burst.close()


class SoakClient:
    """Client that acts for a share of its time.

    Args:
        address: of the daemon.
        seed: determines its actions.
        load: the share of time in which it keeps the daemon busy.
    """

    def __init__(self, address: str, seed: int, load: float) -> None:
        self._address = address
        self._random = random.Random(seed)
        self._load = load
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._connect()

    def _connect(self) -> None:
        self._device = nd.connect(self._address)
        self._programs = [self._prepared() for _ in range(_MODELS)]

    def _prepared(self) -> _Program:
        self.outcomes["prepared"] += 1
        return _Program(self._device, self._random.choice(_LENGTHS), self._random.choice(_DEPTHS))

    def act(self) -> None:
        """Performs one action, and pauses in proportion to its duration."""
        began = time.monotonic()
        draw = self._random.random()
        if draw < _RECONNECTED:
            self._reconnect()
        elif draw < _RECONNECTED + _REPLACED:
            place = self._random.randrange(_MODELS)
            self._programs[place].close()
            self._programs[place] = self._prepared()
        else:
            self._execute(self._random.choice(self._programs))
        time.sleep((time.monotonic() - began) * (1 - self._load) / self._load)

    def _reconnect(self) -> None:
        self.close()
        self._connect()
        self.outcomes["reconnected"] += 1

    def _execute(self, program: _Program) -> None:
        first = np.full((program.length,), self._random.randrange(1000), np.float32)
        second = np.full((program.length,), self._random.randrange(1000), np.float32)
        result = np.full((program.length,), -1, np.float32)
        execution = nd.Execution(program.compilation)
        execution.set_input(0, first)
        execution.set_input(1, second)
        execution.set_output(0, result)
        way = self._random.choice(("call", "burst", "fenced"))
        if way == "fenced":
            execution.start_compute_with_dependencies([]).wait(60)
        else:
            execution.compute(burst=program.burst if way == "burst" else None)
        self.outcomes[way] += 1
        if not np.array_equal(result, first + program.depth * second):
            self.wrong.append(f"{way}: {result[0]}; {first[0] + program.depth * second[0]} is right")
        if program.compilation.recovery.substitutions:
            self.wrong.append("the CPU stood in for the daemon")

    def close(self) -> None:
        """Disconnects."""
        for program in self._programs:
            program.close()
        self._programs.clear()
        self._device.close()


def main(address: str, seed: str, load: str) -> dict[str, Any]:
    """Acts until its input ends; returns the report."""
    client = SoakClient(address, int(seed), float(load))
    ended = input_ends()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not ended.is_set() and not client.wrong:
        client.act()
    client.close()
    return {"outcomes": dict(client.outcomes), "wrong": client.wrong}


if __name__ == "__main__":
    report = json.dumps(main(*sys.argv[1:]))
    sys.stdout.write(report + "\n")
