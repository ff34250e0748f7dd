"""Attack with fences on eventfds that block writers."""

import os
import time

from faults.attacks.attack import Attack
from support.daemon.peer import CONSTANT
from support.daemon.raw_client import FENCE, RawClient, closed
from support.models.addition import addition

from neurald._proto import device_pb2

#: Largest counter value: one more, and a write blocks.
_FULL = (1 << 64) - 2
_FENCES = 600
_AT_ONCE = 20
_ADDED = CONSTANT.nbytes


class BlockingFences(Attack):
    """Fenced executions that must signal a full, blocking fence."""

    name = "blocking fences"

    def start(self) -> None:
        self._client = RawClient.opened(self.target.address)
        self._handle = self._client.prepare(addition(CONSTANT))
        self._left = self.scaled(_FENCES)

    def step(self) -> None:
        if not self._left:
            time.sleep(0.05)  # its leftovers do the harm
            return
        for _ in range(min(_AT_ONCE, self._left)):
            self._left -= 1
            self._execute()

    def _execute(self) -> None:
        fence = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            os.eventfd_write(fence, _FULL)
            message = self._client.execution(self._handle, (_ADDED,), (_ADDED,))
            fenced = device_pb2.ExecuteFencedRequest(
                prepared_model=self._handle,
                request=message.request,
                options=message.options,
                fence=self._client.token(0, FENCE, fence),
            )
            reply = self._client.call("ExecuteFenced", fenced)
            self.outcomes[reply.status] += 1
            if reply.is_ok:
                self._settle(device_pb2.ExecuteFencedReply.FromString(reply.data).execution)
        finally:
            os.close(fence)

    def _settle(self, execution: int) -> None:
        message = device_pb2.GetFencedExecutionInfoRequest(execution=execution)
        end = time.monotonic() + 10
        while not self._client.call("GetFencedExecutionInfo", message).is_ok:
            if time.monotonic() > end:
                self.expect(False, "a fenced execution is not over after 10 s")
                return
            time.sleep(0.002)

    def stop(self) -> None:
        closed(self._client)
