"""Converts operators like earlier ones of the same graph without running their rules again.

Networks repeat a few forms of operators: layers, heads, steps of time. What a rule emits for an
operator depends on little: its options, types, shapes and lifetimes of its tensors, and some
values. The first operator of a form is converted by its rule, and what that has emitted is
recorded, as far as it consists of operations on the operator's tensors, constants and intermediate
results. For others of the form, the same is emitted, with their own tensors.

Only operators of `REPEATABLE` codes are considered, and only where all tensors have plain types:
quantised operators hardly repeat, since each has scales of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Location, Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Dimensions
from neurald.hal.operations.machinery.signature import MAX_RANK
from neurald.hal.records import replace
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import OMITTED, Operator, Tensor, TfliteSubgraph
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator as B
from neurald.runtime.tflite.file.schema_enums import TensorType
from neurald.runtime.tflite.graph.import_context import ImportContext
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.state import VariableKey
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder, is_absent

#: Operators whose rules only read what `_Form` describes, and only emit operations.
REPEATABLE: Final = frozenset(
    (
        B.ABS,
        B.ADD,
        B.AVERAGE_POOL_2D,
        B.BATCH_MATMUL,
        B.CAST,
        B.CONCATENATION,
        B.CONV_2D,
        B.DEPTHWISE_CONV_2D,
        B.DEQUANTIZE,
        B.DIV,
        B.EQUAL,
        B.EXP,
        B.EXPAND_DIMS,
        B.FULLY_CONNECTED,
        B.GATHER,
        B.GELU,
        B.GREATER,
        B.HARD_SWISH,
        B.LEAKY_RELU,
        B.LESS,
        B.LOGISTIC,
        B.MAXIMUM,
        B.MAX_POOL_2D,
        B.MEAN,
        B.MINIMUM,
        B.MUL,
        B.NEG,
        B.PACK,
        B.PAD,
        B.POW,
        B.PRELU,
        B.REDUCE_MAX,
        B.RELU,
        B.RELU6,
        B.RESHAPE,
        B.RSQRT,
        B.SELECT_V2,
        B.SLICE,
        B.SOFTMAX,
        B.SPLIT,
        B.SQRT,
        B.SQUARED_DIFFERENCE,
        B.SQUEEZE,
        B.STRIDED_SLICE,
        B.SUB,
        B.SUM,
        B.TANH,
        B.TRANSPOSE,
        B.UNPACK,
    )
)
#: Types without quantisation whose constants are used as the file has them.
_PLAIN: Final = frozenset(
    (TensorType.FLOAT32, TensorType.FLOAT16, TensorType.INT32, TensorType.INT64, TensorType.BOOL)
)
#: Constants whose values decide about a conversion are compared if they are at most this long.
_MAX_COMPARED_BYTES: Final = 256
#: Forms are only looked for where this many operators have the same code and similar shapes.
_MIN_ALIKE: Final = 4
#: How many forms of a graph are kept.
_MAX_FORMS: Final = 4096
#: How many variants of a form, with other values of constants, are kept.
_MAX_VARIANTS: Final = 8
#: Operators with more inputs or outputs are converted by their rules.
_MAX_TENSORS: Final = 16

#: The properties of an operator, its inputs and outputs by which equal ones are converted alike.
_Form: TypeAlias = tuple[object, ...]
#: The position, place and bytes of an input.
_Value: TypeAlias = tuple[int, Location, bytes]


class _Result(Struct, frozen=True, kw_only=True, gc=False):
    """An operand that a conversion has added or written.

    Attributes:
        operand: without the name of its tensor.
        tensor_type: the type that its tensor has afterwards; 0 for an intermediate result.
        has_expected, expected: whether, and which, dimensions are expected if they cannot be
            inferred.
    """

    operand: Operand
    tensor_type: int
    has_expected: bool
    expected: Dimensions


class _Emitted(Struct, frozen=True, kw_only=True, gc=False):
    """The operands and operations that the rule of an operator has emitted.

    Operands are numbered from 0 on: the operator's inputs, its outputs, and intermediate results.
    Constants that all operators share have their number among all operands, inverted.

    Attributes:
        values: the values of inputs, on which the conversion depends.
        outputs: the operator's.
        results: intermediate ones.
    """

    values: tuple[_Value, ...]
    outputs: tuple[_Result, ...]
    results: tuple[_Result, ...]
    operations: tuple[tuple[OperationType, tuple[int, ...], tuple[int, ...]], ...]


class RepeatingBuilder(SubgraphBuilder):
    """A graph that knows the forms of its operators so far; see `SubgraphBuilder`."""

    def __init__(
        self,
        source: TfliteSubgraph,
        inputs: Sequence[int],
        outputs: Sequence[int],
        importer: ImportContext,
        handles: Mapping[int, VariableKey] | None = None,
    ) -> None:
        super().__init__(source, inputs, outputs, importer, handles)
        #: None for forms that cannot be repeated.
        self._known: dict[_Form, list[_Emitted] | None] = {}
        self._candidates = _candidates(source)

    def convert(
        self,
        operator: Operator,
        options: Options,
        rule: Callable[[SubgraphBuilder, Operator, Options], None],
    ) -> None:
        """Emits what a rule emits for an operator.

        Raises:
            UnsupportedFeature: no operation can replace the operator.
            BadData: its description or that of its tensors in the file is invalid.
        """
        found = self._form(operator, options) if id(operator) in self._candidates else None
        if found is None:
            rule(self, operator, options)
            return
        form, inputs = found
        variants = self._known.get(form, [])
        for emitted in variants or ():
            if all(
                self._operands[inputs[position]].location == location
                or self._bytes(inputs[position]) == content
                for position, location, content in emitted.values
            ):
                self._repeat(emitted, operator, inputs)
                return
        if variants is None or len(variants) >= _MAX_VARIANTS or len(self._known) >= _MAX_FORMS:
            rule(self, operator, options)
            return
        recorded = self._recorded(operator, inputs, partial(rule, self, operator, options))
        self._known[form] = None if recorded is None else [*variants, recorded]

    def _form(self, operator: Operator, options: Options) -> tuple[_Form, list[int]] | None:
        """Returns the form of an operator, and the operands of its inputs.

        None if it is to be converted by its rule.
        """
        if (
            operator.options2_type
            or operator.custom_options
            or operator.intermediates
            or len(operator.inputs) + len(operator.outputs) > _MAX_TENSORS
        ):
            return None
        facts: list[object] = [operator.code, len(operator.inputs), operator.options_type]
        for option in options.values():
            # Zeros of both signs are equal.
            facts.append(option.hex() if isinstance(option, float) else option)
        facts += self._ranks_hold, self._lengths_hold, self._has_empty
        inputs: list[int] = []
        for index in operator.inputs:
            if index == OMITTED:
                facts.append(None)
                inputs.append(index)
                continue
            tensor = self._tensors[index]
            if not _is_plain(tensor):
                return None
            try:
                number = self._read(index)
            except (UnsupportedFeature, BadData):
                return None  # The rule may not need it, or reports it.
            operand = self._operands[number]
            if operand.channel_quant is not None or operand.subgraph is not None:
                return None
            facts += (
                inputs.index(number) if number in inputs else None,
                operand.type,
                operand.dimensions,
                operand.lifetime,
                operand.scale,
                operand.zero_point,
                operand.value,
                self._expected.get(number),
                tensor.data is None,
                tensor.type,
                tensor.shape,
                tensor.shape_signature,
                tensor.has_rank,
            )
            inputs.append(number)
        for index in operator.outputs:
            tensor = self._tensors[index]
            if not _is_plain(tensor):
                return None
            facts += (
                index in self._fetched,
                tensor.type,
                tensor.shape,
                tensor.shape_signature,
                tensor.has_rank,
            )
        return tuple(facts), inputs

    def _repeat(self, emitted: _Emitted, operator: Operator, inputs: Sequence[int]) -> None:
        operands = self._operands
        places = [*inputs, *operator.outputs]
        for index, result in zip(operator.outputs, emitted.outputs, strict=True):
            tensor = self._tensors[index]
            if tensor.type != result.tensor_type:
                self._tensors[index] = replace(tensor, type=result.tensor_type)
            operands[index] = replace(result.operand, name=tensor.name)
            self._expected[index] = result.expected
        for result in emitted.results:
            places.append(self._add(result.operand))
            if result.has_expected:
                self._expected[places[-1]] = result.expected
        for operation_type, sources, targets in emitted.operations:
            self._append(
                Operation(
                    type=operation_type,
                    inputs=tuple([places[place] if place >= 0 else ~place for place in sources]),
                    outputs=tuple([places[place] for place in targets]),
                )
            )

    def _recorded(
        self, operator: Operator, inputs: Sequence[int], rule: Callable[[], None]
    ) -> _Emitted | None:
        """Runs a rule; returns what it has emitted, None if that cannot be repeated."""
        state, first, first_operation = self._state(inputs), len(self._operands), len(self._operations)
        read: list[int] = []
        self._values_read = read
        try:
            rule()
        finally:
            self._values_read = None
        if self._state(inputs) != state:
            return None
        places: dict[int, int] = {}
        for place, index in enumerate((*inputs, *operator.outputs)):
            places.setdefault(index, place)
        results: list[_Result] = []
        for index in range(first, len(self._operands)):
            if index not in self._shared:
                operand = self._operands[index]
                if operand.location is not None or operand.name or operand.subgraph is not None:
                    return None  # It shares the bytes of another constant, for example.
                places[index] = len(inputs) + len(operator.outputs) + len(results)
                results.append(self._result(index, 0))
        outputs = []
        for index in operator.outputs:
            operand = self._operands[index]
            if is_absent(operand) or operand.location is not None or index not in self._expected:
                return None
            outputs.append(self._result(index, self._tensors[index].type))
        operations = []
        for operation in self._operations[first_operation:]:
            if any(index not in places for index in operation.outputs) or any(
                index not in places and index not in self._shared for index in operation.inputs
            ):
                return None
            operations.append(
                (
                    operation.type,
                    tuple([places.get(index, ~index) for index in operation.inputs]),
                    tuple([places[index] for index in operation.outputs]),
                )
            )
        values = self._compared(read, inputs)
        if values is None or not self._is_accepted(first_operation):
            return None
        return _Emitted(
            values=values, outputs=tuple(outputs), results=tuple(results), operations=tuple(operations)
        )

    def _state(self, inputs: Sequence[int]) -> tuple[object, ...]:
        """Returns what a rule whose operations can be repeated does not change.

        Forms contain the rest: whether ranks and lengths hold, and whether there are empty results.
        """
        return (
            len(self._aliases),
            len(self._variables),
            len(self._bias_scales),
            len(self.importer.referenced),
            [self._operands[index] for index in inputs if index != OMITTED],
        )

    def _compared(self, read: Sequence[int], inputs: Sequence[int]) -> tuple[_Value, ...] | None:
        """Returns places and bytes of inputs whose values were read; None if they are too many.

        The values of all other operands follow from the form.
        """
        found: dict[int, _Value] = {}
        for index in read:
            location = self._operands[index].location
            if location is not None:
                if index not in inputs or location.length > _MAX_COMPARED_BYTES:
                    return None
                found[index] = inputs.index(index), location, self._bytes(index)
        return tuple(found.values())

    def _bytes(self, index: int) -> bytes:
        """Returns the bytes of a constant."""
        value = self.importer.constant(self._operands[index])
        return b"" if value is None else value.tobytes()

    def _result(self, index: int, tensor_type: int) -> _Result:
        operand = self._operands[index]
        return _Result(
            operand=replace(operand, name="") if operand.name else operand,
            tensor_type=tensor_type,
            has_expected=index in self._expected,
            expected=self._expected.get(index),
        )


def _candidates(source: TfliteSubgraph) -> frozenset[int]:
    """Returns the identities of the operators that may have the form of others."""
    tensors = source.tensors
    alike: dict[tuple[object, ...], list[int]] = {}
    for operator in source.operators:
        inputs, outputs = operator.inputs, operator.outputs
        if (
            operator.code in REPEATABLE
            and inputs
            and outputs
            and inputs[0] != OMITTED
            and _is_plain(tensors[outputs[0]])
            and _is_plain(tensors[inputs[0]])
        ):
            key = operator.code, len(inputs), tensors[inputs[0]].shape, tensors[outputs[0]].shape
            alike.setdefault(key, []).append(id(operator))
    return frozenset(each for group in alike.values() if len(group) >= _MIN_ALIKE for each in group)


def _is_plain(tensor: Tensor) -> bool:
    """Returns True if nothing but type, shape and value describes a tensor."""
    return (
        tensor.type in _PLAIN
        and len(tensor.shape) <= MAX_RANK
        and not tensor.is_variable
        and tensor.sparsity is None
        and not tensor.may_be_quantized
    )
