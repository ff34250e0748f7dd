"""Bursts on a device in a daemon on this host: each has a ring of its own."""

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import BadState
from neurald.hal.model.request import Request
from neurald.hal.process.threads.exclusive_use import ExclusiveUse
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.rings.ring import RemoteModel, Ring, is_for_rings


class RemoteBurst:
    """Implements `neurald.hal.device.Burst` for a prepared model in a daemon on this host.

    Other executions of the same connection share rings. A burst keeps a ring, and all memories that
    its requests use, until it is closed.

    Args:
        prepared_model: whose executions these are; runs the requests that a ring cannot take.
        connection: the connection to the daemon.
        model: the prepared model in the daemon.

    Raises:
        DeadObject: the daemon is gone.
        Error: the daemon refuses the ring.
    """

    def __init__(self, prepared_model: PreparedModel, connection: Connection, model: RemoteModel) -> None:
        self._prepared_model = prepared_model
        self._model = model
        self._connection = connection
        self._ring = Ring(connection)
        self._use = ExclusiveUse()
        self._is_closed = False

    @property
    def slots_assigned(self) -> int:
        """The number of memories that were sent to the daemon so far."""
        return self._ring.slots_assigned

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `Burst.execute`.

        Raises:
            BadState: another thread uses the burst, or the daemon has not finished an execution
                that was late or cancelled.
            Error: see `PreparedModel.execute`.
        """
        user = object()
        try:
            if not self._use.begin(user):
                raise BadState("the burst is executing; it runs one request at a time")
            ring = self._ring
            if ring.was_interrupted and not self._is_closed:
                ring.shut_down()
                self._ring = ring = Ring(self._connection)
            ring.settle(options)
            # A submission cannot hold attributes.
            if options.attributes or not (ring.knows(request) or is_for_rings(request)):
                return self._prepared_model.execute(request, options)
            return ring.run(ring.bind(self._model, request, options), options)
        finally:
            if self._use.user is user:
                self._use.user = None
                if self._is_closed:
                    self.close()

    def close(self) -> None:
        """See `Burst.close`. An execution under way ends with DeadObject."""
        self._is_closed = True
        self._ring.shut_down()
        user = object()
        try:
            if self._use.begin(user):
                self._ring.close()
        finally:
            if self._use.user is user:
                self._use.user = None
