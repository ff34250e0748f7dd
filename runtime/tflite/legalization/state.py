"""Resource variables: VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, and CALL_ONCE, which initialises them.

No operation stands for any of them: see `neurald.runtime.tflite.state`.
"""

from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator
from neurald.runtime.tflite.state import TABLE, Key, handle_key


def handle(graph: Graph, operator: Operator, _: Options) -> None:
    """Makes a handle."""
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
    """The value as it is now; later assignments do not change it."""
    graph.read_variable(operator, _variable(graph, operator))


def assign(graph: Graph, operator: Operator, _: Options) -> None:
    """From here on, the variable has that value."""
    graph.set_variable(_variable(graph, operator), graph.input(operator, 1))


def call_once(graph: Graph, operator: Operator, _: Options) -> None:
    """What it initialises has been found before any graph is brought over."""


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.ASSIGN_VARIABLE: Lowering(rule=assign, inputs=(2, 2), outputs=(0, 0)),
    BuiltinOperator.CALL_ONCE: Lowering(rule=call_once, inputs=(0, 0), outputs=(0, 0)),
    BuiltinOperator.READ_VARIABLE: Lowering(rule=read),
    BuiltinOperator.VAR_HANDLE: Lowering(rule=handle, inputs=(0, 0)),
}
