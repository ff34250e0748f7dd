"""A request whose end is told by a call, for transports that need no task for each of them."""

from collections.abc import Callable

from neurald.service.inference.models.job import DirectEnd, InferenceJob
from neurald.service.inference.models.served_version import Encode, ServedVersion
from neurald.service.inference.protocol.tensors import InferenceRequest
from neurald.service.inference.server.traces import RequestTrace, RequestTraces


class DirectRun:
    """A request whose end is told by a call.

    Args:
        request, ended: see `Calls.begin`.
        traces: of requests.
    """

    def __init__(
        self,
        request: InferenceRequest,
        traces: RequestTraces,
        ended: Callable[[object, Exception | None], None],
    ) -> None:
        self._request = request
        self._traces = traces
        self._tell = ended
        self._end = DirectEnd(self._ended)
        self._trace: RequestTrace | None = None
        self._version: ServedVersion | None = None
        self._job: InferenceJob | None = None

    def begin(self, version: ServedVersion, encode: Encode, timeout_s: float | None) -> None:
        """Begins to run it; see `Calls.begin`."""
        note_run = None
        if self._traces.settings.is_on:
            self._trace = self._traces.begin(self._request, version.version)
            note_run = None if self._trace is None else self._trace.note_run
        job = version.begin(self._request, encode, timeout_s, self._end, note_run)
        self._version, self._job = version, job
        if job.is_over:
            # It ended before its deadline was set.
            version.note_end(job, is_failed=True)

    def abandon(self) -> bool:
        """Ends it early; returns False if it has ended."""
        if self._end.done() or self._version is None or self._job is None:
            return False
        self._end.cancel()
        self._version.abandon(self._job)
        self._version.note_end(self._job, is_failed=False)
        self.release()
        return True

    def fail(self) -> None:
        """Notes that it could not be begun."""
        self._end.cancel()
        self.release()

    def release(self) -> None:
        """Lets the regions of its tensors go, and writes its trace."""
        self._request.release()
        if self._trace is not None:
            self._traces.end(self._trace)

    def _ended(self, answer: object, error: Exception | None) -> None:
        if self._version is not None and self._job is not None:
            self._version.note_end(self._job, is_failed=error is not None)
        self.release()
        self._tell(answer, error)
