"""The client's view of a fenced execution in a daemon."""

from neurald._proto import device_pb2
from neurald.hal.device import ExecutionResult, Timing
from neurald.hal.errors import BadData, Error, OpFailed, without_frames
from neurald.hal.execution.fenced_execution import FencedOutcome, result_of
from neurald.hal.memory.pool import Memory
from neurald.hal.process.fork import forkable_lock
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.wire.model import outcome_from_wire
from neurald.hal.sync.fence import Fence


class RemoteFencedExecution:
    """Implements `neurald.hal.device.FencedExecution`.

    Its fence also signals once the client finds that the daemon is gone.

    Args:
        connection: the connection to the daemon.
        handle: the handle of the execution in the daemon.
        fence: the fence that the daemon signals.
        outputs: how many outputs the model has.
        deadline_s: the deadline of the execution.
        memories: used by the daemon; they must live as long as the execution.
    """

    def __init__(
        self,
        connection: Connection,
        handle: int,
        fence: Fence,
        outputs: int,
        deadline_s: float | None,
        memories: tuple[Memory, ...],
    ) -> None:
        self._connection = connection
        self._handle = handle
        self._fence = fence
        self._outputs = outputs
        self._deadline_s = deadline_s
        self._memories = memories
        self._lock = forkable_lock()
        self._outcome: FencedOutcome | None = None

    @property
    def fence(self) -> Fence:
        """See `FencedExecution.fence`."""
        return self._fence

    def result(self) -> ExecutionResult:
        """See `FencedExecution.result`."""
        return result_of(self._settled())

    @property
    def timing_after_fences(self) -> Timing:
        """See `FencedExecution.timing_after_fences`."""
        return self._settled().after_fences

    def _settled(self) -> FencedOutcome:
        with self._lock:
            if self._outcome is None:
                try:
                    self._outcome = self._ask()
                except Error as error:
                    self._outcome = FencedOutcome(error=without_frames(error))
                finally:
                    # Other threads may wait for the fence, and the daemon may be gone without
                    # signalling it.
                    self._fence.signal()
            return self._outcome

    def _ask(self) -> FencedOutcome:
        self._connection.wait_for(self._fence, self._deadline_s)
        message = device_pb2.GetFencedExecutionInfoRequest(execution=self._handle)
        reply = self._connection.call("GetFencedExecutionInfo", message, self._deadline_s)
        try:
            return outcome_from_wire(reply, self._outputs)
        except BadData as error:
            raise OpFailed(f"invalid reply from the daemon: {error}") from None
