"""Attack by clients without the token of a TCP daemon, like any other user of the host."""

import os
import secrets

from faults.attacks.attack import Attack
from support.daemon.peer import CONSTANT
from support.daemon.raw_client import OPTIONS, RawClient, closed
from support.models.addition import addition

from neurald._proto import device_pb2
from neurald.hal.rpc.wire.model import model_to_wire

#: Metadata of guesses.
_GUESSES = ((), (("authorization", "Bearer " + secrets.token_hex(32)),), (("neurald-token", "0" * 64),))


class ForeignUsers(Attack):
    """Requests for sessions, models and status without the token, or with a wrong one."""

    name = "foreign users"
    listen = "127.0.0.1:0"

    def start(self) -> None:
        self._clients = [RawClient(self.target.address, guess) for guess in _GUESSES]

    def step(self) -> None:
        for client in self._clients:
            try:
                client.open()
            except OSError:
                self.outcomes["turned away"] += 1
            else:
                self.outcomes["sessions"] += 1
                self.expect(False, "a client without the token has a session")
            reply = client.call(
                "PrepareModel",
                device_pb2.PrepareModelRequest(
                    model=model_to_wire(addition(CONSTANT), [os.urandom(16)]), options=OPTIONS
                ),
            )
            self.outcomes[reply.status] += 1
            self.expect(not reply.is_ok, "a client without the token prepares models")
            reply = client.call("GetStatus")
            self.expect(not reply.is_ok, "a client without the token sees the status")

    def stop(self) -> None:
        closed(*self._clients)
