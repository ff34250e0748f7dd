"""Client under fault injection, whose calls must end in time with a correct result or a known
error.
"""

import random
import threading
import time
from collections import Counter

import numpy as np
from support.models.addition import addition, request

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel

#: Time limit of a call, and the tolerance for a busy machine.
CALL_S = 5.0
SLACK_S = 10.0
#: The longest pause between two calls: without pauses, no time is left for faults.
PAUSE_S = 0.03
#: A pause after an error, which leaves the daemon time to recover.
_ERROR_PAUSE_S = 0.02
WAYS = ("sync", "grpc", "burst", "fenced")


class Client:
    """Calls until stopped. `outcomes` counts the outcomes, `wrong` lists failures.

    Args:
        address: of the daemon.
        seed: determines the calls and their numbers.
    """

    def __init__(self, address: str, seed: int) -> None:
        self._address = address
        self._random = random.Random(seed)
        self._seed = seed
        self._device: RemoteDevice | None = None
        self._prepared: RemotePreparedModel | None = None
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, stop: threading.Event) -> None:
        """Calls until `stop` is set, then disconnects."""
        while not stop.wait(self._random.uniform(0.0, PAUSE_S)):
            self.call()
        self.close()

    def close(self) -> None:
        """Disconnects."""
        self._prepared = None
        if self._device is not None:
            self._device.close()
        self._device = None

    def call(self) -> None:
        """Makes one call, after connecting if necessary."""
        way = self._random.choice(WAYS)
        started = time.monotonic()
        try:
            self._execute(way)
            self.outcomes[f"{way}: right"] += 1
        except Error as error:
            self.outcomes[f"{way}: {error.code.name}"] += 1
            self._prepared = None
            time.sleep(_ERROR_PAUSE_S)
        except Exception as error:  # any other exception is a failure
            self.wrong.append(f"{way}: {type(error).__name__}: {error}")
            self._prepared = None
        elapsed = time.monotonic() - started
        if elapsed > CALL_S + SLACK_S:
            self.wrong.append(f"{way}: it took {elapsed:.1f} s")

    def _execute(self, way: str) -> None:
        constant = np.full((3, 50), self._seed, np.float32)
        if self._device is None:
            self._device = connect(self._address)
        deadline_s = time.monotonic() + CALL_S
        if self._prepared is None:
            options = PrepareOptions(deadline_s=deadline_s)
            self._prepared = self._device.prepare_model(addition(constant), options)
        values = np.full(constant.shape, self._random.randint(0, 1 << 20), np.float32)
        result = np.zeros_like(values)
        bound, options_now = request(values, result), ExecuteOptions(deadline_s=deadline_s)
        if way == "sync":
            self._prepared.execute(bound, options_now)
        elif way == "grpc":
            self._prepared.call(bound, options_now)
        elif way == "fenced":
            self._prepared.execute_fenced(bound, (), options_now).result()
        else:
            burst = self._prepared.create_burst()
            try:
                burst.execute(bound, options_now)
            finally:
                burst.close()
        if not np.array_equal(result, values + constant):
            self.wrong.append(f"{way}: {result.flat[0]}; {values.flat[0] + self._seed} is right")
