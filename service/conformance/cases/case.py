"""Generates a case: a model of a single operation, its inputs, and the expected outputs.

The operation, form, row of types and seed determine a case. The checks of the operation decide
whether a drawn call is valid; invalid calls are drawn again. The reference of the operation
computes the expected outputs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neurald.hal.errors import BadData, OpFailed
from neurald.hal.model.graph import ChannelQuant, Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, Parameter, Row
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import validate_model
from neurald.service.conformance.cases.control_values import CONTROL_VALUES
from neurald.service.conformance.cases.elements import elements
from neurald.service.conformance.cases.guard_bytes import ConstantPool
from neurald.service.conformance.recipes.draw import (
    BROADCAST,
    COUNT,
    EMPTY,
    GIVEN,
    LONG,
    LONG_LENGTH,
    OMITTED,
    RANK,
    SCALE,
    Draw,
)
from neurald.service.conformance.recipes.recipe import RecipeRequest
from neurald.service.conformance.recipes.recipes import QUANTISATIONS, RECIPES

#: Number of draws until one is valid.
_MAX_ATTEMPTS = 60
#: Ends the label of a case whose weights are constants because the device declined inputs.
CONSTANT_WEIGHTS = ", constant weights"
#: Number of forms of an operation that have cases. DENSIFY has one for every number of levels.
_MAX_FORMS = 4
_EXTENSION_PREFIX = "TFLITE_"
_PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
_SYMMETRIC = (OperandType.TENSOR_QUANT8_SYMM, OperandType.TENSOR_QUANT16_SYMM)
_SCALES = (0.5, 0.25, 0.1, 0.0371)
#: Scales and zero points that some operations require of outputs of unsigned types.
_FIXED = ((1 / 256, 0), (1 / 128, 128), (1 / 128, 0), (1 / 32768, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSignature:
    """A form of an operation and a row of its table of types.

    Attributes:
        definition: the definition of the operation.
        form: the index of the form.
        row: the index of the row.
    """

    definition: Definition
    form: int
    row: int

    @property
    def name(self) -> str:
        """The operation, form and types, for messages."""
        types = "/".join(t.name for t in self.definition.rows[self.row].types.values())
        return f"{self.definition.type.name} form {self.form}, {types or 'fixed types'}"

    @property
    def types(self) -> str:
        """The types of the row, by type variable."""
        bound = self.definition.rows[self.row].types
        return ", ".join(f"{name} {kind.name}" for name, kind in bound.items()) or "fixed types"

    @property
    def identifier(self) -> str:
        """The operation, form and row, as in `Case.identifier`."""
        return f"{self.definition.type.name}:{self.form}:{self.row}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model with one operation, its inputs and its expected outputs.

    Attributes:
        signature: the signature of the operation.
        label: identifies the case within its signature, such as "seed 3" or "activation=2".
        operation: the operation. Its operands are numbered: first the inputs, then the outputs.
        operands: the operands of the operation.
        values: the inputs of the operation; None for omitted ones.
        free: the positions of inputs whose elements are arbitrary.
        model_inputs: the positions of inputs of the operation that are inputs of the model. All
            other inputs are constants.
        relaxed: whether float32 may be computed in float16.
        model: the model, built from the attributes above.
        inputs: the inputs of the model.
        expected: the outputs of the reference.
    """

    signature: CaseSignature
    label: str
    operation: Operation
    operands: tuple[Operand, ...]
    values: tuple[Array | None, ...]
    free: frozenset[int]
    model_inputs: tuple[int, ...]
    relaxed: bool
    model: Model
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]

    @property
    def type(self) -> OperationType:
        """The type of the operation."""
        return self.operation.type

    @property
    def name(self) -> str:
        """The name for messages."""
        return f"{self.signature.name}, {self.label}"

    @property
    def identifier(self) -> str:
        """The argument for `neurald conformance --case`."""
        return f"{self.signature.identifier}:{self.label}"

    def changed(
        self,
        *,
        label: str | None = None,
        values: Sequence[Array | None] | None = None,
        operands: Sequence[Operand] | None = None,
        model_inputs: Sequence[int] | None = None,
    ) -> "Case":
        """Returns a case with some attributes replaced, and with new expected outputs.

        Raises:
            BadData, OpFailed, UnknownValue: the changed call is not valid.
        """
        return build_case(
            signature=self.signature,
            label=self.label if label is None else label,
            operation=self.operation,
            operands=self.operands if operands is None else operands,
            values=self.values if values is None else values,
            free=self.free,
            model_inputs=self.model_inputs if model_inputs is None else model_inputs,
            relaxed=self.relaxed,
        )

    def with_constant_weights(self) -> "Case | None":
        """Returns the case with all inputs of its model but the first as constants.

        Returns None if its model has one input or none, or if its constants would be invalid.
        """
        if len(self.model_inputs) < 2:
            return None
        try:
            return self.changed(label=f"{self.label}{CONSTANT_WEIGHTS}", model_inputs=self.model_inputs[:1])
        except (BadData, OpFailed, UnknownValue):
            return None


