"""A loaded model as clients see it: its checked requests, and their answers."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from neurald.hal.lanes.packets import BYTES, aligned, type_named
from neurald.hal.records import replace
from neurald.service.inference.models.requests.classification import classes_of
from neurald.service.inference.models.requests.job import InferenceJob, JobEnd, JobOutput, RunRecord
from neurald.service.inference.models.requests.request_inputs import checked_inputs, raw_input
from neurald.service.inference.protocol.element_types import datatype_of
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import (
    BINARY_OUTPUT,
    InferenceAnswer,
    InferenceRequest,
    OutputTensor,
    Parameter,
    WantedOutput,
    quoted,
)
from neurald.service.inference.repository.reshapes import Reshapes
from neurald.service.inference.worker.orders import ModelDescription

#: The most bytes of an output whose lengths are open that are reserved in advance.
_OPEN_OUTPUT_BYTES: Final = 1 << 16
#: A request parameter of this service.
RECEIPT: Final = "receipt"
#: Parameters that would change the answer, and are not supported.
_REFUSED: Final = ("sequence_id", "sequence_start", "sequence_end")

Encode = Callable[[InferenceAnswer], object]
#: Is told how a request was run: the record, its outputs, and the names of all outputs of the
#: model.
NoteRun = Callable[[RunRecord, Sequence[JobOutput], Sequence[str]], None]


class ModelInterface:
    """Makes jobs of requests, and answers of outputs.

    Args:
        name: the name of the model.
        version: the version of the model.
        config: its complete configuration, a message ModelConfig.
        max_batch_size: entries of a batch; zero if the first dimension is not that of a batch.
        labels: the names of the classes of outputs, by output.
        loaded: describes the model as its workers see it.

    Attributes:
        loaded: see above.
    """

    def __init__(
        self,
        name: str,
        version: int,
        config: Any,
        max_batch_size: int,
        labels: Mapping[str, Sequence[str]],
        loaded: ModelDescription,
    ) -> None:
        self.loaded = loaded
        self._name = name
        self._version = version
        self._max_batch_size = max_batch_size
        self._labels = labels
        self._reshapes = Reshapes(config, loaded)
        self._optional = frozenset(each.name for each in config.input if each.optional)
        self._outputs = {each.name: n for n, each in enumerate(loaded.outputs)}
        #: What `output_bytes` has returned, by rows.
        self._output_bytes: dict[int, int] = {}

    @property
    def described(self) -> ModelDescription:
        """The model as clients see it."""
        return self._reshapes.described

    def job(
        self, request: InferenceRequest, encode: Encode, end: JobEnd, note_run: NoteRun | None
    ) -> InferenceJob:
        """Returns what is run for a request, which may take any time.

        Args:
            request, encode, note_run: see `ServedVersion.infer`.
            end: receives the answer or the error.

        Raises:
            ServiceError: the request is not valid.
        """
        reshapes = self._reshapes
        described = reshapes.described
        for name in _REFUSED:
            if request.parameters.get(name):
                raise ServiceError(
                    Status.INVALID,
                    f"the model {self._name} is not served in sequences, so it takes no {name}",
                )
        inputs = checked_inputs(
            request.inputs, described.inputs, self._name, self._max_batch_size, self._optional
        )
        if reshapes.has_any:
            inputs = [
                replace(each, shape=reshapes.of_model(position, each.shape))
                for position, each in enumerate(inputs)
            ]
        rows = inputs[0].shape[0] if self._max_batch_size and inputs else 1
        wanted = request.outputs
        positions: list[int] = []
        for each in wanted:
            position = self._outputs.get(each.name)
            if position is None:
                raise ServiceError(
                    Status.INVALID,
                    f"unexpected inference output {quoted(each.name)} for model {quoted(self._name)}",
                )
            if position in positions:
                raise ServiceError(Status.INVALID, f"output {quoted(each.name)} already exists in request")
            positions.append(position)
        chosen = tuple(positions) or tuple(range(len(described.outputs)))
        by_position = dict(zip(positions, wanted, strict=True))

        def finish(outputs: Sequence[JobOutput], record: RunRecord) -> object:
            if note_run is not None:
                note_run(record, outputs, tuple(self._outputs))
            parameters: dict[str, Parameter] = {}
            if _is_true(request.parameters.get(RECEIPT)):
                parameters[RECEIPT] = _receipt_text(record)
            if BINARY_OUTPUT in request.parameters:
                parameters[BINARY_OUTPUT] = request.parameters[BINARY_OUTPUT]
            return encode(
                InferenceAnswer(
                    model=self._name,
                    version=str(self._version),
                    id=request.id,
                    outputs=tuple(self._output(each, by_position.get(each.position)) for each in outputs),
                    parameters=parameters,
                )
            )

        return InferenceJob(inputs=inputs, rows=rows, wanted=chosen, finish=finish, end=end)

    def raw_request(self, content: memoryview) -> InferenceRequest:
        """Returns the request whose only input has these bytes, as in HTTP's raw binary requests.

        Raises:
            ServiceError: the model has other inputs, or the shape does not follow from the bytes.
        """
        return InferenceRequest(
            model=self._name,
            version=str(self._version),
            id="",
            parameters={BINARY_OUTPUT: True},
            inputs=(raw_input(content, self.described.inputs, self._name, self._max_batch_size),),
            outputs=(),
        )

    def output_bytes(self, rows: int) -> int:
        """Estimates the room that all outputs of a run take."""
        found = self._output_bytes.get(rows)
        if found is not None:
            return found
        total = 0
        for each in self.loaded.outputs:
            if each.kind == BYTES or each.shape is None:
                total += _OPEN_OUTPUT_BYTES
                continue
            known = math.prod(length for length in each.shape if length > 0)
            size = known * type_named(each.kind).itemsize * (rows if self._max_batch_size else 1)
            open_lengths = sum(length < 0 for length in each.shape) - bool(self._max_batch_size)
            total += aligned(max(size, _OPEN_OUTPUT_BYTES) if open_lengths > 0 else size)
        self._output_bytes[rows] = total
        return total

    def _output(self, output: JobOutput, wanted: WantedOutput | None) -> OutputTensor:
        reshapes = self._reshapes
        described = reshapes.described.outputs[output.position]
        data, shape, datatype = output.data, output.shape, datatype_of(output.kind)
        if reshapes.has_any:
            shape = reshapes.of_client(output.position, shape)
        if wanted is not None and wanted.classes:
            labels = self._labels.get(described.name, ())
            data, shape = classes_of(output, wanted, labels, is_batched=self._max_batch_size > 0)
            datatype = "BYTES"
        return OutputTensor(name=described.name, datatype=datatype, shape=shape, data=data, wanted=wanted)


def _is_true(value: Parameter | None) -> bool:
    """Returns whether a parameter is true, which headers are as text."""
    return value == "true" if isinstance(value, str) else bool(value)


def _receipt_text(record: RunRecord) -> str:
    receipt = record.receipt
    return json.dumps(
        {
            "devices": list(receipt.devices),
            "drivers": list(receipt.drivers),
            "is_substituted": receipt.is_substituted,
            "queue_us": max(0, record.queue_ns) / 1e3,
            "run_us": receipt.run_ns / 1e3,
            "batch": record.batch_rows,
            "attempts": record.attempts,
        }
    )
