"""A device that interprets the compiler's graphs with NumPy, to test lowerings alone."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from support.devices.fakes import FakePreparedModel

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed, evaluate, evaluate_fused
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.frontend.supported_operations import supported_operations
from neurald.drivers.compiler.frontend.variants.kept_variants import PreparedWithOperands
from neurald.drivers.compiler.frontend.variants.open_dimensions import is_specified
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.ir.value import Shape
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.sample.config import ALL
from neurald.drivers.sample.device import SampleDevice
from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape, PrepareOptions, Verdict
from neurald.hal.errors import OpFailed
from neurald.hal.model.elements import stored_array
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request


class InterpretedDevice(SampleDevice):
    """Supports every operation that has a lowering.

    Args:
        transform: changes a graph before it is computed.
        fused: compute the kernels that fusion creates instead of the nodes.
    """

    def __init__(self, transform: Callable[[Graph], object] | None = None, *, fused: bool = False) -> None:
        super().__init__(ALL)
        self.name = "interpreted"
        self._transform = transform
        self._fused = fused

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        return supported_operations(model)

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedWithOperands:  # type: ignore[override]
        if not is_specified(model):
            return SpecializingModel(model, self._interpreted, owner=self, tolerant=False)
        return self._interpreted(model, {})

    def _interpreted(
        self, model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions | None = None
    ) -> "InterpretedModel":
        graph = build_graph(model, shapes)
        if self._transform is not None:
            self._transform(graph)
        return InterpretedModel(model, graph, fuse(graph) if self._fused else None)


class InterpretedModel(FakePreparedModel):
    def operand(self, index: int, *, is_output: bool) -> Operand:
        main = self.model.main
        return main.operands[(main.outputs if is_output else main.inputs)[index]]

    def __init__(self, model: Model, graph: Graph, fused: FusedGraph | None) -> None:
        self.model, self.graph, self.fused = model, graph, fused

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        inputs = []
        for index, argument in zip(self.model.main.inputs, request.inputs, strict=True):
            if argument.pool is None:
                raise OpFailed("an input is omitted")
            operand = self.model.main.operands[index]
            view = request.pools[argument.pool].view(argument.offset, argument.length)
            inputs.append(stored_array(view, operand.type, argument.dimensions or operand.dimensions or ()))
        try:
            outputs = (
                evaluate(self.graph, inputs) if self.fused is None else evaluate_fused(self.fused, inputs)
            )
        except RequirementFailed as error:
            raise OpFailed(str(error)) from None
        for output, argument in zip(outputs, request.outputs, strict=True):
            assert argument.pool is not None
            if output.nbytes <= argument.length:
                view = request.pools[argument.pool].view(argument.offset, output.nbytes)
                np.frombuffer(view, output.dtype)[:] = output.reshape(-1)
        return ExecutionResult(
            output_shapes=tuple(
                OutputShape(dimensions=output.shape, sufficient=output.nbytes <= argument.length)
                for output, argument in zip(outputs, request.outputs, strict=True)
            )
        )
