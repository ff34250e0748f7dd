"""Takes the answer of a daemon to an execution whose calls carry their data."""

from collections.abc import Sequence

from neurald._proto import device_pb2
from neurald.hal.errors import BadData, OpFailed, ResourceExhaustedPersistent
from neurald.hal.memory.pool import Memory
from neurald.hal.rpc.transport.call_times import LatestTimes
from neurald.hal.rpc.transport.data_chunks import Unpacker
from neurald.hal.rpc.transport.data_message import decode


class CarriedAnswer:
    """The messages of one answer, whose chunks are written to memories as they arrive.

    Args:
        results: the results to write to, in order; they stay as they are if outputs do not fit.
        place: the place of the daemon, for errors.
        times: where to note the times of the request; None if none are wanted.
    """

    def __init__(self, results: Sequence[Memory], place: str, times: LatestTimes | None = None) -> None:
        self._unpacker = Unpacker(results)
        self._place = place
        self._reply: device_pb2.ExecuteReply | None = None
        self._times = times

    def take(self, data: bytes) -> bool:
        """Takes a message; returns whether it was the last one.

        Raises:
            OpFailed: it is not valid.
        """
        try:
            message = decode(device_pb2.ExecuteWithDataReply, data)
            for chunk in message.chunks:
                self._unpacker.add(chunk)
        except (BadData, ResourceExhaustedPersistent) as error:
            raise OpFailed(f"invalid reply from the daemon at {self._place}: {error}") from None
        if self._reply is None:
            self._reply = message.head.reply
            if self._times is not None:
                self._times.note(self._reply.times)
        return self._is_complete(self._reply)

    def _is_complete(self, reply: device_pb2.ExecuteReply) -> bool:
        is_sufficient = all(shape.sufficient for shape in reply.output_shapes)
        return self._unpacker.is_complete or not is_sufficient

    @property
    def reply(self) -> device_pb2.ExecuteReply:
        """The result of the execution.

        Raises:
            OpFailed: messages are missing.
        """
        if self._reply is None or not self._is_complete(self._reply):
            raise OpFailed(f"invalid reply from the daemon at {self._place}: results are missing")
        return self._reply
