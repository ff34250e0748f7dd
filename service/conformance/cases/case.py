"""Generates a case: a model of a single operation, its inputs, and the expected outputs.

A case is determined by operation, form, row of types and seed. Invalid calls are drawn again: the
operation's own checks decide what is valid, and its reference what is correct.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neurald.hal.errors import BadData, OpFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import ChannelQuant, Lifetime, Model, Operand, OperandType, Operation, Subgraph
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, Parameter, Row
from neurald.hal.validation.model_rules import validate_model
from neurald.service.conformance.cases.argument import RULES
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
from neurald.service.conformance.recipes.recipe import Order
from neurald.service.conformance.recipes.recipes import QUANTISATIONS, RECIPES

#: Maximum number of draws until one is valid.
_ATTEMPTS = 60
#: DENSIFY has a form for every number of levels; a few represent all.
_FORMS = 4
_EXTENSION_PREFIX = "TFLITE_"
_PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
_SYMMETRIC = (OperandType.TENSOR_QUANT8_SYMM, OperandType.TENSOR_QUANT16_SYMM)
_SCALES = (0.5, 0.25, 0.1, 0.0371)
#: Scale and zero point that some outputs require, for unsigned types.
_FIXED = ((1 / 256, 0), (1 / 128, 128), (1 / 128, 0), (1 / 32768, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One form of an operation, with one row of its table of types."""

    definition: Definition
    form: int
    row: int

    @property
    def name(self) -> str:
        """Operation, form and types, for people."""
        types = "/".join(t.name for t in self.definition.rows[self.row].types.values())
        return f"{self.definition.type.name} form {self.form}, {types or 'fixed types'}"

    @property
    def types(self) -> str:
        """Types of its row, by variable."""
        bound = self.definition.rows[self.row].types
        return ", ".join(f"{name} {kind.name}" for name, kind in bound.items()) or "fixed types"

    @property
    def identifier(self) -> str:
        """Operation, number of the form and number of the row."""
        return f"{self.definition.type.name}:{self.form}:{self.row}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Model with one operation, its inputs and its expected outputs.

    Attributes:
        signature: that of its operation.
        label: identifies the case within its signature: "seed 3", "activation=2".
        operation: with operand indices: first its inputs, then its outputs.
        operands: those of the operation; tensors have the shapes of `values`.
        values: the operation's inputs, None for omitted ones.
        free: the inputs of the operation whose elements are arbitrary.
        entering: the inputs of the operation that are inputs of the model; all others are
            constants.
        model, inputs, expected: derived from the others.
    """

    signature: Signature
    label: str
    operation: Operation
    operands: tuple[Operand, ...]
    values: tuple[Array | None, ...]
    free: frozenset[int]
    entering: tuple[int, ...]
    relaxed: bool
    model: Model
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]

    @property
    def type(self) -> OperationType:
        """Type of its operation."""
        return self.operation.type

    @property
    def name(self) -> str:
        """Name for people."""
        return f"{self.signature.name}, {self.label}"

    @property
    def identifier(self) -> str:
        """Argument for `neurald conformance --case`."""
        return f"{self.signature.identifier}:{self.label}"

    def changed(
        self,
        *,
        label: str | None = None,
        values: Sequence[Array | None] | None = None,
        operands: Sequence[Operand] | None = None,
        entering: Sequence[int] | None = None,
    ) -> "Case":
        """Returns the case with changes, and with the expected outputs that follow from them.

        Raises:
            BadData, OpFailed, UnknownValue: the changed call is not valid.
        """
        return complete(
            signature=self.signature,
            label=self.label if label is None else label,
            operation=self.operation,
            operands=self.operands if operands is None else operands,
            values=self.values if values is None else values,
            free=self.free,
            entering=self.entering if entering is None else entering,
            relaxed=self.relaxed,
        )


def signatures(operations: Sequence[OperationType] = ()) -> Iterator[Signature]:
    """Yields every operation, form and row that has cases.

    Limited to `operations` if any are given.
    """
    for definition in DEFINITIONS.values():
        if operations and definition.type not in operations:
            continue
        for form in range(min(_FORMS, len(definition.forms))):
            for row in range(len(definition.rows)):
                parameters = (*definition.forms[form].inputs, *definition.forms[form].outputs)
                if all(_kinds(each, definition.rows[row]) for each in parameters):
                    yield Signature(definition=definition, form=form, row=row)


def _kinds(parameter: Parameter, row: Row) -> list[OperandType]:
    """Returns the types that a parameter may have.

    Control flow and strings have no random values.
    """
    return sorted(parameter.allowed(row.types) - {OperandType.MODEL, OperandType.TENSOR_STRING})


def generate(signature: Signature, seed: int) -> Case | None:
    """Generates the random case of a signature and a seed; None if no valid call was found."""
    return generate_pinned(signature, seed, {}, f"seed {seed}")


def generate_pinned(
    signature: Signature, seed: int, pinned: Mapping[str, Any], label: str, attempts: int = _ATTEMPTS
) -> Case | None:
    """Generates a random case with some choices fixed; None if no valid call was found.

    Args:
        signature: that of the operation.
        seed: determines the other choices.
        pinned: the fixed choices, see `Draw`.
        label: the label of the case.
        attempts: the maximum number of draws.
    """
    definition = signature.definition
    form, row = definition.forms[signature.form], definition.rows[signature.row]
    for attempt in range(attempts):
        draw = Draw(definition.type.name, signature.form, signature.row, seed, attempt, pinned=pinned)
        try:
            case = _drawn(signature, form, row, draw, label)
        except (BadData, OpFailed, UnknownValue):
            continue
        if _holds(case, pinned):
            return case
    return None


def _holds(case: Case, pinned: Mapping[str, Any]) -> bool:
    """Returns True if the case has the fixed choices; not every recipe can follow them."""
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


def _drawn(signature: Signature, form: Form, row: Row, draw: Draw, label: str) -> Case:
    definition = signature.definition
    inputs = _inputs(definition, form, row, draw)
    quantisations = _Quantisations(draw, definition.type)
    operands: list[Operand] = []
    values: list[Array | None] = []
    for parameter, kind, value in inputs:
        operand = quantisations.operand(parameter.name, kind, value)
        if value is not None and kind.is_tensor and isinstance(value, _Random):
            value = value.array
        operands.append(operand if value is not None else replace(operand, lifetime=Lifetime.NO_VALUE))
        values.append(None if value is None else np.asarray(value, kind.dtype))
    outputs = _outputs(form, row, draw, inputs)
    operands += [quantisations.output(name, kind) for name, kind in outputs]
    operation = Operation(
        type=definition.type,
        inputs=tuple(range(len(inputs))),
        outputs=tuple(range(len(inputs), len(operands))),
    )
    free = tuple(index for index, (_, _, value) in enumerate(inputs) if isinstance(value, _Random))
    return complete(
        signature=signature,
        label=label,
        operation=operation,
        operands=operands,
        values=values,
        free=frozenset(free),
        entering=free,
        relaxed=draw.chance(0.2),
    )


def complete(
    *,
    signature: Signature,
    label: str,
    operation: Operation,
    operands: Sequence[Operand],
    values: Sequence[Array | None],
    free: frozenset[int],
    entering: Sequence[int],
    relaxed: bool,
) -> Case:
    """Builds a case with its model and expected outputs; see `Case` for the arguments.

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
    model = _model(operation, operands, values, tuple(entering), expected, relaxed=relaxed)
    validate_model(model)
    return Case(
        signature=signature,
        label=label,
        operation=operation,
        operands=tuple(operands),
        values=tuple(values),
        free=free,
        entering=tuple(entering),
        relaxed=relaxed,
        model=model,
        inputs=tuple(value for index in model.main.inputs if (value := values[index]) is not None),
        expected=expected,
    )