def signatures(operations: Sequence[OperationType] = ()) -> Iterator[CaseSignature]:
    """Yields every signature that has cases, of these operations or of all."""
    for definition in DEFINITIONS.values():
        if operations and definition.type not in operations:
            continue
        for form in range(min(_MAX_FORMS, len(definition.forms))):
            for row in range(len(definition.rows)):
                parameters = (*definition.forms[form].inputs, *definition.forms[form].outputs)
                if all(_kinds(each, definition.rows[row]) for each in parameters):
                    yield CaseSignature(definition=definition, form=form, row=row)


def _kinds(parameter: Parameter, row: Row) -> list[OperandType]:
    """Returns the types of a parameter for which values can be drawn, in a stable order."""
    return sorted(parameter.allowed(row.types) - {OperandType.MODEL, OperandType.TENSOR_STRING})


def generate(signature: CaseSignature, seed: int) -> Case | None:
    """Generates the random case of a signature and a seed; None if no valid call was found."""
    return generate_pinned(signature, seed, {}, f"seed {seed}")


def generate_pinned(
    signature: CaseSignature, seed: int, pinned: Mapping[str, Any], label: str, attempts: int = _MAX_ATTEMPTS
) -> Case | None:
    """Generates a random case with some choices pinned; None if no valid call was found.

    Args:
        signature: the signature of the operation.
        seed: determines the other choices.
        pinned: the pinned choices; see `Draw`.
        label: the label of the case.
        attempts: the maximum number of draws.
    """
    definition = signature.definition
    form, row = definition.forms[signature.form], definition.rows[signature.row]
    for attempt in range(attempts):
        draw = Draw(definition.type.name, signature.form, signature.row, seed, attempt, pinned=pinned)
        try:
            case = _draw_case(signature, form, row, draw, label)
        except (BadData, OpFailed, UnknownValue):
            continue
        if _follows_pinned(case, pinned):
            return case
    return None


def _follows_pinned(case: Case, pinned: Mapping[str, Any]) -> bool:
    """Returns True if the case has the pinned choices, which not every recipe supports."""
    shapes = [value.shape for index in sorted(case.free) if (value := case.values[index]) is not None]
    if (
        pinned.get(RANK) is not None
        and BROADCAST not in pinned
        and (not shapes or len(shapes[0]) != pinned[RANK])
    ):
        return False
    if pinned.get(EMPTY) and not any(0 in shape for shape in shapes):
        return False
    if pinned.get(LONG) and not any(length >= LONG_LENGTH for shape in shapes for length in shape):
        return False
    binding = case.signature.definition.bind(case.operation, case.operands, values_known=False)
    for name, wanted in pinned.items():
        if name.startswith("#"):
            continue
        indexes = binding.inputs.get(name)
        value = None if indexes is None else case.values[indexes[0]]
        if value is None or value.size != 1 or value.item() != wanted:
            return False
    for choice, is_there in ((OMITTED, False), (GIVEN, True)):
        indexes = binding.inputs.get(pinned.get(choice, ""), ())
        if any((case.values[index] is not None) != is_there for index in indexes):
            return False
    return True


