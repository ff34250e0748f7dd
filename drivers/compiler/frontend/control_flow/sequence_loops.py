"""Recurrent operations over long sequences as loops over parts of a few steps.

A lowering writes out every step of a sequence, so that compiling takes as long as there are steps.
A longer sequence becomes a loop whose body has the same operation on the next steps: it reads them
at an index that it counts, and writes their results into a sequence. What follows the last whole
part has a body of its own. An operation in both directions becomes one for each of them.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType, byte_size
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call
from neurald.hal.records import replace

#: Sequences of at most as many steps are written out; and those of a small cell, whose steps take
#: less time than the turns of a loop.
_MAX_WRITTEN: Final = 8
_MAX_WRITTEN_SMALL: Final = 16
#: Weights of each gate of a small cell.
_MAX_SMALL_WEIGHTS: Final = 2048
#: Numbers of steps of a part: products of inputs have several rows. Parts of more steps were
#: slower.
_STEPS: Final = range(4, 9)
#: Limit on the results of a sequence, whose memory is a constant at first.
_MAX_BYTES: Final = 1 << 26
_LSTM: Final = ("output_state", "cell_state")
#: States of the operations.
_STATES: Final = {
    OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM: _LSTM,
    OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM: _LSTM,
    OperationType.UNIDIRECTIONAL_SEQUENCE_RNN: ("hidden_state",),
    OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN: ("hidden_state",),
}
#: The operations that do the same in one direction.
_DIRECTED: Final = {
    OperationType.BIDIRECTIONAL_SEQUENCE_LSTM: OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM,
    OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_LSTM: OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM,
    OperationType.BIDIRECTIONAL_SEQUENCE_RNN: OperationType.UNIDIRECTIONAL_SEQUENCE_RNN,
    OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_RNN: OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN,
}
#: Operations over sequences that may become loops.
SEQUENCES: Final = frozenset((*_STATES, *_DIRECTED))


def may_have_loops(graph: Subgraph) -> bool:
    """Returns True if an operation of a graph may become a loop, as far as declared shapes tell."""
    return any(
        operation.type in SEQUENCES
        and max((graph.operands[operation.inputs[0]].dimensions or (0,))[:2]) > _MAX_WRITTEN
        for operation in graph.operations
    )


class SequenceLoop(Struct, frozen=True, kw_only=True):
    """The graphs of a loop over a sequence.

    Their inputs are the index of the next step along each axis of the sequence, the results so far,
    the states, the sequence and other operands; their outputs those that change.

    Attributes:
        index: the operand of the first index.
        results: the operand of the results before the first step.
        inputs: the operands of the model for the other inputs.
        condition: whether a whole part is left.
        body: computes a whole part.
        rest: computes the steps after these; None if there are none.
        outputs: the positions of the operation's outputs among those of a graph.
    """

    index: Operand
    results: Operand
    inputs: tuple[int, ...]
    condition: Subgraph
    body: Subgraph
    rest: Subgraph | None
    outputs: tuple[int, ...]


def sequence_loop(
    operation: Operation, call: Call, operands: Sequence[Operand], shape_of: Callable[[int], Shape]
) -> SequenceLoop | None:
    """Returns the loop for an operation with many steps, or None.

    Args:
        operation: the operation.
        call: the operation.
        operands: those of its graph.
        shape_of: returns the shape of an operand.
    """
    names = _STATES.get(operation.type)
    if names is None:
        return None
    axis = _long_axis(operation.type, call)
    if axis is None:
        return None
    shape, (whole, *_) = call.shape("input"), DEFINITIONS[operation.type].output_shapes(call)
    if byte_size(call.operand("output").type, whole) > _MAX_BYTES:
        return None
    part = _Part(operation, call, operands, shape_of, names, axis, whole)
    # Each step of a part, and of the rest, adds kernels.
    steps = min(_STEPS, key=lambda each: each + shape[axis] % each)
    count, rest = divmod(shape[axis], steps)
    made = ("output", *(f"{name}_out" for name in names))
    return SequenceLoop(
        index=_constant(np.zeros(3, np.int32)),
        results=replace(
            call.operand("output"),
            dimensions=whole,
            lifetime=Lifetime.CONSTANT_COPY,
            value=bytes(byte_size(call.operand("output").type, whole)),
        ),
        inputs=part.given,
        condition=part.condition(count * steps),
        body=part.body(steps),
        rest=part.body(rest) if rest else None,
        # The index is the first output of a graph.
        outputs=tuple(1 + made.index(name) for name in call.binding.outputs),
    )


def two_directions(
    operation: Operation, call: Call, operands: Sequence[Operand], shape_of: Callable[[int], Shape]
) -> tuple[Subgraph, tuple[int, ...]] | None:
    """Returns a graph with an operation per direction of a long sequence, and its inputs, or None.

    Args:
        operation, call, operands, shape_of: see `sequence_loop`.
    """
    kind = _DIRECTED.get(operation.type)
    if kind is None:
        return None
    # Few models have any.
    from neurald.hal.operations.recurrent.bidirectional import is_merged
    from neurald.hal.operations.recurrent.recurrent import is_given

    if is_given(call, "aux_input"):
        return None
    axis = _long_axis(operation.type, call)
    if axis is None:
        return None
    shape = call.shape("input")
    graph, found = _Graph(), call.binding.inputs
    given = [each for each in dict.fromkeys(operation.inputs) if _is_passed(operands[each])]
    inputs = tuple(graph.add(_computed(operands[each], shape_of(each))) for each in given)
    here = dict(zip(given, inputs, strict=True))
    along = graph.add(_constant(np.array([axis], np.int32)))

    def reversed_(index: int, like: Operand, of: Shape) -> int:
        result = graph.add(_computed(like, of))
        graph.run(OperationType.TFLITE_REVERSE_V2, (index, along), result)
        return result

    results: dict[str, int] = {}
    sequence, output = call.operand("input"), call.operand("fw_output")
    for prefix in ("fw_", "bw_"):
        source = here[call.index("input")]
        if prefix == "bw_":
            source = reversed_(source, sequence, shape)
        arguments = []
        for parameter in DEFINITIONS[kind].forms[1].inputs:
            name = parameter.name
            index = (found.get(f"{prefix}{name}") or found.get(name) or (None,))[0]
            if name == "input":
                arguments.append(source)
            elif name == "time_major":
                arguments.append(graph.add(_time_major(kind, is_time_major=axis == 0)))
            elif index is not None:
                arguments.append(here[index] if index in here else graph.add(operands[index]))
        states = [call.index(f"{prefix}{name}_in") for name in _STATES[kind]]
        width = shape_of(states[0])[1]
        made = [graph.add(_computed(output, (*shape[:2], width)))]
        made += [graph.add(_computed(operands[each], shape_of(each))) for each in states]
        graph.operations.append(Operation(type=kind, inputs=tuple(arguments), outputs=tuple(made)))
        if prefix == "bw_":
            made[0] = reversed_(made[0], output, (*shape[:2], width))
        names = ("output", *(f"{name}_out" for name in _STATES[kind]))
        results.update((f"{prefix}{name}", each) for name, each in zip(names, made, strict=True))
    if is_merged(call):
        whole = DEFINITIONS[operation.type].output_shapes(call)[0]
        last = graph.add(_scalar(OperandType.INT32, 2))
        both = (results["fw_output"], results["bw_output"], last)
        results["fw_output"] = graph.add(_computed(output, whole))
        graph.run(OperationType.CONCATENATION, both, results["fw_output"])
    outputs = tuple(results[name] for name in call.binding.outputs)
    return graph.finished(inputs, outputs), tuple(given)


def _long_axis(kind: OperationType, call: Call) -> int | None:
    """Returns the axis of the steps of a sequence that is not written out; None for others."""
    axis, shape = 0 if call.scalar("time_major") else 1, call.shape("input")
    if has_extents(shape) or shape[axis] <= _MAX_WRITTEN:
        return None
    units = DEFINITIONS[kind].output_shapes(call)[0][-1]
    is_small = units * (units + shape[-1]) <= _MAX_SMALL_WEIGHTS
    return None if is_small and shape[axis] <= _MAX_WRITTEN_SMALL else axis


def _time_major(kind: OperationType, *, is_time_major: bool) -> Operand:
    """Returns the argument of an operation, which is an INT32 for RNN, and a BOOL for LSTM."""
    return _scalar(OperandType.BOOL if _STATES[kind] is _LSTM else OperandType.INT32, is_time_major)


def _is_passed(operand: Operand) -> bool:
    """Returns True if an operand is an input of the graphs; others are a part of them."""
    return operand.type.is_tensor and operand.lifetime is not Lifetime.NO_VALUE


class _Part:
    """Makes the graphs; see `sequence_loop`.

    Args:
        operation, call, operands, shape_of: see `sequence_loop`.
        states: the names of its states.
        axis: the axis of steps.
        whole: the shape of all results.

    Attributes:
        given: the operands of the operation that are inputs of the graphs: the states first.
    """

    def __init__(
        self,
        operation: Operation,
        call: Call,
        operands: Sequence[Operand],
        shape_of: Callable[[int], Shape],
        states: Sequence[str],
        axis: int,
        whole: tuple[int, ...],
    ) -> None:
        self._operation, self._call, self._axis = operation, call, axis
        self._operands, self._shape_of = operands, shape_of
        self._states = [call.index(f"{name}_in") for name in states]
        self._whole = whole
        first = [*self._states, call.index("input")]
        others = [each for each in dict.fromkeys(operation.inputs) if each not in first]
        self.given = (*first, *(each for each in others if _is_passed(operands[each])))

    def condition(self, end: int) -> Subgraph:
        """Returns the graph that tells whether the index of the step is less than a number."""
        graph = _Graph()
        inputs = self._inputs(graph)
        begin, one = graph.add(_constant(np.array([self._axis], np.int32))), graph.ones()
        step = graph.add(Operand(type=OperandType.TENSOR_INT32, dimensions=(1,)))
        graph.run(OperationType.TFLITE_SLICE, (inputs[0], begin, one), step)
        test = graph.add(Operand(type=OperandType.TENSOR_BOOL8, dimensions=(1,)))
        graph.run(OperationType.LESS, (step, graph.add(_constant(np.array([end], np.int32)))), test)
        return graph.finished(inputs, (test,))

    def body(self, steps: int) -> Subgraph:
        """Returns the graph that computes the next steps."""
        graph, call = _Graph(), self._call
        inputs = self._inputs(graph)
        index, results, *given = inputs
        here = dict(zip(self.given, given, strict=True))
        shape = self._with_steps(call.shape("input"), steps)
        size = graph.add(_constant(np.array(shape, np.int32)))
        part = graph.add(_computed(call.operand("input"), shape))
        sequence = call.index("input")
        graph.run(OperationType.TFLITE_SLICE, (here[sequence], index, size), part)
        here[sequence] = part
        for each in self._operation.inputs:
            if each not in here:
                here[each] = graph.add(self._operands[each])
        output = graph.add(_computed(call.operand("output"), self._with_steps(self._whole, steps)))
        states = [graph.add(_computed(self._operands[each], self._shape_of(each))) for each in self._states]
        operands = tuple(here[each] for each in self._operation.inputs)
        graph.operations.append(
            Operation(type=self._operation.type, inputs=operands, outputs=(output, *states))
        )
        longer = graph.add(_computed(call.operand("output"), self._whole))
        graph.run(OperationType.TFLITE_DYNAMIC_UPDATE_SLICE, (results, output, index), longer)
        following = graph.add(Operand(type=OperandType.TENSOR_INT32, dimensions=(3,)))
        by = graph.add(_constant(np.where(np.arange(3) == self._axis, steps, 0).astype(np.int32)))
        none = graph.add(_scalar(OperandType.INT32, 0))
        graph.run(OperationType.ADD, (index, by, none), following)
        return graph.finished(inputs, (following, longer, *states))

    def _inputs(self, graph: "_Graph") -> tuple[int, ...]:
        index = graph.add(Operand(type=OperandType.TENSOR_INT32, dimensions=(3,)))
        results = graph.add(_computed(self._call.operand("output"), self._whole))
        given = [_computed(self._operands[each], self._shape_of(each)) for each in self.given]
        return index, results, *(graph.add(each) for each in given)

    def _with_steps(self, shape: Sequence[int], steps: int) -> tuple[int, ...]:
        return tuple(steps if axis == self._axis else length for axis, length in enumerate(shape))


class _Graph:
    """A graph under construction."""

    def __init__(self) -> None:
        self._operands: list[Operand] = []
        self.operations: list[Operation] = []

    def add(self, operand: Operand) -> int:
        """Adds an operand, and returns its index."""
        self._operands.append(operand)
        return len(self._operands) - 1

    def ones(self) -> int:
        """Adds a vector of a single 1."""
        return self.add(_constant(np.ones(1, np.int32)))

    def run(self, kind: OperationType, inputs: tuple[int, ...], output: int) -> None:
        """Adds an operation."""
        self.operations.append(Operation(type=kind, inputs=inputs, outputs=(output,)))

    def finished(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Subgraph:
        """Returns the graph."""
        return Subgraph(
            operands=tuple(self._operands), operations=tuple(self.operations), inputs=inputs, outputs=outputs
        )


def _computed(operand: Operand, shape: tuple[int, ...]) -> Operand:
    """Returns an operand of the same type that an operation computes."""
    return Operand(
        type=operand.type,
        dimensions=shape,
        scale=operand.scale,
        zero_point=operand.zero_point,
        channel_quant=operand.channel_quant,
        name=operand.name,
    )


def _scalar(kind: OperandType, value: int) -> Operand:
    return Operand(type=kind, lifetime=Lifetime.CONSTANT_COPY, value=np.array(value, kind.dtype).tobytes())


def _constant(values: "np.ndarray[tuple[int, ...], np.dtype[np.int32]]") -> Operand:
    return Operand(
        type=OperandType.TENSOR_INT32,
        dimensions=values.shape,
        lifetime=Lifetime.CONSTANT_COPY,
        value=values.tobytes(),
    )
