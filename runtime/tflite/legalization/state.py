"""Resource variables.

VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, and CALL_ONCE, which initialises them.

None of them becomes an operation: see `neurald.runtime.tflite.state`.
"""

from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator
from neurald.runtime.tflite.state import TABLE, Key, handle_key


def handle(graph: Graph, operator: Operator, _: Options) -> None:
    """VAR_HANDLE: creates a handle."""
    key = handle_key(operator)
    if key is None:
        raise Unsupported("it does not say which resource it is about")
    graph.handles[operator.outputs[0]] = key


def _variable(graph: Graph, operator: Operator) -> Key:
    key = graph.handle(operator)
    if key[0] == TABLE:
        raise Unsupported("input 0 is a handle of a hash table")
    return key


def read(graph: Graph, operator: Operator, _: Options) -> None:
    """READ_VARIABLE: the current value, unaffected by later assignments."""
    graph.read_variable(operator, _variable(graph, operator))


def assign(graph: Graph, operator: Operator, _: Options) -> None:
    """ASSIGN_VARIABLE: sets the value for the following operators."""
    graph.set_variable(_variable(graph, operator), graph.input(operator, 1))


def call_once(graph: Graph, operator: Operator, _: Options) -> None:
    """CALL_ONCE. Its effect was evaluated before any graph is converted."""


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.ASSIGN_VARIABLE: Lowering(rule=assign, inputs=(2, 2), outputs=(0, 0)),
    BuiltinOperator.CALL_ONCE: Lowering(rule=call_once, inputs=(0, 0), outputs=(0, 0)),
    BuiltinOperator.READ_VARIABLE: Lowering(rule=read),
    BuiltinOperator.VAR_HANDLE: Lowering(rule=handle, inputs=(0, 0)),
}
