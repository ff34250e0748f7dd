"""Traces of single requests, in the format of Triton's trace files.

A file is an array of JSON objects, and is one after each trace. Traces, what waits to be written,
files and their number are bounded, since clients decide what is traced.
"""

import contextlib
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from neurald.hal.errors import BadState
from neurald.hal.lanes.byte_strings import decode_byte_strings
from neurald.hal.lanes.packets import BYTES, type_named
from neurald.hal.open_file_limit import system_reason
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.service.inference.models.requests.job import JobOutput, RunRecord
from neurald.service.inference.protocol.element_types import datatype_of, kind_of_datatype
from neurald.service.inference.protocol.tensors import InferenceRequest
from neurald.service.inference.server.tracing.trace_settings import (
    TENSORS,
    TIMESTAMPS,
    Changes,
    TraceSettings,
)
from neurald.service.manager.settings.service_configuration import TraceConfiguration

logger = logging.getLogger(__name__)

#: The largest file of traces, and what a process writes to all of them.
_MAX_FILE_BYTES: Final = 64 << 20
_MAX_BYTES: Final = 1 << 30
_MAX_FILES: Final = 1000
#: What waits for more traces of the same file.
_MAX_WAITING_BYTES: Final = 1 << 20
#: The most bytes of tensors in a trace that goes to a file, or to the log.
_MAX_TENSOR_BYTES: Final = 1 << 20
_MAX_LOGGED_BYTES: Final = 1 << 14
#: The most text of the parameters of a request in a trace.
_MAX_PARAMETER_BYTES: Final = 1 << 12
#: Closes the array of a file.
_END: Final = b"]\n"
_ENCODER: Final = msgspec.json.Encoder()


class RequestTrace:
    """The trace of one request.

    Args:
        number: the number of the trace.
        request: the request that is traced.
        version: the version of the model.
        levels: what is noted.
        tensor_bytes: how many bytes of tensors are noted; tensors that would exceed them are left
            out.
    """

    def __init__(
        self,
        number: int,
        request: InferenceRequest,
        version: int,
        levels: Sequence[str],
        tensor_bytes: int = _MAX_TENSOR_BYTES,
    ) -> None:
        self.model = request.model
        self._tensor_bytes = tensor_bytes
        self._number = number
        self._levels = levels
        self._times: list[tuple[str, int]] = [("REQUEST_START", time.perf_counter_ns())]
        self._entries: list[dict[str, Any]] = [
            {"id": number, "model_name": request.model, "model_version": version}
            | ({"request_id": request.id} if request.id else {})
            | self._parameters(request)
        ]
        if TENSORS in levels:
            for each in request.inputs:
                kind = kind_of_datatype(each.datatype)
                if kind is not None and each.source.size <= self._tensor_bytes:
                    content = bytearray(each.source.size)
                    each.source.copy_into(memoryview(content))
                    self._note_tensor("TENSOR_QUEUE_INPUT", each.name, kind, each.shape, memoryview(content))

    def note_run(self, record: RunRecord, outputs: Sequence[JobOutput], names: Sequence[str]) -> None:
        """Notes how the request was run.

        Args:
            record: the record of the run.
            outputs: the outputs of the model.
            names: the names of all its outputs.
        """
        now_ns = time.perf_counter_ns()
        receipt = record.receipt
        written_ns = now_ns - receipt.written_ns
        queued_ns = record.queued_ns
        begun_ns = queued_ns + max(0, record.queue_ns)
        self._times += (
            ("QUEUE_START", queued_ns),
            ("COMPUTE_START", begun_ns),
            ("COMPUTE_INPUT_END", max(begun_ns, written_ns - receipt.run_ns)),
            ("COMPUTE_OUTPUT_START", written_ns),
            ("COMPUTE_END", now_ns),
        )
        if TENSORS in self._levels:
            for each in outputs:
                name = names[each.position]
                self._note_tensor("TENSOR_BACKEND_OUTPUT", name, each.kind, each.shape, each.data)

    def entries(self) -> list[dict[str, Any]]:
        """Returns the entries of the file, when the request has ended."""
        self._times.append(("REQUEST_END", time.perf_counter_ns()))
        if TIMESTAMPS in self._levels:
            times = [{"name": name, "ns": ns} for name, ns in self._times]
            self._entries.insert(1, {"id": self._number, "timestamps": times})
        return self._entries

    def _parameters(self, request: InferenceRequest) -> dict[str, Any]:
        """Returns the entry of a request's parameters; nothing if there are too many."""
        size = sum(len(key) + len(str(value)) for key, value in request.parameters.items())
        return {"parameters": request.parameters} if 0 < size <= _MAX_PARAMETER_BYTES else {}

    def _note_tensor(
        self, activity: str, name: str, kind: str, shape: Sequence[int], data: memoryview
    ) -> None:
        if data.nbytes > self._tensor_bytes:
            return
        self._tensor_bytes -= data.nbytes
        elements: list[Any] = []
        if kind == BYTES:
            with contextlib.suppress(Exception):  # the request is refused for the same reason
                for each in decode_byte_strings(data, tuple(shape)).reshape(-1).tolist():
                    elements.append(each.decode("utf-8", "replace"))
        elif data.nbytes == math.prod(shape) * type_named(kind).itemsize:
            elements = np.frombuffer(data, type_named(kind)).tolist()
        tensor = {
            "name": name,
            "data": ",".join(map(str, elements)),
            "shape": ",".join(map(str, shape)),
            "dtype": datatype_of(kind),
        }
        self._entries.append({"id": self._number, "activity": activity, "tensor": tensor})