def _draw_case(signature: CaseSignature, form: Form, row: Row, draw: Draw, label: str) -> Case:
    definition = signature.definition
    inputs = _inputs(definition, form, row, draw)
    quantizations = _Quantizations(draw, definition.type)
    operands: list[Operand] = []
    values: list[Array | None] = []
    for parameter, kind, value in inputs:
        operand = quantizations.operand(parameter.name, kind, value)
        if value is not None and kind.is_tensor and isinstance(value, _ArbitraryTensor):
            value = value.array
        operands.append(operand if value is not None else replace(operand, lifetime=Lifetime.NO_VALUE))
        values.append(None if value is None else np.asarray(value, kind.dtype))
    outputs = _outputs(form, row, draw, inputs)
    operands += [quantizations.output(name, kind) for name, kind in outputs]
    operation = Operation(
        type=definition.type,
        inputs=tuple(range(len(inputs))),
        outputs=tuple(range(len(inputs), len(operands))),
    )
    free = tuple(index for index, (_, _, value) in enumerate(inputs) if isinstance(value, _ArbitraryTensor))
    return build_case(
        signature=signature,
        label=label,
        operation=operation,
        operands=operands,
        values=values,
        free=frozenset(free),
        model_inputs=free,
        relaxed=draw.chance(0.2),
    )


def build_case(
    *,
    signature: CaseSignature,
    label: str,
    operation: Operation,
    operands: Sequence[Operand],
    values: Sequence[Array | None],
    free: frozenset[int],
    model_inputs: Sequence[int],
    relaxed: bool,
) -> Case:
    """Builds a case with its model and expected outputs. See `Case` for the arguments.

    Raises:
        BadData, OpFailed, UnknownValue: the call is not valid.
    """
    definition = signature.definition
    call = Call(
        definition.bind(operation, operands, values_known=False),
        operands,
        lambda index: None if (value := values[index]) is None else value.shape,
        lambda index: values[index],
    )
    definition.check(call)
    shapes = definition.output_shapes(call)
    with np.errstate(all="ignore"):
        expected = tuple(
            np.ascontiguousarray(result, operand.type.dtype).reshape(shape)
            for result, operand, shape in zip(
                definition.reference(call), operands[len(operation.inputs) :], shapes, strict=True
            )
        )
    model = _model(operation, operands, values, tuple(model_inputs), expected, relaxed=relaxed)
    validate_model(model)
    return Case(
        signature=signature,
        label=label,
        operation=operation,
        operands=tuple(operands),
        values=tuple(values),
        free=free,
        model_inputs=tuple(model_inputs),
        relaxed=relaxed,
        model=model,
        inputs=tuple(value for index in model.main.inputs if (value := values[index]) is not None),
        expected=expected,
    )


def _model(
    operation: Operation,
    operands: Sequence[Operand],
    values: Sequence[Array | None],
    model_inputs: tuple[int, ...],
    expected: Sequence[Array],
    *,
    relaxed: bool,
) -> Model:
    """Builds the model of a case.

    Constant tensors lie in a pool with guard bytes around each of them. Scalars lie in operands.
    """
    first_output = len(operation.inputs)
    completed = []
    pool = ConstantPool()
    for index, operand in enumerate(operands):
        value = values[index] if index < first_output else None
        if index >= first_output:
            shape = expected[index - first_output].shape
            done = replace(operand, dimensions=shape, lifetime=Lifetime.SUBGRAPH_OUTPUT)
        elif value is None:
            done = operand
        elif index in model_inputs:
            done = replace(operand, dimensions=value.shape, lifetime=Lifetime.SUBGRAPH_INPUT)
        elif operand.type.is_tensor and value.nbytes:
            location = pool.add(np.ascontiguousarray(value).tobytes())
            done = replace(
                operand, dimensions=value.shape, lifetime=Lifetime.CONSTANT_POOL, location=location, value=b""
            )
        else:
            stored = np.ascontiguousarray(value).tobytes()
            done = replace(operand, dimensions=value.shape, lifetime=Lifetime.CONSTANT_COPY, value=stored)
        completed.append(done)
    graph = Subgraph(
        operands=tuple(completed), operations=(operation,), inputs=model_inputs, outputs=operation.outputs
    )
    return Model(main=graph, relaxed=relaxed, pools=pool.memories())


