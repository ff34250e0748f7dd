"""Runs cases with their buffers between guard pages. This is the code of the other process."""

import struct
import time
from collections.abc import Mapping, Sequence
from typing import IO

import msgspec

from neurald.hal.decoding import msgpack_decoder
from neurald.hal.device import (
    Device,
    ExecuteOptions,
    ExecutionResult,
    PrepareOptions,
    declared_extensions,
)
from neurald.hal.errors import Error, OpFailed
from neurald.hal.model.request import Argument, Request
from neurald.hal.rpc.wire.model import decode_model
from neurald.service.conformance.guard.fault_handler import report_faults
from neurald.service.conformance.guard.guard_pages import GuardPageMemory, GuardPlacement
from neurald.service.conformance.guard.message import (
    BufferRegion,
    FoundOutput,
    GuardedCase,
    Message,
    Ran,
    Ready,
    Stage,
)
from neurald.service.console.device_choice import find_devices


def serve(driver: str, faults: int, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Opens a device and runs cases on it until the input ends.

    Args:
        driver: the driver of the device, as in `neurald conformance --device`.
        faults: the descriptor that faults are written to; see `report_faults`.
        requests, answers: the streams of messages; see `neurald.service.conformance.guard.message`.
    """
    try:
        device = (find_devices([driver]) or [])[0]
        # This comes last, because a driver may install its own handlers while it opens the device.
        report_faults(faults)
    except Exception as error:
        _send(answers, Ready(error=_text(error)))
        return
    _send(answers, Ready(device=device.name))
    decoder = msgpack_decoder(GuardedCase)
    while length := requests.read(8):
        case = decoder.decode(requests.read(struct.unpack("<Q", length)[0]))
        _send(answers, _run(device, case, answers))


def _send(answers: IO[bytes], message: Message) -> None:
    encoded = msgspec.msgpack.encode(message)
    answers.write(struct.pack("<Q", len(encoded)) + encoded)
    answers.flush()


def _text(error: Exception) -> str:
    return f"{error.code.name if isinstance(error, Error) else type(error).__name__}: {error}"


def _run(device: Device, case: GuardedCase, answers: IO[bytes]) -> Ran:
    """Runs a case once for each placement. A model without constants is prepared only once."""
    found = []
    prepared: _GuardedModel | None = None
    for placement in GuardPlacement:
        try:
            if prepared is None or case.constants:
                prepared = _GuardedModel(device, case, placement, answers)
            found.append(prepared.execute(placement))
        except Exception as error:
            return Ran(placement=placement.value, error=_text(error))
    return Ran(outputs=tuple(found))


class _GuardedModel:
    """A prepared model whose constants lie between guard pages.

    Args:
        device: the device that prepares the model.
        case: the case with the model.
        placement: the placement of the constants.
        answers: the stream that gets a message before each call of the device.
    """

    def __init__(
        self, device: Device, case: GuardedCase, placement: GuardPlacement, answers: IO[bytes]
    ) -> None:
        self._case, self._answers = case, answers
        self._constants = tuple(GuardPageMemory(len(each), placement, each) for each in case.constants)
        model = decode_model(case.model, self._constants, declared_extensions(device))
        self._send_stage("prepare_model", placement, {})
        options = PrepareOptions(deadline_s=time.monotonic() + case.limit_s)
        self._prepared = device.prepare_model(model, options)

    def execute(self, placement: GuardPlacement) -> tuple[FoundOutput, ...]:
        """Executes the model with this placement of inputs and outputs, and returns the outputs."""
        inputs = [GuardPageMemory(len(each.content), placement, each.content) for each in self._case.inputs]
        outputs = [GuardPageMemory(size, placement) for size in self._case.outputs]
        named = {f"input {number}": memory for number, memory in enumerate(inputs)}
        named |= {f"output {number}": memory for number, memory in enumerate(outputs)}
        self._send_stage("execute", placement, named)
        options = ExecuteOptions(deadline_s=time.monotonic() + self._case.limit_s)
        result = self._prepared.execute(_request(self._case, inputs, outputs), options)
        return _found(self._case, result, outputs)

    def _send_stage(self, call: str, placement: GuardPlacement, named: Mapping[str, GuardPageMemory]) -> None:
        constants = {f"constant {number}": memory for number, memory in enumerate(self._constants)}
        regions = tuple(_region(name, memory) for name, memory in (constants | dict(named)).items())
        _send(self._answers, Stage(call=call, placement=placement.value, regions=regions))


def _request(
    case: GuardedCase, inputs: Sequence[GuardPageMemory], outputs: Sequence[GuardPageMemory]
) -> Request:
    """Returns a request in which each argument is a whole memory."""
    return Request(
        inputs=tuple(
            Argument(pool=number, offset=0, length=len(each.content), dimensions=each.dimensions)
            for number, each in enumerate(case.inputs)
        ),
        outputs=tuple(
            Argument(pool=number, offset=0, length=size)
            for number, size in enumerate(case.outputs, start=len(inputs))
        ),
        pools=(*inputs, *outputs),
    )


def _found(
    case: GuardedCase, result: ExecutionResult, outputs: Sequence[GuardPageMemory]
) -> tuple[FoundOutput, ...]:
    if len(result.output_shapes) != len(outputs):
        raise OpFailed(f"{len(result.output_shapes)} output shapes; the model has {len(outputs)} outputs")
    return tuple(
        FoundOutput(
            content=bytes(memory.view(0, size)),
            dimensions=shape.dimensions,
            is_sufficient=shape.sufficient,
        )
        for memory, size, shape in zip(outputs, case.outputs, result.output_shapes, strict=True)
    )


def _region(name: str, memory: GuardPageMemory) -> BufferRegion:
    first, end = memory.mapped
    return BufferRegion(name=name, start=memory.address, size=memory.size, first=first, end=end)
