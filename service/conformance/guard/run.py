"""Runs cases between guard pages, in another process that a fault may end."""

from typing import Protocol

import numpy as np

from neurald.hal.device import Device, ExecutionResult, OutputShape
from neurald.hal.errors import Error, UnavailableDevice
from neurald.hal.model.graph import Location
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.hal.rpc.wire.model import encode_model
from neurald.service.conformance.cases.case import Case
from neurald.service.conformance.cases.runner import CALL_TIMEOUT_S, first_wrong_output, output_arrays
from neurald.service.conformance.guard.fault_report import ProcessEnd, describe_end
from neurald.service.conformance.guard.guard_pages import GuardPlacement
from neurald.service.conformance.guard.message import FoundOutput, GuardedCase, GuardedInput
from neurald.service.conformance.guard.process import GuardProcess

#: Number of processes that may end. Starting one takes about a second.
_MAX_ENDED_PROCESSES = 32


class GuardRunner(Protocol):
    """Runs cases between guard pages, if possible.

    Attributes:
        refusal: the reason why cases do not run, or do not run any more; otherwise "".
    """

    refusal: str

    def find_error(self, case: Case) -> str | None:
        """Runs a case between guard pages.

        Returns:
            A description of what is wrong, or "" if nothing is; None if the case did not run.
        """
        ...

    def close(self) -> None:
        """Ends the process that runs cases, if there is one."""
        ...


class DisabledGuardRunner:
    """Implements `GuardRunner` for devices whose cases cannot run between guard pages.

    Args:
        refusal: the reason why they cannot.
    """

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal

    def find_error(self, case: Case) -> str | None:
        """See `GuardRunner.find_error`."""
        return None

    def close(self) -> None:
        """See `GuardRunner.close`."""


class GuardProcessRunner:
    """Implements `GuardRunner` with another process, which is replaced when it has ended.

    Args:
        driver: the driver of the device, as in `neurald conformance --device`.
        device: the name of the device.
        limit_s: the time limit of a call.
    """

    def __init__(self, driver: str, device: str, limit_s: float = CALL_TIMEOUT_S) -> None:
        self.refusal = ""
        self._driver, self._device, self._limit_s = driver, device, limit_s
        self._process: GuardProcess | None = None
        self._ended_count = 0

    def find_error(self, case: Case) -> str | None:
        """See `GuardRunner.find_error`."""
        process = self._running_process()
        if process is None:
            return None
        found = process.run(encode_case(case, self._limit_s))
        if isinstance(found, ProcessEnd):
            self.close()
            self._ended_count += 1
            if self._ended_count == _MAX_ENDED_PROCESSES:
                self.refusal = f"not used any more after {_MAX_ENDED_PROCESSES} processes had ended"
            return describe_end(found, self._limit_s)
        if found.error:
            return f"buffers {found.placement}: {found.error}"
        errors = (
            _output_error(case, placement, outputs)
            for placement, outputs in zip(GuardPlacement, found.outputs, strict=True)
        )
        return next(filter(None, errors), "")

    def _running_process(self) -> GuardProcess | None:
        """Returns the process, which it starts if necessary; None if that is not possible."""
        if self._process is None and not self.refusal:
            try:
                self._process = GuardProcess(self._driver)
            except (OSError, UnavailableDevice) as error:
                self.refusal = f"not used: another process cannot open the device: {error}"
                return None
            if self._process.device != self._device:
                self.refusal = f"not used: {self._driver!r} opens {self._process.device!r} in another process"
                self.close()
        return self._process

    def close(self) -> None:
        """See `GuardRunner.close`."""
        if self._process is not None:
            self._process.close()
            self._process = None


def guard_runner_for(device: Device, driver: str) -> GuardRunner:
    """Returns the runner for cases of a device between guard pages.

    Args:
        device: the device to check.
        driver: the driver that opens the device in another process; "" if none is known.
    """
    if device.is_remote:
        return DisabledGuardRunner(
            "not used: the device is in another process, whose memory is not the suite's"
        )
    if not driver:
        return DisabledGuardRunner(
            "not used: no driver is named (Plan.driver) that opens the device in another process"
        )
    return GuardProcessRunner(driver, device.name)


def encode_case(case: Case, limit_s: float) -> GuardedCase:
    """Returns the message for a case, in which each constant has a pool of its own."""
    model, constants = _with_separate_pools(case.model)
    return GuardedCase(
        model=encode_model(model),
        constants=constants,
        inputs=tuple(
            GuardedInput(content=np.ascontiguousarray(value).tobytes(), dimensions=value.shape)
            for value in case.inputs
        ),
        outputs=tuple(value.nbytes for value in case.expected),
        limit_s=limit_s,
    )


def _with_separate_pools(model: Model) -> tuple[Model, tuple[bytes, ...]]:
    """Returns the model with a pool for each constant, and the bytes of the pools."""
    constants: list[bytes] = []
    operands = []
    for operand in model.main.operands:
        if operand.lifetime is Lifetime.CONSTANT_POOL and (location := operand.location) is not None:
            content = bytes(model.pools[location.pool].view(location.offset, location.length))
            location = Location(pool=len(constants), offset=0, length=location.length)
            constants.append(content)
            operand = replace(operand, location=location)
        operands.append(operand)
    return replace(model, main=replace(model.main, operands=tuple(operands)), pools=()), tuple(constants)


def _output_error(case: Case, placement: GuardPlacement, outputs: tuple[FoundOutput, ...]) -> str:
    shapes = tuple(OutputShape(dimensions=each.dimensions, sufficient=each.is_sufficient) for each in outputs)
    try:
        contents = [memoryview(each.content) for each in outputs]
        arrays = output_arrays(case, ExecutionResult(output_shapes=shapes), contents)
    except Error as error:
        text = f"{error.code.name}: {error}"
    else:
        position, text = first_wrong_output(case, arrays)
        text = text and f"output {position}: {text}"
    return text and f"buffers {placement.value}: {text}"
