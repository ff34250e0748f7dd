"""Traces: `with neurald.trace("calls.json"):` records the work of the library."""

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from neurald.hal.api_arguments import file_path, instance, shown
from neurald.hal.errors import BadData, BadState, Error, OpFailed
from neurald.hal.process.files.output_file import write_output
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.hal.unpicklable import Unpicklable
from neurald.hal.wording import counted
from neurald.runtime.tracing.kernel_spans import with_kernels
from neurald.runtime.tracing.otel import current_span, export, require_exporter
from neurald.runtime.tracing.otlp import otlp_document
from neurald.runtime.tracing.own_time import with_ends
from neurald.runtime.tracing.perfetto import trace_document
from neurald.runtime.tracing.span import Recorder, Span
from neurald.runtime.tracing.trace_points import install

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

#: Suffix of files for collectors of OpenTelemetry.
OTLP_SUFFIX: Final = ".otlp.json"
logger: Final = logging.getLogger(__name__)

_TRACE_ID: Final = re.compile("(?!0{32})[0-9a-f]{32}")

_lock: Final = forkable_lock()
_under_way: list["Trace"] = []


class Trace(Unpicklable):
    """Records the calls of this process, and what daemons on this host do for them.

    A context manager.

    Args:
        path: the file that is written at the end, for Perfetto or chrome://tracing, or with the
            suffix `.otlp.json` for collectors of OpenTelemetry; None for none.
        trace_id: identifies the trace, see below; None for a new one.
        exporter: a `SpanExporter` of OpenTelemetry, to which the spans are passed at the end.

    Attributes:
        trace_id: 32 hexadecimal digits, like those of W3C's trace context.

    Raises:
        BadData: `trace_id` or `exporter` is something else.
    """

    instead_of_pickling = "Pickle its spans, or the file that it writes"

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        trace_id: str | None = None,
        exporter: "SpanExporter | None" = None,
    ) -> None:
        self._parent = 0
        if exporter is not None:
            require_exporter(exporter)
            current = current_span()
            if current is not None and trace_id in (None, current[0]):
                trace_id, self._parent = current
        self._exporter = exporter
        if trace_id is not None and not _TRACE_ID.fullmatch(instance(trace_id, str, "trace_id")):
            raise BadData(f"trace_id is {shown(trace_id)}; 32 hexadecimal digits in lower case are expected")
        self.trace_id = os.urandom(16).hex() if trace_id is None else trace_id
        self._path = None if path is None else file_path(path, "the file of the trace")
        self._recorder = Recorder(os.getpid(), self.trace_id)
        self._uninstall: Callable[[], None] | None = None
        self._spans: list[Span] = []

    def __repr__(self) -> str:
        return f"<Trace {self.trace_id}: {counted(len(self._spans), 'span')}>"

    def __enter__(self) -> "Trace":
        if self._path is not None:
            _require_place(self._path)
        with _lock:
            if _under_way:
                raise BadState("a trace is being taken already; there is one at a time in a process")
            _under_way.append(self)
            self._uninstall = install(self._recorder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _lock:
            if self._uninstall is not None:
                self._uninstall()
                self._uninstall = None
                _under_way.remove(self)
        self._spans = _without_objects(with_kernels(with_ends(self._recorder.spans()), _profile))
        try:
            if self._path is not None:
                self._write(self._path)
            if self._exporter is not None:
                export(self._spans, self.trace_id, self._parent, self._exporter)
        except (BadState, OpFailed) as failure:
            if error is None:
                raise
            # The error of the block matters more.
            logger.warning("the trace %s is lost: %s", self.trace_id, failure)

    def _write(self, path: Path) -> None:
        if path.name.endswith(OTLP_SUFFIX):
            document = otlp_document(self._spans, self.trace_id)
        else:
            document = trace_document(self._spans, self.trace_id, self._recorder.dropped)
        try:
            write_output(path, document)
        except OSError as error:
            raise _unwritable(path, error.strerror or str(error)) from None

    @property
    def spans(self) -> Sequence[Span]:
        """The spans, once the trace has ended."""
        return tuple(self._spans)

    def coverage(self) -> float:
        """Returns the share of the time of calls that spans inside of them cover, from 0 to 1.

        The time of a call is that from its begin to the end of what it leaves to other threads.
        """
        total = covered = 0
        for call, spans in _by_call(self._spans).items():
            roots = [each for each in spans if each.category == "call"]
            if not call or not roots:
                continue
            begun, ended = min(each.start_ns for each in roots), max(each.end_ns for each in roots)
            inside = sorted(
                (max(each.start_ns, begun), min(each.end_ns, ended))
                for each in spans
                if each.category != "call"
            )
            total += ended - begun
            end = begun
            for first, last in inside:
                covered += max(0, last - max(first, end))
                end = max(end, last)
        return covered / total if total else 0.0


def trace(
    path: str | os.PathLike[str] | None = None,
    *,
    trace_id: str | None = None,
    exporter: "SpanExporter | None" = None,
) -> Trace:
    """Records what the library does during a `with` block.

    Args:
        path: the file that is written at the end, for https://ui.perfetto.dev or chrome://tracing;
            with the suffix `.otlp.json` for collectors of OpenTelemetry.
        trace_id: the id of a trace that this one is part of, as 32 hexadecimal digits; None for a
            new one.
        exporter: a `SpanExporter` of OpenTelemetry, to which the spans are passed at the end. If
            OpenTelemetry records a span in this thread, the trace becomes a part of it.

    Raises:
        BadData: `trace_id` or `exporter` is something else, or OpenTelemetry is not installed.
        BadState: when the block is entered while another trace is taken, or the file has no folder;
            when the block ends, and the file cannot be written, of which none is left then.
        OpFailed: when the block ends, and the exporter fails.
    """
    return Trace(path, trace_id=trace_id, exporter=exporter)


def _require_place(path: Path) -> None:
    """Checks that there is a folder for a file, so that the trace of long work is not lost."""
    folder = path.absolute().parent
    try:
        is_folder = path.is_dir()
        has_folder = is_folder or folder.is_dir()
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None
    if not has_folder:
        raise _unwritable(path, f"there is no folder {folder}")
    if is_folder:
        raise _unwritable(path, "it is a folder; a file name is expected")


def _unwritable(path: Path, reason: str) -> BadState:
    return BadState(f"the trace {path}: {reason}")


def _by_call(spans: Sequence[Span]) -> dict[int, list[Span]]:
    found: dict[int, list[Span]] = {}
    for span in spans:
        found.setdefault(span.call, []).append(span)
    return found


def _profile(compilation: Any) -> Sequence[Any]:
    try:
        found: Sequence[Any] = compilation.profile()
    except (Error, ReferenceError):
        return ()
    return found


def _without_objects(spans: Sequence[Span]) -> list[Span]:
    """Removes the objects that were kept to find kernels."""
    return [
        replace(span, details=_plain(span.details)) if any(map(_is_private, span.details)) else span
        for span in spans
    ]


def _is_private(key: str) -> bool:
    return key.startswith("_")


def _plain(details: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in details.items() if not _is_private(key)}
