"""Bursts on a device in a daemon on this host: each has a ring of its own."""

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import BadState
from neurald.hal.model.types import Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.rings.ring import RemoteModel, Ring, is_for_rings


class RemoteBurst:
    """Implements `neurald.hal.device.Burst` for a prepared model in a daemon on this host.

    Other executions of the same connection share rings. A burst keeps a ring, and all memories that
    its requests use, until it is closed.

    Args:
        prepared_model: whose executions these are; runs the requests that a ring cannot take.
        connection: to the daemon.
        model: the prepared model in the daemon.

    Raises:
        DeadObject: the daemon is gone.
        Error: the daemon refuses the ring.
    """

    def __init__(self, prepared_model: PreparedModel, connection: Connection, model: RemoteModel) -> None:
        self._prepared_model = prepared_model
        self._model = model
        self._ring = Ring(connection)
        self._lock = forkable_lock()

    @property
    def slots_assigned(self) -> int:
        """How many memories were sent to the daemon so far."""
        return self._ring.slots_assigned

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `Burst.execute`.

        Raises:
            BadState: another thread uses the burst, or the daemon has not finished an execution
                that was late or cancelled.
            Error: see `PreparedModel.execute`.
        """
        if not self._lock.acquire(blocking=False):
            raise BadState("the burst is executing; it runs one request at a time")
        try:
            ring = self._ring
            ring.settle(options)
            # A submission cannot hold attributes.
            if options.attributes or not (ring.knows(request) or is_for_rings(request)):
                return self._prepared_model.execute(request, options)
            return ring.run(ring.bind(self._model, request, options.deadline_s), options)
        finally:
            self._lock.release()

    def close(self) -> None:
        """See `Burst.close`. An execution under way ends with DeadObject."""
        self._ring.shut_down()
        with self._lock:
            self._ring.close()