@dataclass(frozen=True, slots=True, kw_only=True)
class _ArbitraryTensor:
    """A tensor whose elements are arbitrary."""

    array: Array


#: Parameter, type and value of an input; the value is None if the input is omitted.
_Input = tuple[Parameter, OperandType, Any]


def _inputs(definition: Definition, form: Form, row: Row, draw: Draw) -> list[_Input]:
    """Draws the inputs of an operation."""
    counts = form.input_counts()
    count = draw.pinned.get(COUNT) or draw.choice(counts)
    parameters = form.inputs[:count] if not any(p.variadic for p in form.inputs) else form.inputs
    names = tuple(parameter.name for parameter in parameters)
    recipe = RECIPES.get(definition.type.name.removeprefix(_EXTENSION_PREFIX))
    try:
        given = recipe(RecipeRequest(draw=draw, form=form, inputs=names)) if recipe is not None else {}
    except (LookupError, ValueError) as error:
        raise BadData(f"the recipe cannot follow the pinned choices: {error}") from None
    found: list[_Input] = []
    main: tuple[int, ...] | None = None
    for parameter in parameters:
        kind = draw.choice(_kinds(parameter, row))
        value = _draw_value(parameter, kind, given, draw, main)
        values = value if isinstance(value, list) else [value]
        for each in values:
            is_shape = kind.is_tensor and isinstance(each, tuple)
            if is_shape:
                each = _ArbitraryTensor(array=elements(draw, definition.type, parameter.name, kind, each))
            main = each.array.shape if is_shape and main is None else main
            found.append((parameter, kind, each))
    return found


def _draw_value(
    parameter: Parameter,
    kind: OperandType,
    given: Mapping[str, Any],
    draw: Draw,
    main: tuple[int, ...] | None,
) -> Any:
    """Draws the value of a parameter.

    Args:
        parameter: the parameter.
        kind: the type of the operand.
        given: the values of the recipe, by parameter name.
        draw: the source of random choices.
        main: the shape of the operation's first tensor, if it was drawn already.

    Returns:
        A number, an array, a shape for a tensor with arbitrary elements, a list of these for a
        variadic parameter, or None if the input is omitted.
    """
    if parameter.name in draw.pinned:
        wanted = draw.pinned[parameter.name]
        return np.array([wanted]) if kind.is_tensor and parameter.ranks[0] == 1 else wanted
    if parameter.optional and parameter.name == draw.pinned.get(OMITTED):
        return None
    is_required = parameter.name == draw.pinned.get(GIVEN)
    if parameter.name in given and (
        given[parameter.name] is not None or (parameter.optional and not is_required)
    ):
        return given[parameter.name]
    is_control = not isinstance(parameter.types, str) or not kind.is_tensor
    if parameter.optional and not is_required and draw.chance(0.5):
        return None
    if is_control and parameter.name in CONTROL_VALUES:
        try:
            value = CONTROL_VALUES[parameter.name](draw, main or ())
        except (LookupError, ValueError) as error:
            raise BadData(f"no {parameter.name} for the shape {main}: {error}") from None
        # Some operations take a number as a tensor with one element.
        is_list = kind.is_tensor and parameter.ranks[0] == 1 and np.ndim(value) == 0
        return np.array([value]) if is_list else value
    if not kind.is_tensor:
        return draw.integer(0, 2)
    # The shape of the first tensor is valid more often than an arbitrary one.
    low, high = parameter.ranks
    if main is not None and low <= len(main) <= high and (draw.pinned or draw.chance(0.6)):
        return main
    return draw.shape(low, high)


def _outputs(form: Form, row: Row, draw: Draw, inputs: Sequence[_Input]) -> list[tuple[str, OperandType]]:
    """Draws the names and types of the outputs; a variadic output is listed several times."""
    kinds = []
    for parameter in form.outputs:
        kind = draw.choice(_kinds(parameter, row))
        kinds += [(parameter.name, kind)] * (_variadic_output_count(inputs) if parameter.variadic else 1)
    return kinds


def _variadic_output_count(inputs: Sequence[_Input]) -> int:
    """Returns the number of outputs of an operation that splits a tensor."""
    values = {parameter.name: value for parameter, _, value in inputs}
    if "splits" in values:
        return int(np.asarray(values["splits"]).item())
    if "sizes" in values:
        return len(values["sizes"])
    return int(values["input"].array.shape[int(np.asarray(values["axis"]).item())])


