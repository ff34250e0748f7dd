"""Runs cases of the suite between guard pages, in a process that a fault may end."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from neurald.hal.device import Device, ExecutionResult, OutputShape
from neurald.hal.errors import Error, UnavailableDevice
from neurald.hal.model.types import Lifetime, Location, Model
from neurald.hal.rpc.wire.model import encode_model
from neurald.service.conformance.cases.case import Case
from neurald.service.conformance.cases.runner import LIMIT_S, output_arrays, wrong_output
from neurald.service.conformance.guard.fault_report import End, described
from neurald.service.conformance.guard.guard_pages import Placement
from neurald.service.conformance.guard.message import FoundOutput, GuardedCase, GuardedInput
from neurald.service.conformance.guard.process import GuardProcess

#: After this many ends no further process is started: each takes about a second.
_MAX_ENDS = 32


class GuardedRuns(Protocol):
    """Runs cases between guard pages, if possible.

    Attributes:
        refusal: the reason why no cases run, or no more; "" while they do.
    """

    refusal: str

    def wrong(self, case: Case) -> str | None:
        """Runs a case between guard pages, and describes what is wrong.

        Returns:
            "" if nothing is wrong, None if the case did not run.
        """
        ...

    def close(self) -> None:
        """Ends the process that runs cases, if there is one."""
        ...


class NoGuardedRuns:
    """Runs no cases.

    Args:
        refusal: the reason.
    """

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal

    def wrong(self, case: Case) -> str | None:
        """See `GuardedRuns.wrong`."""
        return None

    def close(self) -> None:
        """See `GuardedRuns.close`."""


class ProcessRuns:
    """Runs cases in another process, and replaces it whenever it has ended.

    Args:
        driver: the device's driver, as `neurald conformance` takes it.
        device: the name of the device.
        limit_s: the time limit of a call.
    """

    def __init__(self, driver: str, device: str, limit_s: float = LIMIT_S) -> None:
        self.refusal = ""
        self._driver, self._device, self._limit_s = driver, device, limit_s
        self._process: GuardProcess | None = None
        self._ends = 0

    def wrong(self, case: Case) -> str | None:
        """See `GuardedRuns.wrong`."""
        process = self._started()
        if process is None:
            return None
        found = process.run(guarded(case, self._limit_s))
        if isinstance(found, End):
            self.close()
            self._ends += 1
            if self._ends == _MAX_ENDS:
                self.refusal = f"not used after the driver had ended {_MAX_ENDS} processes"
            return described(found, self._limit_s)
        if found.error:
            return f"buffers {found.placement}: {found.error}"
        texts = (
            _wrong_outputs(case, placement, outputs)
            for placement, outputs in zip(Placement, found.outputs, strict=True)
        )
        return next(filter(None, texts), "")

    def _started(self) -> GuardProcess | None:
        if self._process is None and not self.refusal:
            try:
                self._process = GuardProcess(self._driver)
            except (OSError, UnavailableDevice) as error:
                self.refusal = f"not used: no other process can open the device: {error}"
                return None
            if self._process.device != self._device:
                self.refusal = f"not used: {self._driver!r} opens {self._process.device!r} in another process"
                self.close()
        return self._process

    def close(self) -> None:
        """See `GuardedRuns.close`."""
        if self._process is not None:
            self._process.close()
            self._process = None


def guarded_runs(device: Device, driver: str) -> GuardedRuns:
    """Returns the object that runs cases of a device between guard pages.

    Args:
        device: the device to check.
        driver: the driver that opens the same device in another process; "" if unknown.
    """
    if getattr(device, "address", None) is not None:
        return NoGuardedRuns("not used: the device is in another process, whose memory is not the suite's")
    if not driver:
        return NoGuardedRuns(
            "not used: no driver is named (Plan.driver) that opens the device in another process"
        )
    return ProcessRuns(driver, device.name)


def guarded(case: Case, limit_s: float) -> GuardedCase:
    """Encodes a case for another process, with a pool for each constant."""
    model, constants = _separate(case.model)
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


def _separate(model: Model) -> tuple[Model, tuple[bytes, ...]]:
    """Gives each constant a pool; returns the model and the bytes of the pools, in order."""
    constants: list[bytes] = []
    operands = []
    for operand in model.main.operands:
        if operand.lifetime is Lifetime.CONSTANT_POOL and (place := operand.location) is not None:
            content = bytes(model.pools[place.pool].view(place.offset, place.length))
            place = Location(pool=len(constants), offset=0, length=place.length)
            constants.append(content)
            operand = replace(operand, location=place)
        operands.append(operand)
    return replace(model, main=replace(model.main, operands=tuple(operands)), pools=()), tuple(constants)


def _wrong_outputs(case: Case, placement: Placement, outputs: tuple[FoundOutput, ...]) -> str:
    shapes = tuple(OutputShape(dimensions=each.dimensions, sufficient=each.is_sufficient) for each in outputs)
    try:
        contents = [memoryview(each.content) for each in outputs]
        arrays = output_arrays(case, ExecutionResult(output_shapes=shapes), contents)
    except Error as error:
        text = f"{error.code.name}: {error}"
    else:
        position, text = wrong_output(case, arrays)
        text = text and f"output {position}: {text}"
    return text and f"buffers {placement.value}: {text}"
