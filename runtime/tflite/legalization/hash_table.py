"""Hash tables; see `neurald.runtime.tflite.table`."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering
from neurald.runtime.tflite.legalization.state import handle
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator
from neurald.runtime.tflite.state import Key
from neurald.runtime.tflite.table import table_parts, table_types


def make(graph: Graph, operator: Operator, options: Options) -> None:
    """HASHTABLE: creates a handle."""
    handle(graph, operator, options)
    if table_types(operator) is None:
        raise Unsupported(
            f"it has keys of type {options['key_dtype']} and values of type {options['value_dtype']}; INT64 and STRING, "
            f"or STRING and INT64, are expected"
        )


def _parts(graph: Graph, operator: Operator) -> tuple[Key, ...]:
    parts = table_parts(graph.handle(operator))
    if not parts:
        raise Unsupported("input 0 is a handle of something else than a hash table")
    return parts


def import_(graph: Graph, operator: Operator, _: Options) -> None:
    """HASHTABLE_IMPORT: sets the keys and values of a table, unless it is already filled."""
    parts = _parts(graph, operator)
    inputs = [*map(graph.variable, parts), graph.input(operator, 1), graph.input(operator, 2)]
    results = [graph.value_like(graph.importer.variable_type(part)) for part in parts]
    graph.emit(OperationType.TFLITE_HASHTABLE_IMPORT, inputs, results)
    for part, result in zip(parts, results, strict=True):
        graph.set_variable(part, result)


def find(graph: Graph, operator: Operator, _: Options) -> None:
    """HASHTABLE_FIND: looks up a value for each key."""
    table = map(graph.variable, _parts(graph, operator))
    keys, default = graph.input(operator, 1), graph.input(operator, 2)
    result = graph.expect(graph.output(operator), graph.operand(keys).dimensions)
    graph.emit(OperationType.TFLITE_HASHTABLE_FIND, (*table, keys, default), (result,))


def size(graph: Graph, operator: Operator, _: Options) -> None:
    """HASHTABLE_SIZE: returns the number of different keys."""
    keys = graph.variable(_parts(graph, operator)[0])
    graph.emit(OperationType.TFLITE_HASHTABLE_SIZE, (keys,), (graph.output(operator),))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.HASHTABLE: Lowering(rule=make, options="HashtableOptions", inputs=(0, 0)),
    BuiltinOperator.HASHTABLE_FIND: Lowering(rule=find, inputs=(3, 3)),
    BuiltinOperator.HASHTABLE_IMPORT: Lowering(rule=import_, inputs=(3, 3), outputs=(0, 0)),
    BuiltinOperator.HASHTABLE_SIZE: Lowering(rule=size),
}