class _Quantizations:
    """Draws scales and zero points in combinations that operations often require.

    Those of all operands are equal, the scale of a bias is the product of the first two, or those
    of the output are fixed.
    """

    def __init__(self, draw: Draw, operation: OperationType) -> None:
        self._draw = draw
        self._given = QUANTISATIONS.get(operation.name.removeprefix(_EXTENSION_PREFIX), {})
        self._scale = draw.pinned.get(SCALE) or draw.choice(_SCALES)
        self._zero = draw.integer(-20, 20)
        self._are_equal = draw.chance(0.6)
        self._fixed = draw.choice(_FIXED) if draw.chance(0.35) else None
        self._factors: list[float] = []

    def operand(self, name: str, kind: OperandType, value: Any) -> Operand:
        """Returns the operand of an input."""
        rank = (
            None if value is None else np.ndim(value.array if isinstance(value, _ArbitraryTensor) else value)
        )
        dimensions = None if kind.is_tensor and rank is None else (0,) * (rank or 0)
        if kind is _PER_CHANNEL and isinstance(value, _ArbitraryTensor):
            return self._per_channel(kind, value.array.shape)
        if kind is OperandType.TENSOR_INT32 and name.endswith("bias") and self._factors:
            self._factors = [*self._factors, 1.0]
            product = float(np.float32(self._factors[0]) * np.float32(self._factors[1]))
            return Operand(type=kind, dimensions=dimensions, scale=product)
        if kind not in QUANTIZED or kind is _PER_CHANNEL:
            return Operand(type=kind, dimensions=dimensions)
        if name in self._given:
            scale, zero = self._given[name]
            self._factors.append(scale)
            return Operand(type=kind, dimensions=dimensions, scale=scale, zero_point=zero)
        scale = self._scale if self._are_equal else self._draw.choice(_SCALES)
        if kind is OperandType.TENSOR_QUANT16_ASYMM:
            return Operand(type=kind, dimensions=dimensions, scale=0.125)
        self._factors.append(scale)
        return Operand(type=kind, dimensions=dimensions, scale=scale, zero_point=self._zero_point(kind))

    def _per_channel(self, kind: OperandType, shape: tuple[int, ...]) -> Operand:
        if not shape:
            raise BadData("a tensor of rank 0 has no channels")
        # The channels of a depthwise filter are last. Invalid combinations are drawn again.
        dimension = len(shape) - 1 if shape[:1] == (1,) and self._draw.chance(0.7) else 0
        scales = tuple(self._draw.choice(_SCALES) for _ in range(shape[dimension]))
        self._factors.append(0.0)
        return Operand(
            type=kind,
            dimensions=shape,
            channel_quant=ChannelQuant(dimension=dimension, scales=scales),
        )

    def output(self, name: str, kind: OperandType) -> Operand:
        """Returns the operand of an output."""
        if kind not in QUANTIZED:
            return Operand(type=kind, dimensions=None if kind.is_tensor else ())
        if name in self._given:
            scale, zero = self._given[name]
            return Operand(type=kind, dimensions=None, scale=scale, zero_point=zero)
        if kind is OperandType.TENSOR_QUANT16_ASYMM:
            return Operand(type=kind, dimensions=None, scale=0.125)
        if self._fixed is not None:
            scale, zero = self._fixed
            zero = 0 if kind in _SYMMETRIC else zero
            zero = zero - 128 if kind is OperandType.TENSOR_QUANT8_ASYMM_SIGNED else zero
            return Operand(type=kind, dimensions=None, scale=scale, zero_point=zero)
        scale = self._scale if self._are_equal else self._draw.choice((*_SCALES, 1.0))
        return Operand(type=kind, dimensions=None, scale=scale, zero_point=self._zero_point(kind))

    def _zero_point(self, kind: OperandType) -> int:
        if kind in _SYMMETRIC:
            return 0
        zero = self._zero if self._are_equal else self._draw.integer(-128, 127)
        return zero + 128 if kind is OperandType.TENSOR_QUANT8_ASYMM else zero
