"""IF and WHILE, which run other subgraphs.

The variables that the subgraphs access are additional values of the operation. Resource handles are
not passed.
"""

from collections.abc import Sequence

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Dimensions, Lifetime
from neurald.hal.records import replace
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.loop_dimensions import LoopDimensions
from neurald.runtime.tflite.graph.operands import UnsupportedFeature, common_dimensions
from neurald.runtime.tflite.graph.state import CallArguments, Effects, VariableKey, merge_effects
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization


class Caller:
    """An operator that runs subgraphs, with their arguments and results.

    Args:
        graph: the graph that contains it.
        operator: the operator.
        effects: effects of the subgraphs on variables.
        skipped: number of its leading inputs that they do not receive.
    """

    def __init__(self, graph: SubgraphBuilder, operator: Operator, effects: Effects, skipped: int) -> None:
        self._graph = graph
        self._operator = operator
        positions = range(skipped, len(operator.inputs))
        self.handles = handles_of(graph, operator, skipped)
        self._values = [
            None if key is not None else graph.input(operator, position)
            for position, key in zip(positions, self.handles, strict=True)
        ]
        constant = graph.importer.constant_variable
        self.assigned = effects.ordered(assigned=True)
        read = [key for key in effects.ordered(assigned=False) if constant(key) is None]
        self._keys = (*self.assigned, *read)
        self._variables = [graph.variable(key) for key in self._keys]

    def inputs(self) -> list[int]:
        """Returns the operands that the operation passes to its graphs."""
        return [*(index for index in self._values if index is not None), *self._variables]

    def call(
        self, subgraph: int, leaving: Sequence[VariableKey], dimensions: Sequence[Dimensions] | None = None
    ) -> int:
        """Converts a subgraph; returns the number of the referenced graph.

        Args:
            subgraph: its index.
            leaving: the variables that it returns.
            dimensions: the dimensions of `inputs()`, if they differ from those of the operands.
        """
        given = iter(self.dimensions() if dimensions is None else dimensions)
        operands = self._graph.operand
        return self._graph.importer.call(
            subgraph,
            CallArguments(
                values=tuple(
                    None if index is None else as_argument(operands(index), next(given))
                    for index in self._values
                ),
                handles=self.handles,
                variables=tuple(
                    (key, as_argument(operands(index), next(given)))
                    for key, index in zip(self._keys, self._variables, strict=True)
                ),
                leaving=tuple(leaving),
            ),
        )

    def dimensions(self) -> list[Dimensions]:
        """Returns the dimensions of `inputs()`."""
        return [self._graph.operand(index).dimensions for index in self.inputs()]

    def loop_dimensions(self, body: int) -> list[Dimensions]:
        """Returns the dimensions of `inputs()`, with 0 for lengths that a body never infers."""
        dimensions, source = self.dimensions(), self._graph.importer.subgraph(body)
        if len(self._values) == len(source.inputs) == len(source.outputs):
            values = [place for place, index in enumerate(self._values) if index is not None]
            inputs, outputs = ([each[place] for place in values] for each in (source.inputs, source.outputs))
            loops = LoopDimensions(self._graph.importer.subgraph)
            dimensions[: len(values)] = loops.widened(source, inputs, outputs, dimensions[: len(values)])
        return dimensions

    def outputs(self, handles: Sequence[VariableKey | None], dimensions: Sequence[Dimensions]) -> list[int]:
        """Creates the operands for the operation's results; assigned variables come last.

        Args:
            handles: for each output of the operator the variable that it refers to, None for
                values.
            dimensions: the dimensions of the values.
        """
        graph, operator = self._graph, self._operator
        if len(handles) != len(operator.outputs):
            raise UnsupportedFeature(
                f"it has {len(operator.outputs)} outputs; its subgraphs have {len(handles)}"
            )
        results = []
        for position, key in enumerate(handles):
            if key is not None:
                graph.handles[operator.outputs[position]] = key
            else:
                results.append(graph.output(operator, position))
        for key in self.assigned:
            result = graph.value_like(graph.operand(graph.variable(key)))
            graph.set_variable(key, result)
            results.append(result)
        if len(results) != len(dimensions):
            raise UnsupportedFeature(f"it has {len(results)} results; its subgraphs have {len(dimensions)}")
        return [graph.expect(index, shape) for index, shape in zip(results, dimensions, strict=True)]


