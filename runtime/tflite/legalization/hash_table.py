"""HASHTABLE and the operators on it, and HASHTABLE_LOOKUP in a list of keys.

`neurald.runtime.tflite.graph.hash_table` describes the tables.
"""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.hash_table import table_parts, table_types
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.state import VariableKey
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.state import var_handle


def make(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes HASHTABLE: creates a handle."""
    var_handle(graph, operator, options)
    if table_types(operator) is None:
        raise UnsupportedFeature(
            f"it has keys of type {options['key_dtype']} and values of type {options['value_dtype']}; "
            "INT64 and STRING, "
            f"or STRING and INT64, are expected"
        )


def _parts(graph: SubgraphBuilder, operator: Operator) -> tuple[VariableKey, ...]:
    parts = table_parts(graph.handle(operator))
    if not parts:
        raise UnsupportedFeature("input 0 is a handle of something other than a hash table")
    return parts


def import_(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes HASHTABLE_IMPORT: sets the keys and values of a table, unless it is filled."""
    parts = _parts(graph, operator)
    inputs = [*map(graph.variable, parts), graph.input(operator, 1), graph.input(operator, 2)]
    results = [graph.value_like(graph.importer.variable_type(part)) for part in parts]
    graph.emit(OperationType.TFLITE_HASHTABLE_IMPORT, inputs, results)
    for part, result in zip(parts, results, strict=True):
        graph.set_variable(part, result)


def find(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes HASHTABLE_FIND: looks up a value for each key."""
    table = map(graph.variable, _parts(graph, operator))
    keys, default = graph.input(operator, 1), graph.input(operator, 2)
    result = graph.expect(graph.output(operator), graph.operand(keys).dimensions)
    graph.emit(OperationType.TFLITE_HASHTABLE_FIND, (*table, keys, default), (result,))


def size(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes HASHTABLE_SIZE: returns the number of different keys."""
    keys = graph.variable(_parts(graph, operator)[0])
    graph.emit(OperationType.TFLITE_HASHTABLE_SIZE, (keys,), (graph.output(operator),))


def hashtable_lookup(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes HASHTABLE_LOOKUP: returns rows of values, and whether each key was found."""
    inputs = [graph.input(operator, position) for position in range(3)]
    results = graph.output(operator, 0, typed_as=2), graph.output(operator, 1)
    graph.emit(OperationType.HASHTABLE_LOOKUP, inputs, results)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.HASHTABLE: Legalization(rule=make, options="HashtableOptions", inputs=(0, 0)),
    BuiltinOperator.HASHTABLE_FIND: Legalization(rule=find, inputs=(3, 3)),
    BuiltinOperator.HASHTABLE_IMPORT: Legalization(rule=import_, inputs=(3, 3), outputs=(0, 0)),
    BuiltinOperator.HASHTABLE_LOOKUP: Legalization(rule=hashtable_lookup, inputs=(3, 3), outputs=(2, 2)),
    BuiltinOperator.HASHTABLE_SIZE: Legalization(rule=size),
}
