"""Models with IF and WHILE, and their parts."""

from collections.abc import Sequence

import neurald as nd

T = nd.OperandType
BOOL, FLOAT, INT = T.TENSOR_BOOL8, T.TENSOR_FLOAT32, T.TENSOR_INT32


class Graph:
    """A ModelBuilder with short method names."""

    def __init__(self) -> None:
        self.builder = nd.ModelBuilder()
        self.none = self.builder.add_operand(T.INT32)
        self.builder.set_operand_value(self.none, 0)

    def value(self, operand_type: nd.OperandType = FLOAT, shape: Sequence[int] = (2,)) -> int:
        return self.builder.add_operand(operand_type, shape)

    def constant(self, values: Sequence[float], operand_type: nd.OperandType = FLOAT) -> int:
        index = self.builder.add_operand(operand_type, (len(values),))
        self.builder.set_operand_value(index, list(values))
        return index

    def model(self, model: nd.Model) -> int:
        index = self.builder.add_operand(T.MODEL)
        self.builder.set_operand_value_from_model(index, model)
        return index

    def binary(self, operation_type: nd.OperationType, first: int, second: int, output: int) -> int:
        self.builder.add_operation(operation_type, [first, second, self.none], [output])
        return output

    def finish(self, inputs: Sequence[int], outputs: Sequence[int]) -> nd.Model:
        self.builder.identify_inputs_and_outputs(inputs, outputs)
        return self.builder.finish()


def arithmetic(operation_type: nd.OperationType, operand: float, shape: Sequence[int] = (2,)) -> nd.Model:
    """Creates x -> x (operation) operand."""
    graph = Graph()
    source = graph.value(shape=shape)
    result = graph.binary(operation_type, source, graph.constant([operand]), graph.value(shape=shape))
    return graph.finish([source], [result])


ADD, MUL = nd.OperationType.ADD, nd.OperationType.MUL


def branching(then: nd.Model, otherwise: nd.Model, shape: Sequence[int] = (2,)) -> nd.Model:
    graph = Graph()
    condition, source = graph.value(BOOL, (1,)), graph.value(shape=shape)
    output = graph.value(shape=shape)
    graph.builder.add_operation(
        nd.OperationType.IF,
        [condition, graph.model(then), graph.model(otherwise), source],
        [output],
    )
    return graph.finish([condition, source], [output])


def below(limit: float, *, extra: int = 0) -> nd.Model:
    """Creates (counter, ...) -> counter < limit."""
    graph = Graph()
    counter = graph.value(shape=(1,))
    others = [graph.value() for _ in range(extra)]
    output = graph.value(BOOL, (1,))
    graph.builder.add_operation(nd.OperationType.LESS, [counter, graph.constant([limit])], [output])
    return graph.finish([counter, *others], [output])


def counting(step: float, factor: float) -> nd.Model:
    """Creates (counter, value) -> (counter + step, value * factor)."""
    graph = Graph()
    counter, value = graph.value(shape=(1,)), graph.value()
    return graph.finish(
        [counter, value],
        [
            graph.binary(ADD, counter, graph.constant([step]), graph.value(shape=(1,))),
            graph.binary(MUL, value, graph.constant([factor]), graph.value()),
        ],
    )


def loop(condition: nd.Model, body: nd.Model) -> nd.Model:
    graph = Graph()
    counter, value = graph.value(shape=(1,)), graph.value()
    outputs = [graph.value(shape=(1,)), graph.value()]
    graph.builder.add_operation(
        nd.OperationType.WHILE, [graph.model(condition), graph.model(body), counter, value], outputs
    )
    return graph.finish([counter, value], outputs)
