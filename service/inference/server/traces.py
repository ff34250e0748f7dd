"""Traces of single requests, in the format of Triton's trace files.

A file is an array of JSON objects, and is one after each trace. It is bounded, since clients decide
what is traced.
"""

import contextlib
import logging
import math
import os
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from neurald.hal.lanes.byte_strings import decode_byte_strings
from neurald.hal.lanes.packets import BYTES, type_named
from neurald.service.inference.models.job import JobOutput, RunRecord
from neurald.service.inference.protocol.element_types import datatype_of, kind_of_datatype
from neurald.service.inference.protocol.tensors import InferenceRequest
from neurald.service.inference.server.trace_settings import TENSORS, TIMESTAMPS, TraceSettings
from neurald.service.manager.service_configuration import TraceConfiguration

logger = logging.getLogger(__name__)

#: The largest file of traces, and the largest tensor in it.
_MAX_FILE_BYTES: Final = 64 << 20
_MAX_TENSOR_BYTES: Final = 1 << 20
_ENCODER: Final = msgspec.json.Encoder()


class RequestTrace:
    """The trace of one request.

    Args:
        number: of the trace.
        request: that is traced.
        version: of the model.
        levels: what is noted.
    """

    def __init__(self, number: int, request: InferenceRequest, version: int, levels: Sequence[str]) -> None:
        self.model = request.model
        self._number = number
        self._levels = levels
        self._times: list[tuple[str, int]] = [("REQUEST_START", time.perf_counter_ns())]
        self._entries: list[dict[str, Any]] = [
            {"id": number, "model_name": request.model, "model_version": version}
            | ({"request_id": request.id} if request.id else {})
        ]
        if TENSORS in levels:
            for each in request.inputs:
                kind = kind_of_datatype(each.datatype)
                content = bytearray(min(each.source.size, _MAX_TENSOR_BYTES))
                if kind is not None and len(content) == each.source.size:
                    each.source.copy_into(memoryview(content))
                    self._note_tensor("TENSOR_QUEUE_INPUT", each.name, kind, each.shape, memoryview(content))

    def note_run(
        self, record: RunRecord, queued_ns: int, outputs: Sequence[JobOutput], names: Sequence[str]
    ) -> None:
        """Notes how the request was run.

        Args:
            record: of the run.
            queued_ns: when it began to wait.
            outputs: of the model.
            names: of all its outputs.
        """
        now_ns = time.perf_counter_ns()
        receipt = record.receipt
        written_ns = now_ns - receipt.written_ns
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

    def _note_tensor(
        self, activity: str, name: str, kind: str, shape: Sequence[int], data: memoryview
    ) -> None:
        if data.nbytes > _MAX_TENSOR_BYTES:
            return
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
    """

    def __init__(self, configuration: TraceConfiguration) -> None:
        self.settings = TraceSettings(configuration)
        self._file = configuration.file
        self._number = 0
        self._waiting: list[dict[str, Any]] = []
        self._traces_waiting = 0
        self._files = 0
        self._is_full = False

    def begin(self, request: InferenceRequest, version: int) -> RequestTrace | None:
        """Returns the trace of a request that begins; None if it is not traced."""
        levels = self.settings.sample(request.model)
        if not levels:
            return None
        self._number += 1
        return RequestTrace(self._number, request, version, levels)

    def end(self, trace: RequestTrace) -> None:
        """Writes the trace of a request that has ended."""
        entries = trace.entries()
        if not self._file:
            logger.info("trace: %s", _ENCODER.encode(entries).decode())
            return
        frequency = self.settings.log_frequency(trace.model)
        self._waiting += entries
        self._traces_waiting += 1
        if self._traces_waiting < frequency:
            return
        name = self._file
        if frequency:
            name, self._files = f"{name}.{self._files}", self._files + 1
        content, self._waiting, self._traces_waiting = self._waiting, [], 0
        try:
            self._append(name, content)
        except OSError as error:
            logger.warning("a trace cannot be written: %s", error.strerror or error)

    def close(self) -> None:
        """Writes what waits for more traces."""
        if self._waiting:
            with contextlib.suppress(OSError):
                self._append(f"{self._file}.{self._files}", self._waiting)

    def _append(self, name: str, entries: Sequence[dict[str, Any]]) -> None:
        """Writes entries in front of the bracket that closes the array."""
        content = b",\n".join(map(_ENCODER.encode, entries)) + b"]\n"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(name, flags, 0o600), "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            if size + len(content) > _MAX_FILE_BYTES:
                if not self._is_full:
                    self._is_full = True
                    logger.warning("the file of traces has %d bytes; no more are written", size)
                return
            if size < 2:
                file.seek(0)
                file.write(b"[" + content)
            else:
                file.seek(size - 2)
                file.write(b",\n" + content)
