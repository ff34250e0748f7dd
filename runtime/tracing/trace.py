"""Traces: `with neurald.trace("calls.json"):` records what the library does."""

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from neurald.hal.errors import BadState, Error
from neurald.hal.records import replace
from neurald.runtime.tracing.kernel_spans import with_kernels
from neurald.runtime.tracing.perfetto import trace_document
from neurald.runtime.tracing.span import Recorder, Span
from neurald.runtime.tracing.trace_points import install

_lock: Final = threading.Lock()
_under_way: list["Trace"] = []


class Trace:
    """Records the calls of this process, and what daemons on this host do for them. A context manager.

    Args:
        path: the file that is written at the end, for Perfetto or chrome://tracing; None for none.

    Attributes:
        trace_id: identifies the trace, as 32 hexadecimal digits, like those of W3C's trace context.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.trace_id = secrets.token_hex(16)
        self._path = None if path is None else Path(path)
        self._recorder = Recorder(os.getpid())
        self._uninstall: Callable[[], None] | None = None
        self._spans: list[Span] = []

    def __enter__(self) -> "Trace":
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
        self._spans = _without_objects(with_kernels(self._recorder.spans(), _profile))
        if self._path is not None:
            self._path.write_bytes(trace_document(self._spans, self.trace_id, self._recorder.dropped))

    @property
    def spans(self) -> Sequence[Span]:
        """The spans, once the trace has ended."""
        return tuple(self._spans)

    def coverage(self) -> float:
        """Returns the share of the time of executions that spans inside of them cover, from 0 to 1."""
        total = covered = 0
        for call, spans in _by_call(self._spans).items():
            roots = [each for each in spans if each.category == "call"]
            if not call or not roots or not any(each.category in ("step", "device") for each in spans):
                continue
            root = max(roots, key=lambda each: each.end_ns - each.start_ns)
            inside = sorted(
                (max(each.start_ns, root.start_ns), min(each.end_ns, root.end_ns))
                for each in spans
                if each.category != "call"
            )
            total += root.end_ns - root.start_ns
            end = root.start_ns
            for first, last in inside:
                covered += max(0, last - max(first, end))
                end = max(end, last)
        return covered / total if total else 0.0


def trace(path: str | os.PathLike[str] | None = None) -> Trace:
    """Records what the library does during a `with` block.

    Args:
        path: the file that is written at the end, for https://ui.perfetto.dev or chrome://tracing.

    Raises:
        BadState: when the block is entered while another trace is taken.
    """
    return Trace(path)


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
    return [replace(span, details=_plain(span.details)) for span in spans]


def _plain(details: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in details.items() if not key.startswith("_")}
