"""Runs one step of a plan and validates everything that its device reports."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import (
    BadData,
    Cancelled,
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
)
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.graph import Operand
from neurald.hal.model.request import Request
from neurald.hal.model.types import MAX_OPERAND_BYTES, OperandType
from neurald.hal.validation.request_rules import merge_dimensions
from neurald.runtime.plan.plan import ExecutionStep

#: Runs one step and returns a result that `checked_step_result` has validated. The executor of a
#: plan calls it for each step, and again in loops and when a result did not fit its buffer. A
#: runner may use the CPU device after a failure, or a burst.
Runner: TypeAlias = Callable[[ExecutionStep, Request, ExecuteOptions], ExecutionResult]


def run_step(step: ExecutionStep, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Executes the step's prepared model; this is the plain `Runner`.

    Raises:
        OpFailed: the device's result contradicts the model or the request.
        Error: the device failed.
    """
    return checked_step_result(step, request, step.prepared_model.execute(request, options))


#: Errors of a step that was stopped because its deadline passed or the application cancelled it.
STOPPED: Final = (Cancelled, MissedDeadlineTransient, MissedDeadlinePersistent)


def naming_step(error: Error, number: int, step: ExecutionStep) -> Error:
    """Returns a `STOPPED` error with the same type and a message that names the step."""
    return type(error)(f"step {number} on {step.device.name}: {error}")


def checked_step_result(step: ExecutionStep, request: Request, result: ExecutionResult) -> ExecutionResult:
    """Returns `result` after validating it against the step's request.

    Raises:
        OpFailed: it contradicts the model or the request.
    """
    try:
        check_result(result, step.output_operands, request)
    except BadData as error:
        raise OpFailed(f"device {step.device.name} returned an invalid result: {error}") from None
    except (AttributeError, TypeError, ValueError) as error:
        # The object is not an `ExecutionResult`, or its fields have wrong types.
        raise OpFailed(
            f"device {step.device.name} returned an invalid result: {type(result).__name__} is not a valid "
            f"ExecutionResult: {error}"
        ) from None
    return result


def check_result(result: ExecutionResult, outputs: Sequence[Operand], request: Request) -> None:
    """Raises BadData unless its times are numbers, and model and request allow every shape."""
    result.timing.check()
    if len(result.output_shapes) != len(outputs):
        raise BadData(
            f"it has {len(result.output_shapes)} output shapes; the model has {len(outputs)} outputs"
        )
    for position, (shape, operand, argument) in enumerate(
        zip(result.output_shapes, outputs, request.outputs, strict=True)
    ):
        what = f"output {position}"
        known = merge_dimensions(operand.dimensions, shape.dimensions, what)
        needed = shape.size_bytes(operand.type)
        is_short = operand.type is OperandType.TENSOR_STRING and not shape.sufficient
        if is_short and (needed is None or not argument.length < needed <= MAX_OPERAND_BYTES):
            raise BadData(f"{what}: reported as too small for {needed} bytes, but has {argument.length}")
        if not shape.sufficient or not result.is_sufficient:
            continue
        if shape.dimensions is None:
            raise BadData(f"{what}: the device reports no shape; that of the result is expected")
        # In a result, dimension 0 means no elements, not an unknown dimension.
        if known != shape.dimensions or any(d < 0 for d in shape.dimensions):
            raise BadData(f"{what}: shape {list(shape.dimensions)} is not a complete shape")
        if argument.pool is not None and isinstance(request.pools[argument.pool], DeviceBuffer):
            continue
        if needed is None or needed > argument.length:
            raise BadData(f"{what}: {needed} bytes are reported as written to a buffer of {argument.length}")