def _model(
    operation: Operation,
    operands: Sequence[Operand],
    values: Sequence[Array | None],
    entering: tuple[int, ...],
    expected: Sequence[Array],
    *,
    relaxed: bool,
) -> Model:
    """Builds the model.

    Constant tensors lie in a pool with guard bytes around each, scalars in operands.
    """
    first_output = len(operation.inputs)
    complete = []
    pool = ConstantPool()
    for index, operand in enumerate(operands):
        value = values[index] if index < first_output else None
        if index >= first_output:
            shape = expected[index - first_output].shape
            done = replace(operand, dimensions=shape, lifetime=Lifetime.SUBGRAPH_OUTPUT)
        elif value is None:
            done = operand
        elif index in entering:
            done = replace(operand, dimensions=value.shape, lifetime=Lifetime.SUBGRAPH_INPUT)
        elif operand.type.is_tensor and value.nbytes:
            place = pool.add(np.ascontiguousarray(value).tobytes())
            done = replace(
                operand, dimensions=value.shape, lifetime=Lifetime.CONSTANT_POOL, location=place, value=b""
            )
        else:
            stored = np.ascontiguousarray(value).tobytes()
            done = replace(operand, dimensions=value.shape, lifetime=Lifetime.CONSTANT_COPY, value=stored)
        complete.append(done)
    graph = Subgraph(
        operands=tuple(complete), operations=(operation,), inputs=entering, outputs=operation.outputs
    )
    return Model(main=graph, relaxed=relaxed, pools=pool.memories())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Random:
    """Tensor with arbitrary elements."""

    array: Array


