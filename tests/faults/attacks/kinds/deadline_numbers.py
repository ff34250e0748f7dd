"""Attack with time limits that are not finite or overflow clocks, while all executions are busy."""

import contextlib
import math
from typing import Any

from faults.attacks.attack import Attack
from support.daemon.peer import CONSTANT
from support.daemon.raw_client import RawBurst, RawClient, closed, reply_of
from support.models.addition import addition
from support.models.hostile import ENDLESS_BYTES, endless

from neurald._proto import device_pb2

#: Values that mean no limit, and invalid ones. Infinity is omitted on the wire.
_ENDLESS = (1e300, 1e10, 9.3e9)
_REFUSED = (math.nan, math.inf, -1.0, -math.inf)
_ADDED = CONSTANT.nbytes
_CALLS = 32
_LOOP_S = 0.4


class DeadlineNumbers(Attack):
    """Calls and bursts whose limits overflow timed waits."""

    name = "deadline numbers"

    def start(self) -> None:
        self._client = RawClient.opened(self.target.address)
        self._loop = self._client.prepare(endless())
        self._adding = self._client.prepare(addition(CONSTANT))
        self._burst = RawBurst(self._client, self._adding, (_ADDED,), (_ADDED,))

    def step(self) -> None:
        busy = [self._loops() for _ in range(self.scaled(_CALLS))]
        endless = [self._adds(deadline_s=each) for each in _ENDLESS]
        refused = [self._adds(deadline_s=each) for each in _REFUSED]
        self._burst.submit(math.inf)
        self.expect(self._burst.is_done_within(20), "a burst with infinite time left never ends")
        for number, future in zip(_ENDLESS, endless, strict=True):
            reply = reply_of(future)
            self.outcomes[f"{number}: {reply.status}"] += 1
            self.expect(reply.is_ok, f"a deadline of {number} s: {reply}")
        for number, future in zip(_REFUSED, refused, strict=True):
            reply = reply_of(future)
            self.outcomes[f"{number}: {reply.status}"] += 1
            self.expect(not reply.is_ok, f"a deadline of {number} s is taken")
        for number in (math.nan, -1.0):
            self._fenced(number)
        for future in busy:
            reply_of(future)
        self._other_bursts()

    def _loops(self) -> Any:
        return self._client.begin(
            "Execute",
            self._client.execution(self._loop, ENDLESS_BYTES, ENDLESS_BYTES, loop_timeout_s=_LOOP_S),
        )

    def _adds(self, **options: float) -> Any:
        return self._client.begin(
            "Execute", self._client.execution(self._adding, (_ADDED,), (_ADDED,), **options)
        )

    def _fenced(self, number: float) -> None:
        message = self._client.execution(self._adding, (_ADDED,), (_ADDED,))
        fenced = device_pb2.ExecuteFencedRequest(
            prepared_model=self._adding,
            request=message.request,
            options=message.options,
            after_fences_s=number,
        )
        reply = self._client.call("ExecuteFenced", fenced)
        self.expect(not reply.is_ok, f"{number} s after fences are taken")

    def _other_bursts(self) -> None:
        """Submits to bursts that must be closed for it."""
        for left_s, loop_s in ((math.nan, 2.0), (1.0, math.nan), (1.0, -1.0)):
            with contextlib.suppress(ConnectionError):
                self._burst.submit(left_s, loop_s)
            self.expect(self._burst.is_done_within(20), f"a burst with {left_s} s, {loop_s} s never ends")
            self._burst.close()
            self._burst = RawBurst(self._client, self._adding, (_ADDED,), (_ADDED,))

    def stop(self) -> None:
        self._burst.close()
        closed(self._client)
