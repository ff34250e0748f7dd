"""A request whose end is reported by a call, for transports that need no task for each of them."""

import threading
from collections.abc import Callable
from functools import partial

from neurald.service.inference.models.model_interface import Encode
from neurald.service.inference.models.requests.job import InferenceJob, failure_reason
from neurald.service.inference.models.runs.immediate_run import ImmediateRun
from neurald.service.inference.models.runs.known_run import BegunRun, NoteKnown
from neurald.service.inference.models.served_version import ServedVersion
from neurald.service.inference.models.statistics.statistics import FailureReason
from neurald.service.inference.protocol.tensors import InferenceRequest
from neurald.service.inference.server.tracing.traces import RequestTrace, RequestTraces


class DirectRun:
    """A request whose end is reported by a call. Implements `JobEnd`.

    It is begun by `begin_at_once` in a thread of the transport, or by `begin` in the event loop.
    Any thread may end it, one of them does. When it has ended, nothing of it refers to itself, so
    that its memory is free at once.

    Args:
        request, ended: see `Calls.begin`.
        traces: the traces of requests.
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
        self._lock = threading.Lock()
        self._is_done = False
        self._trace: RequestTrace | None = None
        self._version: ServedVersion | None = None
        #: The request in the queue or in a run, while it is there.
        self._job: InferenceJob | None = None
        #: The run in a thread of the transport, while it is under way.
        self._immediate: ImmediateRun | None = None

    def begin_at_once(
        self,
        version: ServedVersion,
        encode: Encode,
        timeout_s: float | None,
        begun: BegunRun | None = None,
        note_known: NoteKnown | None = None,
    ) -> bool:
        """Takes a lane for it, for `run_at_once`; returns False if it has to be begun in the loop.

        Args:
            version: the version of the model.
            encode, timeout_s: see `Calls.begin`.
            begun, note_known: see `ServedVersion.begin_at_once`. A run that was begun goes on.

        Raises:
            ServiceError: the request is not valid.
        """
        if begun is None and (self._traces.settings.is_on or self._is_done):
            return False
        immediate = version.begin_at_once(self._request, encode, timeout_s, self, begun, note_known)
        if immediate is None:
            return False
        self._version, self._job, self._immediate = version, immediate.job, immediate
        return True

    def run_at_once(self, will_wait: Callable[[], None]) -> Callable[[], None] | None:
        """Runs it in this thread; returns None if it has ended, else what the event loop has to do.

        Args:
            will_wait: see `ImmediateRun.run`.
        """
        immediate, version = self._immediate, self._version
        assert immediate is not None  # noqa: S101 - `begin_at_once` has returned True
        assert version is not None  # noqa: S101 - the same
        again = immediate.run(will_wait)
        self._immediate = None
        return None if again is None else partial(version.run_again, immediate.job, again)

    def begin(self, version: ServedVersion, encode: Encode, timeout_s: float | None) -> None:
        """Begins to run it; see `Calls.begin`."""
        note_run = None
        if self._traces.settings.is_on:
            self._trace = self._traces.begin(self._request, version.version)
            note_run = None if self._trace is None else self._trace.note_run
        job = version.begin(self._request, encode, timeout_s, self, note_run)
        if job.is_over:
            # It ended before its deadline was set.
            version.note_end(job, FailureReason.OTHER)
        else:
            self._version, self._job = version, job

    def abandon(self) -> bool:
        """Ends it early; returns False if it has ended. Any thread may call it."""
        if not self.cancel():
            return False
        immediate, version, job = self._immediate, self._version, self._job
        if version is not None and job is not None:
            if immediate is not None:
                immediate.cancel()
            else:
                version.abandon(job)
            version.note_end(job, FailureReason.CANCELED)
        self._release()
        return True

    def fail(self, error: Exception) -> None:
        """Tells that it could not be begun, unless it has ended."""
        if self.cancel():
            self._release()
            self._tell(None, error)

    # What `JobEnd` has.

    def done(self) -> bool:
        """See `JobEnd.done`."""
        return self._is_done

    def set_result(self, result: object) -> None:
        """See `JobEnd.set_result`."""
        if self.cancel():
            self._finish(result, None)

    def set_exception(self, error: Exception) -> None:
        """See `JobEnd.set_exception`."""
        if self.cancel():
            self._finish(None, error)

    def cancel(self) -> bool:
        """See `JobEnd.cancel`. Returns False if it has ended."""
        with self._lock:
            was_done, self._is_done = self._is_done, True
        return not was_done

    def _finish(self, answer: object, error: Exception | None) -> None:
        if self._version is not None and self._job is not None:
            failure = None if error is None else failure_reason(self._job, error)
            self._version.note_end(self._job, failure)
        self._release()
        self._tell(answer, error)

    def _release(self) -> None:
        """Lets the regions of its tensors go, and writes its trace."""
        self._job = None
        self._request.release()
        if self._trace is not None:
            self._traces.end(self._trace)
