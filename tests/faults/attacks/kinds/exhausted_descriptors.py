"""Attack with sessions and memories that use up the daemon's descriptors."""

from faults.attacks.attack import Attack
from support.daemon.raw_client import RawClient, closed

from neurald.hal.errors import ResultCode

_DESCRIPTORS = 256
_MEMORIES = 100
_PAGE_BYTES = 4096
_REFUSALS = (ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, ResultCode.RESOURCE_EXHAUSTED_PERSISTENT)


class ExhaustedDescriptors(Attack):
    """Clients that connect until they are refused, and hold their resources."""

    name = "exhausted descriptors"
    descriptors = _DESCRIPTORS
    most_ratio = 1.5

    def start(self) -> None:
        self._clients: list[RawClient] = []

    def step(self) -> None:
        if len(self._clients) > _DESCRIPTORS:
            self.expect(False, "sessions are opened without an end")
            return
        try:
            client = RawClient.opened(self.target.address)
        except OSError as error:
            self.outcomes["clients turned away"] += 1
            self.expect("descriptors" in str(error) or "sessions" in str(error), f"a client is told: {error}")
            if self._clients:
                self._take(self._clients[-1])
            return
        self._clients.append(client)
        self._take(client)

    def _take(self, client: RawClient) -> None:
        for _ in range(self.scaled(_MEMORIES)):
            try:
                answer = client.give_memory(_PAGE_BYTES)
            except OSError as error:
                self.expect(False, f"a client that has a session is cut off: {error}")
                return
            self.outcomes[f"memories: {ResultCode(answer.code).name}"] += 1
            if answer.code:
                self.expect(answer.code in _REFUSALS, f"a memory is refused with {answer}")
                return

    def stop(self) -> None:
        closed(*self._clients)
