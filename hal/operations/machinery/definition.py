"""The definition of an operation: signature, checks, shape rule and reference."""

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import force_setattr

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import MAX_OPERAND_BYTES, FeatureLevel, OperandType, byte_size
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.signature import (
    MAX_RANK,
    Binding,
    Form,
    Match,
    MatchKey,
    Row,
    bound,
)

Check = Callable[[Call], None]


class Definition(Struct, frozen=True, kw_only=True):
    """An operation.

    Attributes:
        forms, rows: the signature, see `neurald.hal.operations.machinery.signature`.
        checks: rules beyond types and ranks, such as relations of scales. Each raises BadData.
        shape: computes the output shapes from shapes (and, if needed, values) of the inputs. Raises
            BadData if they are inconsistent, UnknownValue if they are not known yet.
        reference: computes the outputs from the inputs in NumPy; every driver is tested against it.
        level: computes the feature level required by scales or ranks, in addition to that of form
            and row, from a call whose values are unknown.
        widens: the Android operation that this one extends to more types, ranks or scales, with the
            same arguments.
        arithmetic: inputs whose values affect only arithmetic, so that they may change while the
            reference runs: no shape, address, index or count depends on them, and none of their
            values is checked and then relied on.
        is_random: whether results differ between calls, so that they are never precomputed.
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
    _matches: dict[MatchKey, Match | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A copy with another signature gets a cache of its own.
        force_setattr(self, "_matches", {})

    def bind(
        self, operation: Operation, operands: Sequence[Operand], *, values_known: bool = True
    ) -> Binding:
        """Matches an operation of a model against the signature, see `signature.bound`.

        Raises:
            BadData: nothing matches; names the first mismatched operand of the closest form, and
                what was expected.
        """
        forms, rows = self.forms, self.rows
        binding = bound(operation, operands, forms, rows, values_known=values_known, known=self._matches)
        if binding is None:
            from neurald.hal.operations.machinery.signature_mismatch import closest_mismatch  # an error

            raise BadData(closest_mismatch(operation, operands, forms, rows, values_known=values_known))
        return binding

    def bound(self, operation: Operation, operands: Sequence[Operand]) -> Binding | None:
        """Matches an operation like `bind`; returns None if it does not match the signature."""
        return bound(operation, operands, self.forms, self.rows, known=self._matches)

    def level_of(self, binding: Binding, operands: Sequence[Operand]) -> FeatureLevel:
        """Returns the feature level of a bound operation: of its form, its scales and its ranks."""
        if self.level is None:
            return binding.level
        call = Call(binding, operands, lambda _: None, lambda _: None)
        return max(binding.level, self.level(call))

    def check(self, call: Call) -> None:
        """Runs the checks, as far as values are known.

        Raises:
            BadData: a rule is violated; the message names operand and rule.
        """
        for rule in (_symmetric16, _valid_enums, *self.checks):
            try:
                rule(call)
            except UnknownValue:
                continue

    def known_output_shapes(self, call: Call) -> tuple[Shape, ...] | None:
        """Returns what `output_shapes` does; None if a shape is not known yet.

        Raises:
            BadData: see `output_shapes`.
        """
        try:
            return self.output_shapes(call)
        except UnknownValue:
            return None

    def output_shapes(self, call: Call) -> tuple[Shape, ...]:
        """Evaluates the shape rule, and checks that an operand can have each of the shapes.

        Raises:
            BadData: the inputs are inconsistent, or an output would exceed the maximum size of an
                operand.
            UnknownValue: a shape is not known yet.
        """
        shapes = self.shape(call)
        outputs = [(name, index) for name, indexes in call.binding.outputs.items() for index in indexes]
        for (name, index), shape in zip(outputs, shapes, strict=True):
            kind = call.operand_at(index).type
            # NumPy rejects a shape whose other dimensions are too large, even if one of them is 0.
            size_bytes = byte_size(kind, shape if 0 not in shape else tuple(max(1, d) for d in shape))
            if len(shape) <= MAX_RANK and size_bytes <= MAX_OPERAND_BYTES:
                continue
            what = f"{call.operand_label(index)} ({name} of {self.type.name})"
            if len(shape) > MAX_RANK:
                raise BadData(f"{what} would have rank {len(shape)}; at most {MAX_RANK} is allowed")
            raise BadData(f"{what} would have shape {list(shape)}, more than 2^32 - 1 bytes")
        return shapes


def _symmetric16(call: Call) -> None:
    """Checks that TENSOR_QUANT16_SYMM has a zero point only if the row of types allows it."""
    binding = call.binding
    if not binding.forbids_zero_points:
        return
    for names in (binding.inputs, binding.outputs):
        for name, indexes in names.items():
            for index in indexes:
                operand = call.operand_at(index)
                if not operand.zero_point or operand.type is not OperandType.TENSOR_QUANT16_SYMM:
                    continue
                if names is binding.inputs and not call.has(name):
                    continue
                raise BadData(
                    f"operand {index} ({name} of {binding.type.name}) has zero point "
                    f"{operand.zero_point}; 0 is expected of {operand.type.name}"
                )


def _valid_enums(call: Call) -> None:
    """Checks that the numbers of activation and padding scheme, if present, are valid."""
    if "activation" in call.binding.inputs:
        _ = call.activation
    if "padding_scheme" in call.binding.inputs:
        _ = call.padding_scheme
