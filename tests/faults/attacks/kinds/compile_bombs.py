"""Attack with models that take minutes to compile, for clients that disconnect early."""

from typing import Any

from faults.attacks.attack import Attack
from support.daemon.raw_client import RawClient, closed
from support.models.hostile import chain

_OPERATIONS = 5000
_CLIENTS = 5
_MAX_STALL_S = 6.0


class CompileBombs(Attack):
    """Five clients that compile long chains concurrently, and leave before completion."""

    name = "compile bombs"

    def start(self) -> None:
        self._model = chain(self.scaled(_OPERATIONS))
        self._calls: dict[RawClient, Any] = {
            RawClient.opened(self.target.address): None for _ in range(_CLIENTS)
        }

    def step(self) -> None:
        for client, call in self._calls.items():
            if call is None or call.done():
                self._calls[client] = client.begin_prepare(self._model, timeout_s=_MAX_STALL_S)
                self.outcomes["preparations"] += 1

    def stop(self) -> None:
        closed(*self._calls)
