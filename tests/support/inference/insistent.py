"""Clients that get every call answered by an execution service, and repeat it if needed."""

import http.client
import random
import threading
import time
from collections.abc import Mapping

import numpy as np
from support.inference.ways import CALL_S, Way
from support.waiting import wait_until
from tritonclient.utils import InferenceServerException

from neurald.hal.errors import DeadObject, UnavailableDevice

#: Answers after which a call may be made again: the service, or its worker, is gone or does not
#: answer.
_REPEATED = ("StatusCode.UNAVAILABLE", "StatusCode.CANCELLED", "StatusCode.DEADLINE_EXCEEDED", "503")
#: The same in answers that have no status: of a stream, and of a service that does not know the
#: client's region or stream, because another one did.
_REPEATED_TEXTS = (
    "is not at ready state",
    "is not ready",
    "Unable to find shared memory region",
    "The stream is no longer in valid state",
)
_PAUSE_S = 0.02


def example() -> "np.ndarray[tuple[int, ...], np.dtype[np.int32]]":
    """Returns an input like those that clients draw."""
    return np.zeros((1, 4), np.int32)


class InsistentClients:
    """One client for each way, until they are told to stop.

    The model returns its input.

    Args:
        ways: see `support.inference.ways`.
        seed: determines the inputs.

    Attributes:
        answered: how many calls each has made, by the name of its way.
        repeated: how often it has made one again.
        wrong, lost: what went wrong.
    """

    def __init__(self, ways: Mapping[str, Way], seed: int = 0) -> None:
        self.answered = dict.fromkeys(ways, 0)
        self.repeated = dict.fromkeys(ways, 0)
        self.wrong: list[str] = []
        self.lost: list[str] = []
        self._seed = seed
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._use, args=each, name=each[0], daemon=True) for each in ways.items()
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when all clients have ended."""
        self._done.set()
        for thread in self._threads:
            thread.join(3 * CALL_S)
            if thread.is_alive():
                self.lost.append(f"{thread.name}: hangs")

    def wait_for_more(self, count: int) -> None:
        """Waits until each client has this many more answers, or a call was lost."""
        before = dict(self.answered)
        wait_until(
            lambda: self.lost or all(now >= before[way] + count for way, now in self.answered.items()),
            2 * CALL_S,
        )

    def _use(self, name: str, way: Way) -> None:
        chance = random.Random(f"{name} {self._seed}")
        x = example()
        end_s: float | None = None
        while not self._done.is_set():
            try:
                with way() as call:
                    while not self._done.is_set():
                        if end_s is None:
                            x = np.array([[chance.randrange(1000) for _ in range(4)]], np.int32)
                            end_s = time.monotonic() + CALL_S
                        y = call(x)
                        end_s = None
                        self.answered[name] += 1
                        if y.ravel().tolist() != x.ravel().tolist():
                            self.wrong.append(f"{name}: {y.tolist()} for {x.tolist()}")
            except Exception as error:
                if not _may_repeat(error):
                    self.wrong.append(f"{name}: {type(error).__name__}: {error}")
            self.repeated[name] += 1
            if end_s is not None and time.monotonic() > end_s:
                self.lost.append(f"{name}: no answer within {CALL_S} s")
                return
            time.sleep(_PAUSE_S)


def _may_repeat(error: Exception) -> bool:
    if isinstance(error, InferenceServerException):
        return error.status() in _REPEATED or any(each in str(error) for each in _REPEATED_TEXTS)
    return isinstance(error, OSError | http.client.HTTPException | DeadObject | UnavailableDevice)
