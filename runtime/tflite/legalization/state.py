"""Resource variables.

VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, and CALL_ONCE, which initialises them.

None of them becomes an operation: see `neurald.runtime.tflite.graph.state`.
"""

from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.state import TABLE, VariableKey, handle_key
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization


def var_handle(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes VAR_HANDLE: creates a handle."""
    key = handle_key(operator)
    if key is None:
        raise UnsupportedFeature("it does not name its resource")
    graph.handles[operator.outputs[0]] = key


def _variable(graph: SubgraphBuilder, operator: Operator) -> VariableKey:
    key = graph.handle(operator)
    if key[0] == TABLE:
        raise UnsupportedFeature("input 0 is a handle of a hash table")
    return key


def read(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes READ_VARIABLE: the current value, unaffected by later assignments."""
    graph.read_variable(operator, _variable(graph, operator))


def assign(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes ASSIGN_VARIABLE: sets the value for the following operators."""
    graph.set_variable(_variable(graph, operator), graph.input(operator, 1))


def call_once(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes CALL_ONCE. Its effect was evaluated before any graph is converted."""


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.ASSIGN_VARIABLE: Legalization(rule=assign, inputs=(2, 2), outputs=(0, 0)),
    BuiltinOperator.CALL_ONCE: Legalization(rule=call_once, inputs=(0, 0), outputs=(0, 0)),
    BuiltinOperator.READ_VARIABLE: Legalization(rule=read),
    BuiltinOperator.VAR_HANDLE: Legalization(rule=var_handle, inputs=(0, 0)),
}