class RequestTraces:
    """Decides which requests are traced, and writes their traces. Belongs to one event loop.

    Args:
        configuration: what the operator has chosen. Without a file, traces are lines of the log.
        before: what clients of the front end before have changed, see `TraceSettings`.

    Raises:
        BadState: there cannot be such a file.
    """

    def __init__(self, configuration: TraceConfiguration, before: Mapping[str, Changes]) -> None:
        self.settings = TraceSettings(configuration, before)
        self._file = configuration.file
        self._number = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        #: Traces since the present file began, and the number of that file.
        self._traces = 0
        self._files = 0
        self._written = 0
        self._is_full = False
        self._warnings = RateLimitedLogger(logger)
        if self._file:
            _require_writable(Path(self._file))

    def begin(self, request: InferenceRequest, version: int) -> RequestTrace | None:
        """Returns the trace of a request that begins; None if it is not traced."""
        levels = self.settings.sample(request.model)
        if not levels:
            return None
        self._number += 1
        tensor_bytes = _MAX_TENSOR_BYTES if self._file else _MAX_LOGGED_BYTES
        return RequestTrace(self._number, request, version, levels, tensor_bytes)

    def end(self, trace: RequestTrace) -> None:
        """Writes the trace of a request that has ended."""
        entries = trace.entries()
        if not self._file:
            logger.info("trace: %s", _ENCODER.encode(entries).decode())
            return
        frequency = self.settings.log_frequency(trace.model)
        content = b",\n".join(map(_ENCODER.encode, entries))
        self._waiting.append(content)
        self._waiting_bytes += len(content)
        self._traces += 1
        is_complete = self._traces >= frequency
        if is_complete or self._waiting_bytes > _MAX_WAITING_BYTES:
            self._write(f"{self._file}.{self._files}" if frequency else self._file)
        if is_complete:
            self._traces = 0
            self._files += bool(frequency)

    def close(self) -> None:
        """Writes what waits for more traces."""
        if self._waiting:
            self._write(f"{self._file}.{self._files}")

    def _write(self, name: str) -> None:
        """Writes what waits to a file, if there is room."""
        content = b",\n".join(self._waiting) + _END
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._files >= _MAX_FILES or self._written + len(content) > _MAX_BYTES:
            self._refuse(f"{self._files} files of traces have {self._written} bytes")
            return
        try:
            self._append(name, content)
        except OSError as error:
            self._warnings.warning(
                "the trace file %s cannot be written, so traces are lost: %s", name, error.strerror or error
            )

    def _append(self, name: str, content: bytes) -> None:
        """Writes entries in front of the bracket that closes the array."""
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size + len(content) > _MAX_FILE_BYTES:
                self._refuse(f"the file of traces has {size} bytes")
                return
            at, opening = (0, b"[") if size < len(_END) else (size - len(_END), b",\n")
            try:
                _write_at(descriptor, opening + content, at)
            except OSError:
                # The array stays whole: what was written is removed again.
                if at:
                    _write_at(descriptor, _END, at)
                os.ftruncate(descriptor, size)
                raise
            self._written += len(content)
        finally:
            os.close(descriptor)

    def _refuse(self, reason: str) -> None:
        """Says once that traces are dropped."""
        if not self._is_full:
            self._is_full = True
            logger.warning("%s; no more are written", reason)


def _write_at(descriptor: int, content: bytes, at: int) -> None:
    """Writes to a file at a position."""
    left = memoryview(content)
    while left:
        count = os.pwrite(descriptor, left, at)
        left, at = left[count:], at + count


def _require_writable(file: Path) -> None:
    """Raises BadState unless there can be a file of traces of this name."""
    folder = file.absolute().parent
    try:
        if not folder.is_dir():
            reason = f"there is no folder {folder}"
        elif file.is_dir():
            reason = "it is a folder"
        elif not os.access(folder, os.W_OK | os.X_OK):
            reason = f"the folder {folder} cannot be written to"
        else:
            return
    except OSError as error:  # such as that of a name that is too long
        reason = system_reason(error)
    raise BadState(
        f"the trace file {file} cannot be written: {reason}; choose another with --trace-config file=FILE"
    )
