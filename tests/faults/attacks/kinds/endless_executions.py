"""Attack with endless executions, as many as the daemon accepts."""

from typing import Any

from faults.attacks.attack import Attack
from support.daemon.raw_client import RawClient, closed
from support.models.hostile import ENDLESS_BYTES, endless

_CLIENTS = 2
_EXECUTIONS = 48
_LOOP_S = 15.0


class EndlessExecutions(Attack):
    """Two clients, each with its maximum number of endless executions.

    These use every core at ordinary priority, as they may while nobody else needs them.
    """

    name = "endless executions"

    def start(self) -> None:
        self._clients: list[tuple[RawClient, int, list[Any]]] = []
        for _ in range(_CLIENTS):
            client = RawClient.opened(self.target.address)
            self._clients.append((client, client.prepare(endless()), []))

    def step(self) -> None:
        for client, handle, calls in self._clients:
            calls[:] = [call for call in calls if not call.done()]
            while len(calls) < self.scaled(_EXECUTIONS):
                message = client.execution(handle, ENDLESS_BYTES, ENDLESS_BYTES, loop_timeout_s=_LOOP_S)
                calls.append(client.begin("Execute", message, 60.0))
                self.outcomes["executions"] += 1

    def stop(self) -> None:
        closed(*(client for client, _, _ in self._clients))
