"""StepExecutor: runs one step on its device, and believes nothing that the device says before it is checked."""

from collections.abc import Sequence

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.types import Operand, Request, byte_size
from neurald.hal.validate import merge_dimensions
from neurald.runtime.plan import ExecutionStep


class StepExecutor:
    """Executes one step of a plan."""

    def __init__(self, step: ExecutionStep) -> None:
        self._step = step
        graph = step.model.main
        self._outputs = [graph.operands[index] for index in graph.outputs]

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs the step.

        Raises:
            OpFailed: the device's answer contradicts the model or the request.
            Error: the device failed.
        """
        result = self._step.prepared_model.execute(request, options)
        try:
            check_result(result, self._outputs, request)
        except BadData as error:
            raise OpFailed(f"device {self._step.device.name} answered nonsense: {error}") from None
        return result


def check_result(result: ExecutionResult, outputs: Sequence[Operand], request: Request) -> None:
    """Raises BadData unless every reported shape is one that the model and the request allow."""
    if len(result.output_shapes) != len(outputs):
        raise BadData(f"{len(result.output_shapes)} output shapes; the model has {len(outputs)} outputs")
    for position, (shape, operand, argument) in enumerate(
        zip(result.output_shapes, outputs, request.outputs, strict=True)
    ):
        what = f"output {position}"
        merge_dimensions(operand.dimensions, shape.dimensions, what)
        if not shape.sufficient or not result.is_sufficient:
            continue
        if shape.dimensions is None:
            raise BadData(f"{what}: its shape is not reported")
        if any(d < 0 for d in shape.dimensions):
            raise BadData(f"{what}: shape {list(shape.dimensions)}")
        needed = byte_size(operand.type, shape.dimensions)
        if needed > argument.length:
            raise BadData(f"{what}: {needed} bytes reported as written into {argument.length}")
