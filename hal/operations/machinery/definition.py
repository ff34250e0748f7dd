"""What one operation is: signature, checks, shape rule and reference, in one value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import (
    MAXIMUM_OPERAND_BYTES,
    FeatureLevel,
    Operand,
    OperandType,
    Operation,
    byte_size,
)
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.signature import MAXIMUM_RANK, Binding, Form, Row, bind

Check = Callable[[Call], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """An operation.

    Attributes:
        forms, rows: the signature, see `neurald.hal.operations.machinery.signature`.
        checks: rules beyond types and ranks, such as relations of scales. Each raises BadData.
        shape: the shapes of the outputs from shapes (and, where needed, values) of the inputs. Raises BadData where
            they do not fit together, UnknownValue where it is too early to say.
        reference: the values of the outputs from those of the inputs, in NumPy: what every driver is tested against.
        level: a feature level that is needed beyond that of form and row, because of scales or ranks; the call
            knows operands only.
        widens: the Android operation that this one takes more types, ranks or scales than, with the same arguments.
        arithmetic: inputs whose values the reference only calculates with. They may change while it runs: no shape,
            address, index or count follows from them, and no value of theirs is checked and then relied on.
        is_random: the results differ from call to call, so that they are never computed ahead.
    """

    type: OperationType
    forms: tuple[Form, ...]
    rows: tuple[Row, ...]
    checks: tuple[Check, ...] = ()
    shape: Callable[[Call], tuple[Shape, ...]]
    reference: Callable[[Call], tuple[Array, ...]]
    level: Callable[[Call], FeatureLevel] | None = None
    widens: OperationType | None = None
    arithmetic: frozenset[str] = frozenset()
    is_random: bool = False

    def bind(
        self, operation: Operation, operands: Sequence[Operand], *, values_known: bool = True
    ) -> Binding:
        """Matches an operation of a model against the signature, see `signature.bind`."""
        binding = bind(operation, operands, self.forms, self.rows, values_known=values_known)
        if self.level is None:
            return binding
        call = Call(binding, operands, lambda _: None, lambda _: None)
        return replace(binding, level=max(binding.level, self.level(call)))

    def check(self, call: Call) -> None:
        """Runs the checks, as far as values are known.

        Raises:
            BadData: a rule is broken; the message names operand and rule.
        """
        for rule in (_symmetric16, _numbers_of_enums, *self.checks):
            try:
                rule(call)
            except UnknownValue:
                continue

    def output_shapes(self, call: Call) -> tuple[Shape, ...]:
        """What the shape rule says, once each shape is shown to be one that an operand can have.

        Raises:
            BadData: the inputs do not fit together, or an output would have more bytes than any operand may.
            UnknownValue: it is too early to say.
        """
        shapes = self.shape(call)
        outputs = [
            (name, call.place(index), operand.type)
            for name in call.binding.outputs
            for index, operand in zip(call.indexes(name), call.operands(name), strict=True)
        ]
        for (name, place, kind), shape in zip(outputs, shapes, strict=True):
            what = f"{place} ({name} of {self.type.name})"
            if len(shape) > MAXIMUM_RANK:
                raise BadData(f"{what} would have rank {len(shape)}; at most {MAXIMUM_RANK} is allowed")
            # NumPy, too, refuses a shape whose other dimensions are too large, even if one of them is 0.
            if byte_size(kind, tuple(max(1, d) for d in shape)) > MAXIMUM_OPERAND_BYTES:
                raise BadData(f"{what} would have shape {list(shape)}, more than 2^32 - 1 bytes")
        return shapes


def _symmetric16(call: Call) -> None:
    """TENSOR_QUANT16_SYMM has a zero point only where the row of types says so."""
    binding = call.binding
    if binding.row.zero_points16:
        return
    for name in (*(name for name in binding.inputs if call.has(name)), *binding.outputs):
        for index, operand in zip(call.indexes(name), call.operands(name), strict=True):
            if operand.type is OperandType.TENSOR_QUANT16_SYMM and operand.zero_point:
                raise BadData(
                    f"operand {index} ({name} of {binding.type.name}) has zero point {operand.zero_point}; "
                    f"0 is expected of {operand.type.name}"
                )


def _numbers_of_enums(call: Call) -> None:
    """Activation and padding scheme, where an operation has them, are numbers that stand for one."""
    if "activation" in call.binding.inputs:
        _ = call.activation
    if "padding_scheme" in call.binding.inputs:
        _ = call.padding_scheme