_Input = tuple[Parameter, OperandType, Any]


def _inputs(definition: Definition, form: Form, row: Row, draw: Draw) -> list[_Input]:
    """Draws the inputs: parameter, type and value (None if omitted) of each operand."""
    counts = form.input_counts()
    count = draw.pinned.get(COUNT) or draw.choice(counts)
    parameters = form.inputs[:count] if not any(p.variadic for p in form.inputs) else form.inputs
    names = tuple(parameter.name for parameter in parameters)
    recipe = RECIPES.get(definition.type.name.removeprefix(_EXTENSION_PREFIX))
    try:
        given = recipe(Order(draw=draw, form=form, inputs=names)) if recipe is not None else {}
    except (LookupError, ValueError) as error:
        raise BadData(f"the recipe cannot follow what is pinned: {error}") from None
    found: list[_Input] = []
    main: tuple[int, ...] | None = None
    for parameter in parameters:
        kind = draw.choice(_kinds(parameter, row))
        value = _value(parameter, kind, given, draw, main)
        values = value if isinstance(value, list) else [value]
        for each in values:
            is_shape = kind.is_tensor and isinstance(each, tuple)
            if is_shape:
                each = _Random(array=elements(draw, definition.type, parameter.name, kind, each))
            main = each.array.shape if is_shape and main is None else main
            found.append((parameter, kind, each))
    return found


def _value(
    parameter: Parameter,
    kind: OperandType,
    given: Mapping[str, Any],
    draw: Draw,
    main: tuple[int, ...] | None,
) -> Any:
    if parameter.name in draw.pinned:
        wanted = draw.pinned[parameter.name]
        return np.array([wanted]) if kind.is_tensor and parameter.ranks[0] == 1 else wanted
    if parameter.optional and parameter.name == draw.pinned.get(OMITTED):
        return None
    is_demanded = parameter.name == draw.pinned.get(GIVEN)
    if parameter.name in given and (
        given[parameter.name] is not None or (parameter.optional and not is_demanded)
    ):
        return given[parameter.name]
    is_steering = not isinstance(parameter.types, str) or not kind.is_tensor
    if parameter.optional and not is_demanded and draw.chance(0.5):
        return None
    if is_steering and parameter.name in RULES:
        try:
            value = RULES[parameter.name](draw, main or ())
        except (LookupError, ValueError) as error:
            raise BadData(f"no {parameter.name} for the shape {main}: {error}") from None
        # Some operations take one number as a tensor.
        is_list = kind.is_tensor and parameter.ranks[0] == 1 and np.ndim(value) == 0
        return np.array([value]) if is_list else value
    if not kind.is_tensor:
        return draw.integer(0, 2)
    # A partner of the first tensor fits more often than one of any shape.
    low, high = parameter.ranks
    if main is not None and low <= len(main) <= high and (draw.pinned or draw.chance(0.6)):
        return main
    return draw.shape(low, high)


def _outputs(form: Form, row: Row, draw: Draw, inputs: Sequence[_Input]) -> list[tuple[str, OperandType]]:
    """Draws names and types of the outputs.

    The number of splits or the axis determines how many a variadic one has.
    """
    kinds = []
    for parameter in form.outputs:
        kind = draw.choice(_kinds(parameter, row))
        kinds += [(parameter.name, kind)] * (_pieces(inputs) if parameter.variadic else 1)
    return kinds


def _pieces(inputs: Sequence[_Input]) -> int:
    values = {parameter.name: value for parameter, _, value in inputs}
    if "splits" in values:
        return int(np.asarray(values["splits"]).item())
    if "sizes" in values:
        return len(values["sizes"])
    return int(values["input"].array.shape[int(np.asarray(values["axis"]).item())])


class _Quantisations:
    """Draws scales and zero points in likely combinations: equal, products, or fixed ones."""

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
        rank = None if value is None else np.ndim(value.array if isinstance(value, _Random) else value)
        dimensions = None if kind.is_tensor and rank is None else (0,) * (rank or 0)
        if kind is _PER_CHANNEL and isinstance(value, _Random):
            return self._per_channel(name, kind, value.array.shape)
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

    def _per_channel(self, name: str, kind: OperandType, shape: tuple[int, ...]) -> Operand:
        if not shape:
            raise BadData("a tensor of rank 0 has no channels")
        # A depthwise filter has its channels last; invalid combinations are drawn again.
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
