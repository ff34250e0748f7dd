"""Runs one step of a plan, and believes nothing that its device says before it is checked."""

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
from neurald.hal.model.types import MAXIMUM_OPERAND_BYTES, Operand, OperandType, Request
from neurald.hal.validation.validate import merge_dimensions
from neurald.runtime.plan.plan import ExecutionStep

#: Runs one step and gives back a result that has been checked (`checked_step_result`). A plan's executor calls it for each
#: step, again and again in loops and where an operand between steps has turned out larger than its buffer. It may run the
#: step in another way: on the CPU device after a failure, or in a burst.
Runner: TypeAlias = Callable[[ExecutionStep, Request, ExecuteOptions], ExecutionResult]


def run_step(step: ExecutionStep, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """The plain `Runner`: executes the step's prepared model.

    Raises:
        OpFailed: the device's answer contradicts the model or the request.
        Error: the device failed.
    """
    return checked_step_result(step, request, step.prepared_model.execute(request, options))


#: What ends a step because its time, or the application's interest in it, is over.
STOPPED: Final = (Cancelled, MissedDeadlineTransient, MissedDeadlinePersistent)


def naming_step(error: Error, number: int, step: ExecutionStep) -> Error:
    """An error like one of `STOPPED` that a device gave, whose message says which step of the plan it was."""
    return type(error)(f"step {number} on {step.device.name}: {error}")


def checked_step_result(step: ExecutionStep, request: Request, result: ExecutionResult) -> ExecutionResult:
    """`result`, which a device gave for a step's request.

    Raises:
        OpFailed: it contradicts the model or the request.
    """
    try:
        check_result(result, step.output_operands, request)
    except BadData as error:
        raise OpFailed(f"device {step.device.name} answered nonsense: {error}") from None
    except (AttributeError, TypeError, ValueError) as error:
        # What is no `ExecutionResult`, or holds something else than it says, has nothing to check.
        raise OpFailed(
            f"device {step.device.name} answered nonsense: {type(result).__name__} is no valid "
            f"ExecutionResult: {error}"
        ) from None
    return result


def check_result(result: ExecutionResult, outputs: Sequence[Operand], request: Request) -> None:
    """Raises BadData unless every reported shape is one that the model and the request allow."""
    if len(result.output_shapes) != len(outputs):
        raise BadData(f"{len(result.output_shapes)} output shapes; the model has {len(outputs)} outputs")
    for position, (shape, operand, argument) in enumerate(
        zip(result.output_shapes, outputs, request.outputs, strict=True)
    ):
        what = f"output {position}"
        known = merge_dimensions(operand.dimensions, shape.dimensions, what)
        needed = shape.size_bytes(operand.type)
        is_short = operand.type is OperandType.TENSOR_STRING and not shape.sufficient
        if is_short and (needed is None or not argument.length < needed <= MAXIMUM_OPERAND_BYTES):
            raise BadData(f"{what}: {argument.length} bytes do not suffice; {needed} bytes are needed")
        if not shape.sufficient or not result.is_sufficient:
            continue
        if shape.dimensions is None:
            raise BadData(f"{what}: its shape is not reported")
        # A dimension of 0 is one that has no elements here, not one that is open.
        if known != shape.dimensions or any(d < 0 for d in shape.dimensions):
            raise BadData(f"{what}: shape {list(shape.dimensions)}")
        if argument.pool is not None and isinstance(request.pools[argument.pool], DeviceBuffer):
            continue
        if needed is None or needed > argument.length:
            raise BadData(f"{what}: {needed} bytes reported as written into {argument.length}")