def handles_of(graph: SubgraphBuilder, operator: Operator, skipped: int) -> tuple[VariableKey | None, ...]:
    """Returns the variable that each input from `skipped` on refers to, if it is a handle."""
    return tuple(graph.handles.get(index) for index in operator.inputs[skipped:])


def as_argument(operand: Operand, dimensions: Dimensions) -> Operand:
    """Reduces an operand to the properties that a called subgraph needs."""
    return replace(
        operand,
        dimensions=dimensions,
        lifetime=Lifetime.SUBGRAPH_INPUT,
        location=None,
        value=b"",
        name="",
    )


def results_of(graph: SubgraphBuilder, referenced: int) -> list[Dimensions]:
    """Returns the dimensions of a referenced graph's outputs."""
    source = graph.importer.referenced[referenced]
    return [source.operands[index].dimensions for index in source.outputs]


def if_(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes IF: runs one of two subgraphs."""
    importer, handles = graph.importer, handles_of(graph, operator, 1)
    branches = options["then_subgraph"], options["else_subgraph"]
    effects = [importer.effects(branch, handles) for branch in branches]
    if effects[0].outputs != effects[1].outputs:
        raise UnsupportedFeature("its subgraphs return handles of different resources")
    caller = Caller(graph, operator, merge_effects(effects), 1)
    then, otherwise = (caller.call(branch, caller.assigned) for branch in branches)
    pairs = zip(results_of(graph, then), results_of(graph, otherwise), strict=False)
    dimensions = [common_dimensions(first, second) for first, second in pairs]
    inputs = graph.input(operator), graph.model(then), graph.model(otherwise), *caller.inputs()
    outputs = caller.outputs(effects[0].outputs, dimensions)
    if outputs:
        graph.emit(OperationType.IF, inputs, outputs)


def while_(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes WHILE: runs a subgraph as long as another one returns true.

    Shapes of values may change between iterations: the graphs are converted for dimensions that
    cover all of them. Most that do are known to before the body is converted.
    """
    importer, handles = graph.importer, handles_of(graph, operator, 0)
    condition, body = options["cond_subgraph"], options["body_subgraph"]
    effects = [importer.effects(subgraph, handles) for subgraph in (condition, body)]
    if effects[0].assigned:
        raise UnsupportedFeature(f"subgraph {condition}, its condition, assigns variables")
    if len(effects[1].outputs) != len(handles):
        raise UnsupportedFeature(
            f"subgraph {body}, its body, has {len(effects[1].outputs)} results; {len(handles)} are expected"
        )
    if effects[1].outputs != handles:
        raise UnsupportedFeature(f"subgraph {body}, its body, returns other handles than it receives")
    caller = Caller(graph, operator, merge_effects(effects), 0)
    given = caller.loop_dimensions(body)
    carried = sum(key is None for key in handles) + len(caller.assigned)
    while True:
        again = caller.call(body, caller.assigned, given)
        results = results_of(graph, again)
        common = [common_dimensions(*pair) for pair in zip(given, results, strict=False)]
        if common == given[:carried]:
            break
        given[:carried] = common
    inputs = graph.model(caller.call(condition, (), given)), graph.model(again), *caller.inputs()
    graph.emit(OperationType.WHILE, inputs, caller.outputs(handles, given[:carried]))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.IF: Legalization(rule=if_, options="IfOptions", inputs=None, outputs=(0, 1 << 16)),
    BuiltinOperator.WHILE: Legalization(rule=while_, options="WhileOptions", inputs=None, outputs=None),
}
